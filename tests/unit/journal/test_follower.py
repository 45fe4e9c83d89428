"""A follower has the state of the log, knows its lag, and takes over without a replay."""

from __future__ import annotations

import json
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from support.journal_fixtures import begin, partition_of, require_parts
from support.log_processes import lead
from support.partition_fixtures import memory
from support.random_changes import CONFIGS, Actor, state_of
from ugm.errors import RequestError
from ugm.journal import JournalDamagedError, JournalError, JournalHeldError, open_partition
from ugm.journal.follower import Follower
from ugm.journal.locations import log_at
from ugm.journal.log import Candidate


@pytest.fixture(name="path")
def _path(quick_folder: Path) -> Path:
    return quick_folder / "journal"


def test_follows(path: Path) -> None:
    """A follower applies each acknowledged change, from the first one on."""
    follower = Follower(path)
    assert (follower.number, follower.poll(), follower.lag().changes) == (0, 0, 0)
    with begin(path) as partition:
        assert follower.poll() == 2
        partition.allocate("a", "app", memory(1))
        assert follower.lag().changes == 1
        assert (follower.poll(), follower.poll()) == (1, 0)
        assert "a" in follower.state.ledger.owners
        assert follower.lag().changes == 0
        assert follower.lag().seconds < 60
        assert follower.number == partition.journal.number


def test_age_under_constant_changes(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The state counts as complete after a read that has reached the end of the log, also if it found changes."""
    for module in ("follower", "file_log"):
        monkeypatch.setattr(f"ugm.journal.{module}.CHANGES_AT_ONCE", 3)
    with begin(path) as partition:
        follower = Follower(path)
        for number in range(5):
            partition.allocate(str(number), "app", memory(1))
        before = follower.complete_at
        assert (follower.poll(), follower.complete_at) == (3, before)
        assert follower.poll() == 2
        assert follower.complete_at > before


def test_size_of_the_changes_that_are_read(path: Path) -> None:
    """A reader gets changes up to a size, and at least one."""
    with begin(path) as partition:
        require_parts(log_at(path), partition)


def test_a_system_that_cannot_open_the_file(path: Path) -> None:
    """The error of a reader is that of a journal, whatever the system reports."""
    with begin(path):
        pass
    marker = Path(f"{path}-acked")
    marker.unlink()
    marker.mkdir()

    with pytest.raises(JournalError, match=r"the ack marker .* cannot be read: "):
        log_at(path).tail().changes(0)


def test_takes_over_every_state(path: Path) -> None:
    """After many changes of any kind, the state that is taken over is the one that was left."""
    actor = Actor("follower")
    follower = Follower(path)
    with open_partition(path, CONFIGS[0]) as partition:
        for number in range(150):
            actor.step(partition)
            if number % 7 == 0:
                follower.poll()
        state = state_of(partition)

    successor = partition_of(follower.lead(Candidate()))

    assert state_of(successor) == state
    successor.verify()
    for _ in range(20):
        actor.step(successor)
    state = state_of(successor)
    successor.journal.close()
    with open_partition(path) as again:
        assert state_of(again) == state


def test_waits_for_the_leader(path: Path) -> None:
    """While the leader lives, the follower cannot lead; it goes on following, and leads afterwards."""
    with begin(path) as partition:
        follower = Follower(path)
        with pytest.raises(JournalHeldError):
            follower.lead(Candidate())
        partition.allocate("a", "app", memory(1))
        assert follower.poll() == 1

    with partition_of(follower.lead(Candidate())) as successor:
        assert successor.allocation_ids() == ("a",)
        assert successor.allocate("b", "app", memory(9))
        assert not successor.allocate("c", "app", memory(1))
    with open_partition(path) as again:
        assert sorted(again.allocation_ids()) == ["a", "b"]


def test_compaction(path: Path) -> None:
    """A follower that is behind a compaction loads the log again; one that is not goes on."""
    with begin(path) as partition:
        near, far = Follower(path), Follower(path)
        partition.allocate("a", "app", memory(1))
        near.poll()
        state = near.state
        partition.journal.compact()
        partition.allocate("b", "app", memory(1))

        assert (near.poll(), far.poll()) == (1, 2)
        assert near.state is state
        assert sorted(near.state.ledger.owners) == sorted(far.state.ledger.owners) == ["a", "b"]


def test_follows_in_a_thread(path: Path) -> None:
    """A thread can follow until a flag stops it."""
    stop = Event()
    with begin(path) as partition:
        follower = Follower(path)
        thread = Thread(target=follower.follow, args=(stop, 0.001))
        thread.start()
        for number in range(20):
            partition.allocate(f"a-{number}", "app", memory(0))
        while follower.number < partition.journal.number:
            stop.wait(0.001)
        stop.set()
        thread.join()

    assert follower.age < 60


def test_lost_changes(path: Path) -> None:
    """A follower that is ahead of the log does not take over: acknowledged changes were lost."""
    with begin(path) as partition:
        partition.journal.backup(path.with_name("copy"))
        partition.allocate("a", "app", memory(1))
    follower = Follower(path)
    with open_partition(path) as partition:
        partition.allocate("b", "app", memory(1))
        number = partition.journal.number
    path.with_name("copy").replace(path)
    assert number > follower.number

    with pytest.raises(JournalDamagedError, match="were acknowledged"):
        follower.lead(Candidate())


def test_record_of_the_leader(path: Path) -> None:
    """The record of a leader with an address can be read until it has ended; terms grow."""
    log = log_at(path)
    assert log.find_leader() is None
    with begin(path) as partition:
        assert partition._transaction_log.change_queue.term == 0
    assert not path.with_name("journal-leader").exists()
    for term in (1, 2):
        partition = lead(log, "one")
        leader = log.find_leader()
        assert leader is not None
        assert (leader.term, leader.name, leader.address) == (term, "one", "one:1")
        partition._transaction_log.change_queue.renew()
        renewed = log.find_leader()
        assert renewed is not None
        assert renewed.renewed_at >= leader.renewed_at
        assert partition._transaction_log.change_queue.term == term
        partition.journal.close()
        assert log.find_leader() is None


RECORD = {"term": 1, "name": "one", "address": "one:1", "process": 1, "started": 1, "renewed_at": 1}
WRONG_VALUES: list[dict[str, Any]] = [{"renewed_at": None}, {"term": "x"}, {"address": 7}, {"process": 1.5}]


@pytest.mark.parametrize(
    "content", ["{", "[" * 100_000, '{"term": 1}', *(json.dumps(RECORD | wrong) for wrong in WRONG_VALUES)]
)
def test_record_that_cannot_be_used(path: Path, content: str) -> None:
    """A damaged record of the leader counts as none; the lock of the journal decides who leads."""
    log = log_at(path)
    first = lead(log, "one")
    path.with_name("journal-leader").write_text(content)
    assert log.find_leader() is None
    with pytest.raises(JournalHeldError):
        lead(log, "two", log.find_leader())
    first.journal.close()
    path.with_name("journal-leader").write_text(content)

    lead(log, "two").journal.close()


def test_leader_of_this_process(path: Path) -> None:
    """A leader in the same process is never replaced."""
    log = log_at(path)
    partition = lead(log, "one")
    with pytest.raises(JournalHeldError):
        lead(log, "two", log.find_leader())
    assert partition.allocate("a", "app", memory(1))
    partition.journal.close()


def test_wrong_place() -> None:
    """A place is a path, a URL or a log."""
    with pytest.raises(RequestError, match="expected the path of a file"):
        log_at(7)  # type: ignore[arg-type]
