"""Labels of allocations: the names that people know at the host."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.server_fixtures import DECIDE, PREFIX, client
from support.service_fixtures import client_of_service
from ugm import AllocationRequest, Partition, RequestError, Resource, UserGroup, parse_config
from ugm.partition import AbstractPartition
from ugm.store import open_partition

CONFIG = parse_config("partitions: [{queues: [{name: q}]}]").partition()
ONE = Resource(vcore=1)


def labelled(partition: AbstractPartition) -> None:
    """Grant and request something with labels, and expect them in the answers."""
    partition.submit("app", UserGroup("ana"), "root.q")
    assert partition.allocate("held", "app", ONE, label="train-7")
    assert partition.request(AllocationRequest("waits", "app", ONE, label="train-8"))
    assert partition.allocate("held", "app", ONE, label="renamed")
    assert [(one.allocation_id, one.label) for one in partition.allocations()] == [
        ("held", "train-7"),
        ("waits", "train-8"),
    ]
    with pytest.raises(RequestError, match="label"):
        partition.allocate("x", "app", ONE, label="")


def test_in_memory_and_over_rest() -> None:
    """A label is part of an allocation, and REST takes and shows it."""
    partition = Partition(CONFIG)
    labelled(partition)
    rest = client(partition)
    body = {"allocation_id": "rest", "application_id": "app", "usage": {"vcore": 1}, "label": "notebook"}
    answer = rest.post(f"{PREFIX}/allocate", json=body, headers=DECIDE)
    assert answer.status_code == 200, answer.text
    granted = partition.allocation("rest")
    assert granted is not None
    assert granted.label == "notebook"


def test_in_a_store(tmp_path: Path) -> None:
    """A store keeps it."""
    with open_partition(tmp_path / "quota.db", CONFIG) as partition:
        labelled(partition)
    with open_partition(tmp_path / "quota.db") as again:
        assert [one.label for one in again.allocations()] == ["train-7", "train-8"]


def test_over_a_service() -> None:
    """A client of a service passes it on."""
    with client_of_service(CONFIG) as partition:
        labelled(partition)
