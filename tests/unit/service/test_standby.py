"""A process that stands by does not end because of one failure."""

from __future__ import annotations

import logging
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from support.service_fixtures import running, started
from ugm.journal.follower import Follower


def test_unexpected_failures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """An error that is not one of the log is logged once, and the process tries again."""
    attempts = count()
    poll = Follower.poll

    def fail_twice(follower: Follower, **options: Any) -> int:  # noqa: ANN401 - passed on
        if next(attempts) < 2:
            raise ValueError("of another kind")
        return poll(follower, **options)

    monkeypatch.setattr(Follower, "poll", fail_twice)
    with (
        caplog.at_level(logging.WARNING, "ugm.service.service"),
        running(tmp_path, journal="j") as service,
        started(service) as partition,
    ):
        assert partition.application_ids() == ("app",)
    assert [record.exc_info is not None for record in caplog.records] == [True]
