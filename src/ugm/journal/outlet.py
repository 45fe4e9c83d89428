"""The outlet of a partition that has a journal: changes are written to the journal, and then subscribers are notified.

A change is committed in memory when the writer has noted it. It is *durable* once the commit of the database that holds
it has reached the disk; only then does its call return. If a call is interrupted after the change was noted, the change
is written by the next one, in its order.
"""

from __future__ import annotations

from contextlib import suppress
from threading import local
from typing import Final, NamedTuple, final

from ugm.journal.errors import JournalError
from ugm.journal.writer import Writer
from ugm.partition.event_codec import encode_events
from ugm.partition.event_outbox import EventOutbox
from ugm.partition.events import Event

__all__ = ["Deferral", "JournalOutlet", "Written"]


class Written(NamedTuple):
    """How far an operation has written."""

    #: The number of the last change.
    change: int
    #: The number of the last event.
    event: int


class Deferral:
    """Operations of a thread that do not wait for the disk: how far they have written."""

    __slots__ = ("written",)

    written: Written

    def __init__(self) -> None:
        self.written = Written(0, 0)


@final
class JournalOutlet:
    """From a partition to its journal, and then to its subscribers.

    Args:
        feed: the events of the partition.
    """

    __slots__ = ("_before", "_deferrals", "_outbox", "writer")

    #: Set before the partition is used.
    writer: Writer
    #: The last change before the current operation.
    _before: int

    def __init__(self, outbox: EventOutbox) -> None:
        self._outbox: Final = outbox
        self._deferrals: Final = local()
        self._before = 0

    def require_ready(self) -> None:
        """Make sure that this is the process that opened the journal, and that this thread is not writing.

        Raises:
            JournalError: it was forked from that process.
            ReentrantCallError: a signal handler or finalizer has interrupted this thread while it writes.
        """
        self.writer.require_owner()
        self.writer.require_not_writing()

    def prepare(self, *, grows: bool) -> None:
        """Make sure that a change can be written.

        Raises:
            JournalError: it cannot.
        """
        self._before = self.writer.number
        if grows:
            self.writer.require_space()
        else:
            self.writer.require_writable()

    def write(self) -> Written:
        """Note what the current operation has changed.

        Raises:
            JournalError: the change cannot be serialised.
        """
        events = self._outbox.current
        data = self._serialised(events)
        if data:
            self.writer.append(data)
        written = Written(self.writer.number, self._outbox.last + len(events))
        if not self.writer.is_shared:
            # Before anybody else can see it. A failure is reported when the operation is concluded.
            with suppress(JournalError):
                self.writer.acknowledge(written.change)
        return written

    def _serialised(self, events: list[Event]) -> bytes:
        try:
            return encode_events(events)
        except (ValueError, TypeError) as error:
            reason = f"the change cannot be serialised ({error}); it was undone"
            raise JournalError(self.writer.path, reason) from error

    def is_written(self) -> bool:
        """Return whether the current operation has been noted."""
        return self.writer.has_appended(self._before)

    def publish(self) -> None:
        """Hand the events of the current operation to the subscribers, as soon as they are durable."""
        self._before = self.writer.number
        self._outbox.publish()

    def conclude(self, written: object) -> None:
        """Wait until a change is durable and notify the subscribers, or leave both to a deferral of this thread.

        Raises:
            JournalError: the change is in doubt.
        """
        known = written if isinstance(written, Written) else Written(self.writer.number, self._outbox.last)
        deferral = self.deferral
        if deferral is not None:
            deferral.written = known
            return
        self.writer.acknowledge(known.change)
        self._outbox.deliver(known.event)

    @property
    def deferral(self) -> Deferral | None:
        """The deferral of this thread; None if it waits for the disk."""
        current: Deferral | None = getattr(self._deferrals, "current", None)
        return current

    @deferral.setter
    def deferral(self, deferral: Deferral | None) -> None:
        self._deferrals.current = deferral

    def deliver(self, deferral: Deferral) -> None:
        """Notify the subscribers of everything that was deferred, which is durable now."""
        self._outbox.deliver(deferral.written.event)

    def let_go(self) -> None:
        """Release every lock that this thread still holds after an exception."""
        self.writer.let_go()
