"""Pending requests over time as intervals, since the last compaction of a journal.

A compaction keeps the requests that are pending then, without the times of earlier ones. The intervals have the form of
those of usage: in each, a request was pending with constant amounts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import final

from ugm.journal.usage_intervals import UsageInterval
from ugm.partition.allocation import Allocation, AllocationState
from ugm.partition.checkpoint import Checkpoint
from ugm.partition.events import (
    Allocated,
    AllocationRequested,
    ApplicationEnded,
    ApplicationSubmitted,
    Event,
    GroupAssigned,
    RequestWithdrawn,
)

__all__ = ["PendingMeter"]


@final
class PendingMeter:
    """Turns events into the intervals of pending requests.

    Args:
        checkpoint: the state before the first event.
        at: the time of this state, in milliseconds since 1970. Requests that were pending then begin at this time.
    """

    __slots__ = ("_applications", "_pending")

    #: The user, queue and group of each application.
    _applications: dict[str, tuple[str, str, str | None]]
    #: The requests of each application that are pending now, by id; the end of their intervals is not known.
    _pending: dict[str, dict[str, UsageInterval]]

    def __init__(self, checkpoint: Checkpoint, at: int) -> None:
        self._applications, self._pending = {}, {}
        for one in checkpoint.applications:
            user = one.submission.user.name
            self._applications[one.submission.application_id] = user, one.queue_path, one.group or None
        for allocation in checkpoint.allocations:
            if allocation.state is AllocationState.PENDING:
                self._begin(allocation, at)

    def process(self, event: Event, at: int) -> Iterator[UsageInterval]:
        """Yield the intervals that an event ends, at a time in milliseconds since 1970."""
        match event:
            case ApplicationSubmitted(application_id, user, queue_path, _, _, _, _, group):
                self._applications[application_id] = user.name, queue_path, group or None
            case GroupAssigned(application_id, _, group):
                yield from self._assign(application_id, group, at)
            case ApplicationEnded(application_id):
                yield from self._end_all(application_id, at)
                self._applications.pop(application_id, None)
            case AllocationRequested(allocation):
                yield from self._end(allocation, at)
                self._begin(allocation, at)
            case RequestWithdrawn(allocation) | Allocated(allocation):
                yield from self._end(allocation, at)

    def finish(self, at: int) -> Iterator[UsageInterval]:
        """Yield the intervals that have not ended, up to a time."""
        for application_id in list(self._pending):
            yield from self._end_all(application_id, at)

    def _begin(self, allocation: Allocation, at: int) -> None:
        name = allocation.application_id
        found = UsageInterval(name, *self._applications[name], at, at, allocation.usage)
        self._pending.setdefault(name, {})[allocation.allocation_id] = found

    def _end(self, allocation: Allocation, at: int) -> Iterator[UsageInterval]:
        found = self._pending.get(allocation.application_id, {}).pop(allocation.allocation_id, None)
        if found is not None and at > found.begin:
            yield found._replace(end=at)

    def _end_all(self, application_id: str, at: int) -> Iterator[UsageInterval]:
        ended = self._pending.pop(application_id, {})
        yield from (one._replace(end=at) for one in ended.values() if at > one.begin)

    def _assign(self, application_id: str, group: str | None, at: int) -> Iterator[UsageInterval]:
        """Charge the requests of an application to a group from now on, and yield the intervals that this ends."""
        user, queue_path, _ = self._applications[application_id]
        self._applications[application_id] = user, queue_path, group
        requests = self._pending.get(application_id, {})
        yield from self._end_all(application_id, at)
        self._pending[application_id] = {
            name: one._replace(group=group, begin=at, end=at) for name, one in requests.items()
        }
