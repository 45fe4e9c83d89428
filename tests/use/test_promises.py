"""A promised end and its duration are readable, and can be removed."""

from __future__ import annotations

from pathlib import Path

from support.server_fixtures import DECIDE, PREFIX, client
from ugm import Partition, Resource, UserGroup, parse_config
from ugm.partition import AbstractPartition
from ugm.store import open_partition

CONFIG = parse_config("partitions: [{queues: [{name: q}]}]").partition()


def promised(partition: AbstractPartition) -> tuple[int | None, int | None]:
    """Return the promised end and duration of the allocation."""
    found = partition.allocation("a.0")
    assert found is not None
    return found.until, found.duration


def granted(partition: AbstractPartition) -> None:
    """Grant an allocation that promises to end after two minutes."""
    partition.submit("a", UserGroup("ana"), "root.q")
    assert partition.allocate("a.0", "a", Resource(vcore=1), duration=120)


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
    rest = client(partition)
    body = {"allocation_id": "a.0", "duration": None}
    answer = rest.post(f"{PREFIX}/renew", json=body, headers=DECIDE)

    assert answer.json()["allowed"]
    assert promised(partition) == (None, None)
