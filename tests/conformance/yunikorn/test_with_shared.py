"""Recorded traces of user and group limits, and of queue quotas, in Apache YuniKorn, on a shared partition."""

from __future__ import annotations

from typing import Any, Final

import pytest

from support.partition_replay import PartitionReplay, agreeing, traces
from support.postgres import Server, shared_server
from support.queue_replay import QuotaReplay
from ugm import Partition

pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'ugm[postgres]'")

from ugm.shared import SharedPartition

pytestmark = pytest.mark.ci

__all__ = ["shared_server"]

#: One trace in so many is replayed by default, and all of them in a long run.
SAMPLE: Final = 50

USERS_AND_GROUPS: Final = traces(SAMPLE, "enforcement", "enforcement_corners", "config_updates")


@pytest.mark.parametrize("trace", USERS_AND_GROUPS)
def test_users_and_groups(trace: dict[str, Any], shared_server: Server) -> None:
    """Limits of users and groups allow and deny what they do in the peer."""
    with SharedPartition(shared_server.conninfo, schema=shared_server.fresh_schema()) as partition:
        replay = PartitionReplay(trace, partition)
        for number, step in enumerate(trace["steps"][: agreeing(trace)]):
            answer = replay.answer(step)

            assert answer == {field: step[field] for field in answer}, f"step {number}: {step}"


@pytest.mark.parametrize("trace", USERS_AND_GROUPS)
def test_users_and_groups_in_memory(trace: dict[str, Any]) -> None:
    """The harness itself changes nothing: an embedded partition answers it as the peer does."""
    replay = PartitionReplay(trace, Partition())
    for number, step in enumerate(trace["steps"][: agreeing(trace)]):
        answer = replay.answer(step)

        assert answer == {field: step[field] for field in answer}, f"step {number}: {step}"


@pytest.mark.parametrize("trace", traces(SAMPLE, "queue_quota"))
def test_queue_quotas(trace: dict[str, Any], shared_server: Server) -> None:
    """The maxima of a tree of queues, and the size of the cluster, allow and deny what they do in the peer."""
    with SharedPartition(shared_server.conninfo, schema=shared_server.fresh_schema()) as partition:
        replay = QuotaReplay(trace, partition)
        for number, step in enumerate(trace["steps"]):
            answer = replay.answer(step)

            assert answer == {field: step[field] for field in answer}, f"step {number}: {step}"
