"""The replay of a workload under a configuration, with a virtual clock.

A job waits only for the partition: its placement rules, the quotas of its queues, the limits of its users and groups,
its quota models and budgets, and the size of the cluster if it is given. Without a cluster size, the cluster is
unlimited. The waiting times in the report are those that the partition causes.

The partition decides everything: its waiting list returns the jobs that can start, in its order, with its reservations
and its quota models. A `Replay` only knows when jobs arrive and end, and counts what happens:

- A job is placed and requested when it is submitted. If it is denied, it is pending. If it can never fit, or no
  placement rule finds a queue, it is rejected.
- When jobs end, all jobs that end at that second are released first. Then the partition wakes the pending jobs that
  fit, and they start.
- Jobs that are submitted at the same second come after that.

The order of waiting jobs is one of these; equals are ordered by submission:

============  =======================================================================================================
``fifo``      submission
``priority``  the ``priority.offset`` of their queues, the highest first, compared from the root down
``fair``      the part that their queues use of their guarantee or maximum, the smallest first, from the root down
``share``     as ``fair``; in each queue the rank of their users by shares and decayed usage, which is computed every
              five minutes of the log
============  =======================================================================================================

Without shares in the configuration, all users have equal shares, and the half-life of usage is a week.

A job that is denied waits for the first limit that denied it. If this limit has room after a round and the job still
waits, it waits for the first limit that denies it then. For limits of quota models, budgets, reservations and variants,
and for limits that change by a schedule, the room is unknown, so it waits for them until it starts.

If a job is denied although its group is within its guarantee, the group reclaims what it has lent
(`ugm.Partition.plan_reclaim`). If its queue or one above is within its guarantee, it preempts jobs of other queues
(`ugm.Partition.plan_preemption`), after the delay of its queue. The evicted jobs wait again in their former order, and
start again with their whole run time.

Limits that change by a schedule and budgets follow the calendar: the workload starts at a given second since 1970. Each
job promises the run time that its user requested, or its run time if that is unknown. When limits change or budgets are
renewed, the partition wakes waiting jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from heapq import heappop, heappush
from typing import Final, Literal, NamedTuple, TypeAlias, final

from ugm.arguments import require_callable, require_instance, require_iterable
from ugm.budgets import Budgets
from ugm.budgets.kind import declared_budget
from ugm.configuration import PartitionConfig
from ugm.configuration.family_rules import normal_config
from ugm.configuration.schedules import NEVER
from ugm.decision import Decision, Violation
from ugm.errors import InvariantError, RequestError
from ugm.families import Families
from ugm.identity import TrackingType, UserGroup
from ugm.model import BUDGET, QuotaModel
from ugm.partition import AllocationRequest, Partition
from ugm.partition.config.compiled import highest_limits
from ugm.resources import Resource
from ugm.simulation.gauges import Gauge, JobClass, ReplayCounters, ReplayGauges
from ugm.simulation.orders import JobOrderName, PeriodicShares, replayed
from ugm.simulation.recorder import Recorder
from ugm.simulation.report import Report
from ugm.simulation.timeline import BudgetLog, Timeline
from ugm.simulation.workload import Job

#: After the last job, a replay waits for the next change of limits or budgets while jobs are waiting, unless none was
#: released or started for this time, in seconds.
_PATIENCE: Final = 400 * 86_400
#: Up to this number of classes without jobs are kept.
_MOST_UNUSED: Final = 1000
#: The kinds of limits that evictions of other groups do not relieve.
_OTHERS: Final = frozenset({TrackingType.USER.value, TrackingType.GROUP.value, BUDGET})

#: The queue, user, usage, tags and duration of equal jobs.
_ClassKey: TypeAlias = tuple[str, UserGroup, Resource, tuple[tuple[str, str], ...], int | None]


def simulate(
    jobs: Iterable[Job],
    config: PartitionConfig,
    *,
    cluster: Resource | None = None,
    group_limits: Literal["always", "unless-user-limited"] = "always",
    until: int | None = None,
    recorder: Recorder | None = None,
    models: Callable[[], Iterable[QuotaModel]] = tuple,
    reclaims: bool = True,
    order: JobOrderName = "fifo",
    reserves: bool = False,
    start: int = 0,
) -> Report:
    """Replay a workload in a partition.

    The memory grows with the number of waiting and running jobs, by a few bytes for each started job, by about 1.2 kB
    for each distinct user, with the limits and quotas that apply to jobs, and by about 3 kB for each distinct class of
    rejected jobs (queue, user and size).

    Args:
        jobs: the jobs in the order of their submission; they are read one by one.
        config: the partition of a configuration.
        cluster: the resources of the cluster; None for an unlimited cluster.
        group_limits: as for `ugm.Partition`.
        until: the last second of the replay; None to continue until the last job has ended.
        recorder: a new recorder, to be queried after the replay.
        models: a function that returns new quota models, in addition to those that the configuration declares. It is
            called twice: a second partition only answers queries about limits.
        reclaims: whether groups and queues take back what they are guaranteed, so that other jobs are evicted.
        order: the order in which waiting jobs start.
        reserves: whether queues with the property ``ugm.reservation`` keep capacity for jobs that they delay; the root
            does if no queue has it. Jobs promise the run times that their users requested.
        start: the second since 1970 at which the workload starts, for budgets and limits that change by a schedule.

    Returns:
        The report, which only depends on the arguments.

    Raises:
        RequestError: the jobs are not in order, a job has the number of another job that has not ended, the start is
            not in the years 2 to 9999, or an argument is of another type.

    >>> from ugm import UserGroup, parse_config
    >>> from ugm.simulation import Job
    >>> config = parse_config("partitions: [{name: default, queues: [{name: a, resources: {max: {vcore: 1}}}]}]")
    >>> jobs = [Job(number, 0, 60, "root.a", UserGroup("sue"), Resource.parse(vcore="1")) for number in (1, 2)]
    >>> simulate(jobs, config.partition()).waiting
    WaitingTime(jobs=2, delayed=1, total=60, p95=60, max=60)
    """
    require_instance("config", config, PartitionConfig)
    require_instance("start", start, int)
    require_callable("models", models)
    if until is not None:
        require_instance("until", until, int)
    if recorder is not None:
        require_instance("recorder", recorder, Recorder)
    used, given = replayed(config, order, reserves=reserves), list(models())
    if order == "share":
        given.append(PeriodicShares(normal_config(config)))
    budgets = [*map(declared_budget, config.ugm.budgets)]
    budgets += [budget for model in given if isinstance(model, Budgets) for budget in model.budgets]
    if cluster is not None:
        cluster = Families(config.ugm.families).normal(cluster, argument="cluster")
    timeline = Timeline(start, used, budgets)
    partition = Partition(used, cluster=cluster, models=given, group_limits=group_limits, clock=timeline.second)
    replay = Replay(partition, jobs, timeline, models(), recorder=recorder, reserves=reserves, reclaims=reclaims)
    replay.run(until)
    return replay.report()


class RunningJob(NamedTuple):
    """A running job; the next one to end is the smallest."""

    end: int
    #: The number of its start, which no other one has.
    number: int
    application_id: str
    began: int
    job: Job
    job_class: JobClass


class WaitingJob(NamedTuple):
    """A waiting job."""

    job: Job
    job_class: JobClass
    #: The second since which it waits.
    since: int


@final
class Replay:
    """Runs jobs in a partition that no other code changes, and counts what happens.

    A job is one application with one allocation. It promises its duration if there are budgets or reservations.

    Args:
        partition: the partition. Its clock is the method `second` of the timeline.
        jobs: the jobs in the order of their submission; they are read one by one.
        timeline: the virtual clock, with the configuration of the partition.
        models: new copies of the quota models that were passed to the partition, which answer queries about limits.
        recorder: a new recorder.
        reserves: whether queues reserve capacity for jobs that they delay.
        reclaims: whether groups and queues take back what they are guaranteed.
    """

    def __init__(
        self,
        partition: Partition,
        jobs: Iterable[Job],
        timeline: Timeline,
        models: Iterable[QuotaModel] = (),
        *,
        recorder: Recorder | None = None,
        reserves: bool = False,
        reclaims: bool = True,
    ) -> None:
        self.partition: Final = partition
        self._timeline: Final = timeline
        nodes = partition.nodes().values()
        self._cluster: Final = sum(nodes, Resource()) if nodes else None
        limiting = highest_limits(replace(timeline.config, ugm=replace(timeline.config.ugm, budgets=())))
        unused = Partition(limiting, cluster=self._cluster, models=models)
        self._gauges: Final = ReplayGauges(unused, timeline.is_scheduled)
        self._recorder: Final = recorder
        self._reserves: Final = reserves
        self._reclaims: Final = reclaims
        self._preempts: Final = timeline.config.preemption.enabled is not False
        self._budgets: Final = BudgetLog(partition, timeline)
        self._counters: Final = ReplayCounters()
        self._families: Final = Families(timeline.config.ugm.families)
        self._jobs: Final = (require_instance("jobs", job, Job) for job in require_iterable("jobs", jobs))
        self._next_job: Job | None = next(self._jobs, None)
        #: The jobs by application id. The waiting ones are pending in the partition.
        self.running: Final[dict[str, RunningJob]] = {}
        self.waiting: Final[dict[str, WaitingJob]] = {}
        #: A heap of the running jobs, and of evicted ones.
        self._ends: Final[list[RunningJob]] = []
        self._starts = 0
        #: The number of decisions of the partition.
        self._decisions = 0
        #: The classes of jobs, of which some have ended or were rejected.
        self._classes: dict[_ClassKey, JobClass] = {}
        #: The last second at which a job started or ended.
        self._last_event = 0
        #: The jobs that wait after an eviction.
        self._evicted: Final[set[str]] = set()
        #: The gauges that ended jobs have lowered since the last round.
        self._lowered: Final[dict[Gauge, None]] = {}
        #: The waiting classes with guarantees, each with the number of changes at its last denied reclaim.
        self._entitled: Final[dict[JobClass, int]] = {}
        self._changes = 0
        #: The second from which a waiting job may preempt, if that was too early.
        self._due: Final[dict[str, int]] = {}

    # Time

    @property
    def now(self) -> int:
        """The time of the virtual clock."""
        return self._timeline.now

    def run(self, until: int | None) -> None:
        """Replay all jobs, to the second *until*, or until no job runs and none will start."""
        last = NEVER if until is None else until
        while True:
            end, change, submission = self._next_end(), self._next_change(), NEVER
            if self._next_job is not None:
                submission = max(self._next_job.submit_time, self.now)
            second = min(end, change, submission)
            # If no job runs or will be submitted, only a change of limits can start a waiting job.
            is_idle = submission is NEVER and not self.running
            if second > last or (is_idle and (not self.waiting or second - self._last_event >= _PATIENCE)):
                break
            self._go_to(second, is_end=second == end, is_change=second == change)
        if until is not None:
            self._timeline.now = max(self.now, until)

    def _next_end(self) -> int:
        ends = self._ends
        while ends and self.running.get(ends[0].application_id) is not ends[0]:
            heappop(ends)
        return ends[0].end if ends else NEVER

    def _next_change(self) -> int:
        """Return the second at which limits change, budgets are renewed or a job may preempt, if that may matter."""
        if not self._counters.submitted or not (self.waiting or self._timeline.has_budgets):
            # A job may run through a million changes, and none of them does anything.
            return NEVER
        if self._timeline.next_change <= self.now:
            self._timeline.find_next_change()
        return min(self._timeline.next_change, *(due for due in self._due.values() if due > self.now), NEVER)

    def _go_to(self, second: int, *, is_end: bool, is_change: bool) -> None:
        """Let happen what happens first at the second of the next event."""
        if is_change:
            self._changes += 1
            self._timeline.now = second - 1
            self._budgets.close_periods()
        self._timeline.now = second
        if is_end or is_change:
            while self._next_end() == second:
                name = heappop(self._ends).application_id
                self.partition.remove(name)
                self._end(name)
            self._start_waiting()
        elif self._next_job is not None:
            job, self._next_job = self._next_job, next(self._jobs, None)
            self._submit(job)
        self._end_round()

    def _end_round(self) -> None:
        """Follow the guarantees and the limits after a submission or the end of jobs."""
        while self._entitled and self._reclaim_one():
            self._start_waiting()
        for gauge in self._lowered:
            for job_class in gauge.with_room():
                self._find_limit(job_class)
        self._lowered.clear()
        if self._recorder:
            self._recorder.record_counts(self.now, len(self.running), len(self.waiting))

    def _start_waiting(self) -> None:
        """Start the waiting jobs that fit now."""
        if self.waiting:
            for request in self.partition.wake():
                self._decisions += 1
                if self.partition.allocate(request):
                    self._start_waiting_job(request.application_id)

    # Jobs

    def _submit(self, job: Job) -> None:
        """Place and request the next job."""
        if self._recorder and not self._counters.submitted:
            self._recorder.origin = self.now
        self._counters.submitted += 1
        name = job.application_id
        if job.submit_time < self.now:
            raise RequestError("jobs", job.number, f"submitted at {job.submit_time}, but an earlier job at {self.now}")
        if name in self.running or name in self.waiting:
            raise RequestError("jobs", job.number, "submitted again before the job of that number has ended")
        placement = self.partition.submit(name, job.user, job.queue, tags=job.tags)
        if placement.queue_path is None:
            self._counters.reject(job, job.queue, None, f"no queue: {'; '.join(map(str, placement.trials))}")
            return
        job_class = self._class_of(placement.queue_path, job, job.usage)
        # Jobs of one class get equal answers.
        decision = None if job_class.waiting or job_class.never else self._allocate(name, job_class)
        if decision:
            self._start(job, job_class)
            return
        if decision is not None:
            job_class.never = tuple(one for one in decision.violations if not one.can_wait)
        if job_class.never:
            self._reject(job, job_class, job_class.never)
        else:
            self._wait(job, job_class, decision)

    def _class_of(self, queue_path: str, job: Job, usage: Resource) -> JobClass:
        """Return the class of a job with a usage."""
        tags = tuple(sorted(job.tags.items())) if job.tags else ()
        duration = job.promised_time if self._reserves or self._timeline.has_budgets else None
        usage = self._families.normal(usage)
        key = queue_path, job.user, usage, tags, duration
        job_class = self._classes.get(key)
        if job_class is None:
            self._drop_classes()
            job_class = self._classes[key] = JobClass(queue_path, job.user, usage, duration)
            self._gauges.connect(job_class, tags)
        return job_class

    def _drop_classes(self) -> None:
        """Drop the classes without jobs if they may be most of all: each job may have its own size."""
        if len(self._classes) > _MOST_UNUSED + 2 * (len(self.running) + len(self.waiting)):
            used = {one.job_class for one in self.running.values()}
            used |= {one.job_class for one in self.waiting.values()}
            self._classes = {key: one for key, one in self._classes.items() if one in used}

    def _allocate(self, name: str, job_class: JobClass) -> Decision:
        self._decisions += 1
        return self.partition.allocate(name, name, job_class.usage, duration=job_class.duration)

    def _check(self, name: str, job_class: JobClass) -> Decision:
        return self.partition.check(name, job_class.usage, duration=job_class.duration)

    def _start(self, job: Job, job_class: JobClass) -> None:
        """Run a job that was granted."""
        name = job.application_id
        if self._families.variants and (held := self.partition.allocation(name)) is not None:
            # Amounts of any variant are assigned now.
            job_class = self._class_of(job_class.queue_path, job, held.usage)
        self._starts += 1
        running = RunningJob(self.now + job.run_time, self._starts, name, self.now, job, job_class)
        self.running[name] = running
        heappush(self._ends, running)
        self._change_usage(job_class, 1)
        if name in self._evicted:
            self._evicted.remove(name)
        else:
            self._counters.start(job, self.now - job.submit_time)

    def _end(self, name: str) -> RunningJob:
        """Remove and return a job that has ended or was evicted."""
        ended = self.running.pop(name)
        self._change_usage(ended.job_class, -1)
        self._counters.end(ended.job_class.usage, self.now - ended.began)
        for gauge, _ in ended.job_class.gauges:
            if gauge.waiting:
                self._lowered[gauge] = None
        return ended

    def _change_usage(self, job_class: JobClass, jobs: int) -> None:
        now = self._last_event = self.now
        self._changes += 1
        for gauge, amount in job_class.gauges:
            if gauge.guaranteed is not None:
                gauge.count_borrowed(now)
            used = gauge.used = gauge.used + jobs * amount
            if used > gauge.peak:  # noqa: PLR1730 - a call of `max` takes longer
                gauge.peak = used
        for gauge, amount in job_class.guarantees:
            gauge.used += jobs * amount
        if self._recorder:
            self._recorder.record_running(now, job_class, jobs)

    def _reject(self, job: Job, job_class: JobClass, violations: Iterable[Violation]) -> None:
        """Count a job that can never start, or may not even be pending."""
        self.partition.remove(job.application_id)
        self._counters.reject(job, job_class.queue_path, job.usage, "; ".join(map(str, violations)))
        for violation in violations:
            gauge, _ = self._gauges.of(violation)
            gauge.configured.rejected += 1

    # Waiting jobs

    def _wait(self, job: Job, job_class: JobClass, decision: Decision | None) -> None:
        """Let a job be pending. If the partition has denied it, *decision* is the answer."""
        name = job.application_id
        answer = self.partition.request(name, name, job_class.usage, duration=job_class.duration)
        if not answer:
            self._reject(job, job_class, answer.violations)
            return
        self._count_delayed(job, job_class, decision)
        self.waiting[name] = WaitingJob(job, job_class, self.now)
        job_class.waiting[name] = None
        self._counters.most_waiting = max(self._counters.most_waiting, len(self.waiting))
        # A pending request has the reservation of its queues if it is free.
        if self._reserves and decision is not None and self._allocate(name, job_class):
            self._start_waiting_job(name)

    def _count_delayed(self, job: Job, job_class: JobClass, decision: Decision | None) -> None:
        job_class.count_waiting(self.now)
        if job_class.awaited is None:
            denied = self._check(job.application_id, job_class) if decision is None else decision
            self._budgets.deny(denied.violations)
            # An evicted job may fit, and start in the same round.
            job_class.wait_for(*self._gauges.of(denied.violations[0]) if denied.violations else job_class.gauges[0])
        assert job_class.awaited is not None  # noqa: S101 - it waits
        self._budgets.count(job_class.awaited)
        job_class.awaited.configured.delayed[job.user.name] += 1
        if self._reclaims and (job_class.group is not None or job_class.guarantees):
            self._entitled.setdefault(job_class, -1)

    def _find_limit(self, job_class: JobClass) -> None:
        """Let a class wait for the limit that denies it now."""
        violations = self._check(next(iter(job_class.waiting)), job_class).violations
        if violations:
            job_class.count_waiting(self.now)
            job_class.wait_for(*self._gauges.of(violations[0]))

    def _start_waiting_job(self, name: str) -> None:
        """Run a waiting job that was granted."""
        job, job_class, _ = self.waiting.pop(name)
        job_class.count_waiting(self.now)
        del job_class.waiting[name]
        self._due.pop(name, None)
        if not job_class.waiting:
            job_class.stop_waiting()
            self._entitled.pop(job_class, None)
        self._start(job, job_class)

    # Evictions

    def _reclaim_one(self) -> bool:
        """Evict the jobs that make room for the first job that may take what it is guaranteed; False if none may."""
        for job_class, failed_at in self._entitled.items():
            assert job_class.awaited is not None  # noqa: S101 - it waits
            limit = job_class.awaited.configured.key
            if failed_at == self._changes or limit.kind in _OTHERS:
                continue
            name = next(iter(job_class.waiting))
            evicted = self._reclaim(name, job_class) or self._preempt(name, job_class)
            if evicted:
                self._evict(name, job_class, evicted)
                return True
            self._entitled[job_class] = self._changes
        return False

    def _reclaim(self, name: str, job_class: JobClass) -> tuple[str, ...]:
        """Release what other groups of a quota model have to return for a job; empty if nothing helps."""
        if not job_class.is_within_guarantee:
            return ()
        plan = self.partition.plan_reclaim(name, job_class.usage, duration=job_class.duration)
        return self.partition.reclaim(plan) if plan else ()

    def _preempt(self, name: str, job_class: JobClass) -> tuple[str, ...]:
        """Release what queues above their guarantees have to return for a job; empty if nothing helps."""
        if not (self._preempts and job_class.may_preempt) or self._due.get(name, 0) > self.now:
            return ()
        request = AllocationRequest(name, name, job_class.usage, duration=job_class.duration)
        since = self._timeline.second() - (self.now - self.waiting[name].since)
        plan = self.partition.plan_preemption(request, since=since)
        if plan.due is not None:
            self._due[name] = plan.due - self._timeline.start
        victims = self.partition.carry_out(plan) if plan else ()
        for victim in victims:
            self.partition.release(victim)
        return victims

    def _evict(self, name: str, job_class: JobClass, names: Iterable[str]) -> None:
        """Start a job in place of others, which wait again."""
        evicted = [self._end(one) for one in names]
        for one in evicted:
            self._counters.evict(one.job_class, job_class, self.now - one.began)
        if self._allocate(name, job_class):
            self._start_waiting_job(name)
        for one in evicted:
            self._evicted.add(one.job.application_id)
            self._wait(one.job, self._class_of(one.job_class.queue_path, one.job, one.job.usage), None)

    # Results

    def report(self) -> Report:
        """Verify the partition, and return the report of the replay, which is over."""
        findings: tuple[str, ...] = ()
        try:
            self.partition.verify()
        except InvariantError as error:
            findings = error.findings
        for job_class in dict.fromkeys(one.job_class for one in self.waiting.values()):
            job_class.count_waiting(self.now)
        for running in self.running.values():
            self._counters.end(running.job_class.usage, self.now - running.began)
        if self._recorder:
            self._recorder.finish(self.now)
        return Report(
            **self._counters.figures(self._cluster, self.now),
            decisions=self._decisions,
            still_waiting=len(self.waiting),
            end_time=self.now,
            limits=self._gauges.limits(self.now),
            budgets=self._budgets.finish(),
            findings=findings,
        )
