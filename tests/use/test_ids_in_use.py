"""A call that uses an id again with other properties gets the property and both values."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from ugm import AllocationRequest, Partition, RequestError, Resource, UserGroup, parse_config

CONFIG = "partitions: [{queues: [{name: q}, {name: r}]}]"
ANA = UserGroup("ana")


@pytest.fixture(name="partition")
def _partition() -> Partition:
    """Return a partition with a pending and a held allocation."""
    partition = Partition(parse_config(CONFIG).partition())
    partition.submit("app", ANA, "root.q", tags={"team": "x"})
    partition.submit("other", ANA, "root.q")
    partition.request("pending", "app", Resource(vcore=1000), priority=1)
    partition.allocate("held", "app", Resource(vcore=1000), duration=60)
    return partition


@pytest.mark.parametrize(
    ("allocation_id", "application_id", "vcore", "more", "reason"),
    [
        ("pending", "app", 1000, {}, "another priority: 1 in use, 0 requested"),
        ("pending", "app", 500, {"priority": 1}, "another usage: vcore 1 in use, vcore 500m requested"),
        ("pending", "app", 1000, {"priority": 1, "duration": 60}, "another duration: None in use, 60 requested"),
        ("pending", "other", 1000, {"priority": 1}, "another application_id: 'app' in use, 'other' requested"),
        ("held", "app", 1000, {"preemptible": False, "duration": 60}, "another preemptible: True in use, False"),
        ("held", "app", 1000, {}, "another duration: 60 in use, None requested"),
    ],
)
def test_allocations(
    partition: Partition, allocation_id: str, application_id: str, vcore: int, more: Mapping[str, object], reason: str
) -> None:
    """The error of an allocation id in use names the property that differs, and both values."""
    request = AllocationRequest(allocation_id, application_id, Resource(vcore=vcore), **more)  # type: ignore[arg-type]
    with pytest.raises(RequestError, match=reason) as caught:
        partition.allocate_all([request])

    assert caught.value.code == "id-in-use"


@pytest.mark.parametrize(
    ("user", "queue", "tags", "reason"),
    [
        ("ben", "root.q", {"team": "x"}, "another user: 'ana' in use, 'ben' requested"),
        ("ana", "root.r", {"team": "x"}, "another queue: 'root.q' in use, 'root.r' requested"),
        ("ana", "root.q", {}, "another tags: {'team': 'x'} in use, {} requested"),
    ],
)
def test_applications(partition: Partition, user: str, queue: str, tags: dict[str, str], reason: str) -> None:
    """The error of an application id in use names the argument that differs, and both values."""
    with pytest.raises(RequestError) as caught:
        partition.submit("app", UserGroup(user), queue, tags=tags)

    assert reason in str(caught.value)
