"""Elastic quotas without a partition, interrupted by an exception at any point of a call.

After each interruption the call has taken effect or changed nothing, and all counts follow from the pods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import pytest

from support.interruption_points import Interruption, points_in
from ugm import Resource
from ugm.elastic import ElasticGroup, ElasticQuota, ElasticTree, Pod, RevokePlan, verify

Call = Callable[[ElasticQuota], object]

CALLS: Final[dict[str, Call]] = {
    "create": lambda q: q.create(group("new", 1, namespaces=("free",))),
    "update": lambda q: q.update(group("a", 3, parent="p", namespaces=("free", "mine"))),
    "move": lambda q: q.update(group("c", 2, parent="p")),
    "configure the default group": lambda q: q.create(group("koordinator-default-quota", 0)),
    "delete": lambda q: q.delete("d"),
    "carry_out": lambda q: q.carry_out(RevokePlan("a", ("a1", "a2"), Resource(), Resource())),
    "forget_all": lambda q: q.forget_all(["a1", "c1", "unknown"]),
    "recount": lambda q: q.recount(),
    "set_total": lambda q: q.tree.set_total(Resource(gpu=9, vcore=5)),
    "put": lambda q: q.tree.put(group("c", 3, parent="p")),
    "put a new group": lambda q: q.tree.put(group("new", 3, parent="p")),
    "configure the root": lambda q: q.tree.put(group("koordinator-root-quota", 3)),
    "drop": lambda q: q.tree.drop("b"),
    "change_request": lambda q: q.tree.change_request("a", Resource(gpu=-1, vcore=1)),
    "clear_counts": lambda q: q.tree.clear_counts(),
    "add_counts_of": lambda q: q.tree.add_counts_of(quota().tree),
    "change_used": lambda q: q.tree.change_used("a", Resource(gpu=1), non_preemptible=Resource(gpu=1)),
}

#: Calls of a tree whose counts do not follow from the pods of the quota afterwards.
WITHOUT_PODS: Final = ("change_request", "change_used", "clear_counts", "add_counts_of")


def group(
    name: str, least: int, *, parent: str = "", is_parent: bool = False, namespaces: tuple[str, ...] = ()
) -> ElasticGroup:
    """Return a group that lets its minimum be lent."""
    return ElasticGroup(name, parent, Resource(gpu=least), Resource(gpu=20), is_parent=is_parent, namespaces=namespaces)


def quota() -> ElasticQuota:
    """Return groups with pods of all kinds, some of which belong to a group through their namespace."""
    groups = [
        group("p", 6, is_parent=True),
        group("a", 2, parent="p", namespaces=("mine",)),
        group("b", 2, parent="p"),
        group("c", 2),
        group("d", 0, namespaces=("d's",)),
    ]
    made = ElasticQuota(ElasticTree(Resource(gpu=30), groups))
    for pod in (
        Pod("a1", Resource(gpu=2), "a"),
        Pod("a2", Resource(gpu=1, vcore=1), "a", priority=2),
        Pod("c1", Resource(gpu=2), "c", preemptible=False),
        Pod("m1", Resource(gpu=1), namespace="mine"),
    ):
        made.adopt(pod)
    for pod in (
        Pod("c2", Resource(gpu=25), "c"),
        Pod("d1", Resource(gpu=1), namespace="d's"),
        Pod("f1", Resource(gpu=1), namespace="free"),
    ):
        made.expect(pod)
    return made


def state(quota: ElasticQuota) -> object:
    """Return everything that can be read of the groups and the pods."""
    tree = quota.tree
    return (
        [
            (node.name, node.group, tree.runtime(node.name), tree.used(node.name), tree.request(node.name))
            for node in tree.root.walk()
        ],
        sorted(tree.nodes),
        [(name, quota.pods_in(name), tree.non_preemptible_used(name)) for name in sorted(tree.nodes)],
        tree.total,
        quota.running_pods(),
    )


def check_interruptions(name: str, most: int) -> None:
    """Interrupt a call at *most* of its points or a few more, and compare what can be read then."""
    call = CALLS[name]
    before, whole = state(quota()), quota()
    call(whole)
    after = state(whole)

    @contextmanager
    def prepared() -> Iterator[Callable[[], object]]:
        made = quota()
        yield lambda: call(made)

    points = points_in(prepared)
    for point in points[:: max(1, len(points) // most)]:
        made = quota()
        interruption = Interruption(point)
        interruption.run(lambda made=made: call(made))  # type: ignore[misc]
        assert interruption.has_raised, point
        assert state(made) in (before, after), point
        if name in WITHOUT_PODS:
            verify(made.tree)
        else:
            made.verify()


@pytest.mark.parametrize("most", [40, pytest.param(400, marks=pytest.mark.ci)])
@pytest.mark.parametrize("name", CALLS)
def test_interrupted_at_some_points(name: str, most: int) -> None:
    """A call that is interrupted has taken effect or changed nothing."""
    check_interruptions(name, most)


@pytest.mark.deep
@pytest.mark.parametrize("name", CALLS)
def test_interrupted_at_every_point(name: str) -> None:
    """So has one that is interrupted at any line, or at any instruction."""
    check_interruptions(name, 10**9)
