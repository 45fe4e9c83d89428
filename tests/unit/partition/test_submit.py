"""Applications enter a partition: submitted and placed, or listed where they were before."""

from __future__ import annotations

import pytest

from support.partition_fixtures import BOB, SUE, partition_of, started
from ugm import Partition, Resource

CREATING = "{name: tag, value: namespace, create: true}, {name: provided}"


@pytest.fixture(name="partition")
def _partition() -> Partition:
    partition = partition_of("{name: a}, {name: p, parent: true}")
    started(partition, "app", 3)
    return partition


def test_created() -> None:
    """Where a rule may create, the queue is created with the application, and a placement says so."""
    partition = partition_of(rules=CREATING)
    placement = partition.submit("new", SUE, tags={"namespace": "Team.X"})
    assert str(placement) == "placed in new queue root.team_dot_x by placementrules[0] tag namespace"
    assert partition.submit("next", BOB, tags={"namespace": "team.x"}).creates is False


# Recovery


def test_adopted_in_a_queue_that_is_missing() -> None:
    """A missing queue is created, with the template and the quota that it had."""
    partition = partition_of("{name: p, parent: true, childtemplate: {resources: {max: {gpu: 2}}}}")
    partition.adopt_application("one", SUE, "root.p.x")
    partition.adopt_application("two", SUE, "root.p.y", quota=Resource(disk=3))
    assert partition.queue_maximum("root.p.x") == Resource(gpu=2)
    assert partition.headroom("two") == Resource(disk=3)
    queue = partition.queue("root.p.x")
    assert queue is not None
    assert (queue.is_draining, queue.is_leaf) == (False, True)


def test_adopted_below_a_leaf(partition: Partition) -> None:
    """Below a leaf nothing is created any more: the queue is drained, and the leaf is a leaf."""
    partition.adopt_application("old", SUE, "root.a.x.y")
    queue_info = partition.queue("root.a")
    assert queue_info is not None
    assert [(queue.queue_path, queue.is_draining) for queue in queue_info.walk()] == [
        ("root.a", False),
        ("root.a.x", True),
        ("root.a.x.y", True),
    ]
    assert partition.submit("new", SUE, "root.a")
    assert not partition.submit("other", SUE, "root.a.x.y")
    partition.complete("old")
    assert partition.queue("root.a.x") is None
