"""An `AllocationRequest` is enough for a call, and its properties are those of the allocation, also after a restart."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.partition_fixtures import changing_nothing
from support.partition_kinds import of_each_kind
from support.server_fixtures import DECIDE, PREFIX, client
from ugm import AllocationRequest, Partition, RequestError, Resource, UserGroup, parse_config
from ugm.partition import AbstractPartition, Allocation
from ugm.store import open_partition

CONFIG = parse_config("partitions: [{queues: [{name: q, resources: {max: {vcore: 2}}}]}]").partition()
#: With every property that does not depend on families.
REQUEST = AllocationRequest(
    "a.0", "a", Resource(vcore=1000), priority=3, preemptible=False, duration=60, node="n", label="train-7"
)


_partition = of_each_kind(CONFIG, lambda partition: partition.submit("a", UserGroup("ana"), "root.q"))


def made(partition: AbstractPartition) -> Allocation:
    """Return the allocation."""
    [one] = partition.allocations()
    return one


@pytest.mark.parametrize("name", ["request", "allocate", "allocate_evicting", "adopt"])
def test_a_request_is_enough(partition: AbstractPartition, name: str) -> None:
    """The request has every property of the allocation, so the call has no other argument."""
    getattr(partition, name)(REQUEST)
    assert made(partition).request == REQUEST


def test_a_repetition_keeps_the_label(partition: AbstractPartition) -> None:
    """A label is a name for people, so a repeated call may have another one; an empty one is refused."""
    partition.allocate(REQUEST)
    assert partition.allocate(REQUEST._replace(label="renamed"))
    assert made(partition).label == "train-7"
    with pytest.raises(RequestError, match="label"):
        partition.allocate(REQUEST._replace(allocation_id="x", label=""))


def test_a_restart(tmp_path: Path) -> None:
    """A store keeps every property, and the removal of a promised end."""
    path = tmp_path / "store"
    with open_partition(path, CONFIG) as partition:
        partition.submit("a", UserGroup("ana"), "root.q")
        partition.allocate(REQUEST)
        before = made(partition)
    with open_partition(path) as partition:
        assert made(partition) == before
        partition.renew("a.0", None)
    with open_partition(path) as partition:
        assert made(partition) == before._replace(until=None, duration=None)


def test_rest() -> None:
    """REST takes every property; the duration null removes the promised end."""
    partition = Partition(CONFIG)
    partition.submit("a", UserGroup("ana"), "root.q")
    properties = {name: value for name, value in REQUEST._asdict().items() if name != "usage" and value is not None}
    rest = client(partition)
    for name, body in (
        ("allocate", {**properties, "usage": {"vcore": "1"}, "prefer": []}),
        ("renew", {"allocation_id": "a.0", "duration": None}),
    ):
        answer = rest.post(f"{PREFIX}/{name}", json=body, headers=DECIDE)
        assert answer.json()["allowed"], answer.text
        assert made(partition).request == (REQUEST if name == "allocate" else REQUEST._replace(duration=None))


def test_other_arguments_are_refused(partition: AbstractPartition) -> None:
    """A request with further arguments, or an id without the rest, is misuse."""
    with changing_nothing(partition):
        with pytest.raises((RequestError, TypeError)):
            partition.allocate(REQUEST, "a")
        with pytest.raises((RequestError, TypeError)):
            partition.allocate(REQUEST, priority=1)
        with pytest.raises(RequestError):
            partition.allocate("a.0")
        with pytest.raises(RequestError):
            partition.allocate("a.0", "a")
