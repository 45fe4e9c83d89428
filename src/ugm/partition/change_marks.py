"""Marks of changes: what a reader of the partition has to read again.

A scheduling pass keeps a copy of the values that decide the order. Between two of its heads, other callers may change
the partition. Each reader has `ChangeMarks`, which the partition fills under its lock, and takes them when it reads.

Marks are set with every step of a change, even if the change is undone later. So a mark means "perhaps".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final
from weakref import ref

from ugm.partition.events import (
    Allocated,
    AllocationRequested,
    ApplicationEnded,
    ApplicationFailing,
    ApplicationSubmitted,
    BudgetChanged,
    ConfigurationChanged,
    Event,
    NodeChanged,
    QueueQuotaSet,
    Released,
    Renewed,
    RequestPlaced,
    RequestWithdrawn,
    Resized,
)

__all__ = ["ChangeMarks", "ChangeRecorder"]

_OF_APPLICATIONS: Final = (ApplicationSubmitted, ApplicationEnded, ApplicationFailing)
#: A withdrawn request may end the run of its application, which then no longer counts as running. A promise of an
#: earlier end frees what budgets have committed.
_FREEING: Final = (Released, Resized, Renewed, RequestWithdrawn)
_OF_ALLOCATIONS: Final = (AllocationRequested, RequestPlaced, RequestWithdrawn, Allocated, Resized, Renewed, Released)


@final
class ChangeMarks:
    """The objects that may have changed since the last `take`."""

    __slots__ = ("__weakref__", "applications", "everything", "freed", "notify")

    #: The changed allocations of each changed application, in the order of their last request or else first change.
    applications: dict[str, dict[str, None]]
    #: The applications that may have freed something.
    freed: set[str]
    #: Whether queues, quotas, nodes or the configuration have changed.
    everything: bool
    #: Called, under the lock, when a waiting request may fit or a new one waits; None if no reader waits.
    notify: Callable[[], None] | None

    def __init__(self) -> None:
        self.applications = {}
        self.freed = set()
        self.everything = False
        self.notify = None

    def take(self) -> dict[str, dict[str, None]]:
        """Return the changed applications, and forget all marks."""
        found, self.applications, self.everything = self.applications, {}, False
        self.freed = set()
        return found


@final
class ChangeRecorder:
    """Records events for the log and the subscribers, if there are any, and sets the marks of all readers.

    Args:
        record: records events for the log and the subscribers; None if there are none.
    """

    __slots__ = ("_readers", "_record")

    def __init__(self, record: Callable[[Event], None] | None) -> None:
        self._record: Final = record
        #: Weak: a reader that the program has dropped gets no more marks. A `WeakSet` takes four times as long to read.
        self._readers: tuple[ref[ChangeMarks], ...] = ()

    def add(self, reader: ChangeMarks) -> None:
        """Set the marks of a reader from now on."""
        self._readers = (*(one for one in self._readers if one() is not None), ref(reader))

    def mark_everything(self) -> None:
        """Mark everything as changed, after the state was rebuilt."""
        for one in self._readers:
            reader = one()
            if reader is not None:
                reader.everything = True
                if reader.notify is not None:
                    reader.notify()

    def __call__(self, event: Event) -> None:
        """Record an event of the current change."""
        if self._record is not None:
            self._record(event)
        for one in self._readers:
            reader = one()
            if reader is not None:
                _mark(reader, event)


def _mark(reader: ChangeMarks, event: Event) -> None:
    """Set the marks of a reader for an event."""
    if isinstance(event, _OF_ALLOCATIONS):
        allocation_id, application_id, *_ = event.allocation
        changed = reader.applications.setdefault(application_id, {})
        if isinstance(event, AllocationRequested):
            # It comes after the requests before it, even if one with its id was withdrawn.
            changed.pop(allocation_id, None)
        changed[allocation_id] = None
        if isinstance(event, _FREEING):
            reader.freed.add(application_id)
        if reader.notify is not None and not isinstance(event, Allocated):
            reader.notify()
    elif isinstance(event, _OF_APPLICATIONS):
        reader.applications.setdefault(event.application_id, {})
    elif isinstance(event, (NodeChanged, QueueQuotaSet, ConfigurationChanged, BudgetChanged)):
        reader.everything = True
        if reader.notify is not None:
            reader.notify()
