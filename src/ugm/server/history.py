"""The memory of a server about a partition: the newest events, and denials by limit.

A `History` subscribes to a partition and keeps the newest events of each kind in memory. Each kind has its own list, so
that a thousand grants do not displace a denial. Repeated equal denials are one record with a count.

The history receives events outside the lock of the partition, in the thread that made the change, and delays that
thread by about a microsecond.
"""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from operator import attrgetter
from threading import Lock
from typing import Final, NamedTuple, TypeAlias, final

from ugm.errors import RequestError
from ugm.events import (
    Allocated,
    AllocationRequested,
    ApplicationEnded,
    ApplicationSubmitted,
    ConfigurationChanged,
    Denied,
    Event,
    RequestWithdrawn,
    event_name,
    event_to_dict,
)

__all__ = ["History", "HistoryPage", "Record", "WorkTimes"]

#: The number of requests of a denied gang that are kept.
_MOST_REQUESTS: Final = 100
#: The number of combinations of kind, queue and resource with a counter of their own. It is bounded, because clients
#: choose the names of resources and of dynamic queues. Further denials are counted as `_OTHER`.
_MOST_COUNTERS: Final = 1000
_OTHER: Final = ("other", "other", "other")

_Key: TypeAlias = tuple[object, ...]


class Record(NamedTuple):
    """One record of a history: an event, or several equal denials."""

    #: The number of the event in the partition; of several equal denials, that of the first.
    number: int
    #: The number of the last of several equal denials; of other events the same as `number`.
    last: int
    #: The number of equal denials.
    times: int
    #: The time of the first, in seconds since 1970.
    first_at: float
    #: The time of the last.
    last_at: float
    #: The last of them. For a large gang, it contains the first hundred requests.
    event: Event | Mapping[str, object]

    @property
    def kind(self) -> str:
        """The name of the event, as in JSON."""
        return "configured" if isinstance(self.event, Mapping) else event_name(type(self.event))

    def to_dict(self) -> dict[str, object]:
        """Return the record for JSON, with the fields of the event; the field ``event`` is its name."""
        fields = dict(self.event) if isinstance(self.event, Mapping) else event_to_dict(self.event)
        return {**{name: value for name, value in self._asdict().items() if name != "event"}, **fields}


class HistoryPage(NamedTuple):
    """Records of a history, and the counts at the same moment."""

    #: The number of the newest event; 0 before the first.
    newest: int
    #: The number of events of each kind so far.
    counts: Mapping[str, int]
    #: The newest records, oldest first.
    records: tuple[Record, ...]


@final
class History:
    """The newest events of one partition; pass it to the partition as a subscriber.

    It can be used by any number of threads.

    Args:
        most: the number of records of each kind of event that are kept.
        clock: returns the time, in seconds since 1970.

    Raises:
        RequestError: *most* is not an int above 0.

    >>> from ugm import Partition, Resource, UserGroup, parse_config
    >>> config = parse_config("partitions: [{queues: [{name: a, resources: {max: {memory: 1}}}]}]").partition()
    >>> history = History(clock=lambda: 0)
    >>> partition = Partition(config, subscribers=[history])
    >>> partition.submit("app", UserGroup("sue"), "root.a").queue_path
    'root.a'
    >>> for number in range(3):
    ...     denied = partition.allocate(f"app-{number}", "app", Resource(memory=2))
    >>> [(record.kind, record.times) for record in history.page().records]
    [('submitted', 1), ('denied', 3)]
    """

    def __init__(self, most: int = 1000, *, clock: Callable[[], float] = time.time) -> None:
        if type(most) is not int or most < 1:
            raise RequestError("most", most, "expected an int > 0")
        self._most: Final = most
        self._clock: Final = clock
        self._lock: Final = Lock()
        #: The newest records of every kind of event, by number; those of denials by their content.
        self._kinds: Final[dict[str, OrderedDict[_Key, Record]]] = {}
        #: The number of events of each kind.
        self._counts: Final = Counter[str]()
        #: The number of denials by kind of limit, queue and resource.
        self._denials: Final = Counter[tuple[str, str, str]]()
        self._newest = 0
        #: The times of submissions and pending requests; those from before the start may have ended since.
        self.times: Final = WorkTimes()

    def __call__(self, first: int, events: tuple[Event, ...]) -> None:
        """Record events."""
        now = self._clock()
        with self._lock:
            for number, event in enumerate(events, first):
                self._record(number, now, event)
                self.times.apply(event, now)
            self._newest = max(self._newest, first + len(events) - 1)

    def _record(self, number: int, now: float, event: Event) -> None:
        kind = event_name(type(event))
        self._counts[kind] += 1
        lines = self._kinds.get(kind)
        if lines is None:
            lines = self._kinds[kind] = OrderedDict()
        if isinstance(event, Denied):
            self._record_denial(lines, number, now, event)
        else:
            # Only the differences are kept: two whole configurations for every record would take much memory.
            kept = event_to_dict(event) if isinstance(event, ConfigurationChanged) else event
            lines[number,] = Record(number, number, 1, now, now, kept)
        if len(lines) > self._most:
            lines.popitem(last=False)

    def _record_denial(self, lines: OrderedDict[_Key, Record], number: int, now: float, event: Denied) -> None:
        for violation in event.decision.violations:
            counted = (str(violation.kind), violation.queue_path, violation.resource or "applications")
            is_known = counted in self._denials or len(self._denials) < _MOST_COUNTERS
            self._denials[counted if is_known else _OTHER] += 1
        kept = event._replace(requests=event.requests[:_MOST_REQUESTS])
        key = _denial_key(kept)
        known = lines.get(key)
        if known is None:
            lines[key] = Record(number, number, 1, now, now, kept)
        else:
            lines[key] = known._replace(
                last=max(number, known.last), times=known.times + 1, last_at=max(now, known.last_at), event=kept
            )

    # Reading

    def page(self, *, after: int = 0, kind: str | None = None, most: int | None = None) -> HistoryPage:
        """Return the newest records, oldest first, with the counts at the same moment.

        Args:
            after: only records that are newer than the event with this number, or had later repetitions.
            kind: only records of one kind of event, for example ``denied``.
            most: the largest number of records.
        """
        with self._lock:
            kinds = list(self._kinds.values()) if kind is None else [self._kinds.get(kind, OrderedDict())]
            found = [record for lines in kinds for record in lines.values()]
            newest, counts = self._newest, dict(sorted(self._counts.items()))
        newer = sorted((record for record in found if record.last > after), key=attrgetter("number"))
        return HistoryPage(newest, counts, tuple(newer if most is None else newer[max(0, len(newer) - most) :]))

    def denials(self) -> dict[tuple[str, str, str], int]:
        """Return the number of denials, by kind of limit, queue of the limit, and resource.

        The resource is ``applications`` for limits on the number of applications. A denial by several limits counts for
        each. Beyond 1,000 combinations, further ones are counted as ``other``.
        """
        with self._lock:
            return dict(sorted(self._denials.items()))

    def requests(self) -> list[tuple[str, float]]:
        """Return the ids of pending allocations with their times."""
        with self._lock:
            return list(self.times.requested.items())

    def add_earlier(self, earlier: WorkTimes) -> None:
        """Add the times of work from before the first event, for example from a store."""
        with self._lock:
            self.times.submitted = earlier.submitted | self.times.submitted
            self.times.requested = earlier.requested | self.times.requested


@final
class WorkTimes:
    """The times of submissions and of requests that are pending, in seconds since 1970, derived from events."""

    def __init__(self) -> None:
        self.submitted: dict[str, float] = {}
        self.requested: dict[str, float] = {}

    def apply(self, event: Event, at: float) -> None:
        """Note an event with its time."""
        match event:
            case ApplicationSubmitted():
                self.submitted[event.application_id] = at
            case ApplicationEnded():
                self.submitted.pop(event.application_id, None)
            case AllocationRequested():
                self.requested[event.allocation.allocation_id] = at
            case RequestWithdrawn() | Allocated():
                self.requested.pop(event.allocation.allocation_id, None)


def _denial_key(event: Denied) -> _Key:
    """Return the key of equal denials: the same requests, denied by the same limits."""
    requests = tuple((request.application_id, request.usage) for request in event.requests)
    return (requests, *((one.kind, one.name, one.queue_path, one.resource) for one in event.decision.violations))
