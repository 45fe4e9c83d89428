"""Recorded traces of user and group limits, and of queue quotas, in Apache YuniKorn, on a partition with a journal.

Every trace is interrupted: in the middle, and before its last step, the journal is closed and opened again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest

from conformance import vectors
from queue_quotas import QuotaReplay
from test_conformance_yunikorn import DIFFERENCES
from tracked import IN_THE_ROOT, PartitionReplay
from ugm.journal import open_partition

#: One trace in so many is replayed by default, and all of them in a long run.
SAMPLE: Final = 10

Replay: TypeAlias = PartitionReplay | QuotaReplay


def traces(*names: str) -> list[Any]:
    """Return the traces of some files, each with its name as its id; most of them are deep."""
    found = [trace for name in names for trace in vectors(f"yunikorn/{name}") if trace["name"] not in IN_THE_ROOT]
    return [
        pytest.param(trace, id=trace["name"], marks=() if number % SAMPLE == 0 else pytest.mark.deep)
        for number, trace in enumerate(found)
    ]


def answers(trace: dict[str, Any], kind: type[Replay], path: Path) -> None:
    """Expect the recorded answers of a partition that is closed and opened again between two of them."""
    agreeing, _ = DIFFERENCES.get(trace["name"], (len(trace["steps"]), ""))
    replay = kind(trace, open_partition(path, durability="group"))
    for number, step in enumerate(trace["steps"][:agreeing]):
        if number in (agreeing // 2, agreeing - 1):
            replay.partition.journal.close()  # type: ignore[union-attr]  # it is one with a journal
            replay.partition = open_partition(path, durability="group")
        answer = replay.answer(step)

        assert answer == {field: step[field] for field in answer}, f"step {number}: {step}"
    replay.partition.journal.close()  # type: ignore[union-attr]  # as above


@pytest.mark.parametrize("trace", traces("enforcement", "enforcement_corners", "config_updates"))
def test_users_and_groups(trace: dict[str, Any], tmp_path: Path) -> None:
    """Limits of users and groups allow and deny what they do in the peer."""
    answers(trace, PartitionReplay, tmp_path / "journal")


@pytest.mark.parametrize("trace", traces("queue_quota"))
def test_queue_quotas(trace: dict[str, Any], tmp_path: Path) -> None:
    """The maxima of a tree of queues, and the size of the cluster, allow and deny what they do in the peer."""
    answers(trace, QuotaReplay, tmp_path / "journal")
