"""Recording of a replay over time: the usage under each limit, running jobs, and waiting jobs by limit.

Pass a `Recorder` to `ugm.simulation.simulate`, and query it afterwards. It does not influence the replay. Its memory
grows with the number of limits and of changes under each, not with the number of jobs; see `ugm.simulation.series`.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final, NamedTuple, final

from ugm.simulation.gauges import ConfiguredLimit, Gauge, JobClass
from ugm.simulation.report import LimitSummary
from ugm.simulation.series import Envelope, Trace, fitting

__all__ = ["LimitSeries", "Recorder"]


class LimitSeries(NamedTuple):
    """The usage under a limit over time, for the user, group or queue that came closest to the limit."""

    #: The user, group or queue, and the number of those to which the limit applies separately.
    name: str
    names: int
    usage: Envelope


@final
class Recorder:
    """Records one replay, and is queried after it.

    Times are seconds after `origin`.

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

    #: The second of the first submission, and the duration of the replay.
    origin: int
    end: int

    def __init__(self) -> None:
        self.origin = self.end = 0
        self._running: Final = Trace()
        self._held: Final = Trace()
        #: The usage of all running jobs by resource.
        self._in_use: Final[defaultdict[str, int]] = defaultdict(int)
        self._totals: Final[defaultdict[str, Trace]] = defaultdict(Trace)
        #: In the order of first use.
        self._usage: Final[defaultdict[Gauge, Trace]] = defaultdict(Trace)
        #: The number of jobs that wait for each limit.
        self._waiting: Final[dict[ConfiguredLimit, tuple[int, Trace]]] = {}

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
        return self._envelope(self._held)

    @property
    def totals(self) -> dict[str, Envelope]:
        """The usage of all running jobs, by resource."""
        return {resource: self._envelope(trace) for resource, trace in sorted(self._totals.items())}

    def waiting_for(self, limit: LimitSummary) -> Envelope:
        """Return the number of jobs that waited for a limit; the sum over all limits is `waiting`."""
        traces = [trace for each, (_, trace) in self._waiting.items() if each.key == _key(limit)]
        return self._envelope(traces[0] if traces else Trace())

    def series(self, limit: LimitSummary) -> LimitSeries:
        """Return the usage under a limit, for the subject that came closest, and of equals that with most usage."""
        found = [gauge for gauge in self._usage if gauge.configured.key == _key(limit)]
        if not found:  # there was no usage under it
            return LimitSeries(limit.peak_name, limit.names, self._envelope(Trace()))
        highest = max(gauge.peak for gauge in found)
        closest = [(gauge.name, self._envelope(self._usage[gauge])) for gauge in found if gauge.peak == highest]
        name, usage = max(closest, key=lambda each: sum(each[1].area))
        return LimitSeries(name, limit.names, usage)

    def _envelope(self, trace: Trace) -> Envelope:
        return trace.envelope(self.width, self.end)

    # The following methods are called by the replay.

    def begin(self, now: int) -> None:
        """Start the recording."""
        self.origin = now

    def record_start(self, now: int, job_class: JobClass) -> None:
        """Record the start of a job."""
        self._record_usage(now - self.origin, job_class, 1)

    def record_end(self, now: int, job_class: JobClass) -> None:
        """Record the end of a job."""
        self._record_usage(now - self.origin, job_class, -1)

    def _record_usage(self, now: int, job_class: JobClass, sign: int) -> None:
        for gauge, _ in job_class.gauges:
            self._usage[gauge].set(now, gauge.used)
        for resource, amount in job_class.usage.items():
            self._in_use[resource] += sign * amount
            self._totals[resource].set(now, self._in_use[resource])

    def record_waiting(self, now: int, job_class: JobClass, jobs: int) -> None:
        """Record that jobs begin to wait for the awaited limit of their class; a negative number of them stops."""
        limit = job_class.awaited[0].configured
        count, trace = self._waiting.get(limit) or (0, Trace())
        self._waiting[limit] = count + jobs, trace
        trace.set(now - self.origin, count + jobs)

    def record_counts(self, now: int, running: int, held: int) -> None:
        """Record the numbers of running and waiting jobs."""
        self._running.set(now - self.origin, running)
        self._held.set(now - self.origin, held)

    def finish(self, now: int) -> None:
        """End the recording."""
        self.end = now - self.origin


def _key(limit: LimitSummary) -> tuple[str, str, str, str | None]:
    return limit.kind, limit.queue_path, limit.limit_name, limit.resource
