"""The feed of decayed usage from a partition and from a journal."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from support.partition_fixtures import BOB, SUE, config, memory
from ugm import Partition, RequestError
from ugm.fairness import BinnedUsage
from ugm.journal import load_usage, open_partition
from ugm.partition import UsageFeed

TWO = config("{name: a}, {name: b}")


class Hand:
    """A clock that tests set, in milliseconds."""

    now = 0

    def fractions(self) -> float:
        """Return the time in seconds, with fractions."""
        return self.now / 1000

    def seconds(self) -> int:
        """Return the time in seconds."""
        return self.now // 1000


def feed(clock: Hand) -> UsageFeed:
    """Return a feed into bins of ten seconds that do not decay."""
    return UsageFeed(BinnedUsage(bin=10, decay=1, bins=10), clock=clock.seconds)


def play(partition: Partition, clock: Hand) -> None:
    """Use 3 for 4 seconds and 5 for 6 seconds as one user, and 2 from 4 seconds on as another."""
    partition.submit("app", SUE, "root.a")
    partition.submit("bob", BOB, "root.b")
    partition.request("a", "app", memory(3))
    partition.allocate("a", "app", memory(3))
    clock.now = 4999
    partition.resize("a", memory(5))
    partition.allocate("b", "bob", memory(2))
    partition.preempt("a")
    clock.now = 10000
    partition.release("a")
    partition.complete("app")


def test_partition() -> None:
    """A feed that subscribes counts every second with the amount of that second; terminating allocations count."""
    clock = Hand()
    usage = feed(clock)
    play(Partition(TWO, subscribers=[usage]), clock)

    assert usage.usage.at(20) == {"bob": Fraction(2 * 16), "sue": Fraction(3 * 4 + 5 * 6)}


def test_events_that_come_again() -> None:
    """An event that is delivered twice counts once."""
    clock = Hand()
    usage = feed(clock)
    partition = Partition(TWO, subscribers=[usage, usage])
    play(partition, clock)

    assert usage.usage.value("bob", 20) == 2 * 16


def test_begin() -> None:
    """A feed begins with the allocations that a partition has."""
    clock = Hand()
    partition = Partition(TWO)
    play(partition, clock)
    usage = feed(clock)
    usage.begin(partition)

    assert usage.usage.at(20) == {"bob": Fraction(2 * 10)}


def test_unknown_application() -> None:
    """A feed that does not know an application says so."""
    usage, partition = feed(Hand()), Partition(TWO)
    play(partition, Hand())

    with pytest.raises(RequestError, match="does not know the application"):
        usage.start(partition.allocations()[0], 0)


@pytest.mark.parametrize("compacts", [False, True])
def test_journal(tmp_path: Path, compacts: bool) -> None:  # noqa: FBT001 - a parameter
    """A journal gives the same usage as a feed that subscribed, also after a compaction, and the feed continues."""
    clock, path = Hand(), tmp_path / "journal"
    with open_partition(path, TWO, clock=clock.fractions) as partition:
        play(partition, clock)
        if compacts:
            clock.now = 12000
            partition.journal.compact()
    usage = feed(clock)
    load_usage(path, usage)

    assert usage.usage.at(20) == {"bob": Fraction(2 * 16), "sue": Fraction(3 * 4 + 5 * 6)}
    clock.now = 20000
    with open_partition(path, subscribers=[usage], clock=clock.fractions) as partition:
        partition.release("b")
    assert usage.usage.value("bob", 40) == 2 * 16
