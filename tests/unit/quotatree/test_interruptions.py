"""A manager of quota trees without a partition, interrupted by an exception at any point of a call.

After each interruption the call has taken effect or changed nothing, all counters follow from the consumers, no lock is
held, and a call that has changed nothing can be repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import pytest

from support.interruption_points import Interruption, points_in
from support.locks import is_locked
from support.quotatree_fixtures import Scene, document
from ugm import RequestError
from ugm.quotatree import QuotaManager

NODES: Final = {"R": ("nil", 10), "A": ("R", 4), "B": ("R", 4), "A1": ("A", 2), "A2!": ("A", 2)}

Call = Callable[[QuotaManager], object]

#: Calls for a tree that belongs to no forest.
ON_TREE: Final[dict[str, Call]] = {
    "allocate": lambda m: m.allocate("T", "free"),
    "allocate with a preemption": lambda m: m.allocate("T", "urgent"),
    "allocate what has no room": lambda m: m.allocate("T", "huge"),
    "deallocate": lambda m: m.deallocate("T", "x1"),
    "adopt": lambda m: m.adopt("T", "huge"),
    "try_allocate": lambda m: m.try_allocate("T", "urgent"),
    "undo_allocate": lambda m: m.undo_allocate("T", "tried"),
    "remove_consumer": lambda m: m.remove_consumer("urgent"),
    "delete_tree": lambda m: m.delete_tree("T1"),
    "update_tree": lambda m: m.update_tree("T"),
    "update_all": lambda m: m.update_all(),
}

#: Calls for two trees of a forest.
ON_FOREST: Final[dict[str, Call]] = {
    "allocate_forest": lambda m: m.allocate_forest("F", "urgent"),
    "deallocate_forest": lambda m: m.deallocate_forest("F", "x1"),
    "adopt_forest": lambda m: m.adopt_forest("F", "huge"),
    "delete_tree_from_forest": lambda m: m.delete_tree_from_forest("F", "T1"),
    "delete_forest": lambda m: m.delete_forest("F"),
    "update_forest": lambda m: m.update_forest("F"),
}

#: Edits of the cache of a tree.
EDITS: Final[dict[str, Call]] = {
    "add_node_specs": lambda m: m.get_tree_cache("T").add_node_specs({"A9": {"quota": {}}, "C": {"quota": {}}}),
    "rename_node": lambda m: m.get_tree_cache("T").rename_node("A", "D"),
    "delete_node": lambda m: m.get_tree_cache("T").delete_node("A"),
    "from_struct": lambda m: m.get_tree_cache("T").from_struct(document(NODES, "other")),
    "clear": lambda m: m.get_tree_cache("T").clear(),
    "create_tree": lambda m: m.get_tree_cache("T").create_tree(),
}

CASES: Final = [
    *((name, False) for name in ON_TREE),
    *((name, True) for name in ON_FOREST),
    *((name, False) for name in EDITS),
]


def scene(name: str, *, is_forest: bool) -> QuotaManager:
    """Return a manager just before a call: consumers borrow, and the last change was a try."""
    made = Scene(NODES, NODES, forest="F" if is_forest else "")
    manager = made.manager
    for consumer_id, group, cpu, priority in (
        ("x1", "A1", 2, 0),
        ("x2", "A1", 2, 3),
        ("x3", "A2", 1, 0),
        ("x4", "B", 3, 0),
        ("tried", "A2", 1, 0),
        ("free", "B", 1, 0),
        ("urgent", "A1", 3, 9),
        ("huge", "B", 99, 0),
    ):
        made.know(consumer_id, group, cpu, priority=priority)
    allocate = manager.allocate_forest if is_forest else manager.allocate
    for consumer_id in ("x1", "x2", "x3", "x4"):
        allocate("F" if is_forest else "T", consumer_id)
    if is_forest:
        manager.try_allocate_forest("F", "tried")
    else:
        manager.try_allocate("T", "tried")
    if name.startswith("update") or name in EDITS:
        for tree in ("T", "T1"):
            cache = manager.get_tree_cache(tree)
            cache.rename_node("A1", "A9")
            cache.delete_node("A2")
            if name == "create_tree":
                cache.clear()
    return manager


def state(manager: QuotaManager) -> object:
    """Return everything that can be read, and whether the try can be undone, which this does."""
    manager.verify()
    trees, forests, consumers = manager.get_tree_names(), manager.get_forest_names(), manager.get_all_consumer_ids()
    seen = (
        consumers,
        manager.get_forest_tree_names(),
        [manager.view(tree) for tree in trees],
        [(each, [manager.is_allocated(tree, each) for tree in trees]) for each in consumers],
        [(each, [manager.is_allocated_forest(forest, each) for forest in forests]) for each in consumers],
        [manager.get_tree_cache(tree).to_struct() for tree in trees],
        [[manager.get_tree_cache(tree).get_renamed_node(name) for name in NODES] for tree in trees],
        [manager.get_tree_cache(tree)._new_names for tree in trees],
    )
    return seen, _can_undo(manager)


def _can_undo(manager: QuotaManager) -> list[bool]:
    found = []
    for undo, name in ((manager.undo_allocate, "T"), (manager.undo_allocate_forest, "F")):
        for consumer_id in ("tried", "urgent"):
            try:
                undo(name, consumer_id)
            except RequestError:
                found.append(False)
            else:
                found.append(True)
    return found


def check_interruptions(name: str, most: int, *, is_forest: bool) -> None:
    """Interrupt a call at *most* of its points or a few more, and compare what can be read then."""
    call = (ON_FOREST if is_forest else ON_TREE | EDITS)[name]
    before, whole = state(scene(name, is_forest=is_forest)), scene(name, is_forest=is_forest)
    call(whole)
    after = state(whole)

    @contextmanager
    def prepared() -> Iterator[Callable[[], object]]:
        made = scene(name, is_forest=is_forest)
        yield lambda: call(made)

    points = points_in(prepared)
    for point in points[:: max(1, len(points) // most)]:
        made, again = scene(name, is_forest=is_forest), scene(name, is_forest=is_forest)
        for manager in (made, again):
            interruption = Interruption(point)
            interruption.run(lambda manager=manager: call(manager))  # type: ignore[misc]
            assert interruption.has_raised, point
            assert not is_locked(manager._lock), point
        seen = state(made)
        assert seen in (before, after), point
        if seen == before != after:
            call(again)
            assert state(again) == after, point


@pytest.mark.parametrize("most", [40, pytest.param(400, marks=pytest.mark.ci)])
@pytest.mark.parametrize(("name", "is_forest"), CASES)
def test_interrupted_at_some_points(name: str, most: int, *, is_forest: bool) -> None:
    """A call that is interrupted has taken effect or changed nothing."""
    check_interruptions(name, most, is_forest=is_forest)


@pytest.mark.deep
@pytest.mark.parametrize(("name", "is_forest"), CASES)
def test_interrupted_at_every_point(name: str, *, is_forest: bool) -> None:
    """So has one that is interrupted at any line, or at any instruction."""
    check_interruptions(name, 10**9, is_forest=is_forest)


def test_unregistered_consumers() -> None:
    """Only registered consumers can be allocated and removed; a consumer is named by its id."""
    made = Scene(NODES)
    made.know("x", "B")
    info = made.manager._registry.consumers["x"]
    info.preempted_by = None
    for call in (
        lambda: made.manager.allocate("T", info),  # type: ignore[arg-type]
        lambda: made.manager.adopt("T", info),  # type: ignore[arg-type]
        lambda: made.manager.try_allocate("T", info),  # type: ignore[arg-type]
        lambda: made.manager.remove_consumer(info),  # type: ignore[arg-type]
    ):
        with pytest.raises(RequestError, match="consumer_id"):
            call()
    assert made.manager.get_all_consumer_ids() == ("x",)
    assert not made.manager.view("T").nodes[0].allocated["cpu"]
