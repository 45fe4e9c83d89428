"""A player that runs a workload step by step in a partition, as a scheduler would.

The caller advances a virtual clock. Unlike `ugm.simulation.simulate`, which runs to the end and returns a report, a
player uses a partition that can be observed during the run: waiting jobs are pending there, and subscribers receive
all events. A job is one application with one allocation.

Jobs start by the same rule as in `simulate`: jobs that end at a second are released first; then the waiting jobs are
requested in the order of their arrival, and each that fits starts; jobs that arrive at that second are last.
Jobs promise their durations if the partition has budgets; its clock must then follow that of the player.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import TypeAlias, final

from ugm.budgets import Budgets
from ugm.identity import UserGroup
from ugm.partition import AbstractPartition
from ugm.resources import Resource
from ugm.simulation.gauges import TagItems
from ugm.simulation.oldest_first import retry_oldest_first
from ugm.simulation.workload import Job

__all__ = ["Player"]

#: The key of equal jobs: if one of them is denied, the others are, too.
_JobKey: TypeAlias = tuple[str, UserGroup, Resource, TagItems, int | None]


@final
@dataclass(slots=True, eq=False)
class Player:
    """Runs jobs in a partition that no other code changes.

    Args:
        partition: the partition.
        jobs: the jobs in the order of their submission; they are read one by one.

    >>> from ugm import Partition, parse_config
    >>> limits = "limits: [{users: ['*'], maxresources: {vcore: 1}}]"
    >>> partition = Partition(parse_config(f"partitions: [{{queues: [{{name: a, {limits}}}]}}]").partition())
    >>> jobs = [Job(number, 0, 60, "root.a", UserGroup("sue"), Resource.parse(vcore="1")) for number in (1, 2)]
    >>> player = Player(partition, iter(jobs))
    >>> player.advance(59)
    >>> player.running, player.waiting
    (1, 1)
    >>> player.advance(119)
    >>> player.running, player.waiting
    (1, 0)
    """

    partition: AbstractPartition
    jobs: Iterator[Job]
    #: The virtual clock, in seconds since the start of the workload.
    now: int = 0
    #: The next job; None after the last.
    _next: Job | None = field(init=False)
    #: A heap of (end, number of start, job).
    _running: list[tuple[int, int, Job]] = field(default_factory=list)
    #: The numbers of started and of arrived jobs.
    _started: int = 0
    _arrived: int = 0
    #: The waiting jobs by key, each with the number of its arrival; the oldest is first, and no list is empty.
    _waiting: dict[_JobKey, deque[tuple[int, Job]]] = field(default_factory=dict)

    _has_budgets: bool = field(init=False)

    def __post_init__(self) -> None:
        self._next = next(self.jobs, None)
        self._has_budgets = any(report.model == Budgets.__name__ for report in self.partition.model_reports())

    @property
    def running(self) -> int:
        """The number of running jobs."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """The number of jobs that have arrived and do not run yet."""
        return sum(map(len, self._waiting.values()))

    def advance(self, until: int) -> None:
        """Advance the clock to the second *until*."""
        while (second := self._next_second()) is not None and second <= until:
            self.now = second
            if self._running and self._running[0][0] == second:
                self._end()
                self._retry()
            elif self._next is not None:
                self._submit(self._next)
                self._next = next(self.jobs, None)
        self.now = max(self.now, until)

    def _next_second(self) -> int | None:
        seconds = [self._running[0][0]] if self._running else []
        if self._next is not None:
            seconds.append(max(self._next.submit_time, self.now))
        return min(seconds, default=None)

    def _end(self) -> None:
        """Release the jobs that end now."""
        while self._running and self._running[0][0] == self.now:
            job = heappop(self._running)[2]
            self.partition.release(job.application_id)
            self.partition.complete(job.application_id)

    def _retry(self) -> None:
        """Start the waiting jobs that fit now, the oldest first."""
        retry_oldest_first(self._waiting, self._start_oldest)

    def _start_oldest(self, key: _JobKey) -> bool:
        """Start the oldest job of a key, and return whether it runs."""
        jobs = self._waiting[key]
        if not self._start(jobs[0][1]):
            return False
        jobs.popleft()
        if not jobs:
            del self._waiting[key]
        return True

    def _submit(self, job: Job) -> None:
        placement = self.partition.submit(job.application_id, job.user, job.queue, tags=job.tags)
        if placement.queue_path is None:
            return
        duration = self._duration(job)
        self.partition.request(job.application_id, job.application_id, job.usage, duration=duration)
        key = (placement.queue_path, job.user, job.usage, tuple(sorted(job.tags.items())), duration)
        self._arrived += 1
        waiting = self._waiting.get(key)
        if waiting is not None:
            waiting.append((self._arrived, job))
        elif not self._start(job) and self.partition.application(job.application_id):
            self._waiting[key] = deque([(self._arrived, job)])

    def _start(self, job: Job) -> bool:
        """Try to start a job, and return whether it runs; a job that can never run is removed."""
        name = job.application_id
        decision = self.partition.allocate(name, name, job.usage, duration=self._duration(job))
        if decision:
            self._started += 1
            heappush(self._running, (self.now + job.run_time, self._started, job))
        elif not decision.can_wait:
            self.partition.remove(name)
        return decision.allowed

    def _duration(self, job: Job) -> int | None:
        return job.promised_time if self._has_budgets else None
