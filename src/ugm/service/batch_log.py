"""The log of the leader's partition: the changes of a loop iteration are written together.

The problem: a commit takes a hundred times as long as a decision. A leader that commits every change by itself is as
slow as its disk.

The idea: `BatchLog` only collects the rows of the events. The leader decides as long as there is input. Then it takes
the rows and appends them to the log as one change. While that change is being committed, the next rows gather. Group
commit is thus driven by load, without a timer.

Invariant: rows are collected in the order of the changes, because the lock of the partition is held. They leave in the
same order, each in exactly one batch.

The cost: a caller waits for at most two commits.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from threading import Event as Flag
from threading import get_ident
from time import monotonic
from typing import Final, final

import msgspec

from ugm._json_values import Json
from ugm.errors import ReentrantCallError
from ugm.journal.change_data import SEPARATOR, add_operation
from ugm.journal.change_queue import copy_of, milliseconds
from ugm.journal.client_sessions import NO_SESSION, SessionProgress, SessionRecord, SessionTable, record_row
from ugm.journal.errors import JournalError
from ugm.operation_lock import OwnedLock
from ugm.partition.event_codec import event_row, to_json
from ugm.partition.events import Denied, Event
from ugm.service.errors import ServiceError

__all__ = ["Batch", "BatchLog"]

_encode: Final = msgspec.json.Encoder().encode


@final
class Batch:
    """Changes that are committed together, and the callers that wait for them."""

    __slots__ = (
        *("at", "began_at", "callbacks", "data", "denials", "failure", "has_ended", "last_change", "last_event"),
        *("number", "rows"),
    )

    def __init__(self) -> None:
        self.rows: Final[list[Json]] = []
        #: For clients that follow; collected only if there are any.
        self.denials: Final[list[Denied]] = []
        #: Called in the loop when the batch is durable.
        self.callbacks: Final[list[Callable[[], None]]] = []
        #: The instant of all changes in the batch, in milliseconds since 1970; None before the first one.
        self.at: int | None = None
        #: When the commit began, on the monotonic clock.
        self.began_at: float = 0.0
        self.failure: JournalError | None = None
        #: Set when the batch is durable or has failed.
        self.has_ended: Final = Flag()
        #: The numbers of the last change and of the last event in the batch.
        self.last_change: int = 0
        self.last_event: int = 0
        #: The data and the number of the change in the log, once it is passed to the log.
        self.data: bytes = b""
        self.number: int = 0

    def encoded(self) -> bytes:
        """Return the data of the change in the log: `to_json` of the rows, in a fraction of its time."""
        try:
            return _encode(self.rows)
        except UnicodeEncodeError:
            # A text has an unpaired surrogate.
            return to_json(self.rows)

    def fail(self, failure: JournalError) -> None:
        """Let the threads that wait for the batch raise an error."""
        self.failure = failure
        self.has_ended.set()


@final
class BatchLog:
    """The changes that are decided but not yet durable; a `ugm.partition.transaction.TransactionLog`.

    Args:
        sessions: the table to which the changes are applied.
        clock: returns the milliseconds since 1970, and never goes back.
        is_stored: whether rows are made of the changes; otherwise only the table gets them.
        require_writable: raises an error if the log accepts no changes now. The argument tells whether the change may
            need space that a later release needs as well.
        request_commit: asks the loop to take a batch soon; called from any thread.
    """

    __slots__ = (
        "_before",
        "_changes",
        "_clock",
        "_gathering",
        "_guard",
        "_in_flight",
        "_instant",
        "_loop_thread",
        "_message_row",
        "_owner",
        "_process",
        "_request_commit",
        "_require_writable",
        "_sessions",
        "are_denials_followed",
        "is_followed",
        "is_stored",
        "now",
        "number",
        "owner",
    )

    #: Whether rows are made of the changes; otherwise every change is final at once.
    is_stored: Final[bool]
    #: Whether clients follow the changes. Their rows are then also made if they are not stored.
    is_followed: bool
    #: Whether clients follow the denials.
    are_denials_followed: bool
    #: The number of changes that were decided.
    number: int
    #: The session whose operations the loop executes; empty for none.
    owner: str
    #: The time at which events happen, in milliseconds since 1970; read about once per second.
    now: int

    def __init__(
        self,
        sessions: SessionTable,
        require_writable: Callable[[bool], None],
        request_commit: Callable[[], None],
        clock: Callable[[], int],
        *,
        is_stored: bool,
    ) -> None:
        self.is_stored = is_stored
        self.is_followed = self.are_denials_followed = False
        self._sessions: Final = sessions
        self._require_writable: Final = require_writable
        self._request_commit: Final = request_commit
        self._clock: Final = clock
        #: The instant of the current change.
        self._instant = 0
        #: Protects the batches.
        self._guard: Final = OwnedLock()
        self._gathering = Batch()
        self._in_flight: Batch | None = None
        self.number = 0
        #: The number of changes with events, without the records about sessions, which may come in between.
        self._changes = self._before = 0
        self.owner = ""
        self.now = milliseconds()
        #: The session of the last row.
        self._owner = ""
        #: The row that names the session of the current message, if the batch has one.
        self._message_row: list[Json] | None = None
        #: The thread that runs the loop; 0 before there is one.
        self._loop_thread = 0
        self._process: Final = os.getpid()

    def enter_loop(self) -> None:
        """Note that this thread runs the loop. Its operations do not wait until they are durable."""
        self._loop_thread = get_ident()

    # Called by the transactions

    def require_ready(self) -> None:
        """Check that this thread is not inside a call of the log; `prepare` checks the log itself.

        Raises:
            ServiceError: this process was forked from that of the service; the loop does not run here.
            ReentrantCallError: a signal handler or finalizer has interrupted this thread in such a call.
        """
        if os.getpid() != self._process:
            raise ServiceError(f"it runs only in process {self._process}, from which this process was forked")
        if self._guard.is_owned():
            raise ReentrantCallError

    def prepare(self, needs_space: bool) -> None:  # noqa: FBT001 - as in the protocol
        """Check that a change can be written.

        Raises:
            JournalError: the log cannot be written.
        """
        self._before = self._changes
        self._require_writable(needs_space)
        # All changes of a batch have one instant in the log, so the clock stands still while changes gather.
        at = self._gathering.at
        self._instant = self._clock() if at is None else at

    def second(self) -> int:
        """Return the time for a query, in whole seconds since 1970."""
        at = self._gathering.at
        return (self._clock() if at is None else at) // 1000

    def second_of_change(self) -> int:
        """Return the time of the current change, in whole seconds since 1970."""
        return self._instant // 1000

    # Called by the transactions

    def require_writable(self) -> None:
        """Check that a record about a session can be written.

        Raises:
            JournalError: the log cannot be written.
        """
        self._require_writable(False)  # noqa: FBT003 - a callback

    def write(self, events: Sequence[Event]) -> None:
        """Add the rows of the events of a change to the batch."""
        if Denied in map(type, events):
            self._write_with_denials(events)
        elif not events:
            pass
        elif get_ident() == self._loop_thread:
            # The loop alone replaces batches and adds records, and the lock of the partition excludes other changes.
            self._write(events, self.owner)
        else:
            with self._guard:
                self._write(events, NO_SESSION)

    def _write_with_denials(self, events: Sequence[Event]) -> None:
        self.write([event for event in events if type(event) is not Denied])
        if self.are_denials_followed:
            with self._guard:
                self._gathering.denials.extend(event for event in events if type(event) is Denied)
            self._request_commit()

    def _write(self, events: Sequence[Event], owner: str) -> None:
        batch = self._gathering
        batch.at = self._instant
        if self.is_stored:
            self._add_rows(batch.rows, events, owner)
        self.number = batch.last_change = self.number + 1
        self._changes += 1
        self._sessions.apply_events(events, self.now, owner)
        if self.is_followed and not self.is_stored:
            add_operation(batch.rows, (), events)
            self._request_commit()

    def _add_rows(self, gathered: list[Json], events: Sequence[Event], owner: str) -> None:
        """Add the rows of one operation of a session."""
        if not gathered:
            # A change in the log begins without a session.
            self._owner = NO_SESSION
        if owner != self._owner:
            row = record_row(SessionProgress(owner))
            gathered.append(row)
            self._owner = owner
            if owner:
                self._message_row = row
        elif gathered:
            gathered.append(SEPARATOR)
        gathered += map(event_row, events)

    def begin_message(self, owner: str) -> None:
        """Note that the loop executes operations of a session from now on."""
        self.owner, self._message_row = owner, None

    def end_message(self) -> None:
        """Note that the loop executes no operation now."""
        self.owner = NO_SESSION

    def add_progress(self, record: SessionProgress) -> None:
        """Record the answers to the operations of the message that was executed last."""
        with self._guard:
            self._sessions.sessions[record.session_id].record_answers(record)
            row = record_row(record)
            if self._message_row is None:
                self._gathering.rows.append(row)
                self._owner = record.session_id
            else:
                # The batch is written as a whole, so the answers may stand before the events.
                self._message_row[:] = row

    def add_record(self, record: SessionRecord) -> None:
        """Add another record about a session to the batch."""
        with self._guard:
            self.number += 1
            batch = self._gathering
            by = self._owner if batch.rows else NO_SESSION
            owner = self._sessions.apply((record,), (), self.now, by)
            if self.is_stored:
                self._owner = owner
                add_operation(batch.rows, (record,), ())
                batch.last_change = self.number

    def is_written(self) -> bool:
        """Return whether the current change is in a batch."""
        return self._changes > self._before

    def mark_committed(self) -> None:
        """Note that the current change is final."""
        self._before = self._changes

    def wait(self, change: int, event: int) -> bool:
        """Wait until a change is durable, in any thread but that of the loop.

        Raises:
            JournalError: it is uncertain whether the change holds.
        """
        if get_ident() == self._loop_thread:
            self._gathering.last_event = event
            return False
        # Without a log, a change is final at once, and its batch may never end.
        batch = self._batch_of(change) if self.is_stored else None
        if batch is not None:
            if not batch.has_ended.is_set():
                self._request_commit()
                batch.has_ended.wait()
            if batch.failure is not None:
                raise copy_of(batch.failure)
        return True

    def release_locks(self) -> None:
        """Release the lock that this thread still holds after an exception."""
        self._guard.release_if_held()

    def _batch_of(self, change: int) -> Batch | None:
        """Return the batch of a change that is not durable yet."""
        with self._guard:
            for batch in (self._in_flight, self._gathering):
                if batch is not None and batch.last_change >= change:
                    return batch
            return None

    # Called by the loop

    @property
    def gathering(self) -> Batch:
        """The batch to which changes are added now."""
        return self._gathering

    @property
    def in_flight(self) -> Batch | None:
        """The batch that is being committed."""
        return self._in_flight

    def take(self) -> Batch:
        """Begin the next batch, and return the one that is to be committed."""
        with self._guard:
            batch, self._gathering = self._gathering, Batch()
            self._in_flight, batch.began_at = batch, monotonic()
            return batch

    def end(self, batch: Batch) -> None:
        """Note that the batch in flight is durable."""
        with self._guard:
            self._in_flight = None
        batch.has_ended.set()

    def fail(self, failure: JournalError) -> None:
        """Commit nothing more, and let the threads that wait for a batch, now or later, raise an error."""
        with self._guard:
            for batch in (self._in_flight, self._gathering):
                if batch is not None:
                    batch.fail(failure)
            if self._in_flight is not None:
                # A thread may still begin to wait for a change of this batch.
                last = max(self._gathering.last_change, self._in_flight.last_change)
                self._gathering.last_change = last
            # No further batch is taken while one is in flight.
            self._in_flight = self._gathering
