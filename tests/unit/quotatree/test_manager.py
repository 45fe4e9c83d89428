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
    scene.manager.add_forest("E")
    scene.manager.add_consumer(ConsumerInfo("lost"))
    scene.know("known", "A")
    scene.ask("held", "A")
    return scene


MISUSE: dict[str, tuple[Callable[[QuotaManager], object], str]] = {
    "mode": (lambda m: m.set_mode("fast"), "mode 'fast': expected 'maintenance' or 'normal'"),
    "tree": (lambda m: m.allocate("X", "known"), "tree_name 'X': there is no such tree"),
    "consumer": (lambda m: m.allocate("T", "x"), "consumer_id 'x': there is no such consumer"),
    "again": (lambda m: m.allocate("T", "held"), "consumer_id 'held': the consumer is allocated on tree 'T' already"),
    "consumer-unnamed": (lambda _: ConsumerInfo(""), "consumer_id '': an id is a text of 1 to 256 characters"),
    "gone": (lambda m: list(map(m.remove_consumer, ["known"] * 2)), "consumer_id 'known': there is no such consumer"),
    "forest": (lambda m: m.allocate_forest("X", "known"), "forest_name 'X': there is no such forest"),
    "forest-again": (
        lambda m: m.allocate_forest("F", "held"),
        "consumer_id 'held': the consumer is allocated on tree 'T' already",
    ),
    "forest-undo": (
        lambda m: m.undo_allocate_forest("F", "known"),
        "consumer_id 'known': the last change of forest 'F' was not a try of this consumer",
    ),
    "no-entry": (lambda m: m.allocate("T", "lost"), "consumer_id 'lost': the consumer has no entry for tree 'T'"),
    "forest-gone": (lambda m: list(map(m.delete_forest, ["F"] * 2)), "forest_name 'F': there is no such forest"),
    "forest-other": (lambda m: m.add_tree_to_forest("E", "T"), "tree_name 'T': the tree belongs to forest 'F'"),
    "in-use": (lambda m: m.delete_tree("T"), "tree_name 'T': consumers are allocated on it"),
    "tree-taken": (lambda m: m.add_tree_by_name("T"), "tree_name 'T': a tree of this name already exists"),
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


def test_names(scene: Scene) -> None:
    """Consumers, trees and forests are listed by name."""
    manager = scene.manager

    assert manager.add_tree_by_name("S") == "S"
    assert manager.get_tree_cache("S")._lock is manager._lock
    assert manager.get_all_consumer_ids() == ("held", "known", "lost")
    assert manager.get_tree_names() == ("S", "T", "T1")
    assert manager.get_forest_names() == ("E", "F")
    assert manager.get_forest_tree_names() == {"E": (), "F": ("T", "T1")}


def test_cache() -> None:
    """A cache takes the name, the resources and the nodes of documents, until it is cleared."""
    cache = TreeCache()
    for tree in (document(PAIR, "N") | {"spec": {"resourceNames": ["gpu", "cpu"]}}, document({"R": ("nil", 4)}, "M")):
        cache.from_struct(tree)
    cache.rename_node("R", "S")
    cache.delete_resource_name("gpu")
    shown = cache.get_tree_name(), cache.get_resource_names(), cache.get_node_names(), cache.get_renamed_node("R")
    assert shown == ("M", ("cpu",), ("S",), "S")

    cache.clear()
    assert (cache.get_tree_name(), cache.get_resource_names(), cache.get_node_names()) == ("", (), ())
    assert cache.get_renamed_node("R") == cache.get_renamed_node("S") == ""


def test_try_in_maintenance(scene: Scene) -> None:
    """A try on a tree is for normal mode."""
    scene.manager.set_mode(Mode.MAINTENANCE)
    with pytest.raises(RequestError) as caught:
        scene.manager.try_allocate("T", "known")

    assert str(caught.value) == "mode 'maintenance': a try is possible in normal mode only"
    assert not scene.ask("lost-2", "nowhere")


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: ConsumerInfo("a", ["T"]),  # type: ignore[list-item]  # what is tested
        lambda: ConsumerInfo("a", [TreeRequest("T", "A", {"cpu": 1})]),  # type: ignore[arg-type]  # what is tested
        lambda: ConsumerInfo("a", [TreeRequest("T", "A", priority=True)]),
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
        lambda: TreeCache().add_resource_names((5,)),  # type: ignore[arg-type]  # what is tested
        lambda: TreeCache().set_tree_name(None),  # type: ignore[arg-type]  # what is tested
    ],
)
def test_arguments_of_the_wrong_kind(wrong: Callable[[], Any]) -> None:
    """Arguments of the wrong type are refused."""
    with pytest.raises(RequestError, match=r"^(lock|names?|tree_name|trees) .*: (a name is|expected) "):
        wrong()


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


def test_damage_is_found_and_corrected(scene: Scene) -> None:
    """The self-check names every node whose counters do not follow from the consumers."""
    scene.manager._registry.trees["T"].tree.nodes["A"].free += 1
    with pytest.raises(InvariantError, match=r"node 'A' of tree 'T' counts \(\(0,\), .*, expected \(\(1,\), "):
        scene.manager.verify()

    scene.manager.verify()


def test_rejections_in_words() -> None:
    """Every violated quota is listed from the group upward, and the hard node above which nothing is borrowed."""
    scene = Scene({"R": ("nil", 9), "M!": ("R", 3), "L": ("M", 1)})
    scene.ask("a", "L", 2, priority=3)
    answers = [scene.ask(name, name, 2) for name in ("L", "nowhere", "M", "")[:3]]

    assert [answer.consumer_id for answer in answers] == ["L", "nowhere", "M"]
    assert [str(answer) for answer in answers] == [
        (
            "'L' rejected in group 'L' of tree 'T': no room\n"
            "  quota node 'L' of tree 'T': 2 cpu requested, 0 of 1 used, 1 too much\n"
            "  quota node 'M' of tree 'T': 2 cpu requested, 2 of 3 used, 1 too much\n"
            "  'M' is hard: nothing is borrowed above it"
        ),
        "'nowhere' rejected in group 'nowhere' of tree 'T': unknown group",
        "'M' rejected in group 'M' of tree 'T': not a leaf",
    ]
    assert str(scene.ask("d", "L", 2, priority=4)) == "'d' allocated, preempting 'a'"


def test_the_quotas_above_that_never_suffice() -> None:
    """If waiting can help at every visited node, the nodes above follow whose whole quota is too small."""
    scene = Scene({"R": ("nil", 4), "L!": ("R", 5)})
    scene.ask("a", "L", 3)

    assert str(scene.ask("b", "L", 5)).splitlines()[1:3] == [
        "  quota node 'L' of tree 'T': 5 cpu requested, 3 of 5 used, 3 too much",
        "  quota node 'R' of tree 'T': 5 cpu requested, never more than 4 allowed",
    ]


def test_a_consumer_that_one_tree_cannot_hold_leaves_all(scene: Scene) -> None:
    """If a tree of a forest has lost all of its nodes, its consumers are released everywhere."""
    scene.manager.allocate_forest("F", "known")
    for name in PAIR:
        scene.manager.get_tree_cache("T1").delete_node(name)

    assert scene.manager.update_forest("F").unallocated == ("known",)
    assert [scene.held(tree) for tree in scene.trees] == [{"A": ["held"]}, {}]


def test_a_victim_makes_room_in_the_next_tree() -> None:
    """A consumer that is preempted in one tree has left the next one, in which it could not be preempted."""
    scene = Scene(PAIR, PAIR, forest="F")
    entries = [TreeRequest(name, "A", Resource(cpu=4), unpreemptable=name == "T1") for name in scene.trees]
    scene.manager.add_consumer(ConsumerInfo("low", entries))
    scene.know("high", "B", 2, priority=1)

    assert scene.manager.allocate_forest("F", "low")
    assert scene.manager.allocate_forest("F", "high").preempted == ("low",)


def test_victims_of_two_walks() -> None:
    """What the first victims free counts when the root, which is over its quota, needs another victim."""
    scene = Scene({"R": ("nil", 3), "H!": ("R", 2), "L": ("H", 1), "X": ("R", 1)})
    for name in ("first", "second"):
        scene.ask(name, "L")
    scene.manager.set_mode(Mode.MAINTENANCE)
    scene.ask("over", "X", 2)
    scene.manager.set_mode(Mode.NORMAL)

    assert scene.ask("urgent", "L", priority=1).preempted == ("second", "first")


@pytest.mark.parametrize("change", ["allocate", "undo"])
def test_an_interruption_changes_nothing(scene: Scene, monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    """A request, or its undo, that an exception interrupts in the second tree of a forest leaves both as before."""
    before = [scene.manager.view(tree) for tree in scene.trees]
    if change == "undo":
        scene.manager.try_allocate_forest("F", "known")
    monkeypatch.setattr(scene.manager._registry.trees["T1"].tree, change, None)
    with pytest.raises(TypeError):
        getattr(scene.manager, f"{change}_forest".replace("undo", "undo_allocate"))("F", "known")

    assert [scene.manager.view(tree) for tree in scene.trees] == before


def test_a_negative_request_frees(scene: Scene) -> None:
    """A negative amount of a request is free for others, also if the quotas allow none."""
    tree = document(PAIR, "more")
    tree["spec"]["resourceNames"] = ["cpu", "gpu"]
    scene.manager.add_tree_from_struct(tree)
    for name, amounts in (
        ("gives", {"cpu": -2, "gpu": -2}),
        ("takes", {"gpu": 2}),
        ("full", {"cpu": 4}),
        ("both", {"cpu": 1, "gpu": -1}),
    ):
        scene.manager.add_consumer(ConsumerInfo(name, [TreeRequest("more", "A", Resource(amounts))]))
        assert scene.manager.allocate("more", name)
    assert scene.held("more") == {"R": ["both"], "A": ["gives", "takes", "full"]}
    scene.manager.deallocate("more", "full")
    assert scene.held("more") == {"A": ["gives", "takes", "both"]}
