"""Cooperative iteration: long work pauses for the thread of the scheduler."""

from __future__ import annotations

import pytest

from ugm.server import cooperative


def test_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """All items are yielded, with a pause after each millisecond of work, and no other pauses."""
    now = [0.0]
    pauses: list[float] = []
    monkeypatch.setattr(cooperative, "perf_counter", lambda: now[0])
    monkeypatch.setattr(cooperative, "sleep", lambda _seconds: pauses.append(now[0]))
    found = []
    for item in cooperative.cooperatively(range(8)):
        found.append(item)
        now[0] += 0.0004

    assert found == list(range(8))
    assert pauses == pytest.approx([0.0012, 0.0024])
