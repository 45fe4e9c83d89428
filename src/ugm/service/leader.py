"""The leader: executes the operations of all sessions, and answers when their changes are durable.

The problem: many clients want answers at once, an answer may be sent only when its change is on disk, and a client that
has lost its connection repeats operations that may have been executed.

The idea: operations are executed in the order of their arrival, in one thread. Their changes gather in a batch
(`ugm.service.batch_log`), and one commit makes the batch durable. Each operation has a number in its session. The
leader keeps the answers to changes until the client acknowledges them, in memory and in the log, so that this leader
and the next one answer a repeated number without a second execution.

Invariants:

- An answer is sent only after everything that its operation has read or changed is durable, except the answer to a
  query while the log is unavailable.
- The log has the answers to all changes of a session up to its last change. A repeated operation without a stored
  answer had changed nothing, or was never executed.

The cost: a dictionary entry for each operation that is not acknowledged.

A leader that cannot reach its log may have been replaced without knowing it. So it tells its clients every few
seconds to try the other processes. A client that finds no other leader comes back. It repeats its open operations by
number, so this does no harm.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Final, final

from msgspec import Raw

from ugm.journal.change_queue import milliseconds
from ugm.service.committer import Committer
from ugm.service.direct_execution import DirectExecution
from ugm.service.engine import Engine
from ugm.service.error_codec import encode_error
from ugm.service.errors import FencedError
from ugm.service.leader_sessions import LeaderSessions
from ugm.service.operations import ERROR, Kind, Operation, operations_of
from ugm.service.query_turns import QueryTurns
from ugm.service.server_connection import ServerConnection
from ugm.service.session import Session
from ugm.service.status import OperationTimes, ServiceStatus, StandbyStatus
from ugm.service.wire import (
    SESSION_UNKNOWN,
    Execute,
    Follow,
    Hello,
    LeaderMessage,
    Moved,
    Refused,
    Replies,
    Reply,
    Welcome,
    frame,
)

__all__ = ["Leader"]

#: The time between two searches for idle sessions, and the time after which such a session is forgotten, in seconds.
_TIDY: Final = 60.0
_FORGET: Final = 3600.0
#: The time for which the log may be silent, and then the time between two requests to the clients to try other
#: processes, in seconds.
_SILENCE: Final = 3.0
_ROUND: Final = 2.0
#: The time between two readings of the clock, for the age of allocations, in seconds.
_TICK: Final = 1.0
#: Looked up faster than a member of an enumeration.
_SCAN: Final = Kind.SCAN


@final
class Leader:
    """Executes operations for sessions in the thread of the loop; a `ugm.service.server_connection.Clients`.

    Args:
        engine: the partition, the sessions in the log, and the parts that pass changes on.
        max_sessions: the maximum number of sessions.
        other_address: returns the address of a process that may know another leader; empty if there is none.
    """

    __slots__ = (
        *("_committer", "_direct", "_feed", "_log", "_loop", "_other_address", "_partition", "_scans", "_sessions"),
        *("_redirecting", "_ticking", "_tidying", "_times"),
    )

    def __init__(self, engine: Engine, max_sessions: int, other_address: Callable[[], str]) -> None:
        self._loop: Final = asyncio.get_running_loop()
        self._partition, self._committer, self._feed = engine.partition, engine.committer, engine.feed
        self._log: Final = engine.committer.log
        self._sessions: Final = LeaderSessions(engine.partition, engine.sessions, self._log, max_sessions)
        self._other_address: Final = other_address
        self._times: Final = OperationTimes()
        self._direct: Final = DirectExecution(engine.partition, engine.committer, self._times)
        self._tidying = self._loop.call_later(_TIDY, self._tidy)
        self._redirecting = self._loop.call_later(_ROUND, self._redirect_clients)
        self._ticking = self._loop.call_later(_TICK, self._tick)
        self._scans: Final = QueryTurns("ugm query")

    # Sessions

    def welcome(self, connection: ServerConnection, hello: Hello) -> tuple[Session | None, LeaderMessage | None]:
        """Return the session of a client, opened or resumed, or the reason why there is none."""
        if hello.session:
            session = self._sessions.get(hello.session)
            if session is None:
                return None, Refused(SESSION_UNKNOWN, f"the session {hello.session} does not exist")
            session.acknowledge(hello.after)
            if session.peer is not None:
                session.peer.close()
        elif (opened := self._sessions.open(hello.client)) is not None:
            session = opened
        else:
            return None, Refused("too-many-sessions", "there are too many sessions with allocations or a connection")
        session.peer = connection
        welcome = frame(Welcome(session.name, self._committer.term, session.last))
        self._committer.when_durable(lambda: connection.send(welcome))
        return session, None

    def leave(self, session: Session) -> None:
        """End the session of a client that has said goodbye, unless it owns allocations."""
        self._sessions.leave(session)
        self._committer.request()

    def follow(self, connection: ServerConnection, message: Follow) -> None:
        """Send all changes after a number to a connection; see `ChangeFeed.follow`."""
        self._log.is_followed = True
        self._log.are_denials_followed |= message.denials
        self._feed.follow(connection, message.after, denials=message.denials)

    def follow_on(self, connection: ServerConnection) -> None:
        """Send further changes to a connection that has read the ones before."""
        self._feed.follow_on(connection)

    def disconnected(self, connection: ServerConnection) -> None:
        """Forget a connection that was lost. Its session is kept, because the client may return."""
        self._feed.leave(connection)

    @property
    def committer(self) -> Committer:
        """The committer of the engine."""
        return self._committer

    def status(self, name: str, address: str, standbys: tuple[StandbyStatus, ...]) -> ServiceStatus:
        """Return the status of the service; from any thread.

        Args:
            name: the name of this process.
            address: its address.
            standbys: the processes that stand by.
        """
        committer, sessions = self._committer, tuple(self._sessions)
        return ServiceStatus(
            name,
            is_leading=True,
            leader=name,
            address=address,
            term=committer.term,
            change=committer.durable,
            standbys=standbys,
            sessions=len(sessions),
            connected=sum(session.peer is not None for session in sessions),
            waiting=sum(session.waiting for session in sessions),
            commits=committer.times.status(),
            operations=self._times.status(),
            outage=str(committer.outage or ""),
        )

    def _tidy(self) -> None:
        """Forget the sessions of clients that own nothing and did not return."""
        self._sessions.forget_idle(_FORGET)
        self._committer.request()
        self._tidying = self._loop.call_later(_TIDY, self._tidy)

    def _tick(self) -> None:
        self._log.now = milliseconds()
        self._ticking = self._loop.call_later(_TICK, self._tick)

    def _redirect_clients(self) -> None:
        """While the log is silent, send the clients to other processes."""
        self._redirecting = self._loop.call_later(_ROUND, self._redirect_clients)
        if self._committer.silence > _SILENCE:
            moved = frame(Moved(self._other_address()))
            for session in self._sessions:
                if session.peer is not None:
                    session.peer.send(moved)
                    session.peer.close()

    def close(self) -> None:
        """Stop the timers, and the threads for queries."""
        self._tidying.cancel()
        self._redirecting.cancel()
        self._ticking.cancel()
        self._scans.close()

    # Operations

    def execute(self, session: Session, message: Execute) -> None:
        """Execute the operations of a message, and answer when they are durable.

        Raises:
            ProtocolError: there is no such operation; none of the message was executed.
        """
        if self._direct.execute(session, message):
            return
        operations = operations_of(message.requests)
        session.acknowledge(message.acknowledged)
        log, number, answers = self._log, message.first, []
        before, self._sessions.caller = log.number, session
        log.begin_message(session.name)
        began_at = perf_counter()
        try:
            for operation, request in zip(operations, message.requests, strict=True):
                answer = self._execute(session, number, operation, request.arguments)
                if answer is not None:
                    answers.append(answer)
                number += 1
        finally:
            self._times.add(len(operations), perf_counter() - began_at)
            log.end_message()
            self._sessions.caller = None
        if log.is_stored and log.number != before:
            log.add_progress(session.progress())
        if answers:
            self._committer.when_durable(partial(session.finish, answers))

    def _execute(self, session: Session, number: int, operation: Operation, arguments: Raw) -> Reply | None:
        """Return the answer to one operation; None if there is none yet, or none any more."""
        is_change = operation.is_change
        if not session.begin(number, is_change=is_change):
            return session.kept_answer(number)
        if operation.kind is _SCAN:
            self._scan(session, number, operation, arguments)
            return None
        if is_change and session.is_fenced:
            answer = Reply(number, ERROR, Raw(encode_error(FencedError(session.name))))
        else:
            target = self._sessions if operation.is_about_sessions else self._partition
            answer = Reply(number, *operation.execute(target, arguments))
        if is_change and self._log.is_stored:
            session.log_later(answer)
        return answer

    def _scan(self, session: Session, number: int, operation: Operation, arguments: Raw) -> None:
        """Execute a query over the whole partition in another thread."""
        # Without a copy, the query would keep the whole message in memory.
        copied = bytes(arguments)

        def work() -> Callable[[], None]:
            # A large answer would stop the loop while it is encoded.
            data = frame(Replies([Reply(number, *operation.execute(self._partition, copied))]))
            return partial(self._committer.when_durable, partial(session.finish_query, number, data))

        self._scans.submit(session, number, len(copied), work)
