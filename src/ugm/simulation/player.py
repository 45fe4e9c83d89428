"""A workload played in a partition as a scheduler would: jobs come, start when the limits let them, and end.

Time is virtual: whoever plays says how far. Unlike `ugm.simulation.simulate`, which runs to the end and reports, a
player lives in a `ugm.Partition` that others watch meanwhile: what waits is pending there, and every denial is told. A
job is one application with one allocation.

What starts when follows the same rule: what ends at a second is given back first, then those that wait are asked for in
the order in which they came, and each that fits starts; jobs that come at that second are last.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import Final, TypeAlias, final

from ugm.identity import UserGroup
from ugm.partition import Partition
from ugm.resources import Resource
from ugm.simulation.workload import Job

__all__ = ["Player"]

#: Jobs of a kind share their fate: where one is denied, the others are, too.
_Kind: TypeAlias = tuple[str, UserGroup, Resource]


@final
class Player:
    """Plays jobs in a partition, which nobody else changes.

    Args:
        partition: where.
        jobs: in the order of their submission; read one by one.

    >>> from ugm import parse_config
    >>> limits = "limits: [{users: ['*'], maxresources: {vcore: 1}}]"
    >>> partition = Partition(parse_config(f"partitions: [{{queues: [{{name: a, {limits}}}]}}]").partition())
    >>> jobs = [Job(number, 0, 60, "root.a", UserGroup("sue"), Resource(vcore=1000)) for number in (1, 2)]
    >>> player = Player(partition, iter(jobs))
    >>> player.advance(59)
    >>> player.running, player.waiting
    (1, 1)
    >>> player.advance(119)
    >>> player.running, player.waiting
    (1, 0)
    """

    __slots__ = ("_asked", "_jobs", "_next", "_running", "_started", "_waiting", "now", "partition")

    #: The virtual clock, in seconds since the start of the workload.
    now: int
    #: The job that comes next; None after the last.
    _next: Job | None
    #: A heap of (end, order of start, job).
    _running: list[tuple[int, int, Job]]
    #: How many jobs have started.
    _started: int
    #: How many jobs have been asked for.
    _asked: int
    #: Of each kind the jobs that wait with the order in which they came, the oldest first; no kind without any.
    _waiting: dict[_Kind, deque[tuple[int, Job]]]

    def __init__(self, partition: Partition, jobs: Iterator[Job]) -> None:
        self.partition: Final = partition
        self._jobs: Final = jobs
        self._next = next(jobs, None)
        self._running = []
        self._started = 0
        self._asked = 0
        self._waiting = {}
        self.now = 0

    @property
    def running(self) -> int:
        """How many jobs are running."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """How many jobs have come and do not run yet."""
        return sum(map(len, self._waiting.values()))

    def advance(self, until: int) -> None:
        """Let everything happen that happens up to the second *until*."""
        while (moment := self._next_moment()) is not None and moment <= until:
            self.now = moment
            if self._running and self._running[0][0] == moment:
                self._end()
                self._retry()
            elif self._next is not None:
                self._submit(self._next)
                self._next = next(self._jobs, None)
        self.now = max(self.now, until)

    def _next_moment(self) -> int | None:
        moments = [self._running[0][0]] if self._running else []
        if self._next is not None:
            moments.append(max(self._next.submit_time, self.now))
        return min(moments, default=None)

    def _end(self) -> None:
        """Give back what every job holds that ends now."""
        while self._running and self._running[0][0] == self.now:
            job = heappop(self._running)[2]
            self.partition.release(job.application_id)
            self.partition.complete(job.application_id)

    def _retry(self) -> None:
        """Start those that wait and fit now, the oldest first."""
        # No two have the same order, so kinds are never compared.
        heads = [(jobs[0][0], kind) for kind, jobs in self._waiting.items()]
        heapify(heads)
        while heads:
            _, kind = heappop(heads)
            jobs = self._waiting[kind]
            # Within a round usage only grows: a kind that is denied once is done with.
            if not self._start(jobs[0][1]):
                continue
            jobs.popleft()
            if jobs:
                heappush(heads, (jobs[0][0], kind))
            else:
                del self._waiting[kind]

    def _submit(self, job: Job) -> None:
        placement = self.partition.submit(job.application_id, job.user, job.queue, tags=job.tags)
        if placement.queue_path is None:
            return
        self.partition.request(job.application_id, job.application_id, job.usage)
        kind = (placement.queue_path, job.user, job.usage)
        self._asked += 1
        waiting = self._waiting.get(kind)
        if waiting is not None:
            waiting.append((self._asked, job))
        elif not self._start(job) and self.partition.application(job.application_id):
            self._waiting[kind] = deque([(self._asked, job)])

    def _start(self, job: Job) -> bool:
        """Start a job, and return whether it runs; one that can never run is turned away."""
        decision = self.partition.allocate(job.application_id, job.application_id, job.usage)
        if decision:
            self._started += 1
            heappush(self._running, (self.now + job.run_time, self._started, job))
        elif not decision.can_wait:
            self.partition.remove(job.application_id)
        return decision.allowed
