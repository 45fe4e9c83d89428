"""The sessions of a leader: what the log accepts, which session makes room, and sessions that are forgotten early."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.partition_fixtures import SUE
from ugm.journal.errors import JournalError
from ugm.service.engine import Engine
from ugm.service.leader_sessions import LeaderSessions
from ugm.service.session import Session
from unit.service.test_committer import with_engine


def sessions_of(engine: Engine, maximum: int = 9) -> LeaderSessions:
    """Return the sessions of a leader."""
    return LeaderSessions(engine.partition, engine.sessions, engine.committer.log, maximum)


def opened(sessions: LeaderSessions, client: str) -> Session:
    """Open a session."""
    session = sessions.open(client)
    assert session is not None
    return session


def clients(sessions: LeaderSessions) -> list[str]:
    """Return the names of the clients."""
    return [session.client for session in sessions]


def test_nothing_is_fenced_while_the_log_is_unavailable(tmp_path: Path) -> None:
    """A fence, a takeover and the end of a session raise an error if they cannot be stored."""

    def work(engine: Engine) -> None:
        sessions = sessions_of(engine)
        one, two = opened(sessions, "one"), opened(sessions, "two")
        sessions.caller = two
        sessions.fence(one.name)
        engine.committer.outage = JournalError("j", "the disk is broken")
        three = opened(sessions, "three")
        for operation in (sessions.fence, sessions.take_over, sessions.release_of):
            with pytest.raises(JournalError, match="the disk is broken"):
                operation(three.name)
        assert not three.is_fenced
        with pytest.raises(JournalError, match="the disk is broken"):
            sessions.forget(one.name)
        assert clients(sessions) == ["one", "two", "three"]
        engine.committer.outage = None

    with_engine(tmp_path / "j", work)


def test_oldest_session_makes_room_at_the_next_leader(tmp_path: Path) -> None:
    """A leader that has seen none of the clients yet forgets the session that was opened first."""

    def work(engine: Engine) -> None:
        before = sessions_of(engine)
        for name in ("oldest", "middle", "newest"):
            opened(before, name)
        after = sessions_of(engine, maximum=3)
        opened(after, "other")
        assert clients(after) == ["middle", "newest", "other"]

    with_engine(tmp_path / "j", work)


def test_client_of_a_forgotten_session_leaves(tmp_path: Path) -> None:
    """A client may say goodbye after its session was forgotten."""

    def work(engine: Engine) -> None:
        sessions = sessions_of(engine)
        session = opened(sessions, "one")
        sessions.fence(session.name)
        assert sessions.forget(session.name)
        sessions.leave(session)
        assert clients(sessions) == []

    with_engine(tmp_path / "j", work)


def test_records_between_the_steps_of_a_change(tmp_path: Path) -> None:
    """A record about a session does not make the current change of another thread final."""

    def work(engine: Engine) -> None:
        log = engine.committer.log
        log.prepare(needs_space=False)
        opened(sessions_of(engine), "one")
        assert not log.is_written()
        engine.partition.submit("app", SUE, "root.a")
        log.prepare(needs_space=False)
        assert not log.is_written()

    with_engine(tmp_path / "j", work)


def test_changes_in_doubt_are_not_written_in_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before an outage is known, changes fail at once instead of waiting for the log."""

    def work(engine: Engine) -> None:
        writer = engine.committer._change_queue
        assert writer is not None
        monkeypatch.setattr(writer, "_failure", JournalError("j", "no answer"))
        monkeypatch.setattr(type(writer), "flush", lambda _self: pytest.fail("the loop waits for the log"))
        with pytest.raises(JournalError, match="no answer"):
            engine.partition.submit("app", SUE, "root.a")
        monkeypatch.undo()

    with_engine(tmp_path / "j", work)
