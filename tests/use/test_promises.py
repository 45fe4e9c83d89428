"""A promised end and its duration are readable, and can be removed."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.testclient import TestClient

from ugm import Partition, Resource, UserGroup, parse_config
from ugm.partition import AbstractPartition
from ugm.server import create_app
from ugm.store import open_partition

CONFIG = parse_config("partitions: [{queues: [{name: q}]}]").partition()
TOKEN = "a token of about 30 characters"  # noqa: S105 - for a server of the test


def promised(partition: AbstractPartition) -> tuple[int | None, int | None]:
    """Return the promised end and duration of the allocation."""
    found = partition.allocation("a.0")
    assert found is not None
    return found.until, found.duration


def granted(partition: AbstractPartition) -> None:
    """Grant an allocation that promises to end after two minutes."""
    partition.submit("a", UserGroup("ana"), "root.q")
    assert partition.allocate("a.0", "a", Resource(vcore=1), duration=120)


@pytest.mark.parametrize("is_requested", [False, True])
def test_both_are_readable(is_requested: bool) -> None:  # noqa: FBT001 - a case
    """An allocation has its promised end and the duration that was promised, also if it was pending before."""
    partition = Partition(CONFIG, clock=lambda: 1000)
    partition.submit("a", UserGroup("ana"), "root.q")
    if is_requested:
        partition.request("a.0", "a", Resource(vcore=1), duration=120)
        assert promised(partition) == (None, 120)
    granted(partition)

    assert promised(partition) == (1120, 120)
    partition.renew("a.0", 30)
    assert promised(partition) == (1030, 30)


def test_a_store_restores_both(tmp_path: Path) -> None:
    """A restart keeps the end and the duration, and the removal of an end."""
    path = tmp_path / "store"
    with open_partition(path, CONFIG) as partition:
        granted(partition)
        before = promised(partition)
    with open_partition(path) as partition:
        assert promised(partition) == before
        assert before[1] == 120
        partition.renew("a.0", None)
    with open_partition(path) as partition:
        assert promised(partition) == (None, None)


def test_rest_removes_the_end() -> None:
    """The duration null removes the promised end over REST."""
    partition = Partition(CONFIG, clock=lambda: 1000)
    granted(partition)
    rest = TestClient(create_app({"default": partition}, decide_token=TOKEN), base_url="http://localhost")
    body = {"allocation_id": "a.0", "duration": None}
    answer = rest.post("/api/v1/partition/default/renew", json=body, headers={"authorization": f"Bearer {TOKEN}"})

    assert answer.json()["allowed"]
    assert promised(partition) == (None, None)
