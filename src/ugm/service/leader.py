"""The leader: executes the operations of all sessions, and answers when their changes are durable.

The problem: many clients want answers at once, an answer may be sent only when its change is on disk, and a client that
has lost its connection repeats operations that may have been executed.

The idea: operations are executed in the order of their arrival, in the thread of the loop. Operations that are received
together, or during a commit, are one transaction of the store: their changes, the owners of their allocations and their
answers. They have one time. Answers wait in a queue until their transaction is durable. While few clients call, a
commit waits a moment for those that were just answered, so that all of them share it.

Invariants:

- An answer is sent only after everything that its operation has read or changed is durable, except the answer to a
  query while the store is unavailable.
- A query is answered only if the store has confirmed a moment ago that this process leads. A process that was stopped
  for some time does not know that another one leads now.
- If anything fails after a change in memory and before its transaction was appended, this process resigns. The next
  leader, which may be this process, reads the rows of the store.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from time import monotonic, perf_counter, time_ns
from typing import Final, final

import msgspec

from ugm.errors import RequestError
from ugm.partition import Partition
from ugm.partition.engine.transaction import EventOutbox
from ugm.partition.rows import Change
from ugm.service.errors import FencedError
from ugm.service.feeds import SESSION_TABLES, ChangeFeed, WakeFeed
from ugm.service.protocol import wire
from ugm.service.protocol.operations import OPERATIONS, Operation, answer_line
from ugm.service.protocol.status import ServiceStatus, Times
from ugm.service.protocol.values import encode
from ugm.service.server import Connection
from ugm.service.sessions import LeaderSessions
from ugm.store.database import StoreDamagedError, StoreDeposedError, StoreError
from ugm.store.partition import ChangeClock, stored_changes
from ugm.store.reader import Loaded
from ugm.store.row_tables import encode_changes
from ugm.store.store import Store

_LOGGER: Final = logging.getLogger(__name__)

#: The time between two records of the leader in an idle store, and the time for which an answer of the store shows that
#: no other process leads, in seconds. Another process cannot lead earlier.
RENEWAL: Final = 0.1
_LEASE: Final = 0.25
#: The time between two searches for idle sessions, and the time after which such a session is forgotten, in seconds.
_TIDY: Final = 60.0
_FORGET: Final = 3600.0
#: The maximum time for which a commit waits for the next calls of the clients that were just answered, in seconds, and
#: the maximum number of answers after which it waits.
_GATHERING: Final = 0.001
_FEW: Final = 64
#: The time without an answer of the store after which clients are sent to other processes, in seconds.
_SILENCE: Final = 3.0

#: The tables whose changes `ugm.service.protocol.values.encode` encodes in less time than, and like, the store itself.
#: Their values can be stored, because they came from a client or from the store. Those of sessions are single values.
_PLAIN_TABLES: Final = frozenset({"allocation", "application", "request"})
_PLAIN_VALUES: Final = frozenset({"owner", "answer"})


def _form(change: Change) -> object:
    """Return what `ugm.service.protocol.values.encode` encodes as the store would encode a change.

    Raises:
        RequestError: a value cannot be stored.
    """
    if change.table in _PLAIN_TABLES:
        return change
    if change.table in _PLAIN_VALUES:
        return change.table, change.key, None, None if change.new is None else (change.new,), ""
    return msgspec.Raw(encode_changes([change])[1:-1])


@final
class LeaderLog:
    """Collects the changes of a transaction; a `ugm.partition.engine.transaction.TransactionLog`.

    Args:
        store: the store; None for a partition in memory.
        clock: the time of the changes.
    """

    def __init__(self, store: Store | None, clock: ChangeClock) -> None:
        self.store: Final = store
        self.clock: Final = clock
        #: The number of the last transaction. Without a store, the numbers of the next process are larger, so it
        #: refuses clients that followed this one.
        self.number: int = time_ns() // 1000 if store is None else store.number
        #: The number of operations whose changes were collected.
        self.position: int = 0
        #: Why the store accepts no changes now; None if it does.
        self.outage: StoreError | None = None
        #: The collected changes, and what is encoded of each.
        self.changes: list[Change] = []
        self._forms: list[object] = []
        #: Whether clients follow the changes.
        self.is_followed: bool = False
        #: Refuses changes of an operation by raising a RequestError; set by the leader.
        self.check: Callable[[Sequence[object]], None] = lambda _: None

    @property
    def last(self) -> int:
        """The number of the transaction of the last change, which may still be collected."""
        return self.number + bool(self.changes)

    def require_ready(self) -> None:
        """Check that this process may change the partition.

        Raises:
            StoreError: the store accepts no changes now.
        """
        if self.outage is not None:
            raise type(self.outage)(*self.outage.args)

    def prepare(self) -> None:
        """Begin a change, which has the time of those that it joins."""
        if not self.changes:
            self.clock.begin()

    def write(self, changes: Sequence[object]) -> None:
        """Collect the changes of an operation of the partition.

        Raises:
            RequestError: a value cannot be stored, or the client may not change it.
        """
        self.check(changes)
        self.add(stored_changes(changes))
        self.position += 1

    def add(self, changes: list[Change]) -> None:
        """Collect changes.

        Raises:
            RequestError: a value cannot be stored.
        """
        self._forms += [_form(one) for one in changes]
        self.changes += changes
        if self.store is not None:
            self.store.has_collected = True

    def take(self) -> bytes:
        """Append what was collected as one transaction, and return what clients that follow receive of it."""
        changes, forms = self.changes, self._forms
        self.changes, self._forms = [], []
        if self.store is None:
            self.number += 1
        else:
            self.number = self.store.append(changes, self.clock.of_change(), encode(forms))
        shown = zip(changes, forms, strict=True) if self.is_followed else ()
        return encode([form for one, form in shown if one.table not in SESSION_TABLES])[1:-1]

    def wait(self, change: int, event: int) -> bool:  # noqa: ARG002 - as in the protocol
        """Return that the thread does not wait: the leader answers when the change is durable."""
        return False

    def release_locks(self) -> None:
        """Release every lock that this thread still holds after an exception."""
        if self.store is not None:
            self.store.release_locks()


@final
class Leader:
    """Executes operations for sessions in the thread of the loop; a `ugm.service.server.Clients`.

    Args:
        partition: the partition, whose log is *log*.
        log: the log.
        loaded: the content of the store; None without a store.
        outbox: the events for subscribers.
        feed: passes changes to clients that follow.
        identity: the name and the address of this process.
        max_sessions: the maximum number of sessions.
    """

    def __init__(
        self,
        partition: Partition,
        log: LeaderLog,
        loaded: Loaded | None,
        outbox: EventOutbox,
        feed: ChangeFeed,
        identity: ServiceStatus,
        max_sessions: int,
    ) -> None:
        self._loop: Final = asyncio.get_running_loop()
        self.partition: Final = partition
        self.log: Final = log
        self._store: Final = log.store
        self._outbox: Final = outbox
        self._feed: Final = feed
        #: Set when this process ceases to lead.
        self.resigned: Final = asyncio.Event()
        self._identity: Final = identity
        now = log.clock.of_change
        self.sessions: Final = LeaderSessions(partition, loaded, log.add, now, max_sessions)
        log.check = self.sessions.require_own
        #: Answers that wait for a transaction: its number, the connection and the line.
        self._waiting: Final = deque[tuple[int, Connection, bytes]]()
        #: The transactions with events for subscribers: the number, and that of the last event.
        self._events: Final = deque[tuple[int, int]]()
        #: Whether a commit is in progress, and for how many waiting answers the next one waits for a moment.
        self._is_watching = False
        self._expected = 0
        #: When the store confirmed last that this process leads, and when this loop had its last answer.
        self.confirmed_at: float = monotonic()
        self.seen_at: float = self.confirmed_at
        #: When clients were sent to other processes last.
        self._redirected_at = 0.0
        self._commits: Final = Times()
        self._operations: Final = Times()
        self._wakes: Final = WakeFeed(partition, self.sessions, self.commit, self._send)
        self._scans: Final = ThreadPoolExecutor(2, "ugm-query")
        self._tidying = self._loop.call_later(_TIDY, self._tidy)
        # What opening has changed, for example the configuration, is the first transaction.
        self.commit()

    @property
    def durable(self) -> int:
        """The number of the last durable transaction."""
        return self.log.number if self._store is None else self._store.durable

    @property
    def term(self) -> int:
        """The term of this leader."""
        return 1 if self._store is None else self._store.term

    # Clients

    def welcome(self, connection: Connection, hello: wire.Hello) -> None:
        """Open or resume the session of a client."""
        if hello.is_reader:
            connection.send(wire.line(wire.Welcome(connection.version, "", self.term)))
            return
        if self.log.outage:
            connection.close(self._refusal())
            return
        if hello.session:
            session = self.sessions.by_name.get(hello.session)
            if session is None or session.row["token"] != connection.token_name:
                connection.close(wire.Refused("session-unknown", f"the session {hello.session} does not exist"))
                return
        else:
            self.log.prepare()
            session = self.sessions.open(hello.client, connection.token_name)
            if session is None:
                reason = "there are too many sessions with allocations or a connection"
                connection.close(wire.Refused("too-many-sessions", reason))
                return
        if session.peer is not None:
            session.peer.close(wire.Moved(""))
        session.peer, session.role, connection.session = connection, connection.role, session
        self.commit()
        self._send(connection, wire.line(wire.Welcome(connection.version, session.name, self.term)))

    def handle(self, connection: Connection, messages: list[wire.ClientMessage]) -> None:
        """Handle messages of a client that was welcomed."""
        began, count, acknowledged = perf_counter(), 0, 0
        if connection.session is None:
            seconds = 0.0 if self._is_confirmed() else monotonic() - self.confirmed_at
            connection.send(wire.line(wire.Age(wire.Staleness(seconds, self.durable))))
        for message in messages:
            if type(message) is wire.Call:
                count, acknowledged = count + 1, message.acknowledged
                self._execute(connection, message)
            elif type(message) is wire.Follow:
                self.log.is_followed = True
                self._feed.follow(connection, message.after)
            elif type(message) is wire.Wait:
                self._wakes.wait(connection)
            elif type(message) is wire.Bye:
                self._leave(connection)
        if len(self._waiting) >= self._expected:
            self.commit()
        if connection.session is not None:
            connection.session.acknowledge(acknowledged)
        self._wakes.note_changes()
        self._operations.add(count, perf_counter() - began)

    def disconnected(self, connection: Connection) -> None:
        """Note that a connection was lost. Its session is kept, because the client may return."""
        session = connection.session
        self._feed.leave(connection)
        self._wakes.leave(connection)
        if session is not None and session.peer is connection:
            session.peer, session.lost_at = None, monotonic()

    def _leave(self, connection: Connection) -> None:
        self.disconnected(connection)
        if connection.session is not None and not self.log.outage:
            self.log.prepare()
            self.sessions.drop(connection.session)
            self.commit()

    # Operations

    def _execute(self, connection: Connection, call: wire.Call) -> None:
        session, number = connection.session, call.number
        if session is not None and (kept := session.answers.get(number)) is not None:
            # The client repeats a call after a reconnect.
            self._answer(connection, *kept)
            return
        known = OPERATIONS.get(call.operation)
        if known is not None and known.is_scan:
            self._scans.submit(self._scan, connection, call)
            return
        log, before = self.log, len(self.log.changes)
        self.sessions.caller = session
        try:
            answer = answer_line(call, connection.role, self._target)
        except BaseException as error:
            self.resign(StoreError("", f"an operation was interrupted: {error!r}"))
            raise
        finally:
            self.sessions.caller = None
        if len(log.changes) == before:
            # While the store is unavailable, changes are refused at once, so this was a query.
            self._answer(connection, log.last, answer, may_wait=False)
            return
        change = log.last
        if session is not None:
            log.add(self.sessions.note_owners(log.changes[before:], session))
            self.sessions.keep_answer(session, number, change, answer)
        self._waiting.append((change, connection, answer))

    def _target(self, operation: Operation) -> object:
        """Return the object that executes an operation of the caller.

        Raises:
            RequestError: the caller is a reader, and may change nothing.
            FencedError: its session was fenced.
            StoreError: the store accepts no changes now.
        """
        caller = self.sessions.caller
        if operation.is_change:
            if caller is None:
                raise RequestError("operation", "change", "the connection is read-only", "operation-unavailable")
            if caller.row["is_fenced"]:
                raise FencedError(caller.name)
            if operation.is_about_sessions:
                # The partition itself begins its changes.
                self.log.prepare()
                self.log.require_ready()
        return self.sessions if operation.is_about_sessions else self.partition

    def _scan(self, connection: Connection, call: wire.Call) -> None:
        """Execute a query over the whole partition, in another thread."""
        data = answer_line(call, connection.role, lambda _: self.partition)
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(lambda: self._answer(connection, self.log.number, data, may_wait=False))

    # Commits

    def commit(self) -> None:
        """Append what was collected, unless a commit is in progress: its end appends it."""
        if self.log.changes and not self._is_watching and self.log.outage is None:
            self._append()

    def _append(self) -> None:
        log = self.log
        try:
            log.add(self.sessions.take_answers())
            data = log.take()
        except BaseException as error:
            # The changes are in memory only.
            self.resign(StoreError("", f"a change could not be appended: {error}"))
            raise
        if log.is_followed:
            self._feed.add(log.number, data)
        if self._outbox.has_subscribers:
            self._events.append((log.number, self._outbox.last_event))
        if self._store is None:
            self._deliver(log.number)
        else:
            self._watch()

    def _answer(self, connection: Connection, number: int, data: bytes, *, may_wait: bool = True) -> None:
        """Send a line when a transaction is durable, and the store has confirmed that this process leads.

        Args:
            connection: the connection.
            number: the number of the transaction.
            data: the line.
            may_wait: whether the line waits while the store is unavailable.
        """
        is_durable = number <= self.durable and not self._waiting and self._is_confirmed()
        if is_durable or (self.log.outage is not None and not may_wait):
            connection.send(data)
        else:
            self._waiting.append((number, connection, data))

    def _send(self, connection: Connection, data: bytes) -> None:
        """Send a line when everything up to now is durable."""
        self._answer(connection, self.log.last, data)

    def _is_confirmed(self) -> bool:
        return self._store is None or monotonic() - self.confirmed_at < _LEASE

    def _watch(self) -> None:
        """Wait for the next commit, unless this happens already."""
        if not self._is_watching and self._store is not None:
            self._is_watching = True
            self._store.when_durable(self._store.number, partial(self.note_soon, monotonic(), is_commit=True))

    def note_soon(self, began: float, failure: StoreError | None, *, is_commit: bool = False) -> None:
        """Note an answer of the store to a request that began at a time, from any thread."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._note, began, failure, is_commit)

    def _note(self, began: float, failure: StoreError | None, is_commit: bool = False) -> None:  # noqa: FBT001, FBT002 - of a callback
        self.seen_at = monotonic()
        if is_commit:
            self._is_watching = False
            self._commits.add(1, self.seen_at - began)
        if self.resigned.is_set():
            return
        if isinstance(failure, (StoreDeposedError, StoreDamagedError)):
            self.resign(failure)
            return
        if failure is not None:
            if self.log.outage is None:
                _LOGGER.warning("the store does not answer: %s", failure)
            self.log.outage = failure
            self._redirect()
            return
        self.log.outage, self.confirmed_at = None, max(began, self.confirmed_at)
        if self._store is not None:
            durable = self._store.durable
            if self._store.number > durable:
                self._watch()
            if is_commit and len(self._waiting) <= _FEW:
                # Most clients make their next calls now. If the next commit did not wait for them, they would share
                # only every other one.
                self._expected = len(self._waiting)
                self._loop.call_later(_GATHERING, self._commit_gathered)
            else:
                # Before the answers, so that the next commit begins at once.
                self.commit()
            self._deliver(durable)

    def _commit_gathered(self) -> None:
        self._expected = 0
        self.commit()

    def _deliver(self, durable: int) -> None:
        """Send what waits for transactions up to a number."""
        waiting = self._waiting
        if self._is_confirmed():
            lines: dict[Connection, list[bytes]] = {}
            while waiting and waiting[0][0] <= durable:
                _, connection, data = waiting.popleft()
                lines.setdefault(connection, []).append(data)
            for connection, parts in lines.items():
                connection.send_now(b"".join(parts))
        while self._events and self._events[0][0] <= durable:
            self._outbox.deliver(self._events.popleft()[1])
        self._feed.publish(durable)

    def _redirect(self) -> None:
        """While the store is silent, let the clients try other processes."""
        now = monotonic()
        if now - max(self.confirmed_at, self._redirected_at) > _SILENCE:
            self._redirected_at = now
            for session in self.sessions.by_name.values():
                if session.peer is not None:
                    session.peer.close(self._refusal())

    def _refusal(self) -> wire.Refused:
        """Return the message for clients while the store accepts no changes."""
        return wire.Refused(wire.STORE_UNAVAILABLE, str(self.log.outage))

    def resign(self, failure: StoreError) -> None:
        """Cease to lead."""
        if not self.resigned.is_set():
            self.log.outage = failure
            _LOGGER.warning("this process leads no more: %s", failure)
            self.resigned.set()

    # Status

    def status(self) -> ServiceStatus:
        """Return the status of the service, from any thread."""
        sessions = tuple(self.sessions.by_name.values())
        return replace(
            self._identity,
            term=self.term,
            change=self.durable,
            sessions=len(sessions),
            connected=sum(session.peer is not None for session in sessions),
            waiting=len(self._waiting),
            commits=self._commits.status(),
            operations=self._operations.status(),
            outage=str(self.log.outage or ""),
        )

    def _tidy(self) -> None:
        """Forget the sessions of clients that own nothing and did not return."""
        if self.log.outage is None:
            self.log.prepare()
            self.sessions.forget_idle(_FORGET)
            self.commit()
        self._tidying = self._loop.call_later(_TIDY, self._tidy)

    async def close(self) -> None:
        """Wait until all changes are durable. The store stays open."""
        self._tidying.cancel()
        if self._store is not None and not self.resigned.is_set():
            try:
                if self.log.changes and self.log.outage is None:
                    self._append()
                await asyncio.to_thread(self._store.flush)
                self._note(monotonic(), None)
            except StoreError as error:
                _LOGGER.warning("changes are in doubt: %s", error)
        self.resigned.set()
        self._feed.close()
        self._wakes.close()
        self._scans.shutdown(wait=False)
