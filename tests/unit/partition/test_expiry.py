"""Promised ends: renewals, overdue allocations and their end."""

from __future__ import annotations

from typing import Any

import pytest

from support.partition_fixtures import SUE, changing_nothing, memory, partition_of, started
from ugm import Partition, Resource
from ugm.budgets import Budget, Budgets
from ugm.events import Renewed, Subscriber
from ugm.partition import Allocation, AllocationState
from ugm.partition.engine.application import PromisedEnds


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 1_000

    def __call__(self) -> int:
        """Return the time."""
        return self.now


@pytest.fixture(name="clock")
def _clock() -> Clock:
    return Clock()


def timed(clock: Clock, *, subscribers: tuple[Subscriber, ...] = ()) -> Partition:
    """Return a partition with three allocations that end after 60, 60 and 120 seconds, and one without an end."""
    partition = partition_of(clock=clock, subscribers=subscribers)
    started(partition, "app", 1)
    for name, duration in (("c", 120), ("b", 60), ("a", 60)):
        assert partition.allocate(name, "app", memory(1), duration=duration)
    partition.request("waits", "app", memory(1), duration=1)
    return partition


def test_renew(clock: Clock) -> None:
    """A renewal counts from its own time, and an allocation without a promised end gets one."""
    partition = timed(clock)
    clock.now = 1_030
    assert partition.renew("a", 60).allowed
    assert partition.renew("app", 10).allowed
    assert partition.renew("c", 1).allowed
    clock.now = 1_060

    assert [(one.allocation_id, one.until) for one in partition.overdue()] == [
        ("c", 1_031),
        ("app", 1_040),
        ("b", 1_060),
    ]
    assert partition.renew("b", 60).allowed
    assert [one.allocation_id for one in partition.overdue()] == ["c", "app"]


def test_budget_decides_on_renewals(clock: Clock) -> None:
    """A later end is checked by budgets, an earlier one is not; a denial changes nothing and is an event."""
    seen: list[Any] = []
    budgets = Budgets([Budget("each", user="*", amounts=Resource(memory=200))])
    partition = partition_of(models=[budgets], clock=clock, subscribers=[lambda _, events: seen.extend(events)])
    partition.submit("app", SUE, "root.a")
    assert partition.allocate("a", "app", memory(1), duration=100)
    with changing_nothing(partition):
        denied = partition.renew("a", 201)
    assert (denied.violations[0].requested, denied.violations[0].limit) == (201, 200)
    (request,) = seen[-1].requests
    assert request.duration == 201

    assert partition.renew("a", 200)
    assert seen[-1] == Renewed(seen[-1].allocation, 1_100)
    assert seen[-1].allocation.until == 1_200
    assert not partition.allocate("b", "app", memory(1), duration=1)
    assert partition.renew("a", 150)
    assert partition.allocate("b", "app", memory(1), duration=50)
    partition.verify()


def test_the_index_stays_small() -> None:
    """Ends of allocations that are gone do not accumulate, and all others are found."""
    rows: dict[str, Allocation] = {}
    index = PromisedEnds(rows)
    for number in range(10_000):
        name, end = str(number), number % 97
        rows[name] = Allocation(name, "app", memory(1), AllocationState.HELD, *(False, 0, True, end))
        index.add(end, name)
        if number >= 50:
            del rows[str(number - 50)]

    assert len(index._heap) <= 200
    expected = sorted((row.until, name) for name, row in rows.items() if row.until is not None and row.until <= 90)
    assert index.until(90) == [name for _, name in expected]
