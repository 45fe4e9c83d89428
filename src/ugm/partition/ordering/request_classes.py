"""The pending requests of a partition in classes, and the limit that blocks each class.

The problem: after a release, nearly all waiting requests are still blocked, and testing each of them takes too long.

The idea: requests of equal size and priority to which all limits give the same answer form a class. One test decides
about a class. Each class belongs to the limit that has denied it last. All classes of one limit and size are blocked
until the owner of the limit has room for the size again; then all of them are open, in one step. A request that was
woken takes no part until something is released.

Invariant: a blocked request is denied. An open request may fit.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Final, NamedTuple, TypeAlias, final

from ugm.counters import Counter, fits
from ugm.decision import Violation, exceeded
from ugm.identity import TrackingType, ancestors
from ugm.ordering.ratios import Ratio, fair_maximum
from ugm.partition.admission.admission import AdmissionControl
from ugm.partition.engine.application import Application
from ugm.partition.engine.model_set import ModelSet
from ugm.partition.engine.state import PartitionState
from ugm.partition.rows import Allocation
from ugm.queues.tree import Queue
from ugm.resources import Resource

#: The owner of limits: the kind and the name, for example ``("user", "ana")``; the name of a queue is its path.
Owner: TypeAlias = tuple[str, str]
#: The user, group and queue of an application, which name the owners of its limits.
Charged: TypeAlias = tuple[str, str | None, str]

_NOTHING: Final[Mapping[str, int]] = {}
#: The owner of limits that may have room after any change.
_UNKNOWN: Final[Owner] = ("", "")
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
    """A limit with the requests of one size that it has denied.

    Attributes:
        owner: the owner of the limit.
        size: the denied usage.
        counter: the counter that limits the amounts; None for the number of running applications, or for a model.
        resource: the resource that a limit of a quota model is about.
        place: the queue of a limit without a counter; or the class that an unknown limit denies.
        classes: the classes that it has denied last, by queue path.
        first: the first request of each of these classes, in their order.
        is_open: whether it may have room for the size.
    """

    __slots__ = ("classes", "counter", "first", "is_open", "owner", "place", "resource", "size")

    def __init__(
        self,
        owner: Owner,
        size: Resource,
        counter: Counter | None = None,
        *,
        resource: str | None = None,
        place: object = "",
    ) -> None:
        self.owner: Final = owner
        self.size: Final = size
        self.counter: Final = counter
        self.resource: Final = resource
        self.place: Final = place
        self.classes: Final[dict[str, dict[RequestClass, None]]] = {}
        self.first: Final[list[tuple[WaitingRequest, RequestClass]]] = []
        self.is_open: bool = False

    def add(self, found: RequestClass) -> None:
        """Add a class that the limit has denied last."""
        found.limit = self
        self.classes.setdefault(found.queue_path, {})[found] = None
        insort(self.first, (found.requests[0], found))

    def remove(self, found: RequestClass) -> None:
        """Remove a class."""
        path = found.queue_path
        del self.classes[path][found]
        if not self.classes[path]:
            del self.classes[path]
        del self.first[bisect_left(self.first, (found.requests[0], found))]

    def key(self) -> tuple[object, ...]:
        """Return a value that two limits have in common if they deny the same requests."""
        return self.counter, self.resource, self.place, self.size


class _Facts(NamedTuple):
    """The facts about an application that decide about all its requests."""

    number: int
    user: str
    #: The chosen group, or all groups of its user if none is chosen yet: another application may have other ones.
    group: str | tuple[str, ...] | None
    queue_path: str
    is_running: bool
    #: Whether its requests form classes of their own, because an answer may depend on more than these facts.
    is_single: bool


@final
class RequestClass:
    """Pending requests to which all limits give the same answer.

    Attributes:
        queue_path: the queue of their applications.
        size: their usage.
        priority: their priority.
        requests: those that were not woken, in the order of their applications.
        limit: the limit that has denied them last, or one that is always open.
    """

    __slots__ = ("key", "limit", "priority", "queue_path", "requests", "size")

    def __init__(self, key: tuple[object, ...], row: Allocation, queue_path: str, limit: BlockingLimit) -> None:
        self.key: Final = key
        self.queue_path: Final = queue_path
        self.size: Final = row.usage
        self.priority: Final = row.priority
        self.requests: Final[list[WaitingRequest]] = []
        self.limit: BlockingLimit = limit


@final
class UsedParts:
    """The parts that queues use, by which a queue compares its children.

    The usage of a queue without a counter is kept as the sum of its applications, and follows their changes.

    Args:
        state: the partition.
    """

    def __init__(self, state: PartitionState) -> None:
        self._state: Final = state
        self._known: Final[dict[str, Ratio]] = {}
        #: The sums of queues without a counter, by path, and the queue and the usage of each application in them.
        self._sums: Final[dict[str, dict[str, int]]] = {}
        self._held: Final[dict[str, tuple[str, Mapping[str, int]]]] = {}

    def of(self, queue: Queue) -> Ratio:
        """Return the part that a queue uses."""
        found = self._known.get(queue.queue_path)
        if found is None:
            used = self._sum(queue) if queue.counter is None else queue.counter.used()
            found = self._known[queue.queue_path] = Ratio.used(used, guaranteed(queue), self.fair_maximum(queue))
        return found

    def _sum(self, queue: Queue) -> Mapping[str, int]:
        found = self._sums.get(queue.queue_path)
        if found is None:
            found = self._sums[queue.queue_path] = {}
            for one in queue.below():
                for name in one.applications:
                    held = self._state.applications[name].held()
                    if held is not None:
                        self._held[name] = one.queue_path, held
                        _add(found, held, 1)
        return found

    def follow(self, application_id: str, queue_path: str) -> None:
        """Follow the usage of an application that is or was in a queue."""
        if not (self._known or self._sums):
            return
        for path in ancestors(queue_path):
            self._known.pop(path, None)
            if path not in self._state.tree.queues:
                self._sums.pop(path, None)
        if self._sums:
            self._change_sums(application_id)

    def _change_sums(self, application_id: str) -> None:
        """Count an application as it is now, instead of as it was counted before."""
        if application_id in self._held:
            self._add(*self._held.pop(application_id), -1)
        application = self._state.applications.get(application_id)
        held = None if application is None else application.held()
        if application is not None and held is not None:
            self._held[application_id] = application.row.queue_path, held
            self._add(application.row.queue_path, held, 1)

    def _add(self, queue_path: str, held: Mapping[str, int], sign: int) -> None:
        for path in ancestors(queue_path):
            if path in self._sums:
                _add(self._sums[path], held, sign)

    def forget_all(self) -> None:
        """Compute the parts of all queues again."""
        self._known.clear()
        self._sums.clear()
        self._held.clear()

    def fair_maximum(self, queue: Queue) -> Mapping[str, int]:
        """Return the maximum that the part of a queue refers to."""
        below = [one.quota.max_resources for one in queue.lineage()][-2::-1]
        return fair_maximum([self._state.tree.cluster, *below])


def _add(total: dict[str, int], amounts: Mapping[str, int], sign: int) -> None:
    for name, amount in amounts.items():
        total[name] = total.get(name, 0) + sign * amount


@final
class RequestClasses:
    """All pending requests in their classes; the caller holds the lock.

    Attributes:
        offered: the requests that were woken since something was released.
        in_queue: all requests by queue and priority, in the order of their applications.
        priorities: the number of requests of each priority.
        parts: the parts that queues use.
    """

    def __init__(self, state: PartitionState, models: ModelSet, admission: AdmissionControl) -> None:
        self._state: Final = state
        self._models: Final = models
        self._admission: Final = admission
        self._facts: Final[dict[str, _Facts]] = {}
        self._classes: Final[dict[tuple[object, ...], RequestClass]] = {}
        #: The requests with their classes, by id, and the ids by application.
        self._by_id: Final[dict[str, tuple[RequestClass, WaitingRequest]]] = {}
        self._of_application: Final[dict[str, dict[str, None]]] = {}
        #: The limits that have denied classes, by owner and key: those of the partition, and those of quota models.
        self._limits: Final[dict[Owner, dict[tuple[object, ...], BlockingLimit]]] = {}
        self._limits_of_models: Final[dict[Owner, dict[tuple[object, ...], BlockingLimit]]] = {}
        #: Has the classes that no limit has denied.
        self._untested: Final = BlockingLimit(("", ""), Resource())
        self._untested.is_open = True
        #: The limits that are open.
        self._open: Final[dict[BlockingLimit, None]] = {self._untested: None}
        #: Whether a queue with requests has others below it; None if it is unknown.
        self._is_nested: bool | None = None
        self.offered: Final[set[str]] = set()
        self.in_queue: Final[dict[str, dict[int, list[WaitingRequest]]]] = {}
        self.priorities: Final[dict[int, int]] = {}
        self.parts: Final = UsedParts(state)

    def class_of(self, allocation_id: str) -> RequestClass:
        """Return the class of a pending request."""
        return self._by_id[allocation_id][0]

    @property
    def is_nested(self) -> bool:
        """True if a queue with requests may have others below it."""
        if self._is_nested is None:
            queues = self._state.tree.queues
            # Only a queue with applications whose configuration has changed has others below it.
            self._is_nested = any(queues[path].children for path in self.in_queue)
        return self._is_nested

    # Woken requests

    def offer(self, allocation_id: str) -> None:
        """Let a woken request take no part until something is released."""
        self._remove(*self._by_id[allocation_id])
        self.offered.add(allocation_id)

    def return_offered(self, allocation_ids: Iterable[str]) -> None:
        """Let woken requests take part again."""
        for name in list(allocation_ids):
            self._insert(*self._by_id[name])
            self.offered.remove(name)

    # Blocked classes

    def open_by_queue(self) -> list[Mapping[str, Iterable[RequestClass]]]:
        """Return the classes that may fit, by queue path, for each limit that is open."""
        return [limit.classes for limit in self._open if limit.classes]

    def first_open(self) -> RequestClass | None:
        """Return the class that may fit with the first request of all; None if no class may fit."""
        first = [limit.first[0] for limit in self._open if limit.first]
        return min(first)[1] if first else None

    @property
    def has_open(self) -> bool:
        """True if a class may fit."""
        return any(limit.classes for limit in self._open)

    def block(self, found: RequestClass, limit: BlockingLimit | None) -> None:
        """Let a limit block an open class, which it denies, with all that it has denied before; None if it is unknown.

        It is not known when an unknown limit has room again, so the next search tests the class.
        """
        # Another class of this size may fit, so they have no unknown limit in common.
        limit = limit or BlockingLimit(_UNKNOWN, found.size, place=found)
        known = self._limits if limit.resource is None else self._limits_of_models
        limit = known.setdefault(limit.owner, {}).setdefault(limit.key(), limit)
        if found.limit is not limit:
            self._take_out(found)
            limit.add(found)
        self._close(limit)

    def block_again(self) -> None:
        """Block the open classes that their limits deny now."""
        for limit in list(self._open):
            if limit is not self._untested and not self._has_room(limit):
                self._close(limit)

    def start(self, application_id: str) -> None:
        """Open the classes of an application that runs now, if the number of running applications has blocked them."""
        for name in self._of_application[application_id]:
            found, limit = self._by_id[name][0], self._by_id[name][0].limit
            if found.requests and limit is not self._untested and limit.counter is None and limit.resource is None:
                self._take_out(found)
                self._untested.add(found)

    def blocked_by_queues(self) -> Iterator[RequestClass]:
        """Yield the classes that limits of queues block."""
        for (kind, _), limits in self._limits.items():
            if kind == TrackingType.QUEUE:
                for limit in limits.values():
                    if not limit.is_open:
                        yield from chain.from_iterable(limit.classes.values())

    def _close(self, limit: BlockingLimit) -> None:
        limit.is_open = False
        self._open.pop(limit, None)

    def _take_out(self, found: RequestClass) -> None:
        """Take a class out of its limit, which is forgotten if it is the last one."""
        limit = found.limit
        limit.remove(found)
        if limit.classes or limit is self._untested:
            return
        self._open.pop(limit, None)
        known = self._limits if limit.resource is None else self._limits_of_models
        del known[limit.owner][limit.key()]
        if not known[limit.owner]:
            del known[limit.owner]

    def limit_of(self, application: Application, denial: Violation, size: Resource) -> BlockingLimit | None:
        """Return the limit that has denied a size; None if it is unknown when it has room again."""
        kind, name, path, _, resource, *_, requested = denial
        if kind in _OWN_LIMITS:
            chain = () if resource is None else self._state.holding_of(application).chain()
            owned = (one for one in chain if (one.queue_path, one.owner.name, one.owner.kind) == (path, name, kind))
            return BlockingLimit((kind, name), size, next(owned, None), place=path)
        room = None if resource is None else self._models.room(kind, name, resource)
        return None if room is None or room >= requested else BlockingLimit((kind, name), size, resource=resource)

    def reopen(self, charged: Iterable[Charged]) -> None:
        """Open the classes of the limits of what was charged, of models, and of unknown ones, that may have room."""
        owners = {_UNKNOWN: None}
        for user, group, queue_path in charged:
            owners[TrackingType.USER, user] = owners[TrackingType.GROUP, group or ""] = None
            for path in ancestors(queue_path):
                owners[TrackingType.QUEUE, path] = None
        for owner in owners:
            # Most owners have no limit that has denied a class.
            if owner in self._limits:
                self._open_limits(self._limits[owner])
        for limits in self._limits_of_models.values():
            self._open_limits(limits)

    def _open_limits(self, limits: Mapping[tuple[object, ...], BlockingLimit]) -> None:
        for limit in limits.values():
            if not limit.is_open and self._has_room(limit):
                limit.is_open = True
                self._open[limit] = None

    def _has_room(self, limit: BlockingLimit) -> bool:
        if limit.resource is not None:
            room = self._models.room(*limit.owner, limit.resource)
            return room is None or room >= limit.size.get(limit.resource, 0)
        if limit.counter is None:
            return True
        chain, vector = (limit.counter,), self._state.vector(limit.size)
        # A limit of a user that is exceeded still allows a request that names the resource with an amount of 0.
        return fits(chain, vector) or (limit.owner[0] != TrackingType.QUEUE and not exceeded(chain, vector))

    # Following the partition

    def follow(self, application_id: str, request_ids: Iterable[str]) -> None:
        """Follow the changed requests of an application, or all of them if the application has changed."""
        application, known = self._state.applications.get(application_id), self._of_application.get(application_id, {})
        before = self._facts.get(application_id)
        placed = before if application is None else application.row
        if placed is not None:
            self.parts.follow(application_id, placed.queue_path)
        if application is None or not application.pending:
            if known:
                for name in list(known):
                    self._forget(application_id, name)
                del self._facts[application_id]
            return
        row, pending = application.row, application.pending
        is_running = application.holding is not None
        is_single = is_running or len(pending) > 1 or self._models.may_deny
        group = row.group if application.has_chosen_group else row.user.groups
        facts = _Facts(row.number, row.user.name, group, row.queue_path, is_running, is_single)
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
        # Quota models know more about a request than its usage.
        traits = (row.preemptible, row.duration, row.node) if self._models.may_deny else None
        own = application_id if facts.is_single else ""
        key = (*facts[1:5], own, row.usage, row.assign, row.priority, traits)
        found = self._classes.get(key) or RequestClass(key, row, facts.queue_path, self._untested)
        request = WaitingRequest(facts.number, self._state.tables.requests[name].number, row)
        self._by_id[name] = found, request
        self._of_application.setdefault(application_id, {})[name] = None
        if facts.queue_path not in self.in_queue:
            self.in_queue[facts.queue_path], self._is_nested = {}, None
        insort(self.in_queue[facts.queue_path].setdefault(row.priority, []), request)
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
            self._is_nested = None
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
            found.requests.append(request)
            self._untested.add(found)
        elif request > found.requests[0]:
            insort(found.requests, request)
        else:
            found.limit.remove(found)
            found.requests.insert(0, request)
            found.limit.add(found)

    def _remove(self, found: RequestClass, request: WaitingRequest) -> None:
        position = bisect_left(found.requests, request)
        if position:
            del found.requests[position]
        elif len(found.requests) == 1:
            self._take_out(found)
            found.requests.clear()
            del self._classes[found.key]
        else:
            found.limit.remove(found)
            del found.requests[0]
            found.limit.add(found)


def _discard(lists: dict[int, list[WaitingRequest]], priority: int, request: WaitingRequest) -> None:
    requests = lists[priority]
    del requests[bisect_left(requests, request)]
    if not requests:
        del lists[priority]


def guaranteed(queue: Queue) -> Mapping[str, int]:
    """Return the guarantee of a queue; empty for none."""
    amounts = queue.quota.guaranteed
    return _NOTHING if amounts is None else amounts.amounts
