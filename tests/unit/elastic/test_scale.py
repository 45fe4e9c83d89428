"""The cost of an operation on elastic groups does not grow with their siblings, unless shares must be recomputed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import pytest

from support.line_counts import lines_run_by
from ugm import Resource
from ugm.elastic import ElasticGroup, ElasticQuota, ElasticTree, Pod

#: What a group asks for in addition, and its siblings ask for from the start; each of 20 it has 10 guaranteed.
READS: Final = {
    "within the minimum": (5, 15),
    "everybody satisfied": (12, 12),
    "satisfied in the first round": (12, 30),
}


def grown(siblings: int, each: int) -> ElasticTree:
    """Return a tree with a number of siblings and a total of 20 for each."""
    tree = ElasticTree(Resource(cpu=20 * siblings))
    for number in range(siblings):
        tree.put(ElasticGroup(f"g{number:04}", min=Resource(cpu=10), max=Resource(cpu=100)))
        tree.change_request(f"g{number:04}", Resource(cpu=each))
    return tree


def change_and_read(tree: ElasticTree, delta: Resource) -> Resource:
    """Change the request of the first group, and read its runtime."""
    tree.change_request("g0000", delta)
    return tree.runtime("g0000")


@pytest.mark.parametrize("read", READS)
def test_reads_that_sums_decide(read: str) -> None:
    """A read that the sums decide costs the same with ten siblings and with five hundred."""
    requested, others = READS[read]
    trees = [grown(siblings, others) for siblings in (10, 500)]
    for tree in trees:
        tree.change_request("g0000", Resource(cpu=requested - others))

    assert len({lines_run_by(partial(change_and_read, tree, Resource(cpu=1))) for tree in trees}) == 1


def test_hungry_before_and_after() -> None:
    """An unsatisfied group that requests more is answered from the last computation."""
    trees = [grown(siblings, 30) for siblings in (10, 500)]
    for tree in trees:
        tree.runtime("g0000")

    assert len({lines_run_by(partial(change_and_read, tree, Resource(cpu=1))) for tree in trees}) == 1


def test_dealing_costs_the_hungry() -> None:
    """If the amount to divide has changed, a read of an unsatisfied group costs a pass over the hungry siblings."""
    small, large = (grown(siblings, 30) for siblings in (10, 500))
    for tree in (small, large):
        tree.change_request("g0001", Resource(cpu=-25))

    assert lines_run_by(partial(small.runtime, "g0000")) * 3 < lines_run_by(partial(large.runtime, "g0000"))


OPERATIONS: Final[dict[str, Callable[[ElasticQuota], object]]] = {
    "create": lambda quota: quota.create(ElasticGroup("new", "p", Resource(cpu=1), Resource(cpu=9))),
    "update": lambda quota: quota.update(ElasticGroup("new", "p", Resource(cpu=2), Resource(cpu=9))),
    "delete": lambda quota: quota.delete("new"),
    "expect": lambda quota: quota.expect(Pod("pod", Resource(cpu=5), "g0")),
    "admit": lambda quota: quota.admit("pod"),
    "forget": lambda quota: quota.forget("pod"),
}


def test_groups_and_pods() -> None:
    """Creating, changing and deleting a group, and all operations on a pod, cost the same for any number of groups."""
    costs = []
    for siblings in (10, 500):
        quota = ElasticQuota(ElasticTree(Resource(cpu=10**6)))
        quota.create(ElasticGroup("p", min=Resource(cpu=10**4), max=Resource(cpu=10**6), is_parent=True))
        for number in range(siblings):
            quota.create(ElasticGroup(f"g{number}", "p", Resource(cpu=1), Resource(cpu=9)))
        costs.append({name: lines_run_by(partial(operation, quota)) for name, operation in OPERATIONS.items()})

    assert costs[0] == costs[1]
