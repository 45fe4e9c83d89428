"""`allocate` respects capacity that is kept for others, and one operation ignores it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.partition_kinds import of_each_kind
from ugm import AllocationRequest, Partition, Resource, UserGroup, parse_config
from ugm.configuration import PartitionConfig
from ugm.partition import AbstractPartition

TEXT = "partitions: [{queues: [{name: q, resources: {max: {gpu: 4}}, properties: {ugm.reservation: enabled}}]}]"
CONFIG = parse_config(TEXT).partition()
SMALL = AllocationRequest("small.0", "small", Resource(gpu=1))


@contextmanager
def _after_configure(_config: PartitionConfig, _folder: Path) -> Iterator[AbstractPartition]:
    partition = Partition(parse_config(TEXT.replace("enabled", "disabled")).partition())
    partition.submit("early", UserGroup("ana"), "root.q")
    partition.configure(CONFIG)
    yield partition


def fill(partition: AbstractPartition) -> None:
    """Let a large request wait for what is in use."""
    for name in ("runs", "large", "small"):
        partition.submit(name, UserGroup(name), "root.q")
    assert partition.allocate("runs.0", "runs", Resource(gpu=2), duration=60)
    partition.request("large.0", "large", Resource(gpu=4))
    assert not partition.allocate("large.0", "large", Resource(gpu=4))


_partition = of_each_kind(CONFIG, fill, _after_configure)


def test_a_later_request_does_not_overtake(partition: AbstractPartition) -> None:
    """A request that fits the limits waits if it would delay a request that has a reservation."""
    assert [one.allocation_id for one in partition.reservations()] == ["large.0"]
    denied = partition.allocate(SMALL)

    assert (bool(denied), denied.can_wait) == (False, True)
    assert not partition.allocate("small.0", "small", Resource(gpu=1))
    assert not partition.admit("other", UserGroup("ana"), "root.q", [("other.0", Resource(gpu=1))])
    assert partition.application("other") is None
    partition.release("runs.0")
    assert partition.allocate("large.0", "large", Resource(gpu=4))


def test_reservations_can_be_ignored(partition: AbstractPartition) -> None:
    """The operation with this name grants what the limits allow, and no more."""
    assert partition.allocate_ignoring_reservations(SMALL)
    assert not partition.allocate_ignoring_reservations(AllocationRequest("s.1", "small", Resource(gpu=2)))
    partition.verify()


def test_short_requests_pass(partition: AbstractPartition) -> None:
    """A request that promises to end before the reserved start is granted."""
    assert partition.allocate("small.0", "small", Resource(gpu=1), duration=30)
