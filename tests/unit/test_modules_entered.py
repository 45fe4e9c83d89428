"""The modules of ugm that a call enters: a reader must be able to follow a grant through a few of them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from ugm import Partition, Resource, UserGroup, parse_config
from ugm.journal import open_partition
from ugm.partition import AbstractPartition

CONFIG = parse_config(
    """
    partitions:
    - queues:
      - {name: prod, resources: {max: {memory: 4Gi}}, limits: [{limit: sue, users: [sue], maxresources: {memory: 3Gi}}]}
    """
).partition()
ONE = Resource(memory=1)


def modules_of(call: Callable[[], object]) -> set[str]:
    """Return the modules of ugm whose functions a call runs."""
    found: set[str] = set()

    def note(frame: FrameType, event: str, _argument: object) -> None:
        name = str(frame.f_globals.get("__name__"))
        if event == "call" and name.startswith("ugm"):
            found.add(name)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
    return found


def of_a_second_grant(partition: AbstractPartition) -> set[str]:
    """Return the modules that the second grant of an application enters."""
    assert partition.submit("app", UserGroup("sue"), "root.prod")
    assert partition.allocate("first", "app", ONE)
    return modules_of(lambda: partition.allocate("second", "app", ONE))


def test_grant_in_memory() -> None:
    """A grant in memory enters at most four modules."""
    assert len(of_a_second_grant(Partition(CONFIG))) <= 4


def test_grant_with_a_journal(tmp_path: Path) -> None:
    """A grant that is written to a journal enters at most nine modules."""
    with open_partition(tmp_path / "journal", CONFIG) as partition:
        assert len(of_a_second_grant(partition)) <= 9
