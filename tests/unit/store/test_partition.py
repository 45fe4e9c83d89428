"""Partitions with a store: what is opened again, or followed, is what was there."""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Final

import pytest

from support.clocks import Clock
from support.declared_models import ELASTIC, TREE, declaring
from support.examples import examples
from support.partition_fixtures import config
from support.random_changes import CONFIGS, Actor, state_of
from support.store_fixtures import fold
from ugm import Partition, RequestError, Resource, UserGroup, parse_config
from ugm.configuration import QuotaNodeConfig, QuotaTreeConfig, QuotaTreeDocument
from ugm.events import Event, Released
from ugm.partition import AbstractPartition
from ugm.store import FollowingPartition, StoreDamagedError, StoredPartition, StoreError, open_partition, read_partition
from ugm.store.reader import StoreLocation, database_at

PAST: Final = """
partitions:
- ugm:
    budgets: [{name: each, user: "*", amounts: {memory: 40}, unit: hour, period: month}]
    fairshare: {defaultshares: 1, halflife: 60, weights: {memory: 1}}
  queues: [{name: a}, {name: b}]
"""


def tree(resource: str, quota: int) -> QuotaTreeConfig:
    """Return a tree of a forest, whose leaves may borrow: each has the quota, and the root three times as much."""
    parts = (("root", "", 3), ("a", "root", 1), ("b", "root", 1))
    nodes = tuple(QuotaNodeConfig(one, parent=parent, quota={resource: quota * times}) for one, parent, times in parts)
    return replace(TREE, tree=QuotaTreeDocument(resource, resources=(resource,), nodes=nodes), forest="f")


#: The first configuration, and those that replace it.
MODELS: Final = {
    "plain": CONFIGS,
    "trees": (declaring(TREE, elastic=ELASTIC), declaring(replace(TREE, default_group="a"))),
    "forest": (declaring(tree("gpu", 2), tree("memory", 12)), declaring(tree("gpu", 1), tree("memory", 15))),
    "past": (parse_config(PAST).partition(), *CONFIGS),
}


@pytest.mark.parametrize("models", MODELS)
@pytest.mark.parametrize("seed", range(examples(4)))
def test_random_histories(tmp_path: Path, models: str, seed: int) -> None:
    """A partition that is closed, killed and followed at random is always the same as one in memory."""
    random, clock = Random(seed), Clock(1_000_000)
    path = tmp_path / "0.db"
    configs = MODELS[models]
    twin = Partition(configs[0], clock=clock)
    stored = open_partition(path, configs[0], clock=clock)
    followed = read_partition(path, clock=clock)
    actors = Actor(seed, configs=configs), Actor(seed, configs=configs)
    for step in range(120):
        clock.now += random.choice([0.0, 0.25, 1.75])
        for actor, partition in zip(actors, (twin, stored), strict=True):
            actor.step(partition)
        chance = random.random()
        if chance < 0.05:
            stored.close()
            stored = open_partition(path, clock=clock)
            assert state_of(stored) == state_of(twin)
        elif chance < 0.1:
            # The files of a process that was killed.
            copied = tmp_path / f"{step + 1}.db"
            for file in tmp_path.glob(f"{path.name}*"):
                shutil.copy(file, tmp_path / file.name.replace(path.stem, str(step + 1), 1))
            with open_partition(copied, clock=clock) as opened:
                assert state_of(opened) == state_of(twin)
        elif chance < 0.3:
            followed.refresh()
            assert state_of(followed) == state_of(twin)
    stored.close()
    followed.close()


def begun(location: StoreLocation, **options: object) -> StoredPartition:
    """Return a partition with an application."""
    partition = open_partition(location, config("{name: a}, {name: b}"), **options)  # type: ignore[arg-type]
    partition.submit("app", UserGroup("sue"), "root.a")
    return partition


def test_rows_that_contradict_each_other(location: StoreLocation) -> None:
    """A row that refers to a missing queue is damage of the store."""
    with open_partition(location, config("{name: a}")) as partition:
        partition.submit("app", UserGroup("sue"), "root.a")
    database = database_at(location)
    database.run("UPDATE application SET queue_path = 'root.none'")
    database.close()
    for open_again in (open_partition, read_partition):
        with pytest.raises(StoreDamagedError, match=r"its rows refer to 'root\.none', which is missing"):
            open_again(location)


def test_promises(location: StoreLocation) -> None:
    """Promises take effect at once; their results, errors and events come when the changes are durable."""
    seen: list[Event] = []
    with begun(location, subscribers=[lambda _, events: seen.extend(events)]) as partition:
        granted = [partition.promise(partition.allocate, f"{n}", "app", Resource(memory=1)) for n in range(100)]
        wrong = partition.promise(partition.allocate, "x", "nobody", Resource(memory=1))
        assert len(partition.allocations()) == 100
        assert all(future.result() for future in granted)
        with pytest.raises(RequestError, match="nobody"):
            wrong.result()
        assert asyncio.run(partition.awaited(partition.release, "0"))
    assert Counter(type(event).__name__ for event in seen)["Allocated"] == 100
    assert type(seen[-1]) is Released
    with open_partition(location) as again:
        assert len(again.allocations()) == 99


def test_many_threads(location: StoreLocation) -> None:
    """Threads share commits, and nothing that was answered is lost."""
    with begun(location) as partition, ThreadPoolExecutor(8) as pool:

        def work(thread: int) -> None:
            for number in range(30):
                assert partition.allocate(f"{thread}-{number}", "app", Resource(memory=1))
                if number % 2:
                    assert partition.release(f"{thread}-{number}")

        list(pool.map(work, range(8)))
        partition.verify()
    with open_partition(location) as again:
        again.verify()
        assert len(again.allocations()) == 8 * 15


@pytest.mark.parametrize("opened", [Partition, open_partition])
def test_terminating_a_partition(tmp_path: Path, opened: Callable[..., AbstractPartition]) -> None:
    """A partition ends for good only if this is confirmed."""
    partition = opened(*([tmp_path / "store"] if opened is open_partition else []), config("{name: a}"))
    partition.submit("app", UserGroup("sue"), "root.a")
    partition.allocate("app.0", "app", Resource(gpu=1))
    with pytest.raises(RequestError, match="pass confirm=True") as caught:
        partition.terminate()
    assert caught.value.code == "unconfirmed"
    assert partition.allocate("app.1", "app", Resource(gpu=1))
    assert partition.terminate(confirm=True) == ("app.0", "app.1")
    with pytest.raises(RequestError, match="the partition is closed"):
        partition.submit("next", UserGroup("sue"), "root.a")
    partition.close()


class Hours:
    """A model of the program that counts claims, also those of the past."""

    def __init__(self) -> None:
        self.begun = 0

    def check(self, _: object) -> tuple[()]:
        """Deny nothing."""
        return ()

    def charge(self, claim: object) -> None:
        """Count a claim."""
        self.begun += claim is not None

    def refund(self, claim: object) -> None:
        """Keep the count."""

    def save(self) -> dict[str, object]:
        """Return the count."""
        return {"begun": self.begun}

    def load(self, data: dict[str, int]) -> None:
        """Continue a count."""
        # What is held is charged again.
        self.begun = data["begun"] - 1


def test_models_of_the_program(location: StoreLocation) -> None:
    """They must be given again, and continue their past."""
    with begun(location, models=[Hours()]) as partition:
        for name in "abc":
            partition.allocate(name, "app", Resource(memory=1))
        partition.release("a")
        partition.release("b")
    with pytest.raises(RequestError, match="Hours"):
        open_partition(location)
    with open_partition(location, models=[model := Hours()]):
        assert model.begun == 3
    with open_partition(location, models=()):
        pass
    with open_partition(location) as forgotten:
        assert len(forgotten.allocations()) == 1


def test_a_reader(location: StoreLocation) -> None:
    """A partition that follows a store sees every change, passes events on, and changes nothing."""
    seen: list[Event] = []
    note = [lambda _, events: seen.extend(events)]
    with begun(location) as partition, read_partition(location, subscribers=note) as reader:
        partition.allocate("a", "app", Resource(memory=1))
        assert reader.allocation("a") is None
        assert reader.refresh() == partition.store.number
        assert reader.allocation("a") is not None
        assert [type(event).__name__ for event in seen] == ["GroupAssigned", "Allocated"]
        with pytest.raises(StoreError, match="follows"):
            reader.release("a")
        for changed in (MODELS["past"][0], MODELS["trees"][0]):
            partition.configure(changed)
            partition.add_node("n", Resource(gpu=4))
            reader.refresh()
            assert state_of(reader) == state_of(partition)


def test_a_reader_that_is_late(location: StoreLocation) -> None:
    """A reader whose next changes were deleted reads everything again."""
    with begun(location) as partition, read_partition(location) as reader:
        partition.allocate("a", "app", Resource(memory=1))
        partition.store._folder._keep = -(10**9)  # type: ignore[misc]
        fold(partition.store)
        assert reader.refresh() == partition.store.number
        assert state_of(reader) == state_of(partition)
        assert isinstance(reader, FollowingPartition)
