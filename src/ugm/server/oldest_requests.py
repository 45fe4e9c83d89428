"""The times of the oldest pending requests of every queue and user."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import NamedTuple

from ugm.identity import ancestors
from ugm.server.cooperative import cooperatively
from ugm.server.work_times import RequestTime

__all__ = ["OldestRequests", "oldest_requests"]


class OldestRequests(NamedTuple):
    """The times of the oldest pending requests, in seconds since 1970."""

    #: In and below each queue that has pending requests.
    of_queues: dict[str, float]
    of_users: dict[str, float]


def oldest_requests(requests: Iterable[RequestTime], is_pending: Callable[[str], bool]) -> OldestRequests:
    """Return the time of the oldest pending request of every queue and user that has one.

    The times of requests follow events, so a request may have ended. Only the oldest candidate of each queue and user
    is checked, and the next one if it has ended.

    Args:
        requests: the times of requests; those without a queue are left out.
        is_pending: returns whether an allocation is still pending.
    """
    queues: dict[str, float] = {}
    users: dict[str, float] = {}
    for _, path, user, at in cooperatively(_pending(requests, is_pending)):
        users.setdefault(user, at)
        for queue in ancestors(path):
            queues.setdefault(queue, at)
    return OldestRequests(queues, users)


def _pending(requests: Iterable[RequestTime], is_pending: Callable[[str], bool]) -> Iterable[RequestTime]:
    """Yield the oldest pending request of each pair of a queue and a user, the oldest first."""
    known: set[tuple[str, str]] = set()
    for request in sorted(requests, key=attrgetter("at")):
        owner = (request.queue_path, request.user)
        if request.queue_path and owner not in known and is_pending(request.allocation_id):
            known.add(owner)
            yield request
