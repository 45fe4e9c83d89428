"""The record of a leader is renewed while its loop is busy, but not for ever."""

from __future__ import annotations

from pathlib import Path
from threading import Event
from time import sleep

from support.service_fixtures import eventually, running
from ugm.journal.errors import JournalError
from ugm.journal.leader_file import read_leader
from ugm.service.heartbeat import Heartbeat


def renewed_at(path: Path) -> int:
    """Return when the leader of a journal was last active."""
    found = read_leader(str(path))
    assert found is not None
    return found.renewed_at


def test_a_busy_loop_is_not_silent(tmp_path: Path) -> None:
    """The record is renewed again and again while the loop executes one operation."""
    is_blocked, may_go_on = Event(), Event()

    def block() -> None:
        is_blocked.set()
        may_go_on.wait(20)

    with running(tmp_path, journal="j") as service:
        assert service._loop is not None
        service._loop.call_soon_threadsafe(block)
        is_blocked.wait()
        # The renewal of the loop itself was at most one of them.
        first = renewed_at(tmp_path / "j")
        eventually(lambda: renewed_at(tmp_path / "j") > first + 400)
        may_go_on.set()


def test_a_loop_that_hangs_is_silent() -> None:
    """After some time the loop is taken for one that does not return, and the record is not renewed any more."""
    renewals: list[None] = []

    def renew() -> None:
        renewals.append(None)
        raise JournalError("j", "the log does not answer")

    heartbeat = Heartbeat(renew, longest=0.8)
    eventually(lambda: renewals)
    sleep(1)
    count = len(renewals)
    sleep(0.3)
    assert len(renewals) == count
    heartbeat.beat()
    eventually(lambda: len(renewals) > count)
    heartbeat.close()
