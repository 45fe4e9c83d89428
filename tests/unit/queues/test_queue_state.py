"""Queues as values: usage, shares of guarantees, and JSON."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest

from support.partition_fixtures import BOB, partition_of, started
from ugm import Partition, Resource
from ugm.queues import QueueState

QUEUES = (
    "{name: p, resources: {guaranteed: {memory: 9, vcore: 2}, max: {memory: 10}}, queues:"
    " [{name: a, resources: {guaranteed: {memory: 3, gpu: 0}}}, {name: b, resources: {guaranteed: {vcore: 1}}}]},"
    " {name: c}, {name: d, resources: {guaranteed: {gpu: 0, memory: 1}}, maxapplications: 7}"
)


@pytest.fixture(name="partition")
def _partition() -> Partition:
    partition = partition_of(QUEUES, cluster=Resource(memory=20, vcore=4000, gpu=1))
    started(partition, "one", 4, "root.p.a")
    started(partition, "two", 2, "root.p.b", BOB)
    partition.submit("idle", BOB, "root.p.b")
    partition.allocate("cores", "two", Resource(vcore=500, gpu=0))
    return partition


def state(partition: Partition, queue_path: str = "root") -> QueueState:
    """Return a queue that is there."""
    queue = partition.queue(queue_path)
    assert queue is not None
    return queue


def test_share_is_the_largest_fraction(partition: Partition) -> None:
    """The share is that of the resource of whose guarantee most is used, exactly; it may be above 1."""
    queues = {queue.queue_path: queue.share for queue in state(partition).walk()}
    assert queues["root.p"] == Fraction(2, 3)
    assert queues["root.p.a"] == Fraction(4, 3)
    assert queues["root.p.b"] == Fraction(1, 2)


def test_for_json(partition: Partition) -> None:
    """A queue is told in JSON in the words of its attributes, with the share as a decimal number."""
    fields = json.loads(json.dumps(state(partition, "ROOT.P.B").to_dict()))
    assert fields == {
        "queue_path": "root.p.b",
        "is_leaf": True,
        "is_managed": True,
        "is_draining": False,
        "max_resources": None,
        "max_applications": 0,
        "guaranteed": {"vcore": 1000},
        "usage": {"memory": 2, "vcore": 500},
        "running_applications": 1,
        "applications": ["idle", "two"],
        "children": [],
        "share": 0.5,
    }
    assert [child.queue_path for child in state(partition).children] == ["root.c", "root.d", "root.p"]
    assert state(partition).to_dict()["children"] == [child.to_dict() for child in state(partition).children]
