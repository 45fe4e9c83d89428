"""Quota trees after a restart: the nodes hold the same allocations as before."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from support.examples import seeds
from ugm import Partition, Resource, UserGroup, parse_config
from ugm.config import PartitionConfig
from ugm.partition import AbstractPartition
from ugm.service import Service, connect
from ugm.store import StoredPartition, open_partition

NOW = 1_795_521_600
QUEUES = ("p", "q", "r")


def config(quota: int = 7, *, forest: bool = False) -> PartitionConfig:
    """Return a partition with a tree, or a forest of two, whose leaves are soft."""
    trees = [
        f"""{{tree: {{kind: QuotaTree, metadata: {{name: {name}}}, spec: {{resourceNames: [{resource}], nodes: {{
          all: {{parent: nil, quota: {{{resource}: "20"}}}},
          some: {{parent: all, hard: "false", quota: {{{resource}: "13"}}}},
          p: {{parent: some, hard: "false", quota: {{{resource}: "{quota}"}}}},
          q: {{parent: some, hard: "false", quota: {{{resource}: "6"}}}},
          r: {{parent: all, hard: "false", quota: {{{resource}: "5"}}}}}}}}}},
        groupby: [{{source: queue}}]{", forest: f" if forest else ""}}}"""
        for name, resource in [("one", "gpu"), ("two", "memory")][: 1 + forest]
    ]
    queues = ", ".join(f"{{name: {name}}}" for name in QUEUES)
    return parse_config(f"partitions: [{{queues: [{queues}], ugm: {{quotatrees: [{', '.join(trees)}]}}}}]").partition()


def change(partition: AbstractPartition, random: Random, number: int, *, forest: bool) -> object:  # noqa: PLR0911 - a table
    """Make a random change, and return its result."""
    names = [one.allocation_id for one in partition.allocations() if one.state != "pending"]
    usage = Resource(gpu=random.randint(1, 8), memory=random.randint(1, 8))
    name, held = f"{random.choice('abc')}{number % 9}", random.choice([*names, "none"])
    application = random.choice(QUEUES)
    match random.randrange(10):
        case 0 | 1 | 2 if name not in names:
            call = random.choice([partition.allocate, partition.allocate, partition.allocate_evicting])
            return call(name, application, usage, priority=random.randint(0, 2)).allowed
        case 3 | 4 | 5:
            return partition.release(held)
        case 6 if held in names:
            return partition.resize(held, usage).allowed
        case 7 if name not in names:
            return partition.adopt(name, application, usage)
        case 8 if name not in names:
            other = f"{name}-2"
            return partition.allocate_all([(name, application, usage), (other, random.choice(QUEUES), usage)]).allowed
        case 9 if number % 3 == 0:
            partition.configure(config(random.randint(3, 9), forest=forest))
            return None
        case _:
            return partition.check(application, usage).allowed


def state(partition: AbstractPartition) -> object:
    """Return everything that a partition shows of its trees."""
    limits = [partition.limits(name) for name in QUEUES]
    return [one.state for one in partition.model_reports()], limits, partition.exceeded_limits()


def opened(path: Path, new: PartitionConfig | None = None) -> StoredPartition:
    """Open a store."""
    return open_partition(path, new, clock=lambda: NOW)


def partitions(path: Path, first: PartitionConfig) -> Iterator[StoredPartition]:
    """Yield a partition, and after it is closed one with the same store, and so on."""
    yield opened(path, first)
    while True:
        yield opened(path)


@pytest.mark.parametrize("forest", [False, True], ids=["tree", "forest"])
@pytest.mark.parametrize("seed", seeds(2, 10, 20))
def test_reopened(tmp_path: Path, seed: int, *, forest: bool) -> None:
    """A partition that is closed and opened again and again makes the same decisions as one that is never closed."""
    random, first = Random(seed), config(forest=forest)
    lives = partitions(tmp_path / "store", first)
    plain, stored = Partition(first, clock=lambda: NOW), next(lives)
    for each in (plain, stored):
        for queue in QUEUES:
            each.submit(queue, UserGroup("ana"), f"root.{queue}")
    for number in range(80):
        draws = random.getrandbits(64)
        results = [change(each, Random(draws), number, forest=forest) for each in (plain, stored)]
        assert results[0] == results[1], number
        plain.verify()
        if number % 10 == 9:
            stored.close()
            stored = next(lives)
            assert state(stored) == state(plain), number
    stored.verify()
    stored.close()


@pytest.mark.ci
def test_standby(tmp_path: Path) -> None:
    """A standby that takes over holds the same allocations at the same nodes as the leader before it."""
    random, store, addresses = Random(1), tmp_path / "store", [f"unix:{tmp_path / name}" for name in "ab"]
    leader = Service(store, addresses[0], config=config())
    leader.start()
    standby = Service(store, addresses[1], config=config())
    standby.start()
    with connect(",".join(addresses)) as partition:
        for queue in QUEUES:
            partition.submit(queue, UserGroup("ana"), f"root.{queue}")
        for number in range(80):
            change(partition, random, number, forest=False)
        before = state(partition)
        leader.stop()
        assert partition.check("p", Resource())
        assert standby.term
        assert state(partition) == before
    standby.stop()
