"""Queues that leave the configuration, change between leaf and parent, or are made by placement."""

from __future__ import annotations

import pytest

from support.partition_fixtures import (
    BOB,
    CREATING,
    SUE,
    TEMPLATE,
    config,
    memory,
    partition_of,
    started,
    under_old,
)
from ugm import Partition, Resource


@pytest.fixture(name="partition")
def _partition() -> Partition:
    return under_old()


def is_draining(partition: Partition, queue_path: str) -> bool | None:
    """Return whether a queue takes no more applications; None if there is no such queue."""
    queue = partition.queue(queue_path)
    return None if queue is None else queue.is_draining


# Queues that leave


def test_draining(partition: Partition) -> None:
    """A queue that leaves with applications in it takes no more, runs on under its limits, and goes with the last."""
    partition.configure(config("{name: b}"))

    assert is_draining(partition, "root.a") is True
    assert str(partition.submit("new", SUE, "root.a")).endswith(": root.a is draining")
    assert str(partition.allocate("more", "app", memory(3))).endswith("3 memory requested, 7 of 9 used, 1 too much")
    assert partition.allocate("more", "app", memory(2))
    partition.remove("app")
    assert is_draining(partition, "root.a") is None


# Between leaf and parent


def test_leaf_becomes_parent(partition: Partition) -> None:
    """Applications stay in a leaf that becomes a parent; the next ones go below it."""
    plan = partition.plan(config("{name: a, queues: [{name: x}]}, {name: b}"))
    assert [str(queue) for queue in plan.draining] == ["root.a accepts no new applications, and still has 'app'"]
    partition.apply(plan, confirm=True)

    assert str(partition.submit("new", SUE, "root.a")).endswith(": root.a is not a leaf")
    assert partition.allocate("more", "app", memory(1))
    started(partition, "new", 1, "root.a.x")
    queue = partition.queue("root.a")
    assert queue is not None
    assert (queue.usage, queue.running_applications) == (memory(9), 2)
    partition.verify()


def test_parent_becomes_leaf() -> None:
    """A queue that was made below a parent is drained when the parent becomes a leaf, which takes applications then."""
    partition = partition_of("{name: p, parent: true}", CREATING)
    started(partition, "app", 1, "root.p.x")
    plan = partition.plan(config("{name: p}", CREATING))
    assert [queue.queue_path for queue in plan.draining] == ["root.p.x"]
    partition.apply(plan, confirm=True)

    assert str(partition.submit("1", BOB, "root.p.x")).endswith(": root.p.x is draining")
    assert str(partition.submit("2", BOB, "root.p.y")).endswith(": root.p is a leaf and cannot have queues below it")
    started(partition, "new", 1, "root.p")
    partition.verify()
    partition.remove("app")
    assert partition.queue("root.p.x") is None


# Queues that placement has made


def test_template() -> None:
    """A queue that is made has what the template of the nearest queue above says, until the template changes."""
    partition = partition_of(TEMPLATE, CREATING)
    started(partition, "app", 1, "root.p.q.x")
    queue = partition.queue("root.p.q.x")
    assert queue is not None
    assert (queue.max_resources, queue.max_applications, queue.is_managed) == (Resource(gpu=2), 1, False)

    partition.configure(config("{name: p, parent: true, childtemplate: {resources: {max: {gpu: 4}}}}", CREATING))
    assert partition.queue_maximum("root.p.q.x") == Resource(gpu=4)
    assert partition.queue("root.p.q").max_resources is None  # type: ignore[union-attr]  # it is there
    partition.verify()


def test_annotated_quota() -> None:
    """The quota of a namespace replaces the maximum of the queue that was made for it, and stays over changes."""
    partition = partition_of(TEMPLATE, CREATING)
    partition.submit("app", SUE, "root.p.x", quota=memory(3))
    assert partition.queue_maximum("root.p.x") == memory(3)
    partition.configure(config("{name: p, parent: true}", CREATING))
    assert partition.queue_maximum("root.p.x") == memory(3)
    partition.submit("next", SUE, "root.p.x", quota=memory(5))
    assert partition.queue_maximum("root.p.x") == memory(5)
