"""The times of submissions and requests, and the denials of every user, group and queue.

A partition keeps no times of pending work, and counts no denials. A `WorkTimes` derives both from the events that a
`ugm.server.history.History` receives. It needs memory for every application and every pending allocation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeVar, final

from ugm.events import (
    Allocated,
    AllocationRequested,
    ApplicationEnded,
    ApplicationSubmitted,
    Denied,
    Event,
    GroupAssigned,
    RequestWithdrawn,
)

__all__ = ["DenialCounts", "RequestTime", "WorkTimes"]

#: The default number of subjects with a counter of their own.
_MOST_SUBJECTS: Final = 50_000
#: The kinds of limits that belong to a partition itself, not to a quota model.
_OWN_KINDS: Final = frozenset(("user", "group", "queue"))
_ROOT: Final = ("queue", "root")

_T = TypeVar("_T")


class DenialCounts(NamedTuple):
    """The number of denials so far."""

    #: By kind and name: of a ``user``, a ``group``, or the ``queue`` of the application without the queues above it.
    by_subject: Mapping[tuple[str, str], int]
    #: By kind and name of the limit, for limits of quota models.
    by_model_limit: Mapping[tuple[str, str], int]
    #: By id, of applications that were submitted before the first event.
    of_unknown: Mapping[str, int]


class RequestTime(NamedTuple):
    """The time of a request that is or was pending."""

    allocation_id: str
    #: The queue of its application; empty if it was submitted before the first event.
    queue_path: str
    #: Empty if the queue is.
    user: str
    #: In seconds since 1970.
    at: float


class _Owner:
    """The owner of an application."""

    __slots__ = ("at", "group", "queue_path", "user")

    def __init__(self, at: float, user: str, group: str | None, queue_path: str) -> None:
        self.at = at
        self.user = user
        self.group = group
        self.queue_path = queue_path


@final
class WorkTimes:
    """Follows the events of a partition; the caller has a lock.

    Args:
        most_subjects: the number of users, groups and queues with a counter of denials of their own, and of limits of
            quota models and applications without a known owner. Further denials are counted for the root queue only.
    """

    __slots__ = (
        "_by_model_limit",
        "_by_subject",
        "_handlers",
        "_most_subjects",
        "_of_unknown",
        "_owners",
        "_requested",
    )

    def __init__(self, most_subjects: int = _MOST_SUBJECTS) -> None:
        self._most_subjects: Final = most_subjects
        self._owners: Final[dict[str, _Owner]] = {}
        #: When each pending allocation was requested.
        self._requested: Final[dict[str, RequestTime]] = {}
        self._by_subject: Final[Counter[tuple[str, str]]] = Counter()
        self._by_model_limit: Final[Counter[tuple[str, str]]] = Counter()
        self._of_unknown: Final[Counter[str]] = Counter()
        self._handlers: Final[Mapping[type, Callable[[Any, float], None]]] = {
            ApplicationSubmitted: self._submit,
            ApplicationEnded: self._end,
            GroupAssigned: self._assign,
            AllocationRequested: self._request,
            RequestWithdrawn: self._withdraw,
            Allocated: self._withdraw,
            Denied: self._deny,
        }

    def apply(self, event: Event, at: float) -> None:
        """Note an event with its time, in seconds since 1970."""
        handler = self._handlers.get(type(event))
        if handler is not None:
            handler(event, at)

    def submitted(self, application_id: str) -> float | None:
        """Return when an application was submitted; None if it was before the first event."""
        owner = self._owners.get(application_id)
        return None if owner is None else owner.at

    def requested(self, allocation_id: str) -> float | None:
        """Return when a pending allocation was requested; None if it was before the first event."""
        known = self._requested.get(allocation_id)
        return None if known is None else known.at

    def requests(self) -> list[RequestTime]:
        """Return all pending allocations with their times."""
        return list(self._requested.values())

    def denials(self) -> DenialCounts:
        """Return a copy of the numbers of denials."""
        return DenialCounts(dict(self._by_subject), dict(self._by_model_limit), dict(self._of_unknown))

    def _submit(self, event: ApplicationSubmitted, at: float) -> None:
        self._owners[event.application_id] = _Owner(at, event.user.name, event.group or None, event.queue_path)

    def _end(self, event: ApplicationEnded, _at: float) -> None:
        self._owners.pop(event.application_id, None)

    def _assign(self, event: GroupAssigned, _at: float) -> None:
        owner = self._owners.get(event.application_id)
        if owner is not None:
            owner.group = event.group

    def _request(self, event: AllocationRequested, at: float) -> None:
        allocation = event.allocation
        owner = self._owners.get(allocation.application_id)
        queue_path, user = ("", "") if owner is None else (owner.queue_path, owner.user)
        self._requested[allocation.allocation_id] = RequestTime(allocation.allocation_id, queue_path, user, at)

    def _withdraw(self, event: RequestWithdrawn | Allocated, _at: float) -> None:
        self._requested.pop(event.allocation.allocation_id, None)

    def _deny(self, event: Denied, _at: float) -> None:
        for kind, name in {
            (str(one.kind), one.name) for one in event.decision.violations if one.kind not in _OWN_KINDS
        }:
            self._count(self._by_model_limit, (kind, name))
        for application_id in {request.application_id for request in event.requests}:
            owner = self._owners.get(application_id)
            if owner is None:
                self._count(self._of_unknown, application_id)
                continue
            self._count(self._by_subject, ("user", owner.user))
            self._count(self._by_subject, ("queue", owner.queue_path), _ROOT)
            if owner.group is not None:
                self._count(self._by_subject, ("group", owner.group))

    def _count(self, counter: Counter[_T], subject: _T, fallback: _T | None = None) -> None:
        if subject in counter or len(counter) < self._most_subjects:
            counter[subject] += 1
        elif fallback is not None:
            counter[fallback] += 1
