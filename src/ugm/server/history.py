"""The newest events of a partition, and how often what was denied.

A `History` follows a partition and keeps the newest events of each kind in memory. Kinds are kept apart, so that a
thousand grants in a second do not push out the one denial that somebody looks for. An application that asks again and
again for what it cannot have is one line with a count, not a thousand lines.

It needs nothing but `ugm` itself. It is told outside the lock of the partition, by the thread that made the change, and
keeps that thread for about a microsecond.
"""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any, Final, NamedTuple, TypeAlias, final

from ugm.decision import Violation
from ugm.errors import RequestError
from ugm.partition import ConfigurationChanged, Denied, Event, event_dict, event_name

__all__ = ["History", "HistoryPage", "Record"]

#: Of a gang, this many asks are kept.
_MOST_ASKS: Final = 100
#: This many combinations of kind, queue and resource are counted apart: clients choose the names of resources, and of
#: queues that placement creates. Beyond it a denial counts for the queue, and at last also for the kind, `_OTHER`.
_MOST_COUNTED: Final = 1000
_OTHER: Final = "other"
#: This many combinations more are kept for denials whose queue is not counted apart.
_MOST_WITHOUT_QUEUE: Final = 200

_Key: TypeAlias = tuple[object, ...]


class Record(NamedTuple):
    """One line of a history."""

    #: The number that the partition gave to the event; of several equal denials, to the first.
    number: int
    #: The number of the last of several equal denials; of everything else the same as `number`.
    last: int
    #: How many equal denials the line stands for.
    times: int
    #: When the first was told, in seconds since 1970.
    first_at: float
    #: When the last was told.
    last_at: float
    #: The last of them. Of a large gang, the first hundred asks.
    event: Event | Mapping[str, Any]

    @property
    def kind(self) -> str:
        """What happened: the name of the event, as in JSON."""
        return "configured" if isinstance(self.event, Mapping) else event_name(type(self.event))

    def to_dict(self) -> dict[str, Any]:
        """Return the record for JSON; the event is told by its attributes, and named by ``event``."""
        told = dict(self.event) if isinstance(self.event, Mapping) else event_dict(self.event)
        return {**{name: value for name, value in self._asdict().items() if name != "event"}, **told}


class HistoryPage(NamedTuple):
    """Some records of a history, and the counts at the same moment."""

    #: The number of the newest event; 0 before the first.
    newest: int
    #: How often each kind of event happened, by kind.
    told: Mapping[str, int]
    #: The newest records, oldest first.
    records: tuple[Record, ...]


@final
class History:
    """The newest events of one partition: pass it as a subscriber.

    Any number of threads may tell it, and read it, at any time.

    Args:
        most: how many lines of each kind of event are kept.
        clock: what tells the time, in seconds since 1970.

    Raises:
        RequestError: *most* is no number above 0.

    >>> from ugm import Partition, Resource, UserGroup, parse_config
    >>> config = parse_config("partitions: [{queues: [{name: a, resources: {max: {memory: 1}}}]}]").partition()
    >>> history = History(clock=lambda: 0)
    >>> partition = Partition(config, subscribers=[history])
    >>> partition.submit("app", UserGroup("sue"), "root.a").queue_path
    'root.a'
    >>> for number in range(3):
    ...     denied = partition.allocate(f"app-{number}", "app", Resource(memory=2))
    >>> [(record.kind, record.times) for record in history.records()]
    [('submitted', 1), ('denied', 3)]
    """

    __slots__ = ("_clock", "_denials", "_kinds", "_lock", "_most", "_newest", "_told")

    #: For every kind of event its newest lines, by number; those of denials by what was denied.
    _kinds: dict[str, OrderedDict[_Key, Record]]
    #: How often each kind was told.
    _told: Counter[str]
    #: How often limits denied something, by kind, queue and resource.
    _denials: Counter[tuple[str, str, str]]
    _newest: int

    def __init__(self, most: int = 1000, *, clock: Callable[[], float] = time.time) -> None:
        if type(most) is not int or most < 1:
            raise RequestError("most", most, "expected a number of lines above 0")
        self._most: Final = most
        self._clock: Final = clock
        self._lock: Final = Lock()
        self._kinds = {}
        self._told = Counter()
        self._denials = Counter()
        self._newest = 0

    def __call__(self, first: int, events: tuple[Event, ...]) -> None:
        """Take note of events."""
        now = self._clock()
        with self._lock:
            for number, event in enumerate(events, first):
                self._note(number, now, event)
            self._newest = max(self._newest, first + len(events) - 1)

    def _note(self, number: int, now: float, event: Event) -> None:
        kind = event_name(type(event))
        self._told[kind] += 1
        lines = self._kinds.get(kind)
        if lines is None:
            lines = self._kinds[kind] = OrderedDict()
        if isinstance(event, Denied):
            self._note_denied(lines, number, now, event)
        else:
            # A configuration is kept as what it changed: two whole ones for every line would be much.
            kept = event_dict(event) if isinstance(event, ConfigurationChanged) else event
            lines[number,] = Record(number, number, 1, now, now, kept)
        if len(lines) > self._most:
            lines.popitem(last=False)

    def _note_denied(self, lines: OrderedDict[_Key, Record], number: int, now: float, event: Denied) -> None:
        for violation in event.decision.violations:
            self._denials[self._counted_as(violation)] += 1
        kept = event._replace(requests=event.requests[:_MOST_ASKS])
        key = _what(kept)
        known = lines.get(key)
        if known is None:
            lines[key] = Record(number, number, 1, now, now, kept)
        else:
            lines[key] = known._replace(
                last=max(number, known.last), times=known.times + 1, last_at=max(now, known.last_at), event=kept
            )

    def _counted_as(self, violation: Violation) -> tuple[str, str, str]:
        kind, resource = str(violation.kind), violation.resource or "applications"
        counted, known = (kind, violation.queue_path, resource), len(self._denials)
        if counted in self._denials or known < _MOST_COUNTED:
            return counted
        counted = (kind, _OTHER, resource)
        if counted in self._denials or known < _MOST_COUNTED + _MOST_WITHOUT_QUEUE:
            return counted
        return _OTHER, _OTHER, _OTHER

    # Reading

    @property
    def newest(self) -> int:
        """The number of the newest event that was told; 0 before the first."""
        return self._newest

    def records(self, *, after: int = 0, kind: str | None = None, most: int | None = None) -> tuple[Record, ...]:
        """Return the newest lines, oldest first.

        Args:
            after: only those that something was added to since the event of this number.
            kind: only those of one kind of event, for example ``denied``.
            most: so many of them at most.
        """
        return self.page(after=after, kind=kind, most=most).records

    def page(self, *, after: int = 0, kind: str | None = None, most: int | None = None) -> HistoryPage:
        """Return what `records` does, with the counts of the same moment."""
        with self._lock:
            kinds = list(self._kinds.values()) if kind is None else [self._kinds.get(kind, OrderedDict())]
            found = [record for lines in kinds for record in lines.values()]
            newest, told = self._newest, dict(sorted(self._told.items()))
        newer = sorted((record for record in found if record.last > after), key=_number)
        return HistoryPage(newest, told, tuple(newer if most is None else newer[max(0, len(newer) - most) :]))

    def told(self) -> dict[str, int]:
        """Return how often each kind of event was told, sorted by kind."""
        with self._lock:
            return dict(sorted(self._told.items()))

    def denials(self) -> dict[tuple[str, str, str], int]:
        """Return how often limits denied something, by kind of limit, queue of the limit, and resource.

        The resource is ``applications`` where their number was short. A denial by several limits counts for each.
        Beyond 1,000 combinations, the queue of new ones is counted as ``other``.
        """
        with self._lock:
            return dict(sorted(self._denials.items()))


def _what(event: Denied) -> _Key:
    """Return what makes two denials the same: who asks for what, and which limits are in the way."""
    asked = tuple((ask.application_id, ask.usage) for ask in event.requests)
    return (asked, *(_limit(violation) for violation in event.decision.violations))


def _limit(violation: Violation) -> _Key:
    return violation.kind, violation.name, violation.queue_path, violation.resource


def _number(record: Record) -> int:
    return record.number
