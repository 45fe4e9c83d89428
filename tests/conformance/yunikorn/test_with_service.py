"""Recorded traces of user and group limits, and of queue quotas, in Apache YuniKorn, through a client of a service.

Every call is a message on a socket to a leader in another thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest

from support.partition_replay import PartitionReplay, agreeing, traces
from support.queue_replay import QuotaReplay
from support.service_fixtures import client_of_service

#: By default, every n-th trace is replayed.
SAMPLE: Final = 50


def check(trace: Mapping[str, Any], kind: type[PartitionReplay | QuotaReplay], steps: int) -> None:
    """Expect the recorded answers of a client."""
    with client_of_service() as partition:
        replay = kind(trace, partition)
        for number, step in enumerate(trace["steps"][:steps]):
            answer = replay.answer(step)

            assert answer == {field: step[field] for field in answer}, f"step {number}: {step}"


@pytest.mark.parametrize("trace", traces(SAMPLE, "enforcement", "enforcement_corners", "config_updates"))
def test_users_and_groups(trace: Mapping[str, Any]) -> None:
    """Limits of users and groups allow and deny the same requests as in the peer."""
    check(trace, PartitionReplay, agreeing(trace))


@pytest.mark.parametrize("trace", traces(SAMPLE, "queue_quota"))
def test_queue_quotas(trace: Mapping[str, Any]) -> None:
    """The maxima of a tree of queues, and the size of the cluster, allow and deny the same requests as in the peer."""
    check(trace, QuotaReplay, len(trace["steps"]))
