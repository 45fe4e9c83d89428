"""The cost of operations: bounded for quota models, and independent of the number of allocations."""

from __future__ import annotations

from collections.abc import Callable
from runpy import run_path
from typing import Final

import pytest

from support.line_counts import lines_run_by
from support.partition_fixtures import SUE, config, memory, partition_of
from support.places import ROOT
from ugm import Claim, Partition, QuotaModel, Resource, UserGroup
from ugm.budgets import Budget, Budgets, Period

bytecodes: Final[Callable[..., int]] = run_path(str(ROOT / "tests" / "benchmarks" / "counting.py"))["bytecodes"]

#: Half a step of the plainest loop that counts users and groups.
HALF_A_STEP: Final = 378
COUNT: Final = 20
#: November 23, 2026, at noon in UTC.
NOON: Final = 1_795_435_200


class Allowing:
    """A model that always allows."""

    def check(self, _claim: Claim) -> tuple[()]:
        """Allow."""
        return ()

    def charge(self, _claim: Claim) -> None:
        """Count nothing."""

    def refund(self, _claim: Claim) -> None:
        """Count nothing."""


def instructions(*models: QuotaModel, duration: int | None = None) -> int:
    """Return the instructions of an allocation of a running application."""
    # The clock stands still: an allocation does not also have to advance the budgets by a second.
    config = "{name: a, resources: {max: {memory: 1Gi}}}"
    partition, usage = partition_of(config, models=models, clock=lambda: NOON), memory(1)
    assert partition.submit("app", SUE, "root.a")
    assert partition.allocate("first", "app", usage, duration=duration)

    def allocate() -> None:
        for number in range(COUNT):
            assert partition.allocate(str(number), "app", usage, duration=duration)

    return bytecodes(allocate) // COUNT


def test_a_model_that_allows() -> None:
    """It adds at most half a step to an allocation."""
    assert instructions(Allowing()) - instructions() <= HALF_A_STEP


def test_three_budgets() -> None:
    """Budgets of the user, the group and the queue add at most 2.1 steps to an allocation.

    This includes the cost of the promise, which an allocation without budgets does not need.
    """
    amounts = Resource(memory=2**60)
    budgets = Budgets(
        [
            Budget("user", user="*", amounts=amounts, period=Period.MONTH),
            Budget("group", group="*", amounts=amounts, period=Period.DAY, zone="Europe/Berlin"),
            Budget("queue", amounts=amounts),
        ]
    )

    assert instructions(budgets, duration=60) - instructions() <= 4.2 * HALF_A_STEP


ONE: Final = Resource(memory=1)

#: Every operation on the way of an allocation; the first application of every partition is called ``app-0``.
OPERATIONS: Final[dict[str, Callable[[Partition], object]]] = {
    "allocate": lambda partition: partition.allocate("new", "app-0", ONE),
    "allocate-first": lambda partition: partition.allocate("new", "idle", ONE),
    "denied": lambda partition: partition.allocate("new", "app-0", Resource(memory=10**10)),
    "check": lambda partition: partition.check("app-0", ONE),
    "headroom": lambda partition: partition.headroom("app-0"),
    "resize": lambda partition: partition.resize("app-0-0", Resource(memory=2)),
    "preempt": lambda partition: partition.preempt("app-0-0"),
    "release": lambda partition: partition.release("app-0-0"),
    "adopt": lambda partition: partition.adopt("new", "app-0", ONE),
    "request": lambda partition: partition.request("new", "app-0", ONE),
    "submit": lambda partition: partition.submit("new", UserGroup("new"), "root.a"),
    "add_node": lambda partition: partition.add_node("more", ONE),
}


def filled(applications: int) -> Partition:
    """Return a partition with ten allocations for each of many applications, and an idle one."""
    partition = Partition(
        config("{name: a, resources: {max: {memory: 1G}}, maxapplications: 1000000}"), cluster=Resource(memory=10**9)
    )
    partition.submit("idle", UserGroup("idle"), "root.a")
    for number in range(applications):
        partition.submit(f"app-{number}", UserGroup(f"user-{number % 50}"), "root.a")
        for allocation in range(10):
            partition.adopt(f"app-{number}-{allocation}", f"app-{number}", ONE)
    return partition


@pytest.mark.parametrize("name", list(OPERATIONS))
def test_no_growth_with_what_is_live(name: str) -> None:
    """An operation runs as many lines with a hundred allocations as with two thousand."""
    few, many = filled(10), filled(200)

    assert lines_run_by(lambda: OPERATIONS[name](few)) == lines_run_by(lambda: OPERATIONS[name](many))


def test_resources_of_removed_nodes() -> None:
    """The resources of removed nodes are no longer counted, except those that a limit or an application names."""
    queue, limits = "{name: a, resources: {max: {r2: 5}}}", "{users: [sue], maxresources: {r3: 5}}"
    partition = Partition(config(queue, limits=limits))
    partition.add_node("all", Resource({f"r{number}": 9 for number in range(60)}))
    partition.submit("app", UserGroup("sue"), "root.a")
    assert partition.allocate("1", "app", Resource(r1=1))
    partition.remove_node("all")
    for name in ("new", "newer"):
        partition.add_node(name, Resource({name: 1}))

    assert {*partition._state.active_limits.epoch.layout.names} == {"r1", "r2", "r3", "new", "newer"}
    assert not partition.check("app", Resource(unknown=1))
    partition.verify()
