"""Time series of many subjects in bounded memory, exact at every sampled moment.

The problem: a partition with 3,000 queues and 10,000 users has more than 100,000 values, and a week of them in full
resolution does not fit into memory.

The idea: there is one tier for each range: the last hour in steps of 15 seconds, the last day in steps of five minutes,
and the last week in steps of half an hour. A tier stores the differences between successive samples only, as numbers of
variable length, so a value that does not change costs nothing. A tier is a list of chunks. Each begins with complete
values, so the oldest chunk can be dropped as a whole.

Invariant: reading returns exactly the integers that were recorded. Values are not averaged; a coarser tier contains
fewer of the samples.

The cost: a changed value takes 2 to 8 bytes. Every subject takes about 200 bytes in each of up to 19 chunks. If the
total exceeds a limit, the oldest chunk of the finest tier that has two or more is dropped.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from threading import Lock
from typing import Final, NamedTuple, TypeAlias, final

from ugm.server.cooperative import cooperatively

__all__ = ["TIERS", "Metric", "Metrics", "SeriesStore", "SeriesView", "Subject", "Tier"]

#: The kind and the name of a subject, for example ``("queue", "root.a")``; a node also has the name of its tree.
Subject: TypeAlias = tuple[str, ...]
#: A measure and a resource, for example ``("usage", "memory")``; the resource of a count is empty.
Metric: TypeAlias = tuple[str, str]
#: The values of one subject by the number of the metric.
Values: TypeAlias = Mapping[int, int]

#: The number of metrics of one store; further ones are not recorded. Clients choose the names of resources.
_MOST_METRICS: Final = 1000
#: The estimated bytes of a subject in a chunk, besides its encoded values.
_SUBJECT_BYTES: Final = 200
_NO_VALUES: Final[Values] = {}
_CONTINUED: Final = 0x80


class Tier(NamedTuple):
    """A range of time, and the distance of its samples."""

    name: str
    #: In seconds, like the step.
    span: int
    step: int
    #: The number of samples in a chunk.
    chunk: int


#: From the finest to the coarsest. A tier keeps its span and at most one chunk more.
TIERS: Final = (Tier("hour", 3600, 15, 60), Tier("day", 86_400, 300, 48), Tier("week", 604_800, 1800, 56))


@final
class Metrics:
    """Numbers for metrics, so that values are stored without their names."""

    __slots__ = ("_names", "_numbers")

    def __init__(self) -> None:
        self._numbers: Final[dict[Metric, int]] = {}
        self._names: Final[list[Metric]] = []

    def number(self, measure: str, resource: str = "") -> int | None:
        """Return the number of a metric; None if there are too many metrics."""
        metric = measure, resource
        found = self._numbers.get(metric)
        if found is None and len(self._names) < _MOST_METRICS:
            found = self._numbers[metric] = len(self._names)
            self._names.append(metric)
        return found

    def name(self, number: int) -> Metric:
        """Return the metric with a number."""
        return self._names[number]


class SeriesView(NamedTuple):
    """The samples of one subject in a range of time."""

    #: In milliseconds since 1970, ascending.
    times: Sequence[int]
    #: A value for each time; None where the subject had none.
    values: Mapping[Metric, Sequence[int | None]]


class _Chunk:
    """Successive samples of all subjects.

    A reader needs no lock: the time of a sample is added after its values, and readers ignore values without a time.
    """

    __slots__ = ("_last", "_most", "omitted", "series", "size", "times")

    def __init__(self, most: int) -> None:
        self._most = most
        self.times = array("q")
        self.series: dict[Subject, bytearray] = {}
        #: The values of the last sample.
        self._last: Mapping[Subject, Values] = {}
        #: Estimated bytes of memory.
        self.size = 0
        #: The number of subjects that the last sample omitted because there are too many.
        self.omitted = 0

    def append(self, at: int, values: Mapping[Subject, Values]) -> None:
        """Add a sample of all subjects."""
        index, last = len(self.times), self._last
        self.omitted = 0
        for subject, new in cooperatively(values.items()):
            old = last.get(subject, _NO_VALUES)
            if old is not new and old != new:
                self._add(subject, index, old, new)
        for subject in last.keys() - values.keys():
            self._add(subject, index, last[subject], _NO_VALUES)
        self._last = values
        self.times.append(at)

    def _add(self, subject: Subject, index: int, old: Values, new: Values) -> None:
        encoded = self.series.get(subject)
        if encoded is None:
            if len(self.series) >= self._most:
                self.omitted += 1
                return
            encoded = self.series[subject] = bytearray()
            self.size += _SUBJECT_BYTES
        before = len(encoded)
        encoded += _encoded(index, old, new)
        self.size += len(encoded) - before

    def close(self) -> None:
        """Free what only further samples need."""
        self._last = {}

    def changes(self, subject: Subject) -> Iterator[tuple[int, dict[int, int]]]:
        """Yield the values of a subject after each change, with the index of the sample."""
        return _decoded(bytes(self.series.get(subject, b"")))


def _encoded(index: int, old: Values, new: Values) -> bytes:
    """Return the index and the differences of the stored values, which are 0 for a missing value."""
    found = bytearray()
    changed = [
        (metric, _stored(new.get(metric)) - _stored(old.get(metric)))
        for metric in {**old, **new}
        if new.get(metric) != old.get(metric)
    ]
    _append(found, index)
    _append(found, len(changed))
    for metric, difference in changed:
        _append(found, metric)
        _append(found, difference << 1 if difference >= 0 else (-difference << 1) - 1)
    return bytes(found)


def _stored(value: int | None) -> int:
    """Return a number for a value; 0 stands for no value."""
    if value is None:
        return 0
    return value + 1 if value >= 0 else value


def _value(stored: int) -> int:
    return stored - 1 if stored > 0 else stored


def _append(found: bytearray, number: int) -> None:
    """Append a natural number, seven bits in each byte, the lowest first."""
    while number >= _CONTINUED:
        found.append(number & 0x7F | _CONTINUED)
        number >>= 7
    found.append(number)


def _numbers(data: bytes) -> Iterator[int]:
    number = shift = 0
    for byte in data:
        if byte < _CONTINUED:
            yield number | byte << shift
            number = shift = 0
        else:
            number |= (byte & 0x7F) << shift
            shift += 7


def _decoded(data: bytes) -> Iterator[tuple[int, dict[int, int]]]:
    numbers, stored = _numbers(data), dict[int, int]()
    for index in numbers:
        for _ in range(next(numbers)):
            metric, difference = next(numbers), next(numbers)
            total = stored.get(metric, 0) + (-((difference + 1) >> 1) if difference & 1 else difference >> 1)
            if total:
                stored[metric] = total
            else:
                stored.pop(metric, None)
        yield index, {metric: _value(value) for metric, value in stored.items()}


class _TierSeries:
    """The chunks of one tier, the oldest first."""

    __slots__ = ("_most", "chunks", "tier")

    def __init__(self, tier: Tier, most: int) -> None:
        self.tier = tier
        self._most = most
        self.chunks: tuple[_Chunk, ...] = ()

    @property
    def last(self) -> int | None:
        """The time of the last sample."""
        return self.chunks[-1].times[-1] if self.chunks else None

    def is_due(self, at: int) -> bool:
        """Return whether a sample at a given time is the first of its step."""
        step, last = self.tier.step * 1000, self.last
        return last is None or at // step > last // step

    def append(self, at: int, values: Mapping[Subject, Values]) -> None:
        """Add a sample, and drop the chunks that are older than the span."""
        if not self.chunks or len(self.chunks[-1].times) >= self.tier.chunk:
            if self.chunks:
                self.chunks[-1].close()
            chunk = _Chunk(self._most)
            chunk.append(at, values)
            first = at - self.tier.span * 1000
            self.chunks = (*(one for one in self.chunks if one.times[-1] >= first), chunk)
        else:
            self.chunks[-1].append(at, values)

    def drop(self) -> None:
        """Drop the oldest chunk."""
        self.chunks = self.chunks[1:]


@final
class SeriesStore:
    """The series of all subjects; one thread records, and any number of threads read.

    Args:
        most_series: the number of subjects that are recorded; the first ones of a sample have priority.
        most_bytes: the estimated memory above which the oldest chunks are dropped.

    >>> store = SeriesStore()
    >>> memory = store.metrics.number("usage", "memory")
    >>> for second, used in enumerate((7, 7, 2**70)):
    ...     store.record(second * 15_000, {("queue", "root"): {memory: used}})
    >>> view = store.read(("queue", "root"), "hour", 30_000)
    >>> view.times, view.values[("usage", "memory")]
    ([0, 15000, 30000], [7, 7, 1180591620717411303424])
    """

    __slots__ = ("_lock", "_most_bytes", "_tiers", "metrics")

    def __init__(self, *, most_series: int = 20_000, most_bytes: int = 256 << 20) -> None:
        self.metrics: Final = Metrics()
        self._most_bytes: Final = most_bytes
        self._tiers: Final = {tier.name: _TierSeries(tier, most_series) for tier in TIERS}
        self._lock: Final = Lock()

    @property
    def size(self) -> int:
        """The estimated bytes of memory."""
        return sum(chunk.size for tier in self._tiers.values() for chunk in tier.chunks)

    @property
    def omitted(self) -> int:
        """The number of subjects that the newest sample omitted because there are too many."""
        chunks = self._tiers[TIERS[0].name].chunks
        return chunks[-1].omitted if chunks else 0

    def is_due(self, at: int) -> bool:
        """Return whether any tier needs a sample at a given time, in milliseconds since 1970."""
        return any(tier.is_due(at) for tier in self._tiers.values())

    def record(self, at: int, values: Mapping[Subject, Values]) -> None:
        """Add a sample to each tier that needs one at this time; the values must not be changed afterwards."""
        with self._lock:
            for tier in self._tiers.values():
                if tier.is_due(at):
                    tier.append(at, values)
            while self.size > self._most_bytes:
                droppable = [tier for tier in self._tiers.values() if len(tier.chunks) > 1]
                if not droppable:
                    break
                droppable[0].drop()

    def times(self, tier: str, now: int) -> list[int]:
        """Return the times of the samples in the range of a tier that ends at a given time."""
        first = now - self._tiers[tier].tier.span * 1000
        return [at for chunk in self._tiers[tier].chunks for at in chunk.times if first <= at <= now]

    def read(
        self, subject: Subject, tier: str, now: int, wanted: Callable[[Metric], bool] = lambda _metric: True
    ) -> SeriesView:
        """Return the series of a subject in the range of a tier that ends at a given time.

        Args:
            subject: the subject; an unknown one has no values.
            tier: the name of a tier.
            now: the end of the range, in milliseconds since 1970.
            wanted: returns whether a metric is included.
        """
        series = self._tiers[tier]
        first, times = now - series.tier.span * 1000, list[int]()
        values: dict[Metric, list[int | None]] = {}
        for chunk in series.chunks:
            indexes = [index for index, at in enumerate(chunk.times) if first <= at <= now]
            changes = chunk.changes(subject)
            for index, current in zip(indexes, _at_indexes(changes, indexes), strict=True):
                for number, value in current.items():
                    metric = self.metrics.name(number)
                    if wanted(metric):
                        column = values.setdefault(metric, [])
                        column += [None] * (len(times) - len(column))
                        column.append(value)
                times.append(chunk.times[index])
        for column in values.values():
            column.extend([None] * (len(times) - len(column)))
        return SeriesView(times, values)


def _at_indexes(changes: Iterator[tuple[int, dict[int, int]]], indexes: Iterable[int]) -> Iterator[Mapping[int, int]]:
    """Yield the values at each index, of which changes yields only those where they differ."""
    current: Mapping[int, int] = {}
    following = next(changes, None)
    for index in indexes:
        while following is not None and following[0] <= index:
            current = following[1]
            following = next(changes, None)
        yield current
