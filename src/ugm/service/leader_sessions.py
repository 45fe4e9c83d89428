"""The sessions of a leader: presence, ownership, fencing and takeover.

The durable part of the sessions is the `ugm.journal.client_sessions.SessionTable`, which changes with the log. This
module adds the connections, and records changes of sessions in the log.
"""

from __future__ import annotations

from collections.abc import Iterator
from secrets import token_hex
from time import monotonic
from typing import Final, final

from ugm.arguments import require_name
from ugm.errors import RequestError
from ugm.journal.client_sessions import (
    ClientSession,
    OwnerChanged,
    SessionFenced,
    SessionForgotten,
    SessionOpened,
    SessionTable,
)
from ugm.partition import AbstractPartition
from ugm.service.batch_log import BatchLog
from ugm.service.session import Session
from ugm.service.session_interface import AbstractSessions, SessionAllocation, SessionReport

__all__ = ["LeaderSessions"]


@final
class LeaderSessions(AbstractSessions):
    """The sessions of a leader. They are used in the thread of the loop only.

    Args:
        partition: the engine.
        table: the sessions in the log.
        log: records changes of sessions.
        maximum: the maximum number of sessions.
    """

    __slots__ = ("_began", "_idle", "_log", "_maximum", "_partition", "_sessions", "_table", "caller")

    #: The session whose operation is being executed.
    caller: Session | None

    def __init__(self, partition: AbstractPartition, table: SessionTable, log: BatchLog, maximum: int) -> None:
        self._partition: Final = partition
        self._table: Final = table
        self._log: Final = log
        self._maximum: Final = maximum
        self._began: Final = monotonic()
        #: Sessions that were idle some time ago, those that have been silent for longest at the end.
        self._idle: list[Session] = []
        self._sessions: Final = {name: Session.restored(logged) for name, logged in table.sessions.items()}
        self.caller = None

    def __iter__(self) -> Iterator[Session]:
        return iter(self._sessions.values())

    # Sessions of clients

    def open(self, client: str) -> Session | None:
        """Open a session for a client; None if there are too many that are connected or own allocations."""
        if len(self._sessions) >= self._maximum and not self._make_room():
            return None
        session = Session(token_hex(8), client)
        self._sessions[session.name] = session
        self._log.add_record(SessionOpened(session.name, client))
        return session

    def _make_room(self) -> bool:
        """Forget the idle session that has been silent for longest, and return whether there was one."""
        if not self._idle:
            found = filter(self._is_idle, self._sessions.values())
            self._idle = sorted(found, key=lambda session: session.lost_at)
            # Of those that this leader has never seen, the first is the oldest.
            self._idle.reverse()
        while self._idle:
            session = self._idle.pop()
            if self._is_idle(session):
                self._drop_if_idle(session)
                return True
        return False

    def _is_idle(self, session: Session) -> bool:
        is_current = self._sessions.get(session.name) is session
        return is_current and session.peer is None and not self._table.sessions[session.name].held

    def leave(self, session: Session) -> None:
        """Note that the client of a session will not return; it is kept only if it owns allocations."""
        session.disconnect()
        if self._sessions.get(session.name) is session:
            self._drop_if_idle(session)

    def forget_idle(self, silent_for: float) -> None:
        """Remove the sessions that own nothing and have been silent for some seconds."""
        for report in self.sessions(silent_for):
            if not report.is_connected:
                self._drop_if_idle(self._sessions[report.session])

    def _drop_if_idle(self, session: Session) -> None:
        if not self._table.sessions[session.name].held:
            del self._sessions[session.name]
            self._log.add_record(SessionForgotten(session.name))

    def get(self, session: str) -> Session | None:
        """Return a session; None if it does not exist."""
        return self._sessions.get(session)

    def _require(self, session: str) -> tuple[Session, ClientSession]:
        name = require_name("session", session)
        found = self._sessions.get(name)
        if found is None:
            raise RequestError("session", name, "there is no such session", "session-unknown")
        return found, self._table.sessions[name]

    # Operations

    def sessions(self, silent_for: float = 0.0) -> tuple[SessionReport, ...]:
        reports = (self._report(session) for session in self._sessions.values())
        return tuple(report for report in reports if report.silent_for >= silent_for)

    def _report(self, session: Session) -> SessionReport:
        logged = self._table.sessions[session.name]
        silent_for = 0.0 if session.peer is not None else monotonic() - (session.lost_at or self._began)
        return SessionReport(
            session.name,
            session.client,
            logged.opened_at,
            session.peer is not None,
            silent_for,
            logged.held,
            session.is_fenced,
        )

    def owned_by(self, session: str) -> tuple[SessionAllocation, ...]:
        self._require(session)
        found = self._partition.allocations_by_id(sorted(self._table.allocations_of(session)))
        owners = self._table.owners
        return tuple(SessionAllocation.at(one, owners[one.allocation.allocation_id].since * 1000) for one in found)

    def fence(self, session: str) -> None:
        found, _ = self._require(session)
        if not found.is_fenced:
            self._log.require_writable()
            found.is_fenced = True
            self._log.add_record(SessionFenced(session))

    def take_over(self, session: str) -> tuple[str, ...]:
        found, _ = self._require(session)
        caller = self.caller
        if caller is None or caller is found:
            raise RequestError("session", session, "a session cannot take over its own allocations", "state-conflict")
        self.fence(session)
        owned = tuple(sorted(self._table.allocations_of(session)))
        if owned:
            self._log.require_writable()
            self._log.add_record(OwnerChanged(caller.name, owned))
        return owned

    def release_of(self, session: str) -> tuple[str, ...]:
        self.fence(session)
        owned = tuple(sorted(self._table.allocations_of(session)))
        for allocation_id in owned:
            self._partition.release(allocation_id)
        return owned

    def forget(self, session: str) -> bool:
        name = require_name("session", session)
        found = self._sessions.get(name)
        if found is None:
            return False
        if not found.is_fenced or self._table.sessions[name].held:
            raise RequestError("session", name, "it is not fenced, or still owns allocations", "not-empty")
        self._log.require_writable()
        self._drop_if_idle(found)
        return True
