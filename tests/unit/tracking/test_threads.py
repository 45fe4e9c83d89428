"""A manager that many threads use at once, while its limits are replaced and its usage is read."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from random import Random
from threading import Event
from typing import Final

import pytest

from support.tracking_fixtures import NOTHING, group, partition, user
from ugm import Manager, Resource, UserGroup
from ugm.testing import exposed, verify_all

THREADS: Final = 8
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


@contextmanager
def switching_often() -> Iterator[None]:
    """Have threads interrupt each other every few steps."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


class Worker:
    """The applications of one thread, and the amounts that they should hold."""

    def __init__(self, manager: Manager, number: int) -> None:
        self.manager, self.number, self.random = manager, number, Random(number)
        self.held: dict[tuple[str, str, UserGroup], Resource] = {}

    def work(self, steps: int) -> None:
        """Allocate a little, or release some or all of it, repeatedly."""
        for _ in range(steps):
            if self.held and self.random.random() < 0.4:
                self.give_back(self.random.choice(list(self.held)), everything=self.random.random() < 0.5)
                continue
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


@pytest.mark.parametrize("steps", [1000, pytest.param(30_000, marks=pytest.mark.deep)])
def test_never_above_and_nothing_lost(steps: int) -> None:
    """While limits are replaced, usage stays within those of all configurations, and none is lost."""
    manager, is_done = Manager(CONFIGS[0]), Event()
    workers = [Worker(manager, number) for number in range(THREADS)]

    def swap() -> None:
        while not is_done.is_set():
            for config in CONFIGS:
                manager.update_config(config)

    def sample() -> None:
        while not is_done.is_set():
            for asking in USERS:
                assert (manager.get_user_resources(asking) or NOTHING).get("memory", 0) <= MOST_OF_A_USER
            assert (manager.get_group_resources("dev") or NOTHING).get("memory", 0) <= MOST_OF_THE_GROUP
            assert [each for each in manager.exceeded_limits() if each.queue_path == "root"] == []
            manager.verify()

    with switching_often(), ThreadPoolExecutor(THREADS + 2) as pool:
        others = [pool.submit(swap), pool.submit(sample)]
        done = [pool.submit(worker.work, steps) for worker in workers]
        errors = [each.exception() for each in done]
        is_done.set()
        assert [*errors, *(each.exception() for each in others)] == [None] * (THREADS + 2)
    verify_all(manager)
    for asking in USERS:
        held = [usage for worker in workers for key, usage in worker.held.items() if key[2] is asking]
        assert (manager.get_user_resources(asking) or NOTHING) == sum(held, NOTHING).without_zeros()
    for worker in workers:
        for key in list(worker.held):
            worker.give_back(key, everything=True)
    assert exposed(manager) == {"users": (), "groups": ()}
