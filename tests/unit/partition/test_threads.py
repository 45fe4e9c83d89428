"""Many threads on one partition: one unit goes to one of them, nothing is lost, and nothing deadlocks."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from random import Random
from threading import Event
from time import sleep
from typing import Final

import pytest

from support.threads import THREADS, run
from support.tracking_fixtures import NOTHING, ONE, group, user
from ugm import AllocationRequest, Partition, Resource, UserGroup
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


class Worker:
    """One thread's own application, and what it believes it holds."""

    def __init__(self, partition: Partition, number: int) -> None:
        self.partition = partition
        self.random = Random(number)
        self.application_id = f"app-{number}"
        self.ids = (f"{self.application_id}-{turn}" for turn in count())
        self.held: dict[str, Resource] = {}
        self.user = USERS[number % len(USERS)]
        partition.submit(self.application_id, self.user, "root.b" if number % 2 else "root.a")

    def work(self, steps: int) -> None:
        """Take, give back, resize, and exchange, again and again."""
        for _ in range(steps):
            self.random.choice((self.take, self.take, self.take_several, self.give_back, self.resize, self.replace))()

    def _usage(self) -> Resource:
        return Resource(memory=self.random.randint(0, 4), gpu=self.random.randint(0, 1))

    def _some(self) -> str:
        return self.random.choice([*self.held, next(self.ids)])

    def take(self) -> None:
        """Ask for one allocation, twice: the second answer is the first."""
        name, usage = next(self.ids), self._usage()
        if self.partition.allocate(name, self.application_id, usage):
            assert self.partition.allocate(name, self.application_id, usage)
            self.held[name] = usage

    def take_several(self) -> None:
        """Ask for a gang."""
        gang = [AllocationRequest(next(self.ids), self.application_id, self._usage()) for _ in range(3)]
        if self.partition.allocate_all(gang):
            self.held |= {request.allocation_id: request.usage for request in gang}

    def give_back(self) -> None:
        """Release something that is held, or nothing."""
        name = self._some()
        assert self.partition.release(name) is (self.held.pop(name, None) is not None)

    def resize(self) -> None:
        """Let something take less or more."""
        name, usage = self._some(), self._usage()
        if name in self.held and self.partition.resize(name, usage):
            self.held[name] = usage

    def replace(self) -> None:
        """Take the place of a placeholder."""
        name, usage = next(self.ids), self._usage()
        if self.partition.allocate(name, self.application_id, usage, placeholder=True):
            real = next(self.ids)
            assert self.partition.replace(name, real, usage)
            self.held[real] = usage


def changing(partition: Partition) -> Callable[[Event], None]:
    """Return a task that changes the configuration and the nodes all the time."""

    def change(done: Event) -> None:
        partition.add_node("big", Resource(memory=MOST, gpu=5))
        while not done.is_set():
            for settings in CONFIGS:
                partition.apply(partition.plan(settings), confirm=True)
                partition.add_node("small", Resource(gpu=2, fpga=1))
                partition.update_node("small", Resource(gpu=1))
                partition.remove_node("small")

    return change


def looking(partition: Partition) -> Callable[[Event], None]:
    """Return a task that looks at everything all the time."""

    def look(done: Event) -> None:
        while not done.is_set():
            partition.verify()
            root = partition.queue()
            assert root is not None
            assert root.usage.get("memory", 0) <= MOST
            assert [
                limit
                for limit in partition.exceeded_limits()
                if limit.queue_path == "root" and limit.resource == "memory"
            ] == []
            partition.audit(())
            partition.check("app-0", ONE)

    return look


@pytest.mark.parametrize("steps", [1000, pytest.param(10_000, marks=pytest.mark.deep)])
def test_nothing_is_lost(steps: int) -> None:
    """While configurations and nodes change, usage stays below what always holds, and is all there afterwards."""
    partition = Partition(CONFIGS[0], cluster=Resource())
    workers = [Worker(partition, number) for number in range(THREADS)]
    run(lambda number: workers[number].work(steps), changing(partition), looking(partition))
    partition.verify()

    held = {name: usage for worker in workers for name, usage in worker.held.items()}
    assert {one.allocation_id: one.usage for one in partition.allocations()} == held
    root = partition.queue()
    assert root is not None
    assert root.usage == sum(held.values(), NOTHING).without_zeros()
    for worker in workers:
        partition.remove(worker.application_id)
    assert (partition.users(), partition.groups(), partition.allocations()) == ((), (), ())
    partition.verify()
