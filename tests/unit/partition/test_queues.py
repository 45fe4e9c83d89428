"""Queues that leave the configuration, change between leaf and parent, or are made by placement."""

from __future__ import annotations

import pytest

from support.partition_fixtures import CREATING, SUE, TEMPLATE, config, memory, partition_of, started, under_old
from ugm import Partition, Resource


@pytest.fixture(name="partition")
def _partition() -> Partition:
    return under_old()


# Queues that leave


# Between leaf and parent


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
