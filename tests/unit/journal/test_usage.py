"""Usage over time: exact sums with any clock and calendar."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from random import Random
from zoneinfo import ZoneInfo

import pytest

from support.partition_fixtures import BOB, SUE, config, memory
from support.random_changes import CONFIGS, Actor
from support.tracking_fixtures import Wrong
from ugm import RequestError, Resource, UserGroup
from ugm.journal import JournaledPartition, UsageRow, open_partition
from ugm.partition import AllocationState

TEAMS = config("{name: a}, {name: b}", limits="{limit: l, groups: [dev], maxresources: {memory: 1000}}")


class Hand:
    """A clock that tests set, in milliseconds."""

    def __init__(self, now: int = 0) -> None:
        self.now = now

    def __call__(self) -> float:
        """Return the time that was set, in seconds."""
        return self.now / 1000


def begin(path: Path, clock: Hand) -> JournaledPartition:
    """Return a partition with an application of each user."""
    partition = open_partition(path, TEAMS, clock=clock)
    partition.submit("app", SUE, "root.a")
    partition.submit("bob", BOB, "root.b")
    return partition


def sums(partition: JournaledPartition, by: Wrong, **options: Wrong) -> dict[str | None, int]:
    """Return the memory of every row."""
    return {line.name: line.amounts.get("memory", 0) for line in partition.journal.usage(by, **options)}


@pytest.fixture(name="clock")
def _clock() -> Hand:
    return Hand(1000)


@pytest.fixture(name="partition")
def _partition(tmp_path: Path, clock: Hand) -> Iterator[JournaledPartition]:
    """A partition: 3 from 1000 to 5000, 5 until 7000, nothing until 9000; and 2 of another from 4000 on."""
    partition = begin(tmp_path / "journal", clock)
    partition.allocate("a", "app", memory(3))
    clock.now = 4000
    partition.allocate("b", "bob", memory(2))
    clock.now = 5000
    partition.resize("a", memory(5))
    clock.now = 6000
    partition.preempt("a")
    clock.now = 7000
    partition.release("a")
    clock.now = 9000
    yield partition
    partition.journal.close()


def test_sums(partition: JournaledPartition) -> None:
    """An allocation counts until its release, with its size at each time; one that is held counts until now."""
    assert sums(partition, "user") == {"sue": 3 * 4000 + 5 * 2000, "bob": 2 * 5000}
    assert sums(partition, "group") == {"dev": 32_000}
    assert sums(partition, "queue") == {"root.a": 22_000, "root.b": 10_000}
    assert sums(partition, "application") == {"app": 22_000, "bob": 10_000}


def test_between_two_instants(partition: JournaledPartition) -> None:
    """Only the time between the instants counts, without the last instant and without the future."""
    assert sums(partition, "user", since=4.5, until=6) == {"sue": 3 * 500 + 5 * 1000, "bob": 2 * 1500}
    assert sums(partition, "user", since=7, until=99) == {"bob": 4000}
    assert sums(partition, "user", since=0, until=1) == {}


def test_instants_add_up(partition: JournaledPartition) -> None:
    """The sums of two adjacent times add up to the sum of both."""
    whole = sums(partition, "user", since=0, until=9)
    for instant in range(0, 9001, 300):
        early = sums(partition, "user", until=instant / 1000)
        late = sums(partition, "user", since=instant / 1000)
        assert {name: early.get(name, 0) + late.get(name, 0) for name in whole} == whole


def test_pending_allocations_do_not_count(partition: JournaledPartition, clock: Hand) -> None:
    """Usage is the amounts that were held."""
    partition.request("c", "app", memory(50))
    clock.now = 20_000

    assert sums(partition, "user", since=9) == {"bob": 22_000}


def test_no_group(partition: JournaledPartition, clock: Hand) -> None:
    """Usage without a group has its own row after the others."""
    partition.adopt_application("free", UserGroup("amy"), "root.a", group=None)
    partition.allocate("f", "free", memory(7))
    clock.now = 10_000

    assert sums(partition, "group", since=9) == {"dev": 2000, None: 7000}
    assert [line.name for line in partition.journal.usage("group", since=9)] == ["dev", None]


def test_a_clock_that_jumps_back(partition: JournaledPartition, clock: Hand) -> None:
    """If the clock goes back, time stands still: no time is counted twice, and no sum is negative."""
    partition.allocate("c", "app", memory(1))
    clock.now = 3000
    partition.allocate("d", "app", memory(1))
    assert sums(partition, "user") == {"sue": 22_000, "bob": 10_000}
    clock.now = 10_000
    partition.release("c")
    clock.now = 11_000

    assert sums(partition, "user") == {"sue": 22_000 + 2000 + 1000, "bob": 14_000}


def test_a_clock_that_was_set_back_before_reopening(tmp_path: Path, partition: JournaledPartition, clock: Hand) -> None:
    """The same holds for a later process with an earlier clock."""
    partition.release("b")
    partition.journal.close()
    clock.now = 10
    with open_partition(tmp_path / "journal", clock=clock) as again:
        again.allocate("e", "bob", memory(100))
        clock.now = 9001
        again.release("e")

        assert sums(again, "user") == {"sue": 22_000, "bob": 10_000 + 100}


def test_compacting_keeps_usage(partition: JournaledPartition, clock: Hand) -> None:
    """Usage does not depend on compactions and reopenings."""
    before = partition.journal.usage("application", since=0, period="day")
    partition.journal.compact()
    assert partition.journal.usage("application", since=0, period="day") == before
    clock.now = 10_000
    partition.journal.compact()

    assert sums(partition, "user") == {"sue": 22_000, "bob": 12_000}


def test_deleting_usage(partition: JournaledPartition) -> None:
    """Usage before an instant can be deleted; a query for it is refused."""
    partition.journal.compact(usage_since=6)

    assert sums(partition, "user") == {"sue": 5000, "bob": 6000}
    assert sums(partition, "user", since=6) == {"sue": 5000, "bob": 6000}
    with pytest.raises(RequestError) as caught:
        sums(partition, "user", since=5.999)
    assert str(caught.value) == "since 5.999: usage before 6.0 is no longer known"


def test_the_calendar(tmp_path: Path) -> None:
    """Sums follow the calendar of a time zone, in which a day may have 25 hours."""
    zone = ZoneInfo("Europe/Berlin")
    clock = Hand(int(datetime(2026, 10, 24, 12, tzinfo=zone).timestamp()) * 1000)
    with begin(tmp_path / "journal", clock) as partition:
        partition.allocate("a", "app", memory(1))
        clock.now = int(datetime(2026, 10, 26, 6, tzinfo=zone).timestamp()) * 1000
        days = partition.journal.usage("user", period="day", zone="Europe/Berlin")
        months = partition.journal.usage("user", period="month", zone="Europe/Berlin")

    assert [line.amounts["memory"] // 3_600_000 for line in days] == [12, 25, 6]
    assert [line.amounts["memory"] // 3_600_000 for line in months] == [43]


@pytest.mark.parametrize(("period", "count"), [("day", 800), ("week", 116), ("month", 28), ("year", 4)])
def test_periods(tmp_path: Path, period: Wrong, count: int) -> None:
    """Periods have no gaps, and their sums add up to the total."""
    clock = Hand(int(datetime(2023, 12, 31, 10, tzinfo=ZoneInfo("UTC")).timestamp()) * 1000)
    with begin(tmp_path / "journal", clock) as partition:
        partition.allocate("a", "app", memory(1))
        clock.now += 799 * 86_400_000
        lines = partition.journal.usage("user", period=period)
        whole = sums(partition, "user")

    assert len(lines) == count
    assert [line.end for line in lines[:-1]] == [line.begin for line in lines[1:]]
    assert {"sue": sum(line.amounts["memory"] for line in lines)} == whole


@pytest.mark.parametrize("seed", range(5))
def test_against_a_sum_over_every_millisecond(tmp_path: Path, seed: int) -> None:
    """The sums equal those of an observer that samples every instant."""
    clock, actor, random = Hand(1), Actor(seed), Random(seed)
    naive: dict[str, int] = {}
    with open_partition(tmp_path / "journal", CONFIGS[0], clock=clock) as partition:
        for number in range(150):
            actor.step(partition)
            elapsed = random.randrange(3)
            for allocation in partition.allocations():
                info = partition.application(allocation.application_id)
                if info is not None and allocation.state is not AllocationState.PENDING:
                    naive[info.user.name] = naive.get(info.user.name, 0) + allocation.usage.get("memory", 0) * elapsed
            clock.now += elapsed
            if number in (50, 100):
                partition.journal.compact()
        assert sums(partition, "user") == naive


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"by": "team"}, "by 'team': expected one of user, group, queue, application, elastic-group, quota-node"),
        ({"by": "user", "period": "hour"}, "period 'hour': expected one of day, week, month, year"),
        ({"by": "user", "zone": "Nowhere"}, "zone 'Nowhere': there is no such time zone"),
    ],
)
def test_misuse(partition: JournaledPartition, options: Wrong, text: str) -> None:
    """Invalid arguments are refused."""
    with pytest.raises(RequestError) as caught:
        partition.journal.usage(**options)

    assert str(caught.value) == text


def test_line_for_json() -> None:
    """A row shows exact seconds."""
    line = UsageRow("sue", 0, 1.5, {"memory": 3 * 2**60 * 1500, "vcore": 250})

    assert line.to_dict() == {
        "name": "sue",
        "begin": 0,
        "end": 1.5,
        "resource_seconds": {"memory": str(3 * 2**59 * 3), "vcore": "0.25"},
    }


def test_an_empty_journal(tmp_path: Path) -> None:
    """An empty journal has no usage."""
    with open_partition(tmp_path / "journal", clock=Hand(5)) as partition:
        partition.adopt_application("x", SUE, "root.q")
        partition.allocate("x", "x", Resource())

        assert partition.journal.usage("user") == ()
