"""Misuse of a quota manager, its life cycles, and its use by several threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from support.quotatree_fixtures import PAIR, Scene, document
from ugm import InvariantError, RequestError, Resource
from ugm.quotatree import ConsumerInfo, Mode, QuotaManager, TreeCache, TreeRequest


@pytest.fixture(name="scene")
def _scene() -> Scene:
    scene = Scene(PAIR, PAIR, forest="F")
    scene.know("known", "A")
    scene.ask("held", "A")
    return scene


MISUSE: dict[str, tuple[Callable[[QuotaManager], object], str]] = {
    "mode": (lambda m: m.set_mode("fast"), "mode 'fast': expected 'maintenance' or 'normal'"),
    "tree": (lambda m: m.allocate("X", "known"), "tree_name 'X': there is no such tree"),
    "consumer": (lambda m: m.allocate("T", "x"), "consumer_id 'x': there is no such consumer"),
    "again": (lambda m: m.allocate("T", "held"), "consumer_id 'held': the consumer is allocated on tree 'T' already"),
    "forest": (lambda m: m.allocate_forest("X", "known"), "forest_name 'X': there is no such forest"),
    "forest-again": (
        lambda m: m.allocate_forest("F", "held"),
        "consumer_id 'held': the consumer is allocated on tree 'T' already",
    ),
    "forest-undo": (
        lambda m: m.undo_allocate_forest("F", "known"),
        "consumer_id 'known': the last change of forest 'F' was not a try of this consumer",
    ),
    "in-use": (lambda m: m.delete_tree("T"), "tree_name 'T': consumers are allocated on it"),
    "tree-taken": (
        lambda m: m.add_tree_by_name("T"),
        "tree_name 'T': a tree of this name already exists",
    ),
    "tree-unnamed": (lambda m: m.add_tree_by_name(""), "tree_name '': a name is a text of 1 to 256 characters"),
    "forest-taken": (lambda m: m.add_forest("F"), "forest_name 'F': a forest of this name already exists"),
    "forest-unnamed": (lambda m: m.add_forest(""), "forest_name '': a name is a text of 1 to 256 characters"),
    "consumer-taken": (
        lambda m: m.add_consumer(ConsumerInfo("held")),
        "consumer_id 'held': a consumer with this id is already registered",
    ),
    "no-info": (lambda m: m.add_consumer("x"), "info 'x': expected a ConsumerInfo"),  # type: ignore[arg-type]  # tested
    "no-member": (
        lambda m: m.delete_tree_from_forest("F", "X"),
        "tree_name 'X': the tree does not belong to forest 'F'",
    ),
}


@pytest.mark.parametrize("name", MISUSE)
def test_misuse(scene: Scene, name: str) -> None:
    """Misuse raises an error with the reason, and changes nothing."""
    call, result = MISUSE[name]
    before = [scene.manager.view(tree) for tree in scene.trees]
    with pytest.raises(RequestError) as caught:
        call(scene.manager)

    assert str(caught.value) == result
    assert [scene.manager.view(tree) for tree in scene.trees] == before


def test_no_entry_for_the_tree(scene: Scene) -> None:
    """A consumer is allocated only on a tree that it names."""
    scene.manager.add_consumer(ConsumerInfo("other"))
    with pytest.raises(RequestError) as caught:
        scene.manager.allocate("T", "other")

    assert str(caught.value) == "consumer_id 'other': the consumer has no entry for tree 'T'"


def test_try_in_maintenance(scene: Scene) -> None:
    """A try on a tree is for normal mode."""
    scene.manager.set_mode(Mode.MAINTENANCE)
    with pytest.raises(RequestError) as caught:
        scene.manager.try_allocate("T", "known")

    assert str(caught.value) == "mode 'maintenance': a try is possible in normal mode only"


def test_forest_allocated_again(scene: Scene) -> None:
    """A consumer that is allocated on a forest cannot be allocated again."""
    scene.manager.allocate_forest("F", "known")
    with pytest.raises(RequestError) as caught:
        scene.manager.allocate_forest("F", "known")

    assert str(caught.value) == "consumer_id 'known': the consumer is allocated on forest 'F' already"


def test_unknown_forests_hold_nobody(scene: Scene) -> None:
    """No consumer is allocated on a forest or tree that does not exist."""
    assert not scene.manager.is_allocated_forest("X", "known")
    assert not scene.manager.deallocate_forest("X", "known")
    assert not scene.manager.is_allocated("X", "known")


def test_undo_of_a_forest_is_for_forests(scene: Scene) -> None:
    """A try on a forest is undone on the forest, and not on one of its trees; a plan in between does not matter."""
    scene.manager.try_allocate_forest("F", "known")
    scene.know("more", "B")
    assert scene.manager.plan_allocate_forest("F", "more")
    with pytest.raises(RequestError):
        scene.manager.undo_allocate("T", "known")
    scene.manager.undo_allocate_forest("F", "known")

    assert scene.held("T1") == {}


def test_plans_in_maintenance(scene: Scene) -> None:
    """In maintenance mode a plan is to hold the consumer at its group, if that is a node."""
    manager = scene.manager
    manager.set_mode(Mode.MAINTENANCE)
    scene.know("big", "A", 99)
    scene.know("lost", "nowhere")

    assert manager.plan_allocate("T", "big").trees[0].node == "A"
    assert not manager.plan_allocate("T", "lost")
    assert [tree.node for tree in manager.plan_allocate_forest("F", "big").trees] == ["A", "A"]
    assert scene.held("T1") == {}


def test_adoption(scene: Scene) -> None:
    """A running consumer is held at its group regardless of the quotas, in normal mode as well."""
    scene.know("big", "B", 99)
    assert scene.manager.adopt_forest("F", "big")
    scene.know("more", "B", 99)

    assert scene.manager.adopt("T", "more")
    assert scene.used()["B"] == 198


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: ConsumerInfo(""),
        lambda: ConsumerInfo("a", ["T"]),  # type: ignore[list-item]  # what is tested
        lambda: ConsumerInfo("a", [TreeRequest("T", "A", {"cpu": 1})]),  # type: ignore[arg-type]  # what is tested
        lambda: ConsumerInfo("a", [TreeRequest("T", "A", priority=True)]),
        lambda: ConsumerInfo("a", [TreeRequest("T", "A", Resource(cpu=2**63))]),
        lambda: ConsumerInfo("a", [TreeRequest("T", ["A"])]),  # type: ignore[arg-type]  # what is tested
        lambda: ConsumerInfo("a", [TreeRequest(None, "A")]),  # type: ignore[arg-type]  # what is tested
        lambda: ConsumerInfo("a", [TreeRequest("T", "A", unpreemptable=[])]),  # type: ignore[arg-type]  # what is tested
        lambda: TreeCache().add_node_spec("", {"quota": {}}),
        lambda: TreeCache().add_resource_names("cpu"),
        lambda: TreeCache().add_resource_names(-1),  # type: ignore[arg-type]  # what is tested
        lambda: TreeCache().delete_resource_name([]),  # type: ignore[arg-type]  # what is tested
        lambda: TreeCache().delete_node([]),  # type: ignore[arg-type]  # what is tested
        lambda: TreeCache().get_renamed_node([]),  # type: ignore[arg-type]  # what is tested
        lambda: TreeCache(5),  # type: ignore[arg-type]  # what is tested
        lambda: TreeCache(lock=5),  # type: ignore[arg-type]  # what is tested
        lambda: TreeCache().add_resource_name(5),  # type: ignore[arg-type]  # what is tested
        lambda: TreeCache().set_tree_name(None),  # type: ignore[arg-type]  # what is tested
    ],
)
def test_arguments_of_the_wrong_kind(wrong: Callable[[], Any]) -> None:
    """Arguments of the wrong type are refused."""
    with pytest.raises(RequestError):
        wrong()


@pytest.mark.parametrize("wrong", [[], {}, None, 3])
def test_names_of_the_wrong_kind(scene: Scene, wrong: Any) -> None:  # noqa: ANN401 - what is tested
    """A value that is no text is the name of nothing, even if it cannot be hashed."""
    manager = scene.manager
    assert not any([manager.is_allocated(wrong, "held"), manager.is_allocated("T", wrong)])
    assert not any([manager.deallocate(wrong, "held"), manager.deallocate("T", wrong)])
    assert not any([manager.is_allocated_forest(wrong, "held"), manager.is_allocated_forest("F", wrong)])
    assert not any([manager.deallocate_forest(wrong, "held"), manager.deallocate_forest("F", wrong)])
    for call in (manager.allocate, manager.plan_allocate, manager.allocate_forest, manager.undo_allocate_forest):
        for first in (wrong, "T", "F"):
            with pytest.raises(RequestError):
                call(first, wrong)
    with pytest.raises(RequestError):
        manager.delete_tree_from_forest("F", wrong)


def test_giving_back_nothing_keeps_a_try(scene: Scene) -> None:
    """A try can be undone after a deallocation of a consumer that is not allocated."""
    assert scene.manager.try_allocate_forest("F", "known")
    assert not scene.manager.deallocate_forest("F", "unheard")
    scene.manager.undo_allocate_forest("F", "known")

    assert scene.held("T1") == {}


def test_views_are_values(scene: Scene) -> None:
    """A view does not change with the tree."""
    before = scene.manager.view("T")
    scene.manager.deallocate("T", "held")

    assert before.consumers["held"].request == Resource(cpu=1)
    assert not before.consumers["held"].is_borrowing


def test_damage_is_found(scene: Scene) -> None:
    """The self-check names every counter and list that does not follow from the consumers."""
    tree = scene.manager._registry.trees["T"].tree
    node = tree.nodes["A"]
    node.free += 1
    (rank,) = node.totals
    node.totals[rank] += 6
    with pytest.raises(InvariantError) as caught:
        scene.manager.verify()

    assert caught.value.findings == (
        "node 'A' of tree 'T' counts 0 cpu, but its consumers hold 1",
        f"node 'A' of tree 'T' counts 1 with (7,) of {rank}, but holds 1 with (1,)",
    )


def test_threads() -> None:
    """Requests of several threads are answered one after the other, and the counters agree in the end."""
    scene = Scene({"R": ("nil", 40), "A": ("R", 20), "B": ("R", 20)})
    for number in range(400):
        scene.know(f"c{number}", "AB"[number % 2], priority=number % 3)
    start = threading.Barrier(4)

    def work(share: int) -> None:
        start.wait()
        for number in range(share, 400, 4):
            scene.manager.allocate("T", f"c{number}")
            scene.manager.deallocate("T", f"c{number - 40}")

    threads = [threading.Thread(target=work, args=(share,)) for share in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    scene.manager.verify()
    assert scene.used()["R"] <= 40


def test_a_document_for_each_cache() -> None:
    """A tree added by name is filled through its cache, and several roots leave all but the first by name outside."""
    manager = QuotaManager()
    manager.add_tree_by_name("T")
    cache = manager.get_tree_cache("T")
    cache.from_struct(document({"b": ("nil", 1), "a": ("nil", 2), "c": ("b", 3), "d": ("d", 4)}))
    response = manager.update_tree("T").trees["T"]

    assert (response.root, response.dangling, response.is_clean) == ("a", ("b", "c", "d"), False)
    assert manager.update_tree("T").to_dict() == {
        "unallocated": [],
        "trees": {"T": {"tree_name": "T", "root": "a", "dangling": ["b", "c", "d"], "is_clean": False}},
    }
