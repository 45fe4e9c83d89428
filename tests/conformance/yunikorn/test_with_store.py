"""Recorded traces of user and group limits, and of queue quotas, in Apache YuniKorn, on a partition with a store.

Every trace is interrupted: in the middle, and before its last step, the store is closed and opened again.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest

from support.partition_replay import PartitionReplay, agreeing, traces
from support.queue_replay import QuotaReplay
from ugm.store import open_partition

#: One trace in so many is replayed by default, and all of them in a long run.
SAMPLE: Final = 100

Replay: TypeAlias = PartitionReplay | QuotaReplay


def answers(trace: Mapping[str, Any], kind: type[Replay], path: Path) -> None:
    """Expect the recorded answers of a partition that is closed and opened again between two of them."""
    steps = agreeing(trace)
    replay = kind(trace, open_partition(path))
    for number, step in enumerate(trace["steps"][:steps]):
        if number in (steps // 2, steps - 1):
            replay.partition.close()
            replay.partition = open_partition(path)
        answer = replay.answer(step)

        assert answer == {field: step[field] for field in answer}, f"step {number}: {step}"
    replay.partition.close()


@pytest.mark.parametrize("trace", traces(SAMPLE, "enforcement", "enforcement_corners", "config_updates"))
def test_users_and_groups(trace: Mapping[str, Any], tmp_path: Path) -> None:
    """Limits of users and groups allow and deny what they do in the peer."""
    answers(trace, PartitionReplay, tmp_path / "store")


@pytest.mark.parametrize("trace", traces(SAMPLE, "queue_quota"))
def test_queue_quotas(trace: Mapping[str, Any], tmp_path: Path) -> None:
    """The maxima of a tree of queues, and the size of the cluster, allow and deny what they do in the peer."""
    answers(trace, QuotaReplay, tmp_path / "store")
