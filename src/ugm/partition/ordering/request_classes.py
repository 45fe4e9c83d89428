"""The pending requests of a partition in classes, and the limit that blocks each class.

The problem: after a release, nearly all waiting requests are still blocked, and testing each of them takes too long.

The idea: requests of equal size and priority to which all limits give the same answer form a class. One test decides
about a class. A class that a limit denies is blocked until the owner of the limit has room for its size again. All
other classes are open. A request that was woken takes no part until something is released.

Invariant: a blocked request is denied. An open request may fit.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Iterator
from typing import Final, NamedTuple, TypeAlias, final

from ugm.counters import Counter, fits
from ugm.decision import Violation
from ugm.identity import TrackingType, ancestors
from ugm.partition.admission.admission import AdmissionControl
from ugm.partition.engine.application import Application
from ugm.partition.engine.model_set import ModelSet
from ugm.partition.engine.state import PartitionState
from ugm.partition.rows import Allocation
from ugm.resources import Resource

__all__ = ["BlockingLimit", "Owner", "RequestClass", "RequestClasses", "WaitingRequest", "owners_of"]

#: The owner of limits: the kind and the name, for example ``("user", "ana")``; the name of a queue is its path.
Owner: TypeAlias = tuple[str, str]

_OWN_LIMITS: Final = frozenset((TrackingType.USER, TrackingType.GROUP, TrackingType.QUEUE))


class WaitingRequest(NamedTuple):
    """A pending request with its place among those of its class; no two have the same numbers."""

    #: The place of its application in the order of submission.
    application: int
    #: Its place in the order of all requests.
    number: int
    row: Allocation


@final
class BlockingLimit:
    """A limit that denies all requests of one size.

    Attributes:
        owner: the owner of the limit.
        size: the denied usage.
        counter: the counter that limits the amounts; None for the number of running applications, or for a model.
        resource: the resource that a limit of a quota model is about.
        classes: the classes that it blocks.
    """

    __slots__ = ("classes", "counter", "owner", "resource", "size")

    def __init__(
        self, owner: Owner, size: Resource, counter: Counter | None = None, resource: str | None = None
    ) -> None:
        self.owner: Final = owner
        self.size: Final = size
        self.counter: Final = counter
        self.resource: Final = resource
        self.classes: Final[dict[RequestClass, None]] = {}

    def key(self) -> tuple[object, ...]:
        """Return a value that two limits have in common if they deny the same requests."""
        return self.counter, self.resource, self.size


class _Facts(NamedTuple):
    """The facts about an application that decide about all its requests."""

    number: int
    user: str
    #: Empty if it has none, or has not run yet.
    group: str
    queue_path: str
    is_running: bool
    #: Whether its requests form classes of their own, because an answer may depend on more than these facts.
    is_single: bool


def owners_of(user: str, group: str, queue_path: str) -> list[Owner]:
    """Return the owners of the limits of an application."""
    queues = [(TrackingType.QUEUE, path) for path in ancestors(queue_path)]
    return [(TrackingType.USER, user), (TrackingType.GROUP, group), *queues]


@final
class RequestClass:
    """Pending requests to which all limits give the same answer.

    Attributes:
        queue_path: the queue of their applications.
        size: their usage.
        priority: their priority.
        requests: those that were not woken, in the order of their applications.
        limit: the limit that blocks them, or has blocked them last; None if none has.
    """

    __slots__ = ("key", "limit", "priority", "queue_path", "requests", "size")

    def __init__(self, key: tuple[object, ...], row: Allocation, queue_path: str) -> None:
        self.key: Final = key
        self.queue_path: Final = queue_path
        self.size: Final = row.usage
        self.priority: Final = row.priority
        self.requests: Final[list[WaitingRequest]] = []
        self.limit: BlockingLimit | None = None


@final
class RequestClasses:
    """All pending requests in their classes; the caller holds the lock.

    Attributes:
        open: the classes that may fit.
        offered: the requests that were woken since something was released.
        in_queue: all requests by queue and priority, in the order of their applications.
        priorities: the number of requests of each priority.
    """

    __slots__ = (
        *("_admission", "_blocked", "_blocked_by_models", "_by_id", "_classes", "_facts", "_models", "_of_application"),
        *("_state", "in_queue", "offered", "open", "priorities"),
    )

    def __init__(self, state: PartitionState, models: ModelSet, admission: AdmissionControl) -> None:
        self._state: Final = state
        self._models: Final = models
        self._admission: Final = admission
        self._facts: Final[dict[str, _Facts]] = {}
        self._classes: Final[dict[tuple[object, ...], RequestClass]] = {}
        #: The requests with their classes, by id, and the ids by application.
        self._by_id: Final[dict[str, tuple[RequestClass, WaitingRequest]]] = {}
        self._of_application: Final[dict[str, dict[str, None]]] = {}
        #: The limits that block classes, by owner and key: those of the partition, and those of quota models.
        self._blocked: Final[dict[Owner, dict[tuple[object, ...], BlockingLimit]]] = {}
        self._blocked_by_models: Final[dict[Owner, dict[tuple[object, ...], BlockingLimit]]] = {}
        self.open: Final[dict[RequestClass, None]] = {}
        self.offered: Final[set[str]] = set()
        self.in_queue: Final[dict[str, dict[int, list[WaitingRequest]]]] = {}
        self.priorities: Final[dict[int, int]] = {}

    def class_of(self, allocation_id: str) -> RequestClass:
        """Return the class of a pending request."""
        return self._by_id[allocation_id][0]

    # Woken requests

    def offer(self, allocation_id: str) -> None:
        """Let a woken request take no part until something is released."""
        self._remove(*self._by_id[allocation_id])
        self.offered.add(allocation_id)

    def return_offered(self) -> None:
        """Let all woken requests take part again."""
        for name in self.offered:
            self._insert(*self._by_id[name])
        self.offered.clear()

    # Blocked classes

    def block(self, found: RequestClass, limit: BlockingLimit) -> None:
        """Let a limit block an open class."""
        self._block(limit, [found])

    def block_again(self) -> set[RequestClass]:
        """Block and return the open classes that the limit denies now that has blocked them last."""
        blocked = set[RequestClass]()
        by_limit: dict[BlockingLimit, list[RequestClass]] = {}
        for found in self.open:
            if found.limit is not None:
                by_limit.setdefault(found.limit, []).append(found)
        for limit, classes in by_limit.items():
            if not self._has_room(limit):
                self._block(limit, classes)
                blocked.update(classes)
        return blocked

    def blocked_by_queues(self) -> Iterator[RequestClass]:
        """Yield the classes that limits of queues block."""
        for (kind, _), limits in self._blocked.items():
            if kind == TrackingType.QUEUE:
                for limit in limits.values():
                    yield from limit.classes

    def _block(self, limit: BlockingLimit, classes: Iterable[RequestClass]) -> None:
        blocked = self._blocked if limit.resource is None else self._blocked_by_models
        limit = blocked.setdefault(limit.owner, {}).setdefault(limit.key(), limit)
        for found in classes:
            del self.open[found]
            found.limit = limit
            limit.classes[found] = None

    def limit_of(self, application: Application, denial: Violation, size: Resource) -> BlockingLimit | None:
        """Return the limit that has denied a size; None if it is unknown when it has room again."""
        kind, name, path, _, resource, *_, requested = denial
        if kind in _OWN_LIMITS:
            chain = () if resource is None else self._state.holding_of(application).chain()
            owned = (one for one in chain if (one.queue_path, one.owner.name, one.owner.kind) == (path, name, kind))
            return BlockingLimit((kind, name), size, next(owned, None))
        room = None if resource is None else self._models.room(kind, name, resource)
        return None if room is None or room >= requested else BlockingLimit((kind, name), size, resource=resource)

    def owners(self, application_id: str) -> list[Owner]:
        """Return the owners of the limits that an application has used when it was followed last."""
        facts = self._facts.get(application_id)
        return [] if facts is None else owners_of(facts.user, facts.group, facts.queue_path)

    def reopen(self, owners: Collection[Owner]) -> None:
        """Open the classes that limits of some owners or of quota models block, if the limits may have room."""
        self._reopen(self._blocked, owners)
        self._reopen(self._blocked_by_models, list(self._blocked_by_models))

    def _reopen(self, blocked: dict[Owner, dict[tuple[object, ...], BlockingLimit]], owners: Collection[Owner]) -> None:
        for owner in owners:
            limits = blocked.get(owner, {})
            for key, limit in [item for item in limits.items() if self._has_room(item[1])]:
                del limits[key]
                self.open.update(limit.classes)
                limit.classes.clear()
                if not limits:
                    del blocked[owner]

    def _has_room(self, limit: BlockingLimit) -> bool:
        if limit.resource is not None:
            room = self._models.room(*limit.owner, limit.resource)
            return room is None or room >= limit.size.get(limit.resource, 0)
        return limit.counter is None or fits((limit.counter,), self._state.vector(limit.size))

    # Following the partition

    def follow(self, application_id: str, request_ids: Iterable[str]) -> None:
        """Follow the changed requests of an application, or all of them if the application has changed."""
        application, before = self._state.applications.get(application_id), self._facts.pop(application_id, None)
        known = self._of_application.get(application_id, {})
        if application is None:
            for name in list(known):
                self._forget(application_id, name)
            return
        row, pending = application.row, application.pending
        is_single = application.holding is not None or len(pending) > 1 or self._models.may_deny
        path, is_running = row.queue_path, application.holding is not None
        facts = _Facts(row.number, row.user.name, row.group or "", path, is_running, is_single)
        self._facts[application_id] = facts
        if facts != before:
            request_ids = {**known, **pending}
        for name in request_ids:
            known_request = self._by_id.get(name)
            is_same = known_request is not None and known_request[1].row is pending.get(name)
            if facts == before and is_same:
                continue
            if known_request is not None:
                self._forget(application_id, name, keeps_offer=is_same)
            if name in pending:
                self._add(application_id, facts, pending[name])

    def _add(self, application_id: str, facts: _Facts, row: Allocation) -> None:
        name = row.allocation_id
        key = (*facts[1:5], application_id if facts.is_single else "", row.usage, row.priority)
        found = self._classes.get(key) or RequestClass(key, row, facts.queue_path)
        request = WaitingRequest(facts.number, self._state.tables.requests[name].number, row)
        self._by_id[name] = found, request
        self._of_application.setdefault(application_id, {})[name] = None
        insort(self.in_queue.setdefault(facts.queue_path, {}).setdefault(row.priority, []), request)
        self.priorities[row.priority] = self.priorities.get(row.priority, 0) + 1
        if name not in self.offered:
            self._insert(found, request)

    def _forget(self, application_id: str, name: str, *, keeps_offer: bool = False) -> None:
        found, request = self._by_id.pop(name)
        del self._of_application[application_id][name]
        if not self._of_application[application_id]:
            del self._of_application[application_id]
        in_queue = self.in_queue[found.queue_path]
        _discard(in_queue, found.priority, request)
        if not in_queue:
            del self.in_queue[found.queue_path]
        self.priorities[found.priority] -= 1
        if not self.priorities[found.priority]:
            del self.priorities[found.priority]
        if name not in self.offered:
            self._remove(found, request)
        elif not keeps_offer:
            self.offered.discard(name)

    def _insert(self, found: RequestClass, request: WaitingRequest) -> None:
        found = self._classes.setdefault(found.key, found)
        self._by_id[request.row.allocation_id] = found, request
        if not found.requests:
            self.open[found] = None
        insort(found.requests, request)

    def _remove(self, found: RequestClass, request: WaitingRequest) -> None:
        del found.requests[bisect_left(found.requests, request)]
        if found.requests:
            return
        del self._classes[found.key]
        if found in self.open:
            del self.open[found]
        elif found.limit is not None:
            del found.limit.classes[found]


def _discard(lists: dict[int, list[WaitingRequest]], priority: int, request: WaitingRequest) -> None:
    requests = lists[priority]
    del requests[bisect_left(requests, request)]
    if not requests:
        del lists[priority]
