"""Schedulers that elect a leader among themselves under faults; the log is examined afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import sleep

import pytest

from support.chaos_limits import models
from support.chaos_log import Examination
from support.postgres import server_here
from support.service_election import Schedulers
from ugm import join


@contextmanager
def log_in(kind: str, folder: Path) -> Iterator[tuple[str, str]]:
    """Provide the location of a log, and the address of each scheduler."""
    if kind == "file":
        yield str(folder / "store"), ""
        return
    with server_here(durable=True) as server:
        yield f"postgresql://ugm@127.0.0.1:{server.port}/postgres", "tcp://127.0.0.1:0"


@pytest.mark.ci
@pytest.mark.parametrize("kind", ["file", "postgres"])
def test_leading_schedulers_die(kind: str, tmp_path: Path) -> None:
    """No limit is exceeded, every acknowledged change is in the log once, and what the dead had can be released."""
    with log_in(kind, tmp_path) as (location, listen):
        schedulers = Schedulers(tmp_path, location, listen, count=3)
        try:
            for _ in range(2):
                sleep(1.5)
                schedulers.kill_leader()
            sleep(1)
            schedulers.stop_leader()
            sleep(1)
            schedulers.finish()
        finally:
            schedulers.kill_all()
        reports = schedulers.reports()
        # PostgreSQL protects a leader whose connection was lost for half a second.
        sleep(1)
        examination = Examination(location)
        acknowledged = {process: examination.require_reported(lines) for process, lines in reports.items()}
        assert not [line for lines in reports.values() for line in lines if "wrong" in line]
        assert sum(acknowledged.values()) > 20, acknowledged
        _release_of_the_dead(location, listen, [reports[process][0]["session"] for process in schedulers.ended])


def _release_of_the_dead(location: str, listen: str, sessions: list[str]) -> None:
    """Release the allocations of the processes that were killed; those of all others stay."""
    with join(location, listen, models=models()) as partition:
        owned = {report.session: report.allocations for report in partition.sessions.sessions()}
        before = set(partition.allocation_ids())
        released = {name for session in sessions if session in owned for name in partition.sessions.release_of(session)}
        assert len(released) == sum(owned.get(session, 0) for session in sessions)
        assert set(partition.allocation_ids()) == before - released
        partition.verify()
