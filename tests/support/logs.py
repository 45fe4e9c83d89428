"""Captured logs."""

from __future__ import annotations

import logging

import pytest


def own_records(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """Return the captured records of ugm.

    asyncio logs the exception of a task when the garbage collector finds the task, which may be in a later test.
    """
    return [record for record in caplog.records if record.name.startswith("ugm")]
