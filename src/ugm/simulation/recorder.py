"""Recording of a replay over time: the usage under each limit, running jobs, and waiting jobs.

Pass a `Recorder` to `ugm.simulation.simulate`, and query it afterwards. It does not influence the replay. Its memory
grows by at most 25 kB for each user, group or queue under a limit, not with the number of jobs.

An amount over time needs bounded memory: the lowest, highest and mean amount of each column. A *column* is an interval
of time; all columns have the same width. When the time exceeds the last column, columns are merged into wider ones.
Merging is exact: the lowest, highest and mean amounts of a wider column are the same as if it had been used from the
start. Therefore no peak is lost.

The lowest and mean amounts only regard amounts that lasted for at least one second. The highest also regards amounts
that lasted for 0 seconds, because a job of 0 seconds is charged to the limits.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple, final

from ugm.simulation.gauges import Gauge, JobClass
from ugm.simulation.report import LimitSummary

#: The most columns, about the number of pixels of a plot.
COLUMNS: Final = 960

#: Common widths in seconds, each a divisor of the next; after the last, widths double.
_WIDTHS: Final = (1, 2, 10, 30, 60, 120, 600, 1800, 3600, 7200, 21600, 43200, 86400)


def fitting(end: int, columns: int = COLUMNS, width: int = 1) -> int:
    """Return the smallest width >= *width* with which the second *end* is in one of *columns* columns.

    >>> fitting(959), fitting(960), fitting(11 * 86400)
    (1, 2, 1800)
    """
    while end // width >= columns:
        width = next((wider for wider in _WIDTHS if wider > width), 2 * width)
    return width


class Envelope(NamedTuple):
    """The amounts of all columns from second 0; the last column may be incomplete."""

    #: The width of each column, in seconds.
    width: int
    #: The last second.
    end: int
    low: tuple[int, ...]
    high: tuple[int, ...]
    #: The sum of amounts times seconds, exact; the mean is the quotient of this and the seconds.
    area: tuple[int, ...]

    def means(self) -> tuple[float, ...]:
        """Return the mean of each column; for a last column of 0 seconds, the amount at its start."""
        lasting = (min(self.width, self.end - column * self.width) for column in range(len(self.area)))
        return tuple(
            area / seconds if seconds else low for area, seconds, low in zip(self.area, lasting, self.low, strict=True)
        )

    def merged(self, columns: int) -> Envelope:
        """Merge columns, so that at most *columns* are left."""
        width = fitting(self.end, columns, self.width)
        ratio = width // self.width
        # A last column of 0 seconds counts for the lowest amount only if it stays alone.
        low = _merged(min, self.low[: -(-self.end // self.width)], ratio)
        high, area = _merged(max, self.high, ratio), _merged(sum, self.area, ratio)
        return Envelope(width, self.end, (*low, self.low[-1])[: len(high)], tuple(high), tuple(area))


def _merged(merge: Callable[[Sequence[int]], int], amounts: Sequence[int], ratio: int) -> list[int]:
    """Merge the amounts of columns into those of wider columns."""
    return [merge(amounts[start : start + ratio]) for start in range(0, len(amounts), ratio)]


@final
@dataclass(slots=True, eq=False)
class Trace:
    """Records one amount, which is 0 before the first call of `set`.

    >>> trace = Trace()
    >>> for second, amount in ((0, 5), (2, 1), (2, 7), (4, 0)):
    ...     trace.set(second, amount)
    >>> trace.envelope(width=2, end=4)
    Envelope(width=2, end=4, low=(5, 7, 0), high=(5, 7, 0), area=(10, 14, 0))
    """

    #: The maximum number of columns, and their width in seconds.
    columns: int = COLUMNS
    _width: int = 1
    #: Of each column, up to that of the second `_since`; the lowest amount only if one has lasted for a second.
    _low: list[int] = field(default_factory=list)
    _high: list[int] = field(default_factory=lambda: [0])
    _area: list[int] = field(default_factory=lambda: [0])
    #: The current amount, and the second up to which it is in the columns.
    value: int = 0
    _since: int = 0

    def set(self, now: int, value: int) -> None:
        """Set the amount from the second *now*, which must not be before that of the last call."""
        if now != self._since:
            self._continue(now)
        self._high[-1] = max(self._high[-1], value)
        self.value = value

    def _continue(self, now: int) -> None:
        """Count the current amount up to the second *now*."""
        self._widen(fitting(now, self.columns, self._width))
        width, value = self._width, self.value
        while self._since < now:
            end = len(self._high) * width
            seconds = min(now, end) - self._since
            if len(self._low) < len(self._high):
                self._low.append(value)
            self._low[-1] = min(self._low[-1], value)
            self._high[-1] = max(self._high[-1], value)
            self._area[-1] += value * seconds
            self._since += seconds
            if self._since == end:
                self._high.append(0)
                self._area.append(0)

    def _widen(self, width: int) -> None:
        if width > self._width:
            ratio, self._width = width // self._width, width
            self._low, self._high = _merged(min, self._low, ratio), _merged(max, self._high, ratio)
            self._area = _merged(sum, self._area, ratio)

    def envelope(self, width: int, end: int) -> Envelope:
        """End the recording at the second *end*, which must not be before the last call of `set`; return the envelope.

        Args:
            width: the width of the columns, a result of `fitting` for *end*.
            end: the last second.
        """
        self.set(end, self.value)
        self._widen(width)
        low = (*self._low, self.value)[: len(self._high)]
        return Envelope(width, end, low, tuple(self._high), tuple(self._area))


@final
@dataclass(slots=True, eq=False, repr=False)
class Recorder:
    """Records one replay, and is queried after it.

    Times are seconds after `origin`.

    >>> from ugm import Resource, UserGroup, parse_config
    >>> from ugm.simulation import Job, simulate
    >>> config = parse_config("partitions: [{name: default, queues: [{name: a, resources: {max: {vcore: 1}}}]}]")
    >>> jobs = [Job(number, 7, 60, "root.a", UserGroup("sue"), Resource.parse(vcore="1")) for number in (1, 2)]
    >>> recorder = Recorder()
    >>> report = simulate(jobs, config.partition(), recorder=recorder)
    >>> recorder.origin, recorder.end, sum(recorder.waiting.area) == report.waiting.total
    (7, 120, True)
    """

    #: The second of the first submission, and the duration of the replay.
    origin: int = field(default=0, init=False)
    end: int = field(default=0, init=False)
    _running: Trace = field(default_factory=Trace, init=False)
    _waiting: Trace = field(default_factory=Trace, init=False)
    #: The usage of all running jobs by resource.
    _totals: defaultdict[str, Trace] = field(default_factory=partial(defaultdict, Trace), init=False)
    #: In the order of first use.
    _usage: defaultdict[Gauge, Trace] = field(default_factory=partial(defaultdict, Trace), init=False)

    @property
    def width(self) -> int:
        """The width of the columns of all envelopes, in seconds."""
        return fitting(self.end)

    @property
    def running(self) -> Envelope:
        """The number of running jobs."""
        return self._envelope(self._running)

    @property
    def waiting(self) -> Envelope:
        """The number of waiting jobs."""
        return self._envelope(self._waiting)

    @property
    def totals(self) -> dict[str, Envelope]:
        """The usage of all running jobs, by resource."""
        return {resource: self._envelope(trace) for resource, trace in sorted(self._totals.items())}

    def series(self, limit: LimitSummary) -> tuple[str, Envelope]:
        """Return the subject that came closest to a limit, of equals that with most usage; and its usage."""
        found = [gauge for gauge in self._usage if gauge.configured.key == limit.key]
        if not found:  # there was no usage under it
            return limit.peak_name, self._envelope(Trace())
        highest = max(gauge.peak for gauge in found)
        closest = [(gauge.name, self._envelope(self._usage[gauge])) for gauge in found if gauge.peak == highest]
        return max(closest, key=lambda each: sum(each[1].area))

    def _envelope(self, trace: Trace) -> Envelope:
        return trace.envelope(self.width, self.end)

    # The following methods are called by the replay, which sets `origin`.

    def record_running(self, now: int, job_class: JobClass, jobs: int) -> None:
        """Record that a job of a class starts (1) or ends (-1)."""
        second = now - self.origin
        for gauge, _ in job_class.gauges:
            self._usage[gauge].set(second, gauge.used)
        for resource, amount in job_class.usage.items():
            trace = self._totals[resource]
            trace.set(second, trace.value + jobs * amount)

    def record_counts(self, now: int, running: int, waiting: int) -> None:
        """Record the numbers of running and waiting jobs."""
        self._running.set(now - self.origin, running)
        self._waiting.set(now - self.origin, waiting)

    def finish(self, now: int) -> None:
        """End the recording."""
        self.end = now - self.origin
