"""An `AllocationRequest` is enough for a call, and a partition is built from a file in one step."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.partition_fixtures import changing_nothing
from support.partition_kinds import KINDS
from ugm import AllocationRequest, RequestError, Resource, UserGroup, parse_config
from ugm.partition import AbstractPartition

TEXT = "partitions: [{queues: [{name: q, resources: {max: {vcore: 2}}}]}]"
CONFIG = parse_config(TEXT).partition()
REQUEST = AllocationRequest("a.0", "a", Resource(vcore=1000), priority=3, duration=60, node="n")


@pytest.fixture(name="partition", params=KINDS)
def _partition(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AbstractPartition]:
    """Return a partition of each kind with an application."""
    with request.param(CONFIG, tmp_path) as partition:
        partition.submit("a", UserGroup("ana"), "root.q")
        yield partition


@pytest.mark.parametrize("name", ["request", "allocate", "allocate_evicting", "adopt"])
def test_a_request_is_enough(partition: AbstractPartition, name: str) -> None:
    """The request has every property of the allocation, so the call has no other argument."""
    getattr(partition, name)(REQUEST)
    one = partition.allocation("a.0")

    assert one is not None
    assert (one.usage, one.priority, one.duration, one.node) == (Resource(vcore=1000), 3, 60, "n")


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
