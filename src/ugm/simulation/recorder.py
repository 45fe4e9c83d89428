"""Recording of a replay over time: the usage under each limit, running jobs, and waiting jobs.

Pass a `Recorder` to `ugm.simulation.simulate`, and query it afterwards. It does not influence the replay. Its memory
grows with the number of limits and of changes under each, not with the number of jobs; see `ugm.simulation.series`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, final

from ugm.simulation.gauges import Gauge, JobClass
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
    _in_use: Counter[str] = field(default_factory=Counter, init=False)
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

    def series(self, limit: LimitSummary) -> LimitSeries:
        """Return the usage under a limit, for the subject that came closest, and of equals that with most usage."""
        found = [gauge for gauge in self._usage if gauge.configured.key == limit.key]
        if not found:  # there was no usage under it
            return LimitSeries(limit.peak_name, limit.names, self._envelope(Trace()))
        highest = max(gauge.peak for gauge in found)
        closest = [(gauge.name, self._envelope(self._usage[gauge])) for gauge in found if gauge.peak == highest]
        name, usage = max(closest, key=lambda each: sum(each[1].area))
        return LimitSeries(name, limit.names, usage)

    def _envelope(self, trace: Trace) -> Envelope:
        return trace.envelope(self.width, self.end)

    # The following methods are called by the replay, which sets `origin`.

    def record_running(self, now: int, job_class: JobClass, jobs: int) -> None:
        """Record that a job of a class starts (1) or ends (-1)."""
        second = now - self.origin
        for gauge, _ in job_class.gauges:
            self._usage[gauge].set(second, gauge.used)
        for resource, amount in job_class.usage.items():
            self._in_use[resource] += jobs * amount
            self._totals[resource].set(second, self._in_use[resource])

    def record_counts(self, now: int, running: int, waiting: int) -> None:
        """Record the numbers of running and waiting jobs."""
        self._running.set(now - self.origin, running)
        self._waiting.set(now - self.origin, waiting)

    def finish(self, now: int) -> None:
        """End the recording."""
        self.end = now - self.origin
