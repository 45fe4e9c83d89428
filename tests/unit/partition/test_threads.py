"""Many threads on one partition: one unit goes to one of them, nothing is lost, and nothing deadlocks."""

from __future__ import annotations

from itertools import count
from time import sleep
from typing import Final

import pytest

from support.threads import THREADS, run
from support.tracking_fixtures import ONE, group, user
from ugm import Partition, Resource, UserGroup
from ugm.configuration import PartitionConfig, QueueConfig, QueueResources

USERS: Final = tuple(UserGroup(name, ("dev",)) for name in ("ana", "bob", "cleo"))

#: How often the last unit is raced for, and how often by default.
ROUNDS: Final = 10_000
FEW_ROUNDS: Final = 2_000

#: The most that may be used of memory under every one of `CONFIGS`.
MOST: Final = 40


def config(**resources: int) -> PartitionConfig:
    """Return a partition with two queues, in one of which *resources* are the most."""
    a = QueueConfig(
        "a",
        limits=(user("*", memory=15), group("dev", memory=30)),
        resources=QueueResources(max=Resource(resources)),
    )
    b = QueueConfig("b", resources=QueueResources(guaranteed=ONE))
    return PartitionConfig(queues=(QueueConfig("root", queues=(a, b)),))


#: They differ in the queue that is limited, and in the resources that are counted.
CONFIGS: Final = (
    config(memory=20),
    config(memory=25, gpu=3),
    PartitionConfig(queues=(QueueConfig("root", limits=(group("dev", memory=MOST),), queues=(QueueConfig("b"),)),)),
)


class Race:
    """Rounds without a barrier: every thread asks in every round, and the last to have asked makes room for the next.

    Whoever is early lets models run, which takes a fraction of the time that waiting at a barrier does.
    """

    def __init__(self, partition: Partition, rounds: int) -> None:
        self.partition = partition
        self.rounds = rounds
        self.round = 0
        #: The thread that was granted the unit of each round; each such thread appends itself.
        self.winners: list[list[str]] = [[] for _ in range(rounds)]
        self.tickets = [count() for _ in range(rounds)]

    def enter(self, number: int) -> None:
        """Race in every round."""
        for number_of_round in range(self.rounds):
            while self.round < number_of_round:
                sleep(0)
            self.request(number, number_of_round)

    def request(self, number: int, number_of_round: int) -> None:
        """Request the one unit; the last thread to do so releases it and starts the next round."""
        allocation_id = f"{number_of_round}-{number}"
        if self.partition.allocate(allocation_id, f"app-{number}", ONE):
            self.winners[number_of_round].append(allocation_id)
        # Drawing from a counter is one step that no other thread comes between.
        if next(self.tickets[number_of_round]) == THREADS - 1:
            for winner in self.winners[number_of_round]:
                self.partition.release(winner)
            self.round += 1


@pytest.mark.parametrize(
    ("where", "rounds"),
    [
        ("user", FEW_ROUNDS),
        *(pytest.param(where, ROUNDS, marks=pytest.mark.ci) for where in ("user", "group", "queue", "cluster")),
    ],
)
def test_one_of_eight_gets_the_last_unit(where: str, rounds: int) -> None:
    """Of eight threads that ask for the last unit at once, exactly one gets it, in every round."""
    limits = {"user": (user("ana", memory=1),), "group": (group("dev", memory=1),)}.get(where, ())
    queue = QueueConfig("a", resources=QueueResources(max=ONE if where == "queue" else None))
    partition = Partition(
        PartitionConfig(queues=(QueueConfig("root", limits=limits, queues=(queue,)),)),
        cluster=ONE if where == "cluster" else None,
    )
    for number in range(THREADS):
        partition.submit(f"app-{number}", USERS[0], "root.a")
    race = Race(partition, rounds)
    run(race.enter)

    assert {len(winners) for winners in race.winners} == {1}
    assert (partition.users(), partition.allocations()) == ((), ())
    partition.verify()
