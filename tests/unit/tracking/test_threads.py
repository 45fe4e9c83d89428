"""Many threads on one manager: nothing lost, nothing above a limit, no deadlock."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from threading import Barrier, Event, Thread
from typing import Final

import pytest

from support.tracking_fixtures import NOTHING, group, partition, user
from ugm import Manager, Resource, UserGroup
from ugm.configuration import PartitionConfig
from ugm.testing import exposed, verify_all

THREADS: Final = 8


@contextmanager
def _switching_often() -> Iterator[None]:
    """Have threads interrupt each other every few steps."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def run(work: Callable[[int], None], *others: Callable[[Event], None]) -> None:
    """Run *work* in `THREADS` threads that start at once, and each of *others* in one thread until they are done."""
    errors: list[BaseException] = []
    barrier, done = Barrier(THREADS + len(others)), Event()

    def guarded(task: Callable[[], None]) -> None:
        try:
            barrier.wait()
            task()
        except BaseException as error:  # noqa: BLE001 - raised in the test below
            errors.append(error)

    threads = [Thread(target=guarded, args=[lambda n=n: work(n)], daemon=True) for n in range(THREADS)]
    helpers = [Thread(target=guarded, args=[lambda task=task: task(done)], daemon=True) for task in others]
    with _switching_often():
        for thread in threads + helpers:
            thread.start()
        for thread in threads:
            thread.join(timeout=120)
        done.set()
        for thread in helpers:
            thread.join(timeout=120)
    for error in errors:
        raise error
    assert not any(thread.is_alive() for thread in threads + helpers), "deadlock"


#: The most that each user, and the group, may use under every one of `CONFIGS`.
MOST_OF_A_USER: Final = 20
MOST_OF_THE_GROUP: Final = 50

USERS: Final = tuple(UserGroup(name, ("dev",)) for name in ("ana", "bob", "cleo"))

#: They agree on the limits of the root, and differ in all else: in queues, in counts, in the resources they name.
CONFIGS: Final = tuple(
    partition({"root": [user("*", memory=MOST_OF_A_USER), group("dev", memory=MOST_OF_THE_GROUP)], **more})
    for more in (
        {},
        {"root.a": [user("ana", memory=5, gpu=3), user("*", applications=2)]},
        {"root.a": [user("*", vcore=7)], "root.b": [group("dev", "*", pods=9, memory=30)]},
    )
)

#: The budget of a test, and of a long one.
budgets = pytest.mark.parametrize("steps", [1000, pytest.param(30_000, marks=pytest.mark.deep)])


class Worker:
    """The applications of one thread, and the amounts that they should hold."""

    def __init__(self, manager: Manager, number: int) -> None:
        self.manager = manager
        self.random = Random(number)
        self.number = number
        self.held: dict[tuple[str, str, UserGroup], Resource] = {}

    def work(self, steps: int) -> None:
        """Allocate a little, or release some or all of it, repeatedly."""
        for _ in range(steps):
            self.step()

    def step(self) -> None:
        """Allocate a little, or release some or all of it."""
        if self.held and self.random.random() < 0.4:
            self.give_back(self.random.choice(list(self.held)), everything=self.random.random() < 0.5)
            return
        asking = self.random.choice(USERS)
        key = (self.random.choice(["root.a", "root.b", "root.b.c"]), f"{asking.name}-{self.number}", asking)
        usage = Resource(memory=self.random.randint(0, 6), gpu=self.random.randint(0, 1))
        if self.manager.increase(*key[:2], usage, asking):
            self.held[key] = self.held.get(key, NOTHING) + usage

    def give_back(self, key: tuple[str, str, UserGroup], *, everything: bool) -> None:
        """Release one unit, or everything, of an application."""
        held = self.held.pop(key)
        back = held if everything else Resource({name: min(1, amount) for name, amount in held.items()})
        self.manager.decrease_tracked_resource(*key[:2], back, remove_app=everything, user=key[2])
        if not everything:
            self.held[key] = held - back


def swapping(manager: Manager, configs: tuple[PartitionConfig, ...] = CONFIGS) -> Callable[[Event], None]:
    """Return a task that changes the configuration all the time."""

    def swap(done: Event) -> None:
        while not done.is_set():
            for config in configs:
                manager.update_config(config)

    return swap


def sampling(manager: Manager) -> Callable[[Event], None]:
    """Return a task that reads the limits of the root all the time."""

    def sample(done: Event) -> None:
        while not done.is_set():
            for asking in USERS:
                assert (manager.get_user_resources(asking) or NOTHING).get("memory", 0) <= MOST_OF_A_USER
            assert (manager.get_group_resources("dev") or NOTHING).get("memory", 0) <= MOST_OF_THE_GROUP
            assert [each for each in manager.exceeded_limits() if each.queue_path == "root"] == []
            manager.verify()

    return sample


@budgets
def test_never_above_and_nothing_lost(steps: int) -> None:
    """While limits are replaced, usage stays within those of all configurations, and none is lost."""
    manager = Manager(CONFIGS[0])
    workers = [Worker(manager, number) for number in range(THREADS)]
    run(lambda number: workers[number].work(steps), swapping(manager), sampling(manager))
    verify_all(manager)

    for asking in USERS:
        held = [usage for worker in workers for key, usage in worker.held.items() if key[2] is asking]
        assert (manager.get_user_resources(asking) or NOTHING) == sum(held, NOTHING).without_zeros()
    for worker in workers:
        for key in list(worker.held):
            worker.give_back(key, everything=True)
    assert exposed(manager) == {"users": {}, "groups": {}}
