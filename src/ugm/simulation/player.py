"""The loop of a scheduler over a partition, with a virtual clock.

The partition decides everything: its waiting list returns the jobs that can start, in its order, with its reservations
and its quota models. The loop only knows when jobs arrive and end:

- A job is placed and requested when it is submitted. If it is denied, it is pending. If it can never fit, or no
  placement rule finds a queue, it is rejected.
- When jobs end, all jobs that end at that second are released first. Then the partition wakes the pending jobs that
  fit, and they start.
- Jobs that are submitted at the same second come after that.

A `Timeline` knows the seconds at which limits change or budgets are renewed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from heapq import heappop, heappush
from typing import Final, NamedTuple, TypeAlias, final
from weakref import WeakValueDictionary

from ugm.budgets import Budget, Budgets, Period
from ugm.budgets.budget import calendar_of
from ugm.configuration import PartitionConfig
from ugm.configuration.schedules import LAST_SECOND, NEVER
from ugm.decision import Decision
from ugm.errors import RequestError
from ugm.families import Families
from ugm.identity import UserGroup
from ugm.partition import Partition
from ugm.partition.config.compiled import ConfigSchedule
from ugm.queues import Placement
from ugm.resources import Resource
from ugm.simulation.gauges import JobClass
from ugm.simulation.workload import Job, checked_jobs

__all__ = ["Player", "RunningJob", "Timeline", "VirtualClock"]

#: The queue, user, usage, tags and duration of equal jobs.
_ClassKey: TypeAlias = tuple[str, UserGroup, Resource, tuple[tuple[str, str], ...], int | None]


@dataclass(slots=True, eq=False)
class VirtualClock:
    """The clock of a replay, in seconds since the start of the workload."""

    now: int = 0


class RunningJob(NamedTuple):
    """A running job."""

    end: int
    #: The number of its start.
    number: int
    began: int
    job: Job
    job_class: JobClass


class Player:
    """Runs jobs in a partition that no other code changes.

    A job is one application with one allocation. It promises its duration if the partition has budgets or *promises* is
    set. The clock of the partition must follow that of the player.

    Args:
        partition: the partition.
        jobs: the jobs in the order of their submission; they are read one by one.
        clock: the virtual clock.
        promises: whether jobs promise their durations.

    >>> from ugm import Partition, parse_config
    >>> limits = "limits: [{users: ['*'], maxresources: {vcore: 1}}]"
    >>> partition = Partition(parse_config(f"partitions: [{{queues: [{{name: a, {limits}}}]}}]").partition())
    >>> jobs = [Job(number, 0, 60, "root.a", UserGroup("sue"), Resource.parse(vcore="1")) for number in (1, 2)]
    >>> player = Player(partition, jobs)
    >>> player.advance(59)
    >>> len(player.running), len(player.waiting)
    (1, 1)
    >>> player.advance(119)
    >>> len(player.running), len(player.waiting)
    (1, 0)
    """

    def __init__(
        self, partition: Partition, jobs: Iterable[Job], clock: VirtualClock | None = None, *, promises: bool = False
    ) -> None:
        self.partition: Final = partition
        self.clock: Final = clock or VirtualClock()
        self._promises: Final = promises or any(
            report.model == Budgets.__name__ for report in partition.model_reports()
        )
        config = partition.config
        declared = None if config is None else config.ugm.families
        self._families: Final = Families(declared) if declared else None
        self._jobs: Final = checked_jobs(jobs)
        self.next_job: Job | None = next(self._jobs, None)
        #: The jobs by application id. The waiting ones are pending in the partition.
        self.running: Final[dict[str, RunningJob]] = {}
        self.waiting: Final[dict[str, tuple[Job, JobClass]]] = {}
        #: A heap of ends, also former ones of evicted jobs, each with the number of the start.
        self._ends: Final[list[tuple[int, int, str]]] = []
        self._starts = 0
        #: The number of decisions of the partition.
        self.decisions: int = 0
        #: A class is dropped with the last of its jobs, because each job may have its own size.
        self._classes: Final[WeakValueDictionary[_ClassKey, JobClass]] = WeakValueDictionary()

    @property
    def now(self) -> int:
        """The time of the virtual clock."""
        return self.clock.now

    # Time

    def advance(self, until: int) -> None:
        """Advance the clock to the second *until*."""
        while (second := self.next_event()) <= until:
            self.go_to(second)
        self.move_to(max(self.now, until))

    def next_event(self) -> int:
        """Return the second at which something happens next; `NEVER` or later for none."""
        submitted = NEVER if self.next_job is None else max(self.next_job.submit_time, self.now)
        return min(self._next_end(), submitted, self.next_change())

    def next_change(self) -> int:
        """Return the second at which limits change next."""
        return NEVER

    def move_to(self, second: int) -> None:
        """Set the clock."""
        self.clock.now = second

    def go_to(self, second: int) -> None:
        """Let happen what happens first at the second of the next event."""
        is_round = second in (self._next_end(), self.next_change())
        self.move_to(second)
        if is_round:
            self._end_jobs()
            self.start_waiting()
        elif self.next_job is not None:
            job, self.next_job = self.next_job, next(self._jobs, None)
            self.submit(job)
        self.end_round()

    def end_round(self) -> None:
        """Note that a submission, or the end of jobs, has been followed."""

    def _next_end(self) -> int:
        ends, running = self._ends, self.running
        while ends:
            end, number, name = ends[0]
            if name in running and running[name].number == number:
                return end
            heappop(ends)
        return NEVER

    def _end_jobs(self) -> None:
        while self._next_end() == self.now:
            name = heappop(self._ends)[2]
            self.partition.remove(name)
            self.ended(self.running.pop(name))

    def start_waiting(self) -> None:
        """Start the waiting jobs that fit now."""
        if self.waiting:
            for request in self.partition.wake():
                name = request.application_id
                self.decisions += 1
                if self.partition.allocate(request):
                    job, job_class = self.stop_waiting(name)
                    self.start(name, job, job_class)

    # Jobs

    def submit(self, job: Job) -> None:
        """Place and request the next job."""
        name = job.application_id
        if job.submit_time < self.now:
            raise RequestError("jobs", job.number, f"submitted at {job.submit_time}, but an earlier job at {self.now}")
        if name in self.running or name in self.waiting:
            raise RequestError("jobs", job.number, "submitted again before the job of that number has ended")
        placement = self.partition.submit(name, job.user, job.queue, tags=job.tags)
        if placement.queue_path is None:
            self.unplaced(job, placement)
            return
        job_class = self.class_of(placement.queue_path, job)
        if job_class.never:
            self._reject(job, job_class)
            return
        # Jobs of one class get equal answers.
        decision = None if job_class.waiting else self.allocate(name, job_class)
        if decision:
            self.start(name, job, job_class)
        elif decision is not None and not all(one.can_wait for one in decision.violations):
            job_class.never = tuple(one for one in decision.violations if not one.can_wait)
            self._reject(job, job_class)
        else:
            self.wait(job, job_class, decision)

    def class_of(self, queue_path: str, job: Job, usage: Resource | None = None) -> JobClass:
        """Return the class of a job; None for the usage that it requests."""
        tags = tuple(sorted(job.tags.items())) if job.tags else ()
        duration = job.promised_time if self._promises else None
        usage = usage or job.usage
        if self._families is not None:
            usage = self._families.normal(usage)
        key = queue_path, job.user, usage, tags, duration
        job_class = self._classes.get(key)
        if job_class is None:
            job_class = self._classes[key] = JobClass(queue_path, job.user, usage, duration)
            self.made_class(tags, job_class)
        return job_class

    def allocate(self, name: str, job_class: JobClass) -> Decision:
        """Request a job."""
        self.decisions += 1
        return self.partition.allocate(name, name, job_class.usage, duration=job_class.duration)

    def start(self, name: str, job: Job, job_class: JobClass) -> None:
        """Run a job that was granted."""
        if self._families is not None and (held := self.partition.allocation(name)) is not None:
            # Amounts of any variant are assigned now.
            job_class = self.class_of(job_class.queue_path, job, held.usage)
        self._starts += 1
        running = RunningJob(self.now + job.run_time, self._starts, self.now, job, job_class)
        self.running[name] = running
        heappush(self._ends, (running.end, running.number, name))
        self.started(running)

    def wait(self, job: Job, job_class: JobClass, decision: Decision | None) -> None:
        """Let a job be pending. If the partition has denied it, *decision* is the answer."""
        name = job.application_id
        answer = self.partition.request(name, name, job_class.usage, duration=job_class.duration)
        if not answer:
            self._reject(job, job_class, answer)
            return
        self.delayed(job, job_class, decision)
        self.waiting[name] = job, job_class
        job_class.waiting[name] = None

    def stop_waiting(self, name: str) -> tuple[Job, JobClass]:
        """Remove and return a waiting job, which starts."""
        job, job_class = self.waiting.pop(name)
        self.resumed(job_class)
        del job_class.waiting[name]
        return job, job_class

    def evict(self, name: str) -> RunningJob:
        """Note that the partition has released a running job."""
        evicted = self.running.pop(name)
        self.ended(evicted)
        return evicted

    def _reject(self, job: Job, job_class: JobClass, decision: Decision | None = None) -> None:
        self.partition.remove(job.application_id)
        self.rejected(job, job_class, decision)

    # What a replay records

    def made_class(self, tags: tuple[tuple[str, str], ...], job_class: JobClass) -> None:
        """Note a new class of equal jobs."""

    def started(self, running: RunningJob) -> None:
        """Note a job that starts."""

    def ended(self, running: RunningJob) -> None:
        """Note a job that has ended or was evicted."""

    def delayed(self, job: Job, job_class: JobClass, decision: Decision | None) -> None:
        """Note a job before it waits."""

    def resumed(self, job_class: JobClass) -> None:
        """Note that a job of a class is about to stop waiting."""

    def rejected(self, job: Job, job_class: JobClass, decision: Decision | None) -> None:
        """Note a job that can never start; *decision* is the answer if it may not even be pending."""

    def unplaced(self, job: Job, placement: Placement) -> None:
        """Note a job that no placement rule placed."""


#: The first second that is supported: January 1 of the year 2, whose week begins in the year 1 in every time zone.
_FIRST_SECOND: Final = (date(2, 1, 1) - date(1970, 1, 1)).days * 86_400


@final
class Timeline(VirtualClock):
    """The virtual clock of a replay.

    Args:
        start: the second since 1970 at which the workload starts.
        config: the configuration, whose limits may change with the time.
        budgets: the budgets, which may be renewed.

    Raises:
        RequestError: no calendar has the start.
    """

    __slots__ = ("_calendars", "_schedule", "_start", "next_change")

    #: The next second of the workload at which limits may change or budgets are renewed; `NEVER` or later for none.
    next_change: int

    def __init__(self, start: int, config: PartitionConfig, budgets: Iterable[Budget]) -> None:
        if not _FIRST_SECOND <= start <= LAST_SECOND:
            raise RequestError("start", start, "expected a second of the years 2 to 9999")
        periods = {(budget.period, budget.zone) for budget in budgets if budget.period is not Period.NONE}
        self._calendars: Final = [calendar_of(period, zone) for period, zone in sorted(periods)]
        self._schedule: Final = ConfigSchedule.compile(config)
        self._start: Final = start
        super().__init__()
        self.find_next_change()

    @property
    def is_scheduled(self) -> bool:
        """True if limits change by a schedule."""
        return self._schedule is not None

    def second(self) -> int:
        """Return the time, in seconds since 1970."""
        return min(self._start + self.now, LAST_SECOND)

    def second_of(self, now: int) -> int:
        """Return the second of the workload of a second since 1970."""
        return now - self._start

    def find_next_change(self) -> None:
        """Find the first change after the current second."""
        second = self.second()
        changes = [calendar.end(calendar.index(second)) for calendar in self._calendars]
        if self._schedule is not None:
            changes.append(self._schedule.next_change(second))
        found = min(changes, default=NEVER)
        # The clock stops at the last second, so a later change never comes.
        self.next_change = NEVER if found > LAST_SECOND else found - self._start
