"""An `AllocationRequest` is enough for a call, and a partition is built from a file in one step."""

from __future__ import annotations

import pydoc
from collections.abc import Iterator
from pathlib import Path

import pytest

import ugm
from support.partition_fixtures import changing_nothing
from support.partition_kinds import KINDS
from ugm import AllocationRequest, Partition, RequestError, Resource, UserGroup, parse_config
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


def test_plain_requests(partition: AbstractPartition) -> None:
    """A request without properties is granted, denied and repeated like a call with its parts."""
    plain, large = AllocationRequest("p", "a", Resource(vcore=1000)), AllocationRequest("l", "a", Resource(vcore=5000))

    assert partition.allocate(plain)
    assert partition.allocate("p", "a", Resource(vcore=1000))
    assert not partition.allocate(large)


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


def test_a_partition_of_a_file(tmp_path: Path) -> None:
    """`Partition.load` reads a configuration and takes the arguments of the class."""
    path = tmp_path / "queues.yaml"
    path.write_text(TEXT, encoding="utf-8")
    partition = Partition.load(path, cluster=Resource(vcore=1000))
    partition.submit("a", UserGroup("ana"), "root.q")

    assert partition.queue_maximum("root.q") == Resource(vcore=1000)
    with pytest.raises(RequestError, match="no such partition"):
        Partition.load(path, "other")


@pytest.mark.parametrize("name", ugm.__all__)
def test_help_names_no_internals(name: str) -> None:
    """The help of a public name shows types as they are written."""
    text = pydoc.render_doc(getattr(ugm, name), renderer=pydoc.TextDoc())

    assert "ForwardRef" not in text
    assert "FastPath" not in text
