"""Recorded traces of user and group limits, and of queue quotas, in Apache YuniKorn, on a shared partition."""

from __future__ import annotations

from typing import Any, Final

import pytest

from conformance import vectors
from postgres import Server, shared_server
from queue_quotas import QuotaReplay
from test_conformance_yunikorn import DIFFERENCES
from tracked import PartitionReplay
from ugm import Partition

pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'ugm[postgres]'")

from ugm.shared import SharedPartition

__all__ = ["shared_server"]

#: One trace in so many is replayed by default, and all of them in a long run.
SAMPLE: Final = 50

#: From which step on an application is in the root itself. A `Manager` charges any path; a partition knows its queues,
#: and there are no applications in the root.
IN_THE_ROOT: Final = {
    "corner-headroom-is-minimum-per-type": 4,
    "enforce-054": 0,
    "enforce-148": 0,
    "enforce-196": 0,
}


def traces(*names: str) -> list[Any]:
    """Return the traces of some files, each with its name as its id; most of them are deep."""
    found = [trace for name in names for trace in vectors(f"yunikorn/{name}")]
    return [
        pytest.param(trace, id=trace["name"], marks=() if number % SAMPLE == 0 else pytest.mark.deep)
        for number, trace in enumerate(found)
        if IN_THE_ROOT.get(trace["name"]) != 0
    ]


def differs(trace: dict[str, Any]) -> int:
    """Return how many steps of a trace are to agree."""
    steps, _ = DIFFERENCES.get(trace["name"], (len(trace["steps"]), ""))
    return min(steps, IN_THE_ROOT.get(trace["name"], steps))


@pytest.mark.parametrize("trace", traces("enforcement", "enforcement_corners", "config_updates"))
def test_users_and_groups(trace: dict[str, Any], shared_server: Server) -> None:
    """Limits of users and groups allow and deny what they do in the peer."""
    with SharedPartition(shared_server.conninfo, schema=shared_server.fresh_schema()) as partition:
        replay = PartitionReplay(trace, partition)
        for number, step in enumerate(trace["steps"][: differs(trace)]):
            answer = replay.answer(step)

            assert answer == {field: step[field] for field in answer}, f"step {number}: {step}"


@pytest.mark.parametrize("trace", traces("enforcement", "enforcement_corners", "config_updates"))
def test_users_and_groups_in_memory(trace: dict[str, Any]) -> None:
    """The harness itself changes nothing: an embedded partition answers it as the peer does."""
    replay = PartitionReplay(trace, Partition())
    for number, step in enumerate(trace["steps"][: differs(trace)]):
        answer = replay.answer(step)

        assert answer == {field: step[field] for field in answer}, f"step {number}: {step}"


@pytest.mark.parametrize("trace", traces("queue_quota"))
def test_queue_quotas(trace: dict[str, Any], shared_server: Server) -> None:
    """The maxima of a tree of queues, and the size of the cluster, allow and deny what they do in the peer."""
    with SharedPartition(shared_server.conninfo, schema=shared_server.fresh_schema()) as partition:
        replay = QuotaReplay(trace, partition)
        for number, step in enumerate(trace["steps"]):
            answer = replay.answer(step)

            assert answer == {field: step[field] for field in answer}, f"step {number}: {step}"
