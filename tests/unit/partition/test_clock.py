"""The clock of a partition: one reading for each call, promised ends, and models that depend on the time."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from support.clocks import Clock
from support.partition_fixtures import SUE, Licences, changing_nothing, memory, partition_of
from ugm import Partition, RequestError, Resource, parse_config
from ugm.budgets import Budget, Budgets
from ugm.decision import Violation
from ugm.events import Renewed
from ugm.model import Claim, QuotaModel, TimedModel
from ugm.partition import Allocation, AllocationState
from ugm.partition.engine.application import PromisedEnds
from ugm.partition.rows import MAX_DURATION
from ugm.store import open_partition

CONFIG = parse_config("partitions: [{name: default, queues: [{name: a, resources: {max: {memory: 100}}}]}]").partition()


class CountingClock(Clock):
    """A clock that counts its readings."""

    readings = 0

    def __call__(self) -> float:
        """Return the time."""
        self.readings += 1
        return super().__call__()


class Curfew:
    """A model that allows nothing that may run after an hour, and notes all of its calls."""

    def __init__(self, end: int) -> None:
        self.end, self.now = end, 0
        self.calls: list[tuple[str, Any]] = []

    def at(self, now: int) -> None:
        """Note the time."""
        self.now = now
        self.calls.append(("at", now))

    def check(self, claim: Claim) -> list[Violation]:
        """Deny what has no end, or ends after the curfew."""
        self.calls.append(("check", claim.until))
        is_late = claim.until is None or claim.until > self.end
        return [Violation("curfew", "night", "", "", None, self.end, self.now, 0)] if is_late else []

    def charge(self, claim: Claim) -> None:
        """Note the call."""
        self.calls.append(("charge", claim.until))

    def refund(self, claim: Claim) -> None:
        """Note the call."""
        self.calls.append(("refund", claim.until))

    def add_pending(self, claim: Claim) -> None:
        """Note the call."""
        self.calls.append(("add_pending", claim.until))

    def remove_pending(self, claim: Claim) -> None:
        """Note the call."""
        self.calls.append(("remove_pending", claim.until))

    def reset(self) -> None:
        """Note the call."""
        self.calls.append(("reset", None))


@pytest.fixture(name="clock")
def _clock() -> CountingClock:
    return CountingClock(1000)


@pytest.fixture(name="partition")
def _partition(clock: CountingClock) -> Partition:
    return with_application(Partition(CONFIG, clock=clock))


def with_application(partition: Partition) -> Partition:
    """Return the partition with an application."""
    partition.submit("app", SUE, "root.a")
    return partition


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), "12", True, 1_795_435_200_000])
def test_a_clock_that_is_no_time(tmp_path: Path, wrong: Any) -> None:  # noqa: ANN401 - a wrong value
    """A clock without a usable time, such as one in milliseconds, is refused, and nothing changes."""
    clock = Clock(1000)
    with open_partition(tmp_path / "store", CONFIG, clock=clock) as stored:
        for partition in (Partition(CONFIG, clock=clock), stored):
            with_application(partition)
            clock.now = wrong
            with pytest.raises(RequestError, match=r"clock .*: expected seconds since 1970, before the year 10000"):
                partition.allocate("1", "app", memory(1), duration=60)
            clock.now = 1000
            assert partition.allocation("1") is None


@pytest.mark.parametrize("duration", [0, -1, True, 1.5, "60", MAX_DURATION + 1])
def test_wrong_durations(partition: Partition, duration: Any) -> None:  # noqa: ANN401 - what may be passed
    """A duration is a positive number of whole seconds, and nothing changes otherwise."""
    problem = f"expected whole seconds, from 1 to {MAX_DURATION}"
    with pytest.raises(RequestError, match=re.escape(problem)):
        partition.allocate("1", "app", memory(1), duration=duration)
    with pytest.raises(RequestError, match=re.escape(problem)):
        partition.request("1", "app", memory(1), duration=duration)
    with pytest.raises(RequestError, match=re.escape(problem)):
        partition.check("app", memory(1), duration=duration)
    with pytest.raises(RequestError, match=re.escape(problem)):
        partition.headroom("app", duration=duration)
    assert partition.allocations() == ()


def test_a_model_gets_the_time_first_and_once_in_each_call(clock: CountingClock) -> None:
    """Every call begins with the one reading, also a query."""
    model = Curfew(1060)
    assert isinstance(model, TimedModel)
    partition = with_application(Partition(CONFIG, models=[model], clock=clock))
    for call in (
        lambda: partition.allocate("1", "app", memory(1), duration=60),
        lambda: partition.check("app", memory(1), duration=60),
        lambda: partition.allocate("2", "app", memory(1)),
        lambda: partition.resize("1", memory(2)),
        lambda: partition.release("1"),
    ):
        model.calls.clear()
        clock.readings = 0
        call()
        assert model.calls[0] == ("at", 1000)
        assert [name for name, _ in model.calls].count("at") == clock.readings == 1


@pytest.mark.parametrize("old", [Curfew(2000), Licences(9)])
def test_a_model_that_is_replaced_gets_the_time(clock: CountingClock, old: QuotaModel) -> None:
    """The new model gets the time before it is charged."""
    new = Curfew(2000)
    partition = with_application(Partition(CONFIG, models=[old], clock=clock))
    partition.allocate("1", "app", memory(1), duration=60)
    clock.now = 1001
    partition.replace_model(old, new)

    assert new.calls == [("at", 1001), ("reset", None), ("charge", 1060)]


def test_a_model_that_raises_at_a_time_is_reset(clock: CountingClock) -> None:
    """Its state is unknown then; the caller gets the error, and nothing else changes."""

    class Raising(Curfew):
        raises = False

        def at(self, now: int) -> None:
            """Note the time, and raise an error once."""
            super().at(now)
            if self.raises:
                self.raises = False
                raise ZeroDivisionError

    model = Raising(2000)
    partition = with_application(Partition(CONFIG, models=[model], clock=clock))
    partition.allocate("1", "app", memory(1), duration=60)
    model.raises = True
    with pytest.raises(ZeroDivisionError):
        partition.release("1")
    partition.verify()
    assert partition.allocation_ids() == ("1",)
    assert partition.release("1")
    assert ("reset", None) in model.calls


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
