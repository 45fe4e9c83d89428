"""Every recorded trace of queue quotas in Apache YuniKorn, every field of every step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from support.queue_replay import QuotaReplay
from support.vectors import cases, vectors


@pytest.mark.parametrize("trace", cases(vectors("yunikorn/queue_quota")))
def test_queue_quota(trace: Mapping[str, Any]) -> None:
    """The maxima of a tree of queues, and the size of the cluster, allow and deny what they do in the peer."""
    replay = QuotaReplay(trace)
    for number, step in enumerate(trace["steps"]):
        answer = replay.answer(step)

        assert answer == {field: step[field] for field in answer}, f"step {number}: {step}"
