"""Marks of changes: what a reader of the partition has to read again.

A scheduling pass keeps a copy of what decides the order. Between two of its questions, other callers may change the
partition. Each reader has `ChangeMarks`, which the partition fills under its lock, and takes them when it reads.

Marks are set with every step of a change, also if the change is undone later. So a mark means "perhaps".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final
from weakref import WeakSet

from ugm.partition.events import (
    Allocated,
    AllocationRequested,
    ApplicationEnded,
    ApplicationFailing,
    ApplicationSubmitted,
    ConfigurationChanged,
    Event,
    NodeChanged,
    QueueQuotaSet,
    Released,
    RequestWithdrawn,
    Resized,
)

__all__ = ["ChangeMarks", "ChangeRecorder"]

_OF_APPLICATIONS: Final = (ApplicationSubmitted, ApplicationEnded, ApplicationFailing)
_OF_ALLOCATIONS: Final = (AllocationRequested, RequestWithdrawn, Allocated, Resized, Released)


@final
class ChangeMarks:
    """What has perhaps changed since the last `take`."""

    __slots__ = ("__weakref__", "applications", "everything")

    #: The changed allocations of each changed application, in the order of their first change.
    applications: dict[str, dict[str, None]]
    #: Whether queues, quotas, nodes or the configuration have changed.
    everything: bool

    def __init__(self) -> None:
        self.applications = {}
        self.everything = False

    def take(self) -> dict[str, dict[str, None]]:
        """Return the changed applications, and forget all marks."""
        found, self.applications, self.everything = self.applications, {}, False
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
        #: Weak: a reader that the program has dropped gets no more marks.
        self._readers: Final[WeakSet[ChangeMarks]] = WeakSet()

    def add(self, reader: ChangeMarks) -> None:
        """Set the marks of a reader from now on."""
        self._readers.add(reader)

    def mark_everything(self) -> None:
        """Mark everything as changed, after the state was rebuilt."""
        for reader in self._readers:
            reader.everything = True

    def __call__(self, event: Event) -> None:
        """Record an event of the current change."""
        if self._record is not None:
            self._record(event)
        for reader in self._readers:
            if isinstance(event, _OF_ALLOCATIONS):
                allocation_id, application_id, *_ = event.allocation
                reader.applications.setdefault(application_id, {})[allocation_id] = None
            elif isinstance(event, _OF_APPLICATIONS):
                reader.applications.setdefault(event.application_id, {})
            elif isinstance(event, (NodeChanged, QueueQuotaSet, ConfigurationChanged)):
                reader.everything = True
