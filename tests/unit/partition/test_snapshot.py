"""A partition copied at one moment, and the reports that combine several things of one moment."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from support.partition_fixtures import SUE, memory, partition_of, started
from support.random_changes import CONFIGS, Actor
from ugm import Partition, Resource
from ugm.partition import PartitionSnapshot, UsageSum
from ugm.queues import QueueState


def busy(seed: int) -> Partition:
    """Return a partition after some hundred random changes."""
    partition, actor = Partition(CONFIGS[0]), Actor(seed)
    for _ in range(300):
        actor.step(partition)
    return partition


@pytest.mark.parametrize("seed", range(6))
def test_snapshot_agrees_with_the_partition(seed: int) -> None:
    """Every answer of a snapshot, or of a copy of its parts, is that of the partition at that moment."""
    partition = busy(seed)
    original = partition.snapshot()
    snapshot = PartitionSnapshot(original.compiled, original.parts)

    assert (snapshot.cluster, snapshot.nodes) == (original.cluster, partition.nodes())
    assert snapshot.queue() == original.queue() == partition.queue()
    assert snapshot.queue_paths == partition.queue_paths()
    assert snapshot.group_names == partition.group_names()
    assert tuple(snapshot.group(name) for name in snapshot.group_names) == partition.groups()
    assert set(partition.user_names()) <= set(snapshot.user_names)
    for path in snapshot.queue_paths:
        assert snapshot.queue_headroom(path) == partition.queue_headroom(path)
        assert snapshot.queue_maximum(path) == partition.queue_maximum(path)
        if (state := snapshot.queue(path)) and state.is_leaf:
            pending = snapshot.pending.queues.get(path, UsageSum(0, Resource()))
            assert (pending.item_count, pending.amounts) == partition.pending(path)
    for user in partition.users():
        assert user == partition.user(user.user_name)
        limits = snapshot.limits_of_user(user.user_name)
        assert limits.share == float(limits.utilization.share)


def test_snapshot_does_not_follow() -> None:
    """What happens after the copy does not show in it, also not in what is worked out late."""
    partition = partition_of()
    started(partition, "app", 3)
    partition.submit("late", SUE, "root.a")
    partition.request("wait", "late", memory(2))
    snapshot = partition.snapshot()
    partition.release("app")
    partition.remove("app")
    partition.allocate("wait", "late", memory(2))

    assert snapshot.usage() == memory(3)
    assert snapshot.pending.queues["root.a"].amounts == memory(2)
    assert (snapshot.application_count, snapshot.allocation_count) == (2, 2)


def moved(partition: Partition) -> Iterator[None]:
    """Move one unit from one queue to another, again and again; never is more than one in use."""
    while True:
        for app in ("one", "two"):
            assert partition.allocate(app, app, memory(1))
            yield
            partition.release(app)


def test_no_snapshot_shows_what_never_was() -> None:
    """While a unit moves between two queues, no copy shows it in both, or above the maximum of the queue above."""
    names = ", ".join(f"{{name: q{number}}}" for number in range(60))
    partition = partition_of(f"{{name: top, resources: {{max: {{memory: 1}}}}, queues: [{names}]}}")
    partition.submit("one", SUE, "root.top.q0")
    partition.submit("two", SUE, "root.top.q59")
    stop, moving = threading.Event(), moved(partition)

    def move() -> None:
        while not stop.is_set():
            next(moving)

    thread = threading.Thread(target=move)
    thread.start()
    try:
        used = [_used(partition.snapshot()) for _ in range(300)]
    finally:
        stop.set()
        thread.join()

    assert all(above == below <= 1 for above, below in used)


def _used(snapshot: PartitionSnapshot) -> tuple[int, int]:
    top = snapshot.queue("root.top")
    assert isinstance(top, QueueState)
    return top.usage.get("memory", 0), sum(child.usage.get("memory", 0) for child in top.children)
