"""Promised ends: renewals, overdue allocations and their end."""

from __future__ import annotations

from typing import Any

from support.partition_fixtures import SUE, changing_nothing, memory, partition_of
from ugm import Resource
from ugm.budgets import Budget, Budgets
from ugm.events import Renewed
from ugm.partition import Allocation, AllocationState
from ugm.partition.engine.application import PromisedEnds


def test_budget_decides_on_renewals() -> None:
    """A later end is checked by budgets, an earlier one is not; a denial changes nothing and is an event."""
    seen: list[Any] = []
    budgets = Budgets([Budget("each", user="*", amounts=Resource(memory=200))])
    partition = partition_of(models=[budgets], clock=lambda: 1_000, subscribers=[lambda _, events: seen.extend(events)])
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
