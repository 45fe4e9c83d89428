"""The running jobs of a replay, in the order of their ends. Some of them may be evicted before.

An evicted job keeps its place until its former end, because removing it from the middle of a heap would take a pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple, final

from ugm.budgets.calendar import NEVER
from ugm.simulation.gauges import JobClass
from ugm.simulation.workload import Job

__all__ = ["EvictableJob", "RunningJobs"]


class EvictableJob(NamedTuple):
    """A running job that may be evicted."""

    since: int
    #: The numbers of its start and of its arrival.
    start: int
    arrival: int
    job_class: JobClass
    job: Job


@final
@dataclass(slots=True, eq=False)
class RunningJobs:
    """The running jobs of a replay."""

    #: A heap of (end, number of start, job class, job); the number is unique.
    _ends: list[tuple[int, int, JobClass, Job]] = field(default_factory=list)
    #: By the id of their application.
    _evictable: dict[str, EvictableJob] = field(default_factory=dict)
    #: The numbers of the starts of evicted jobs that are still in the heap.
    _evicted: set[int] = field(default_factory=set)
    #: The number of starts, including those of evicted jobs.
    _starts: int = 0

    def __len__(self) -> int:
        """The number of running jobs."""
        return len(self._ends) - len(self._evicted)

    @property
    def next_end(self) -> int:
        """The next end of a job, or former end of an evicted one; `NEVER` without any."""
        return self._ends[0][0] if self._ends else NEVER

    def start(self, now: int, job_class: JobClass, job: Job, arrival: int, *, is_evictable: bool) -> None:
        """Add a job that starts now; *arrival* is the number of its arrival."""
        self._starts += 1
        heappush(self._ends, (now + job.run_time, self._starts, job_class, job))
        if is_evictable:
            self._evictable[job.application_id] = EvictableJob(now, self._starts, arrival, job_class, job)

    def end(self, now: int) -> Iterator[tuple[JobClass, Job]]:
        """Remove and yield the jobs that end now, in the order of their starts."""
        while self._ends and self._ends[0][0] == now:
            _, start, job_class, job = heappop(self._ends)
            if start in self._evicted:
                self._evicted.remove(start)
            else:
                self._evictable.pop(job.application_id, None)
                yield job_class, job

    def evict(self, application_id: str) -> EvictableJob:
        """Evict a job, and return it."""
        evicted = self._evictable.pop(application_id)
        self._evicted.add(evicted.start)
        return evicted
