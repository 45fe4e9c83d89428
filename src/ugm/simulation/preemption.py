"""The replay of a workload in a scheduler loop with preemption, and its effect on guarantees, waits and lost work.

The loop is that of `ugm.simulation.simulate`: jobs that end are released first, then the waiting jobs are requested in
the order of their arrival, and new jobs come last. A job is one application with one allocation. In addition, a job
that has waited for the ``preemption.delay`` of its queue gets a plan of preemption, if its queue is below a guarantee.
The victims of a plan stop a fixed time later. Then their jobs wait again, in their former order.

A job with a right to room starts before all others. Until then, other jobs start only if it gets its room in time.

Time is a virtual clock. The report only depends on the arguments.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from itertools import count
from typing import Final, TypeAlias, final

from ugm.arguments import require_callable, require_instance, require_resource, require_whole
from ugm.configuration import PartitionConfig
from ugm.errors import InvariantError, RequestError
from ugm.identity import ROOT, UserGroup, ancestors
from ugm.partition import AllocationRequest, Partition
from ugm.partition.config_schedule import ConfigSchedule
from ugm.preemption import Outcome
from ugm.preemption.facts import DEFAULT_DELAY
from ugm.preemption.settings import PreemptionSettings
from ugm.resources import Resource
from ugm.simulation.claimed_room import ClaimedRoom
from ugm.simulation.oldest_first import retry_oldest_first
from ugm.simulation.preemption_report import GuaranteeEffect, PreemptionReport, VictimWork
from ugm.simulation.replay import Progress
from ugm.simulation.waiting_jobs import EqualJobs, RunningJob, WaitingJob
from ugm.simulation.watched_guarantee import WatchedGuarantee, add_amounts
from ugm.simulation.workload import Job, checked_jobs

__all__ = ["simulate_preemption"]


def simulate_preemption(
    jobs: Iterable[Job],
    config: PartitionConfig,
    *,
    cluster: Resource,
    preempts: bool = True,
    victims: VictimWork = VictimWork.RESTART,
    stop_time: int = 30,
    observer: Callable[[Progress], None] | None = None,
) -> PreemptionReport:
    """Replay a workload in a partition with guarantees until all jobs have ended.

    Args:
        jobs: the jobs in the order of their submission; they are read one by one.
        config: the partition of a configuration. Quota models that it declares take part.
        cluster: the resources of the cluster.
        preempts: whether plans of preemption are made. Without them, the report shows the same workload for comparison.
        victims: whether victims start again or continue.
        stop_time: the time that a victim takes to stop, in seconds.
        observer: called after each submission with the progress.

    Raises:
        RequestError: the jobs are not in order, or an argument is invalid.

    >>> from ugm import parse_config
    >>> text = "partitions: [{queues: [{name: a, resources: {guaranteed: {vcore: 1}}}, {name: b}]}]"
    >>> sue = UserGroup("sue")
    >>> jobs = [Job(n, n, 3600, queue, sue, Resource.parse(vcore="1")) for n, queue in enumerate(["root.b", "root.a"])]
    >>> report = simulate_preemption(jobs, parse_config(text).partition(), cluster=Resource.parse(vcore="1"))
    >>> report.evictions, report.lost, report.guarantees[0].longest_wait
    (1, 61, 60)
    """
    require_instance("config", config, PartitionConfig)
    require_resource("cluster", cluster)
    require_whole("stop_time", stop_time)
    if victims not in tuple(VictimWork):
        raise RequestError("victims", victims, f"expected one of {', '.join(VictimWork)}")
    if observer is not None:
        require_callable("observer", observer)
    replay = _Replay(config, cluster, VictimWork(victims), stop_time, preempts=preempts)
    for job in checked_jobs(jobs):
        replay.submit(job)
        if observer:
            observer(replay.progress())
    replay.finish()
    return replay.report()


#: The queue, user, usage and tags of equal jobs.
_Key: TypeAlias = tuple[str, UserGroup, Resource, tuple[tuple[str, str], ...]]


@final
class _Replay:
    """The state of one replay."""

    def __init__(
        self, config: PartitionConfig, cluster: Resource, victims: VictimWork, stop_time: int, *, preempts: bool
    ) -> None:
        if config.ugm.budgets or ConfigSchedule.compile(config) is not None:
            reason = "budgets and limits that change by a schedule cannot be replayed with preemption"
            raise RequestError("config", config.name, reason)
        self.now = 0
        self._partition: Final = Partition(config, cluster=cluster, clock=lambda: self.now)
        self._settings: Final = PreemptionSettings(config)
        self._victims: Final = victims
        self._stop_time: Final = stop_time
        self._preempts: Final = preempts
        self._guarantees: Final[dict[str, WatchedGuarantee[EqualJobs]]] = {
            path: WatchedGuarantee(GuaranteeEffect(path, queue.resources.guaranteed))
            for path, queue in config.root.walk()
            if queue.resources.guaranteed
        }
        #: The guarantees with changes since their last update, and those that entitle a waiting job.
        self._changed: Final[dict[WatchedGuarantee[EqualJobs], None]] = {}
        self._entitling: Final[dict[WatchedGuarantee[EqualJobs], None]] = {}
        #: The cluster, and by path the queues with a maximum.
        self._room: Final = ClaimedRoom(cluster, is_closed=True)
        self._rooms: Final = {
            path: ClaimedRoom(maximum, is_closed=False)
            for path, queue in config.root.walk()
            if path != ROOT and (maximum := (queue.resources.max or Resource()).without_zeros())
        }
        #: By application id. A waiting job with a right to room has the time of its plan.
        self._running: Final[dict[str, RunningJob]] = {}
        self._placed: Final[dict[str, tuple[EqualJobs, WaitingJob, int]]] = {}
        #: The jobs that use the room that victims of others leave. No recorded plan is theirs.
        self._expected: Final[dict[str, AllocationRequest]] = {}
        self._kinds: Final[dict[_Key, EqualJobs]] = {}
        #: The waiting jobs by kind, the oldest first; no list is empty.
        self._waiting: Final[dict[EqualJobs, deque[WaitingJob]]] = {}
        #: The number of waiting kinds of each usage.
        self._sizes: Final[Counter[Resource]] = Counter()
        #: The times at which something may happen, in a heap, each with the application that it concerns.
        self._events: Final[list[tuple[int, int, str]]] = []
        self._numbers: Final = count()
        self._waits: Final[list[int]] = []
        self._submitted = self._rejected = self._ended = self._evictions = self._lost = self._longest_time_to_start = 0
        self._plans: Final[Counter[str]] = Counter()
        #: Counts changes of usage.
        self._usage_changes = 0

    # Time

    def submit(self, job: Job) -> None:
        """Advance the clock to the submission of a job, and start it or let it wait."""
        if job.submit_time < self.now:
            raise RequestError("jobs", job.number, f"submitted at {job.submit_time}, but an earlier job at {self.now}")
        self._advance(job.submit_time)
        self._submitted += 1
        placement = self._partition.submit(job.application_id, job.user, job.queue, tags=job.tags)
        if placement.queue_path is None:
            self._rejected += 1
            return
        kind = self._kind_of(placement.queue_path, job)
        self._wait(kind, WaitingJob(self._submitted, job, self.now, job.run_time, has_run=False))
        if len(self._waiting[kind]) == 1:
            self._start_oldest(kind)
        self._update_guarantees()
        self._preempt()

    def finish(self) -> None:
        """Continue until no event is left."""
        while self._events:
            self._advance(self._events[0][0])

    def _advance(self, time: int) -> None:
        while self._events and self._events[0][0] <= time:
            self.now = self._events[0][0]
            while self._events and self._events[0][0] == self.now:
                self._end(heappop(self._events)[2])
            self._retry()
            self._update_guarantees()
            self._preempt()
        self.now = time

    def _at(self, time: int, application_id: str) -> None:
        heappush(self._events, (time, next(self._numbers), application_id))

    def _update_guarantees(self) -> None:
        """Update the guarantees that a change concerns; most changes concern few of many."""
        for guarantee in self._changed:
            guarantee.update(self.now)
            if guarantee.entitled:
                self._entitling[guarantee] = None
            else:
                self._entitling.pop(guarantee, None)
        self._changed.clear()

    # Jobs

    def _kind_of(self, queue_path: str, job: Job) -> EqualJobs:
        key = queue_path, job.user, job.usage, tuple(sorted(job.tags.items()))
        if key not in self._kinds:
            above = list(ancestors(queue_path))
            delays = (self._settings.facts(one).delay for one in above)
            delay = next((delay for delay in delays if delay is not None), DEFAULT_DELAY)
            guarantees = tuple(self._guarantees[one] for one in above if one in self._guarantees)
            rooms = (self._room, *(self._rooms[one] for one in above if one in self._rooms))
            self._kinds[key] = EqualJobs(job.usage, guarantees, delay, rooms)
        return self._kinds[key]

    def _wait(self, kind: EqualJobs, waiting: WaitingJob) -> None:
        job = waiting.job
        self._partition.request(job.application_id, job.application_id, job.usage)
        jobs = self._waiting.setdefault(kind, deque())
        jobs.append(waiting)
        if len(jobs) == 1:
            self._sizes[kind.usage] += 1
            for guarantee in kind.guarantees:
                guarantee.kinds[kind] = None
                self._changed[guarantee] = None
        elif jobs[-2].arrival > waiting.arrival:
            self._waiting[kind] = deque(sorted(jobs))
        if self._preempts and kind.guarantees:
            self._at(self.now + kind.delay, job.application_id)

    def _retry(self) -> None:
        """Start the jobs with a right to room, and then the waiting jobs that fit now, the oldest first."""
        for name, (kind, waiting, since) in list(self._placed.items()):
            if kind.has_room(before=name) and self._start(kind, waiting):
                self._longest_time_to_start = max(self._longest_time_to_start, self.now - since)
        # In a full cluster, no size fits, and the waiting jobs are not visited.
        if any(map(self._room.fits, self._sizes)):
            retry_oldest_first(self._waiting, self._start_oldest)

    def _start_oldest(self, kind: EqualJobs) -> bool:
        return kind.has_room() and self._start(kind, self._waiting[kind][0])

    def _start(self, kind: EqualJobs, waiting: WaitingJob) -> bool:
        job = waiting.job
        name = job.application_id
        decision = self._partition.allocate(name, name, job.usage)
        if not decision and decision.can_wait:
            return False
        self._leave(kind, waiting)
        if not decision:
            self._partition.remove(name)
            self._rejected += 1
            return True
        if not waiting.has_run:
            self._count_wait(kind, self.now - job.submit_time)
        self._running[name] = RunningJob(waiting, kind, self.now, self.now + waiting.left)
        for room in kind.rooms:
            room.use(job.usage)
        for guarantee in kind.guarantees:
            guarantee.note_start(self.now, waiting.since)
            add_amounts(guarantee.used, job.usage, 1)
        self._keep(kind, 1)
        self._at(self.now + waiting.left, name)
        return True

    def _leave(self, kind: EqualJobs, waiting: WaitingJob) -> None:
        """Remove a job from the waiting ones, and its right to room."""
        name = waiting.job.application_id
        self._expected.pop(name, None)
        if self._placed.pop(name, None):
            for room in kind.rooms:
                room.forget(name)
            self._keep(kind, -1)
        self._waiting[kind].remove(waiting)
        if not self._waiting[kind]:
            del self._waiting[kind]
            self._sizes[kind.usage] -= 1
            if not self._sizes[kind.usage]:
                del self._sizes[kind.usage]
            for guarantee in kind.guarantees:
                del guarantee.kinds[kind]
                self._changed[guarantee] = None

    def _count_wait(self, kind: EqualJobs, waited: int) -> None:
        self._waits.append(waited)
        for guarantee in kind.guarantees:
            guarantee.count_wait(waited)

    def _keep(self, kind: EqualJobs, sign: int) -> None:
        """Add or subtract the usage of a job that runs, or has a right to room, and is not terminating."""
        self._usage_changes += 1
        for guarantee in kind.guarantees:
            add_amounts(guarantee.kept, kind.usage, sign)
            self._changed[guarantee] = None

    def _end(self, application_id: str) -> None:
        """End a job whose time is over, or stop it if it is a victim."""
        running = self._running.get(application_id)
        if running is None or self.now not in (running.end, running.stops):
            return
        kind = running.kind
        del self._running[application_id]
        self._partition.release(application_id)
        self._usage_changes += 1
        for room in kind.rooms:
            room.use(kind.usage, -1)
            room.forget(application_id)
        for guarantee in kind.guarantees:
            add_amounts(guarantee.used, kind.usage, -1)
            self._changed[guarantee] = None
        if running.stops is None:
            self._keep(kind, -1)
        if self.now >= running.end:
            self._ended += 1
            self._partition.complete(application_id)
        else:
            self._evict(running)

    def _evict(self, running: RunningJob) -> None:
        """Let a victim wait again, in its former order."""
        self._evictions += 1
        worked, left = self.now - running.began, running.end - self.now
        if self._victims is VictimWork.RESTART:
            self._lost += worked
            left += worked
        self._wait(running.kind, running.waiting._replace(since=self.now, left=left, has_run=True))

    # Preemption

    def _preempt(self) -> None:
        """Make plans for the jobs that have waited long enough, and carry them out."""
        if not self._preempts:
            return
        due = {kind for guarantee in self._entitling for kind in guarantee.entitled}
        for kind in sorted(due, key=lambda kind: self._waiting[kind][0].arrival):
            if kind.failed_at == self._usage_changes:
                continue
            for waiting in self._waiting[kind]:
                if waiting.job.application_id in self._placed:
                    continue
                if not kind.is_entitled:
                    break
                if self.now < waiting.since + kind.delay:
                    if waiting.has_run:
                        # A victim is in its former order again, and jobs behind it may have waited for longer.
                        continue
                    break
                if not self._plan(kind, waiting):
                    kind.failed_at = self._usage_changes
                    break

    def _plan(self, kind: EqualJobs, waiting: WaitingJob) -> bool:
        """Make a plan for a job, and carry it out; return whether the job has a right to room now."""
        name = waiting.job.application_id
        request = AllocationRequest(name, name, kind.usage)
        placed = list(self._expected.values())
        plan = self._partition.plan_preemption(request, since=waiting.since, now=self.now, placed=placed)
        self._plans[plan.outcome.value] += 1
        if plan.outcome is Outcome.AWAITS_TERMINATING:
            self._expected[name] = request
        elif not plan:
            return False
        for victim in self._partition.carry_out(plan) if plan else ():
            running = self._running[victim]
            running.stops = self.now + self._stop_time
            self._keep(running.kind, -1)
            for room in running.kind.rooms:
                room.stop(victim, running.stops, running.kind.usage)
            self._at(running.stops, victim)
        self._placed[name] = kind, waiting, self.now
        for room in kind.rooms:
            room.claim(name, self.now + self._stop_time, kind.usage)
        self._keep(kind, 1)
        return True

    # Results

    @property
    def _still_waiting(self) -> int:
        """The number of waiting jobs."""
        return self._submitted - self._rejected - self._ended - len(self._running)

    def progress(self) -> Progress:
        """Return the time and the numbers of jobs."""
        return Progress(self.now, self._submitted, len(self._running), self._still_waiting)

    def report(self) -> PreemptionReport:
        """Verify the partition, and return the report."""
        findings: tuple[str, ...] = ()
        try:
            self._partition.verify()
        except InvariantError as error:
            findings = error.findings
        for guarantee in self._guarantees.values():
            guarantee.note(self.now, is_unmet=False)
        return PreemptionReport(
            self._submitted,
            len(self._waits),
            self._still_waiting,
            self._rejected,
            sum(self._waits),
            max(self._waits, default=0),
            self._evictions,
            self._lost,
            dict(sorted(self._plans.items())),
            self._longest_time_to_start,
            tuple(guarantee.effect for _, guarantee in sorted(self._guarantees.items())),
            findings,
        )
