"""The planned start of a reserved request: the time at which promised ends have made room for it.

The problem: a large request waits forever if smaller ones take all that becomes free. If everything waited for it,
capacity would be idle meanwhile.

The idea: the request starts when the promised ends of running allocations have made room for it. Another request may
pass it if it ends before this time, or if it leaves enough for the reserved request at this time.

The shapes: a `CounterPlace` names one amount that a counter limits. A `PlannedStart` has the start of a reserved
request and its *slack*: the amounts that are free at the start at each place, without those of the request. A request
that does not end before the start must fit into the slack.

Invariant: with the promises kept, each planned request fits all its limits at its start, together with the
requests that were granted since.

Places of users and groups are freed by promised ends as well, but this is not counted: a request that a limit of its
user or group blocks has no reservation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import merge
from operator import itemgetter
from typing import Final, NamedTuple, Self, TypeAlias, final

from ugm.counters import UNLIMITED, Counter
from ugm.decision import Violation
from ugm.errors import time_text
from ugm.identity import TrackingType, ancestors
from ugm.model import Claim
from ugm.partition.engine.application import Application
from ugm.partition.engine.state import PartitionState
from ugm.partition.rows import Allocation
from ugm.resources import MEMORY, VCORE, Resource

_QUEUE: Final = TrackingType.QUEUE

#: One amount that a counter limits: the kind, the name and the queue of the counter, and the resource; None for the
#: number of running applications.
CounterPlace: TypeAlias = tuple[TrackingType, str, str, str | None]

#: What becomes free at a time, and with a negative sign what is taken.
Change: TypeAlias = tuple[int, Mapping[CounterPlace, int]]

_time_of: Final = itemgetter(0)


class Reservation(NamedTuple):
    """Capacity that becomes free and is kept for a pending request.

    A queue with the property ``ugm.reservation: enabled`` has a reservation. It belongs to the first request in or
    below the queue that is blocked only by queue limits or by the size of the cluster. The request keeps it until
    it is granted or withdrawn, or until a limit of its user, of its group or of another quota model blocks it. Then, or
    if a request of a higher priority is blocked, another request gets the reservation.

    Requests with a higher priority, by the priorities that decide between the queues of both, come before the
    reservation. Any other request passes it only if it ends before the start, or leaves enough at the start.
    """

    allocation_id: str
    application_id: str
    #: The queues whose reservation the request has.
    queue_paths: tuple[str, ...]
    #: The second since 1970 at which the request can start if all promises are kept. It is the current second if the
    #: request fits now, or waits for allocations that have not kept their promise. None if allocations without a
    #: promise have to be released.
    start: int | None

    def __str__(self) -> str:
        text = f"{self.allocation_id} has the reservation of {', '.join(self.queue_paths)}"
        if self.start is None:
            return f"{text}; its start is unknown"
        return f"{text} and can start at {time_text(self.start, places='seconds')}"


class CandidateRequest(NamedTuple):
    """A request that may be granted, as reservations see it."""

    application: Application
    #: As it would be if it were granted now.
    row: Allocation
    #: What it would take at all places.
    charges: Mapping[CounterPlace, int]
    #: Whether it would start its application.
    starts: bool

    @classmethod
    def of(cls, state: PartitionState, application: Application, row: Allocation) -> Self:
        """Return a request before its charge."""
        charges = ChargedCounters.of(state, application).charges(row.usage)
        return cls(application, row, charges, application.holding is None)

    @property
    def allocation_id(self) -> str:
        """The id of the request."""
        return self.row.allocation_id

    @property
    def claim(self) -> Claim:
        """The request as other quota models see it."""
        return self.application.claim(self.row)

    def ends_by(self, now: int, time: int | None) -> bool:
        """Return whether the request, granted now, ends by a time; False if the end or the time is not known."""
        return self.row.duration is not None and time is not None and now + self.row.duration <= time


@final
class PlannedStart:
    """A reserved request with its start.

    Attributes:
        request: the request.
        queue_paths: the queues whose reservation it has.
        start: the time of its start; None if it is not known.
        slack: the free amounts at its start, without those of the request. Negative amounts are missing if the start is
            not known.
        limits: the limit at each place.
    """

    __slots__ = ("limits", "queue_paths", "request", "slack", "start")

    def __init__(self, request: CandidateRequest, queue_paths: tuple[str, ...]) -> None:
        self.request: Final = request
        self.queue_paths: Final = queue_paths
        self.start: int | None = None
        self.slack: dict[CounterPlace, int] = {}
        self.limits: Final[dict[CounterPlace, int]] = {}

    def reservation(self) -> Reservation:
        """Return the reservation for callers."""
        application_id = self.request.application.application_id
        return Reservation(self.request.allocation_id, application_id, self.queue_paths, self.start)

    def objection(self, other: CandidateRequest, now: int) -> Violation | None:
        """Return the violation of a request that would delay this one if it were granted now; None if it would not."""
        ends = other.ends_by(now, self.start)
        shares_application = other.application is self.request.application
        for place, amount in other.charges.items():
            if ends and _is_given_back(place):
                continue
            slack = self.slack.get(place)
            if slack is not None and amount > slack and not (place[3] is None and shares_application):
                limit = self.limits[place]
                return Violation(
                    "reservation", self.request.allocation_id, place[2], "", place[3], limit, limit - slack, amount
                )
        return None

    def take(self, other: CandidateRequest, now: int) -> None:
        """Take a request that is granted now from the slack, unless it ends before the start."""
        ends = other.ends_by(now, self.start)
        for place, amount in other.charges.items():
            if place in self.slack and not (ends and _is_given_back(place)):
                self.slack[place] -= amount

    def changes(self) -> Iterator[Change]:
        """Yield what the request takes at its start and gives back at its end."""
        if self.start is not None:
            yield self.start, {place: -amount for place, amount in self.request.charges.items()}
            if self.request.row.duration is not None:
                # Its application may run on, because other requests of it are pending.
                given = {place: amount for place, amount in self.request.charges.items() if place[3] is not None}
                yield self.start + self.request.row.duration, given


def _is_given_back(place: CounterPlace) -> bool:
    """Return whether a request that ends before a start does not matter at a place.

    Its application may run on. A limit of a user or group that blocks the reserved request meanwhile ends its
    reservation.
    """
    return place[0] is _QUEUE and place[3] is not None


class ChargedCounters(NamedTuple):
    """The counters of the application of a request."""

    #: Those that a grant charges, those that can deny it, and those that count the application as a new one.
    charged: Sequence[Counter]
    enforced: Sequence[Counter]
    new: Sequence[Counter]

    @classmethod
    def of(cls, state: PartitionState, application: Application) -> Self:
        """Return the counters of an application at this moment."""
        holding = state.holding_of(application)
        if application.holding is not None:
            return cls(holding.charged, holding.checked, ())
        chain = holding.chain()
        return cls(chain, holding.enforced(chain), holding.newly_counted(chain))

    def charges(self, usage: Resource) -> dict[CounterPlace, int]:
        """Return the places that a grant charges, with its amounts."""
        found: dict[CounterPlace, int] = {}
        for counter in self.charged:
            kind, name, path = counter.owner.kind, counter.owner.name, counter.queue_path
            for resource, amount in usage.amounts.items():
                if amount:
                    found[kind, name, path, resource] = amount
        for counter in self.new:
            found[counter.owner.kind, counter.owner.name, counter.queue_path, None] = 1
        return found

    def limits(self, usage: Resource) -> Iterator[tuple[CounterPlace, int, int, int]]:
        """Yield the places that limit a grant, each with its limit, the free amount and the requested one."""
        for counter in self.enforced:
            kind, name, path = counter.owner.kind, counter.owner.name, counter.queue_path
            for resource, amount in usage.amounts.items():
                is_counted = resource in (VCORE, MEMORY) or resource in counter.layout.positions
                limit = counter.limit.maximum(resource)
                if (amount or kind is _QUEUE) and is_counted and limit < UNLIMITED:
                    yield (kind, name, path, resource), limit, counter.free(resource), amount
            if counter.limit.applications and any(path == one.queue_path for one in self.new):
                yield (
                    (kind, name, path, None),
                    counter.limit.applications,
                    counter.limit.applications - counter.running,
                    1,
                )


def released_places(application: Application, usage: Resource) -> dict[CounterPlace, int]:
    """Return the places of queues that a release frees, with its amounts."""
    return {
        (_QUEUE, counter.queue_path, counter.queue_path, resource): amount
        for counter in application.queue.chain
        for resource, amount in usage.amounts.items()
    }


def plan_start(
    state: PartitionState, planned: PlannedStart, earlier: Sequence[PlannedStart], more: Iterable[Change], now: int
) -> None:
    """Find the start of a reserved request, and its slack.

    Takes time proportional to the number of ends before the start, or of all ends if the start is not known.

    Args:
        state: the partition.
        planned: the request; its start and slack are set.
        earlier: the requests that were planned before, which it must not delay.
        more: what else becomes free.
        now: the current second.
    """
    request, usage = planned.request, planned.request.row.usage
    counters = ChargedCounters.of(state, request.application)
    free, missing = planned.slack, set[CounterPlace]()
    for place, limit, available, amount in counters.limits(usage):
        planned.limits[place], free[place] = limit, available - amount
        if available < amount:
            missing.add(place)
    changes = _changes_of(state, free)
    others = sorted((*more, *(change for one in earlier for change in one.changes())), key=_time_of)
    if others:
        changes = merge(changes, others, key=_time_of)
    for at in _times_without_shortage(changes, free, missing, now):
        if _may_start(planned, earlier, at):
            planned.start = at
            break
    for one in earlier:
        if planned.start is not None and (one.start is None or one.start > planned.start):
            one.take(request, planned.start)


def _times_without_shortage(
    changes: Iterable[Change], free: dict[CounterPlace, int], missing: set[CounterPlace], now: int
) -> Iterator[int]:
    """Apply changes in their order, and yield the times at which nothing is missing, before the next later change.

    Args:
        changes: the changes, the earliest first.
        free: the free amount at each place; follows the changes.
        missing: the places where it is negative; follows the changes.
        now: the first time; earlier changes belong to it.
    """
    at = now
    for time, change in changes:
        if time > at:
            if not missing:
                yield at
            at = time
        for place, amount in change.items():
            if place in free:
                left = free[place] = free[place] + amount
                if left < 0:
                    missing.add(place)
                elif missing:
                    missing.discard(place)
    if not missing:
        yield at


def _changes_of(state: PartitionState, places: Iterable[CounterPlace]) -> Iterator[Change]:
    """Yield what each promised end frees at some places, the earliest first."""
    of_paths: dict[str, list[tuple[str, CounterPlace]]] = {}
    for place in places:
        kind, _, path, resource = place
        if kind is _QUEUE and resource is not None:
            of_paths.setdefault(path, []).append((resource, place))
    #: By the queues of allocations.
    found: dict[str, list[tuple[str, CounterPlace]]] = {}
    for at, name in state.ends:
        row = state.allocations[name]
        queue_path, amounts = state.applications[row.application_id].row.queue_path, row.usage.amounts
        freed = found.get(queue_path)
        if freed is None:
            freed = found[queue_path] = [one for path in ancestors(queue_path) for one in of_paths.get(path, ())]
        if freed:
            yield at, {place: amounts[resource] for resource, place in freed if resource in amounts}


def _may_start(planned: PlannedStart, earlier: Sequence[PlannedStart], at: int) -> bool:
    """Return whether a reserved request that starts at a time delays no request that was planned before."""
    return all(
        (one.start is not None and one.start <= at) or one.objection(planned.request, at) is None for one in earlier
    )
