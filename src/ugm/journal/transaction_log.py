"""The transaction log of a partition with a journal: the link between its transactions and the queue of changes.

A transaction passes its events to `JournalTransactionLog.write` under the lock of the partition. When the queue has
accepted them, the change is final in memory. After the lock was released, `JournalTransactionLog.wait` returns when the
change is *durable*, that is when it has reached the disk. If a call is interrupted in between, the change is written
all the same, in its order.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from threading import local
from typing import Final, final

from ugm.errors import UgmError
from ugm.journal.change_queue import ChangeQueue
from ugm.journal.errors import JournalError
from ugm.partition.event_codec import encode_events
from ugm.partition.event_outbox import EventOutbox
from ugm.partition.events import Event

__all__ = ["Deferral", "JournalTransactionLog"]


class Deferral:
    """The operations of a thread that do not wait for the disk, and the position that they have written."""

    __slots__ = ("change", "event")

    #: The numbers of the last change in the log and of the last event of the operation.
    change: int
    event: int

    def __init__(self) -> None:
        self.change = self.event = 0


@final
class JournalTransactionLog:
    """Writes the changes of a partition to its journal; a `ugm.partition.transaction.TransactionLog`.

    Args:
        outbox: the events for the subscribers.
        change_queue: the changes in front of the log.
    """

    __slots__ = ("_before", "_deferrals", "_outbox", "change_queue")

    def __init__(self, outbox: EventOutbox, change_queue: ChangeQueue) -> None:
        self._outbox: Final = outbox
        self.change_queue: Final = change_queue
        self._deferrals: Final = local()
        #: The number of the last change before the current operation.
        self._before = change_queue.number

    @property
    def number(self) -> int:
        """The number of the last change."""
        return self.change_queue.number

    def require_ready(self) -> None:
        """Check that this is the process that opened the journal, and that this thread is not writing.

        Raises:
            JournalError: the process was forked from the one that opened the journal.
            ReentrantCallError: a signal handler or finalizer has interrupted this thread while it writes.
        """
        self.change_queue.require_owner()
        self.change_queue.require_not_writing()

    def prepare(self, needs_space: bool) -> None:  # noqa: FBT001 - as in the protocol
        """Check that a change can be written.

        Raises:
            JournalError: the journal cannot be written.
        """
        self._before = self.change_queue.number
        self.change_queue.prepare(needs_space=needs_space)

    def write(self, events: Sequence[Event]) -> None:
        """Write the events of a change.

        Raises:
            JournalError: the change cannot be serialised.
        """
        data = self._serialised(events)
        if data:
            self.change_queue.append(data)
        if not self.change_queue.is_group_commit:
            # Commit under the lock of the partition, so that other threads see only durable changes. `wait` raises the
            # error.
            with suppress(JournalError):
                self.change_queue.wait_until_durable(self.change_queue.number)

    def _serialised(self, events: Sequence[Event]) -> bytes:
        try:
            return encode_events(events)
        except (ValueError, TypeError) as error:
            if isinstance(error, UgmError):
                # A signal handler has misused an object of ugm. The encoder raises no such error.
                raise
            reason = f"the change cannot be serialised ({error}); it was undone"
            raise JournalError(self.change_queue.path, reason) from error

    def is_written(self) -> bool:
        """Return whether the queue has accepted the current change."""
        return self.change_queue.has_appended(self._before)

    def mark_committed(self) -> None:
        """Note that the current change is final."""
        self._before = self.change_queue.number

    def wait(self, change: int, event: int) -> bool:
        """Wait until a change is durable, or leave that to a deferral of this thread.

        Raises:
            JournalError: it is uncertain whether the change holds.
        """
        deferral = self.deferral
        if deferral is not None:
            deferral.change, deferral.event = change, event
            return False
        self.change_queue.wait_until_durable(change)
        return True

    @property
    def deferral(self) -> Deferral | None:
        """The deferral of this thread; None if it waits for the disk."""
        current: Deferral | None = getattr(self._deferrals, "current", None)
        return current

    @deferral.setter
    def deferral(self, deferral: Deferral | None) -> None:
        self._deferrals.current = deferral

    @property
    def has_subscribers(self) -> bool:
        """True if events are delivered to anyone."""
        return self._outbox.has_subscribers

    def deliver(self, deferral: Deferral) -> None:
        """Deliver all events of deferred operations, which are durable now."""
        self._outbox.deliver(deferral.event)

    def release_locks(self) -> None:
        """Release every lock that this thread still holds after an exception."""
        self.change_queue.release_if_held()
