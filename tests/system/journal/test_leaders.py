"""Leaders of a journal file in several processes: killed, stopped and replaced."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from support.journal_fixtures import partition_of
from support.log_processes import ask, lead, leader_process
from ugm.journal import JournalHeldError
from ugm.journal.follower import Follower
from ugm.journal.locations import log_at
from ugm.journal.log import Candidate

pytestmark = pytest.mark.ci


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_failed_leader(tmp_path: Path, how: signal.Signals) -> None:
    """A follower takes over from a leader that was killed or stopped, with every acknowledged change."""
    path = tmp_path / "journal"
    log = log_at(path)
    with leader_process(str(path), "one") as process:
        follower = Follower(path)
        answers = [ask(process, f"a-{number}") for number in range(5)]
        leader = log.find_leader()
        with pytest.raises(JournalHeldError):
            follower.lead(Candidate("two", "two:1"))
        process.send_signal(how)
        if how is signal.SIGKILL:
            process.wait()

        with partition_of(follower.lead(Candidate("two", "two:1"), replacing=leader)) as partition:
            assert partition.allocate("b", "app", next(iter(partition.allocations())).usage)
            assert len(partition.allocation_ids()) == answers.count("made") + 1 == 6
            found = log.find_leader()
            assert found is not None
            assert (found.name, found.term) == ("two", 2)
        process.send_signal(signal.SIGCONT)
        assert process.wait() == -signal.SIGKILL


def test_wrong_leader(tmp_path: Path) -> None:
    """A leader that has begun a later term than the one that was silent is not killed."""
    path = tmp_path / "journal"
    log = log_at(path)
    with leader_process(str(path), "one"):
        first = log.find_leader()
    assert first is not None
    with leader_process(str(path), "two") as process:
        with pytest.raises(JournalHeldError):
            lead(log, "three", first)
        assert ask(process, "a") == "made"


def test_race(tmp_path: Path) -> None:
    """Of several processes that replace the same leader, one succeeds."""
    path = tmp_path / "journal"
    log = log_at(path)
    with leader_process(str(path), "one") as process:
        process.send_signal(signal.SIGSTOP)
        leader = log.find_leader()
        first = lead(log, "two", leader)
        with pytest.raises(JournalHeldError):
            lead(log, "three", leader)
        first.journal.close()
