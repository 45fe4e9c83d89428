"""Queries that run in threads of their own; the sessions take turns.

The problem: a query over the whole partition may take long, and a client may send thousands of them. They must not
delay the queries of the other clients, or fill the memory of the service while they wait.

The idea: each session has a line of waiting queries. A free thread takes the first query of the session whose turn it
is, and then the next session has its turn. If a session has no connection then, all its queries are dropped: its client
sends them again. `Session.queued_bytes` is the size of the arguments. The connection reads nothing more while it is too
large.

Invariant: everything except the queries themselves happens in the thread of the loop, so nothing needs a lock.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias, final

from ugm._daemon_pool import DaemonPool
from ugm.service.session import Session

__all__ = ["QueryTurns"]

_LOGGER: Final = logging.getLogger(__name__)

#: The number of threads.
_THREADS: Final = 2
#: The time after which a query is tried again that had no thread, in seconds.
_RETRY: Final = 0.1

#: Executes a query in a thread, and returns a function for the loop that sends the answer.
Work: TypeAlias = Callable[[], Callable[[], None]]


class _Query(NamedTuple):
    """A waiting query."""

    number: int
    #: The size of the arguments in bytes.
    size: int
    work: Work


@final
class QueryTurns:
    """Executes the queries of all sessions.

    Args:
        name: the beginning of the names of the threads.
    """

    __slots__ = ("_free", "_lines", "_pool", "_retry")

    def __init__(self, name: str) -> None:
        self._pool: Final = DaemonPool(name, _THREADS)
        self._free = _THREADS
        #: The waiting queries; the next session is first.
        self._lines: Final[dict[Session, deque[_Query]]] = {}
        #: The next attempt to execute a query that had no thread; None if the last one had a thread.
        self._retry: asyncio.TimerHandle | None = None

    def submit(self, session: Session, number: int, size: int, work: Work) -> None:
        """Execute a query when it is its turn; called in the loop.

        Args:
            session: the session of the client.
            number: the number of the query in the session.
            size: the size of its arguments in bytes.
            work: executes the query.
        """
        session.queued_bytes += size
        self._lines.setdefault(session, deque()).append(_Query(number, size, work))
        self._start()

    def _start(self) -> None:
        """Start queries while a thread is free."""
        while self._free and self._lines:
            session = next(iter(self._lines))
            line = self._lines.pop(session)
            if session.peer is None:
                for query in line:
                    self._forget(session, query)
                continue
            query = line.popleft()
            if line:
                self._lines[session] = line
            self._free -= 1
            try:
                self._pool.submit(self._execute, asyncio.get_running_loop(), session, query)
            except RuntimeError as error:
                self._free += 1
                self._lines.setdefault(session, deque()).appendleft(query)
                self._start_later(error)
                return
            self._retry = None

    def _start_later(self, error: RuntimeError) -> None:
        """Start queries when the system may have a thread again. Decisions need none, so they go on."""
        loop, before = asyncio.get_running_loop(), self._retry
        if before is None:
            _LOGGER.warning("a query has no thread: %s", error)
        elif before.when() > loop.time():
            return
        self._retry = loop.call_later(_RETRY, self._start)

    def _execute(self, loop: asyncio.AbstractEventLoop, session: Session, query: _Query) -> None:
        answer: Callable[[], None] | None = None
        try:
            answer = query.work()
        except BaseException:
            _LOGGER.exception("a query has failed")
        finally:
            loop.call_soon_threadsafe(self._finish, session, query, answer)

    def _finish(self, session: Session, query: _Query, answer: Callable[[], None] | None) -> None:
        """Send an answer, or forget a query that has none, and start the next query."""
        self._free += 1
        try:
            if answer is None:
                self._forget(session, query)
            else:
                session.queued_bytes -= query.size
                answer()
            if session.peer is not None:
                session.peer.note_executed()
        finally:
            self._start()

    def _forget(self, session: Session, query: _Query) -> None:
        session.queued_bytes -= query.size
        session.undecided.pop(query.number, None)

    def close(self) -> None:
        """Stop the threads. Waiting queries are not answered."""
        self._lines.clear()
        self._pool.shutdown(wait=False, cancel_futures=True)
