"""What goes on during a replay, over time: usage under each limit, jobs that run, and jobs that wait, by limit.

Hand a `Recorder` to `ugm.simulation.simulate` and ask it afterwards. It decides nothing and changes nothing. Its memory
grows with the limits and with what changes under each of them, not with the number of jobs; see
`ugm.simulation.series`.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final, NamedTuple, final

from ugm.resources import Resource
from ugm.simulation.gauges import ConfiguredLimit, Gauge, JobClass
from ugm.simulation.report import LimitSummary
from ugm.simulation.series import Envelope, Trace, fitting

__all__ = ["LimitSeries", "Recorder"]


class LimitSeries(NamedTuple):
    """The usage under a limit over time, of the one user, group or queue that came closest to it."""

    #: Whose usage it is, and for how many the limit holds, each alone.
    name: str
    names: int
    usage: Envelope


@final
class Recorder:
    """Follows one replay, and answers when it has ended.

    Times are seconds from `origin` on.

    >>> from ugm import Resource, UserGroup, parse_config
    >>> from ugm.simulation import Job, simulate
    >>> config = parse_config("partitions: [{name: default, queues: [{name: a, resources: {max: {vcore: 1}}}]}]")
    >>> jobs = [Job(number, 7, 60, "root.a", UserGroup("sue"), Resource(vcore=1000)) for number in (1, 2)]
    >>> recorder = Recorder()
    >>> report = simulate(jobs, config.partition(), recorder=recorder)
    >>> recorder.origin, recorder.end, sum(recorder.waiting.area) == report.waiting.total
    (7, 120, True)
    """

    __slots__ = ("_held", "_in_use", "_running", "_totals", "_usage", "_waiting", "end", "origin")

    #: The second of the first submission, and how many later the replay ended.
    origin: int
    end: int

    def __init__(self) -> None:
        self.origin = self.end = 0
        self._running: Final = Trace()
        self._held: Final = Trace()
        #: Resource to what all running jobs use of it.
        self._in_use: Final[defaultdict[str, int]] = defaultdict(int)
        self._totals: Final[defaultdict[str, Trace]] = defaultdict(Trace)
        #: In the order in which jobs met the gauges.
        self._usage: Final[defaultdict[Gauge, Trace]] = defaultdict(Trace)
        #: Rule to the number of jobs that wait for it.
        self._waiting: Final[dict[ConfiguredLimit, tuple[int, Trace]]] = {}

    @property
    def width(self) -> int:
        """The width of the columns of all envelopes, in seconds."""
        return fitting(self.end)

    @property
    def running(self) -> Envelope:
        """How many jobs ran."""
        return self._envelope(self._running)

    @property
    def waiting(self) -> Envelope:
        """How many jobs waited."""
        return self._envelope(self._held)

    @property
    def totals(self) -> dict[str, Envelope]:
        """What all running jobs together used, by resource."""
        return {resource: self._envelope(trace) for resource, trace in sorted(self._totals.items())}

    def waiting_for(self, limit: LimitSummary) -> Envelope:
        """Return how many jobs waited for a limit of the report; those of all limits add up to `waiting`."""
        traces = [trace for rule, (_, trace) in self._waiting.items() if rule.key == _key(limit)]
        return self._envelope(traces[0] if traces else Trace())

    def series(self, limit: LimitSummary) -> LimitSeries:
        """Return the usage under a limit of the report, of whoever came closest; of several, the one who used most."""
        found = [gauge for gauge in self._usage if gauge.rule.key == _key(limit)]
        if not found:  # nobody ever used anything under it
            return LimitSeries(limit.peak_name, limit.names, self._envelope(Trace()))
        highest = max(gauge.peak for gauge in found)
        closest = [(gauge.name, self._envelope(self._usage[gauge])) for gauge in found if gauge.peak == highest]
        name, usage = max(closest, key=lambda each: sum(each[1].area))
        return LimitSeries(name, limit.names, usage)

    def _envelope(self, trace: Trace) -> Envelope:
        return trace.envelope(self.width, self.end)

    # What follows is what the replay tells.

    def begin(self, now: int) -> None:
        """Start the time."""
        self.origin = now

    def charged(self, now: int, kind: JobClass) -> None:
        """Take in that a job has started."""
        self._use(now - self.origin, kind, kind.usage, 1)

    def refunded(self, now: int, kind: JobClass) -> None:
        """Take in that a job has ended."""
        self._use(now - self.origin, kind, kind.usage, -1)

    def _use(self, now: int, kind: JobClass, usage: Resource, sign: int) -> None:
        for gauge, _ in kind.gauges:
            self._usage[gauge].note(now, gauge.used)
        for resource, amount in usage.items():
            self._in_use[resource] += sign * amount
            self._totals[resource].note(now, self._in_use[resource])

    def joined(self, now: int, kind: JobClass, jobs: int) -> None:
        """Take in that so many jobs begin to wait for what their kind waits for, or cease to, where it is negative."""
        rule = kind.watched[0].rule
        count, trace = self._waiting.get(rule) or (0, Trace())
        self._waiting[rule] = count + jobs, trace
        trace.note(now - self.origin, count + jobs)

    def observed(self, now: int, running: int, held: int) -> None:
        """Take in how many jobs run and wait."""
        self._running.note(now - self.origin, running)
        self._held.note(now - self.origin, held)

    def finish(self, now: int) -> None:
        """End the time."""
        self.end = now - self.origin


def _key(limit: LimitSummary) -> tuple[str, str, str, str | None]:
    return limit.kind, limit.queue_path, limit.limit_name, limit.resource
