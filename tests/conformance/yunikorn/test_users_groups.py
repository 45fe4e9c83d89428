"""Every recorded trace of user and group limits in Apache YuniKorn, every field of every step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from support.manager_replay import DIFFERENCES, Replay
from support.vectors import cases, vectors


def check(trace: Mapping[str, Any]) -> None:
    """Replay a trace and compare every answer with the recorded one, as far as the two are to agree."""
    replay = Replay(trace)
    steps, _ = DIFFERENCES.get(trace["name"], (len(trace["steps"]), ""))
    for number, step in enumerate(trace["steps"][:steps]):
        answer = replay.answer(step)

        assert answer == {field: step[field] for field in answer}, f"step {number}: {step}"


@pytest.mark.parametrize("trace", cases(vectors("yunikorn/enforcement")))
def test_enforcement(trace: Mapping[str, Any]) -> None:
    """Under one configuration, limits allow and deny what they do in the peer."""
    check(trace)


@pytest.mark.parametrize("trace", cases(vectors("yunikorn/enforcement_corners"), sample=1))
def test_enforcement_corners(trace: Mapping[str, Any]) -> None:
    """Each rule by itself does what it does in the peer."""
    check(trace)


@pytest.mark.parametrize("trace", cases(vectors("yunikorn/config_updates")))
def test_config_updates(trace: Mapping[str, Any]) -> None:
    """Limits that change in mid-stream allow and deny what they do in the peer."""
    check(trace)
