"""Laws of quota trees and forests."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.quotatree_fixtures import manager_of
from support.quotatree_reference import PlainConsumer
from support.quotatree_strategies import TREE, documents, info_of, newcomers
from ugm import Claim, RequestError, Resource, UserGroup
from ugm.quotatree import ConsumerInfo, QuotaManager, Reason, TreeModel, TreeView

FOREST = "F"
TREES = ("T", "U")


@st.composite
def streams(draw: st.DrawFn, document: dict[str, Any], least: int = 1) -> list[PlainConsumer | str]:
    """Draw arrivals, and departures of consumers that arrived."""
    groups = tuple(document["spec"]["nodes"])
    stream: list[PlainConsumer | str] = []
    for number in range(draw(st.integers(least, 14))):
        if stream and draw(st.integers(0, 3)) == 0:
            stream.append(f"c{draw(st.integers(0, number - 1))}")
        else:
            stream.append(draw(newcomers(f"c{number}", groups)))
    return stream


def feed(manager: QuotaManager, stream: list[PlainConsumer | str]) -> None:
    """Replay a stream on the first tree."""
    for step in stream:
        if isinstance(step, str):
            manager.deallocate(TREE, step)
        else:
            manager.add_consumer(info_of(step))
            manager.allocate(TREE, step.id)


def views(manager: QuotaManager) -> list[TreeView]:
    """Return the views of all trees."""
    return [manager.view(name) for name in manager.get_tree_names()]


@st.composite
def scenes(draw: st.DrawFn) -> tuple[QuotaManager, PlainConsumer]:
    """Draw a manager after a stream, and one more registered consumer."""
    document = draw(documents())
    stream = draw(streams(document, 3))
    manager = manager_of(document, requeue_rejected=False, check_unrequested=False)
    feed(manager, stream[:-1])
    last = draw(newcomers("last", tuple(document["spec"]["nodes"])))
    manager.add_consumer(info_of(last))
    return manager, last


@given(scenes())
def test_room_is_an_upper_bound(scene: tuple[QuotaManager, PlainConsumer]) -> None:
    """A claim that fits requests no more than the room of any node above its leaf; no other node has a room."""
    manager, last = scene
    (view,) = views(manager)
    parents, leaf = {node.name: node.parent for node in view.nodes}, last.group
    while leaf in parents.values():
        leaf = next(name for name, parent in parents.items() if parent == leaf)
    model = TreeModel(manager, TREE, lambda _: leaf)
    claim = Claim("last", "app", Resource(last.request), "root.a", UserGroup("sue"), priority=last.priority)
    assert model.room("quota node", "no node", "cpu") is model.room("queue", leaf, "cpu") is None
    if not model.check(claim):
        name = leaf
        while name:
            for resource in view.resources:
                room = model.room("quota node", name, resource)
                assert room is not None
                assert last.request.get(resource, 0) <= max(room, 0)
            name = parents[name]


@st.composite
def forest_scenes(draw: st.DrawFn, *, habits: bool = False) -> tuple[QuotaManager, str]:
    """Draw a forest of two trees after some requests, and one more registered consumer."""
    trees = [draw(documents(name)) for name in TREES]
    manager = manager_of(*trees, forest=FOREST, requeue_rejected=habits, check_unrequested=habits)
    for number in range(draw(st.integers(1, 9))):
        entries = [draw(newcomers(f"c{number}", tuple(tree["spec"]["nodes"]))) for tree in trees]
        named = [info_of(newcomer, name).trees[0] for newcomer, name in zip(entries, TREES, strict=True)]
        kept = draw(st.sampled_from([named, named, named[:1], named[1:]]))
        manager.add_consumer(ConsumerInfo(f"c{number}", kept))
        if draw(st.integers(0, 4)) == 0:
            manager.deallocate_forest(FOREST, f"c{number - 1}")
        last = f"c{number}"
        if number < 8:
            manager.allocate_forest(FOREST, last)
    manager.deallocate_forest(FOREST, last)
    return manager, last


@given(forest_scenes())
def test_forests_grant_all_or_nothing(scene: tuple[QuotaManager, str]) -> None:
    """A consumer is held on every tree of the forest that it names, or on none; rejected means unchanged."""
    manager, last = scene
    before = views(manager)
    response = manager.allocate_forest(FOREST, last)
    after = views(manager)
    if not response:
        assert after == before
    assert manager.is_allocated_forest(FOREST, last) == bool(response)
    for victim in response.preempted:
        assert not any(victim in view.consumers for view in after)
    manager.verify()


@given(st.booleans().flatmap(lambda habits: forest_scenes(habits=habits)))
def test_forest_undo_is_the_inverse(scene: tuple[QuotaManager, str]) -> None:
    """On a forest, undo is the inverse as well."""
    manager, last = scene
    before = views(manager)
    response = manager.try_allocate_forest(FOREST, last)
    if response.rejection is not None and response.rejection.reason is not Reason.NO_ROOM:
        with pytest.raises(RequestError):
            manager.undo_allocate_forest(FOREST, last)
    else:
        manager.undo_allocate_forest(FOREST, last)
    assert views(manager) == before
    assert not manager.is_allocated_forest(FOREST, last)
    manager.verify()
