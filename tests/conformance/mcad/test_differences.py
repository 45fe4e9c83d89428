"""The behaviour where MCAD has a defect or leaves the result to chance.

Each of its defects has a test, in the order of the table in `docs/explanation/quotatree.md`.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from support.quotatree_fixtures import PAIR, Scene, document
from ugm import RequestError, Resource
from ugm.quotatree import ConsumerInfo, Mode, QuotaManager, TreeRequest

#: Two places in a row fit a request of 3 and the nodes above them do not.
CHAIN = {"R": ("nil", 3), "P3": ("R", 2), "P2": ("P3", 5), "P1": ("P2", 1), "L": ("P1", 5)}


def test_two_failed_places_are_given_back_once() -> None:
    """A request that fails above two homes in turn has charged neither of them when a node above holds it."""
    scene = Scene(CHAIN)

    assert scene.ask("a", "L", 3)
    assert scene.used() == {"R": 3, "P3": 0, "P2": 0, "P1": 0, "L": 0}


def test_victims_come_back_when_the_request_fails_after_all() -> None:
    """Victims that do not suffice keep their place and remain allocated."""
    scene = Scene({"R": ("nil", 3), "H!": ("R", 2), "L": ("H", 1), "X": ("R", 2)})
    scene.ask("a", "L", 1)
    scene.ask("x", "X", 2, priority=5)
    before = scene.manager.view("T")

    assert not scene.ask("b", "L", 2, priority=1)
    assert scene.manager.view("T") == before
    assert scene.manager.is_allocated("T", "a")


def test_all_victims_are_reported() -> None:
    """Every consumer that is no longer allocated is in the response, even after several walks."""
    draw = random.Random(4)
    scene = Scene({"R": ("nil", 9), "P": ("R", 7), "Q!": ("R", 5), "L": ("P", 3), "K": ("P", 4), "M": ("Q", 4)})
    for number in range(400):
        before = set(scene.manager.view("T").consumers)
        response = scene.ask(f"c{number}", draw.choice("LKM"), draw.randint(1, 5), priority=draw.randint(0, 4))
        gone = before - set(scene.manager.view("T").consumers)

        assert gone == set(response.preempted)
        if before and draw.random() < 0.3:
            scene.manager.deallocate("T", draw.choice(sorted(before)))


def test_rejection_keeps_the_order() -> None:
    """A rejected request does not change the order of the consumers that its search moved."""
    scene = Scene({"R": ("nil", 4), "M!": ("R", 4), "L": ("M", 3), "K": ("M", 3)})
    scene.ask("a", "L", 1)
    scene.ask("b", "L", 2, priority=3)
    scene.ask("u", "K", 1, priority=3)

    assert not scene.ask("x", "L", 2, priority=1)
    assert scene.held()["L"] == ["a", "b"]


def test_a_resource_not_asked_for_never_denies() -> None:
    """An exceeded quota does not deny a request without that resource."""
    manager = QuotaManager()
    nodes = {"R": {"quota": {"cpu": "1", "gpu": "1"}}}
    manager.add_tree_from_struct(document({}) | {"spec": {"resourceNames": ["cpu", "gpu"], "nodes": nodes}})
    manager.add_consumer(ConsumerInfo("over", [TreeRequest("T", "R", Resource(gpu=2))]))
    manager.add_consumer(ConsumerInfo("other", [TreeRequest("T", "R", Resource(cpu=1))]))
    manager.allocate("T", "over")
    manager.set_mode(Mode.NORMAL)

    assert manager.allocate("T", "other")


def test_second_undo_is_refused() -> None:
    """A try is undone once."""
    scene = Scene(PAIR)
    scene.ask("a", "A")
    scene.know("b", "A")
    scene.manager.try_allocate("T", "b")
    scene.manager.undo_allocate("T", "b")
    with pytest.raises(RequestError) as caught:
        scene.manager.undo_allocate("T", "b")

    assert str(caught.value) == "consumer_id 'b': the last change of tree 'T' was not a try of this consumer"
    assert scene.held() == {"A": ["a"]}


@pytest.mark.parametrize("group", ["nowhere", "R"])
def test_undo_of_a_try_in_an_unknown_group(group: str) -> None:
    """A try that was rejected because of its group cannot be undone, and changes nothing."""
    scene = Scene(PAIR)
    scene.ask("a", "A")
    scene.know("b", group)

    assert not scene.manager.try_allocate("T", "b")
    with pytest.raises(RequestError, match="the last change of tree 'T' was not a try of this consumer"):
        scene.manager.undo_allocate("T", "b")
    assert scene.held() == {"A": ["a"]}


@pytest.mark.parametrize("change", ["allocate", "deallocate", "update"])
def test_undo_is_refused_after_a_change(change: str) -> None:
    """A try is undone right away or not at all."""
    scene = Scene(PAIR)
    scene.ask("a", "A")
    scene.know("b", "A")
    scene.know("c", "B")
    scene.manager.try_allocate("T", "b")
    calls: dict[str, Callable[[], object]] = {
        "allocate": lambda: scene.manager.allocate("T", "c"),
        "deallocate": lambda: scene.manager.deallocate("T", "a"),
        "update": lambda: scene.manager.update_tree("T"),
    }
    calls[change]()
    with pytest.raises(RequestError):
        scene.manager.undo_allocate("T", "b")

    assert scene.manager.is_allocated("T", "b")


def test_deleted_tree_leaves_its_forest() -> None:
    """A deleted tree leaves its forest, and the forest can be updated."""
    scene = Scene(PAIR, PAIR, forest="F")
    scene.manager.delete_tree("T1")

    assert scene.manager.get_forest_tree_names() == {"F": ("T",)}
    assert set(scene.manager.update_forest("F").trees) == {"T"}


def test_a_part_of_a_forest_is_enough() -> None:
    """A consumer that names some trees of a forest is allocated on the forest if these hold it, and only once."""
    scene = Scene(PAIR, PAIR, forest="F")
    scene.manager.add_consumer(ConsumerInfo("a", [TreeRequest("T", "A", Resource(cpu=1))]))

    assert scene.manager.allocate_forest("F", "a")
    assert scene.manager.is_allocated_forest("F", "a")
    with pytest.raises(RequestError):
        scene.manager.allocate_forest("F", "a")
    assert scene.used()["R"] == 1
    assert scene.manager.deallocate_forest("F", "a")
    assert scene.used()["R"] == 0


def test_victims_leave_all_trees_of_the_forest() -> None:
    """A victim in one tree leaves all trees of the forest, even those that the newcomer does not name."""
    scene = Scene(PAIR, PAIR, forest="F")
    scene.know("a", "A", 4)
    scene.manager.allocate_forest("F", "a")
    scene.manager.add_consumer(ConsumerInfo("b", [TreeRequest("T", "B", Resource(cpu=2))]))

    assert scene.manager.allocate_forest("F", "b").preempted == ("a",)
    assert (scene.held("T"), scene.held("T1")) == ({"B": ["b"]}, {})


def test_forest_rolls_back_exactly() -> None:
    """If the last tree rejects, all consumers of the others keep their place, even those over the quota."""
    scene = Scene(PAIR, {"R": ("nil", 4), "A": ("R", 2), "B!": ("R", 1)}, forest="F")
    scene.know("over", "A", 5)
    scene.manager.set_mode(Mode.MAINTENANCE)
    scene.manager.allocate("T", "over")
    scene.manager.set_mode(Mode.NORMAL)
    before = scene.manager.view("T")
    scene.know("b", "B", 2)

    assert not scene.manager.allocate_forest("F", "b")
    assert scene.manager.view("T") == before


def test_swapped_names() -> None:
    """Two nodes that swap their names through a third keep their own consumers."""
    scene = Scene(PAIR)
    scene.ask("a", "A")
    scene.ask("b", "B")
    cache = scene.manager.get_tree_cache("T")
    for name, new_name in (("A", "X"), ("B", "A"), ("X", "B")):
        cache.rename_node(name, new_name)
    scene.manager.update_tree("T")

    assert scene.held() == {"B": ["a"], "A": ["b"]}


def test_update_all_ends() -> None:
    """All trees are updated, those in forests with their forest, without a deadlock."""
    scene = Scene(PAIR, PAIR, forest="F")
    scene.manager.delete_tree_from_forest("F", "T")
    scene.know("a", "A")
    scene.manager.allocate("T", "a")
    for name in scene.trees:
        scene.manager.get_tree_cache(name).delete_node("R")
    done = scene.manager.update_all()

    assert done.unallocated == ("a",)
    assert [done.trees[name].dangling for name in scene.trees] == [("A", "B"), ("A", "B")]
