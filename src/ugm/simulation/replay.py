"""The replay of a workload under a configuration, with a virtual clock.

A job waits only for the partition: its placement rules, the quotas of its queues, the limits of its users and groups,
and the size of the cluster if it is given. Without a cluster size, the cluster is unlimited. The waiting times in the
report are those that the partition causes.

These rules determine when a job starts:

- A job is placed and requested when it is submitted. If it is denied, it waits. If it can never fit, or no placement
  rule finds a queue, it is rejected.
- When jobs end, all jobs that end at that second are released first. Then the waiting jobs are requested again in an
  order, by default that of their submission, and each that fits starts. A job that does not fit is skipped, and does
  not delay later jobs.
- Jobs that are submitted at the same second come after that.

The order of waiting jobs is one of these; equals are ordered by submission:

============  =======================================================================================================
``fifo``      submission
``priority``  the ``priority.offset`` of their queues, the highest first, compared from the root down
``fair``      the part that their queues use of their guarantee or maximum, the smallest first, from the root down
``share``     the rank of their users by shares and decayed usage, which is computed every five minutes of the log
============  =======================================================================================================

Without shares in the configuration, all users have equal shares, and the half-life of usage is a week.

Elastic quotas, quota trees and other quota models take part if they are given. Waiting jobs are pending if a model
depends on the demand. If a job is denied although its group is within its guarantee, the group reclaims what it has
lent (`ugm.Partition.plan_reclaim`). The evicted jobs wait again in their former order, and start again with their whole
run time.

A request is repeated only when its answer can have changed. All jobs of a `ugm.simulation.gauges.JobClass` get the same
answer. A denied class waits for one of the limits that denied it, until that limit has enough free. A round of retries
therefore costs time for the jobs that start and for the classes that another limit denies, not for the waiting jobs. A
class that a quota model denies is requested in every round. It is skipped if the model reports too little room
(`ugm.model.ReportingModel.room`), or if an equal or smaller request to the same limit was denied in the same round. The
result is the same as if every waiting job were requested again each time.

With reservations, the partition keeps capacity for the first waiting job that is delayed only by queue quotas, as in
its scheduling passes (`ugm.partition.Reservation`). Each job that starts must not delay a reserved one. If a
reservation is free, the first waiting job that is delayed only by queue quotas gets it.

Limits that change by a schedule and budgets follow the calendar: the workload starts at a given second since 1970. Each
job promises the run time that its user requested, or its run time if that is unknown. When limits change or budgets are
renewed, waiting jobs are requested again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from operator import itemgetter
from typing import Any, Final, Literal, NamedTuple, TypeAlias, final
from weakref import WeakValueDictionary

from ugm.arguments import require_callable, require_instance
from ugm.budgets import Budgets
from ugm.budgets.calendar import NEVER
from ugm.budgets.declared import declared_budget
from ugm.budgets.denial import KIND as BUDGET
from ugm.configuration import PartitionConfig
from ugm.decision import Decision
from ugm.errors import InvariantError, RequestError
from ugm.identity import TrackingType, UserGroup
from ugm.model import PendingModel, QuotaModel
from ugm.partition import Partition
from ugm.partition.config_schedule import highest_limits
from ugm.resources import MAX_QUANTITY, Resource
from ugm.simulation.budget_log import BudgetLog
from ugm.simulation.counters import ReplayCounters
from ugm.simulation.gauges import Gauge, JobClass, ReplayGauges, TagItems
from ugm.simulation.job_order import JobOrder, JobOrderName, order_of, require_order, without_shares
from ugm.simulation.recorder import Recorder
from ugm.simulation.report import Report
from ugm.simulation.reserving import RESERVED, JobReservations, with_reservations, without_reservations
from ugm.simulation.running_jobs import EvictableJob, RunningJobs
from ugm.simulation.timeline import Timeline
from ugm.simulation.workload import Job, checked_jobs

__all__ = ["Progress", "simulate"]

#: After the last job, a replay waits for the next change of limits or budgets while jobs are waiting, unless none was
#: released or started for this time, in seconds.
_PATIENCE: Final = 400 * 86_400
#: The kinds of limits that evictions of other groups do not relieve.
_OTHERS: Final = frozenset({TrackingType.USER.value, TrackingType.GROUP.value, BUDGET})


class Progress(NamedTuple):
    """The progress of a replay."""

    #: The time of the virtual clock.
    now: int
    #: The numbers of submitted, running and waiting jobs.
    submitted: int
    running: int
    waiting: int


def _no_models() -> tuple[QuotaModel, ...]:
    return ()


def simulate(  # noqa: PLR0913 - one for each option
    jobs: Iterable[Job],
    config: PartitionConfig,
    *,
    cluster: Resource | None = None,
    group_limits: Literal["always", "unless-user-limited"] = "always",
    until: int | None = None,
    observer: Callable[[Progress], None] | None = None,
    recorder: Recorder | None = None,
    models: Callable[[], Iterable[QuotaModel]] = _no_models,
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
        observer: called after each submission and each round of completions, to show progress.
        recorder: a new recorder, to be queried after the replay.
        models: a function that returns new quota models, in addition to those that the configuration declares. It is
            called twice: a second partition only answers queries about limits.
        reclaims: whether groups reclaim what they are guaranteed, so that jobs of other groups are evicted.
        order: the order in which waiting jobs are requested again.
        reserves: whether queues with the property ``ugm.reservation`` keep capacity for jobs that they delay; the root
            does if no queue has it. Jobs promise the run times that their users requested.
        start: the second since 1970 at which the workload starts, for budgets and limits that change by a schedule.

    Returns:
        The report, which only depends on the arguments.

    Raises:
        RequestError: the jobs are not in order, a job has the number of another job that has not ended, the start is
            not in the years 2 to 9999, or an argument is of another type.

    >>> from ugm import parse_config
    >>> from ugm.simulation import Job
    >>> config = parse_config("partitions: [{name: default, queues: [{name: a, resources: {max: {vcore: 1}}}]}]")
    >>> jobs = [Job(number, 0, 60, "root.a", UserGroup("sue"), Resource.parse(vcore="1")) for number in (1, 2)]
    >>> simulate(jobs, config.partition()).waiting
    WaitingTime(jobs=2, delayed=1, total=60, p95=60, max=60)
    """
    _require_types(config, until, observer, recorder, models)
    require_instance("start", start, int)
    limits, given = without_shares((with_reservations if reserves else without_reservations)(config)), tuple(models())
    budgets = [*map(declared_budget, config.ugm.budgets)]
    budgets += [budget for model in given if isinstance(model, Budgets) for budget in model.budgets]
    timeline = Timeline(start, config, budgets)
    partition = Partition(limits, cluster=cluster, models=given, group_limits=group_limits, clock=timeline.second)
    job_order = order_of(require_order(order), config, partition, cluster)
    # Charging does not depend on *group_limits*, so the gauges query a partition that enforces all limits.
    gauges = ReplayGauges(
        Partition(_untimed(limits), cluster=cluster, models=models()),
        job_order,
        timeline.is_scheduled,
        group_limits == "always",
    )
    has_models = any(report.model != Budgets.__name__ for report in partition.model_reports())
    counts_pending = config.ugm.elastic is not None or any(isinstance(model, PendingModel) for model in given)
    replay = _Replay(
        partition,
        gauges,
        job_order,
        cluster,
        observer,
        recorder,
        counts_pending,
        has_models and reclaims,
        timeline,
        BudgetLog(partition, timeline, bool(budgets), bool(config.ugm.thresholds.shares)),
        JobReservations(partition, limits, gauges) if reserves else None,
    )
    for job in checked_jobs(jobs):
        if until is not None and job.submit_time > until:
            break
        replay.submit(job)
    replay.finish(until)
    return replay.report()


def _require_types(config: object, until: object, observer: object, recorder: object, models: object) -> None:
    """Check the arguments that no other object checks."""
    require_instance("config", config, PartitionConfig)
    require_callable("models", models)
    if until is not None:
        require_instance("until", until, int)
    if observer is not None:
        require_callable("observer", observer)
    if recorder is not None:
        require_instance("recorder", recorder, Recorder)


def _untimed(config: PartitionConfig) -> PartitionConfig:
    """Return a configuration without budgets and with the highest of all scheduled limits."""
    return highest_limits(replace(config, ugm=replace(config.ugm, budgets=())))


#: A job class that fits a gauge: the key of its line, the arrival of its oldest job, its amount, and the gauge with a
#: number. A class that has moved to another gauge may occur twice; the number keeps the gauges from being compared.
_Fitting: TypeAlias = tuple[tuple[Any, ...], int, int, int, Gauge]


def _add_candidate(gauge: Gauge, candidates: list[_Fitting]) -> None:
    """Add the first job class that fits a gauge to a heap."""
    found = gauge.first_fitting()
    if found is not None:
        heappush(candidates, (*found, id(gauge), gauge))


def _is_blocked(decision: Decision) -> bool:
    """Return whether evictions of other groups cannot let a denied job fit."""
    return not decision.can_wait or any(one.kind in _OTHERS or one.resource is None for one in decision.violations)


def _borrower_of(job_class: JobClass) -> tuple[str, str]:
    """Return the kind and the name of the group of evicted jobs."""
    group = job_class.groups[0][0]
    return group.sharing.kind, group.name


@final
@dataclass(slots=True, eq=False)
class _Replay:
    """The state of one replay."""

    partition: Partition
    gauges: ReplayGauges
    order: JobOrder
    cluster: Resource | None
    observer: Callable[[Progress], None] | None
    recorder: Recorder | None
    #: Whether a quota model depends on pending requests.
    counts_pending: bool
    reclaims: bool
    timeline: Timeline
    budgets: BudgetLog
    reservations: JobReservations | None
    counters: ReplayCounters = field(default_factory=ReplayCounters)
    #: A job class is dropped with the last of its waiting or running jobs, because each job may have its own size.
    classes: WeakValueDictionary[tuple[str, UserGroup, Resource, TagItems, int | None], JobClass] = field(
        default_factory=WeakValueDictionary
    )
    #: Numbers of the jobs that are waiting or running.
    alive: set[int] = field(default_factory=set)
    running: RunningJobs = field(default_factory=RunningJobs)
    #: The last second at which a job started or ended.
    last_event: int = 0
    #: The arrivals of waiting jobs that have run before.
    restarted: set[int] = field(default_factory=set)
    #: The gauges that evictions have lowered since the last round of retries.
    relieved: dict[Gauge, None] = field(default_factory=dict)
    #: The gauges that are not exact and whose free amount is known in this round.
    known_rooms: set[Gauge] = field(default_factory=set)

    @property
    def now(self) -> int:
        """The time of the virtual clock."""
        return self.timeline.now

    @property
    def waiting_jobs(self) -> int:
        """The number of waiting jobs."""
        return len(self.alive) - len(self.running)

    def submit(self, job: Job) -> None:
        """Advance the clock to the submission of a job, then start, delay or reject the job."""
        if job.submit_time < self.now:
            raise RequestError("jobs", job.number, f"submitted at {job.submit_time}, but an earlier job at {self.now}")
        if not self.counters.submitted:
            self.timeline.now = job.submit_time
            self.timeline.find_next_change()
        self._advance(job.submit_time)
        if self.recorder and not self.counters.submitted:
            self.recorder.origin = self.now
        if job.number in self.alive:
            raise RequestError("jobs", job.number, "submitted again before the job of that number has ended")
        self.counters.submitted += 1
        placement = self.partition.submit(job.application_id, job.user, job.queue, tags=job.tags)
        if placement.queue_path is None:
            self.counters.reject_unplaced(job, placement)
        else:
            self._start_or_delay(self._class_of(placement.queue_path, job), job, self.counters.submitted)
            if self.relieved:
                self._retry(())
            elif self.reservations is not None and self.waiting_jobs:
                self._end_round(self.reservations)
        self._observe()

    def _start_or_delay(self, job_class: JobClass, job: Job, arrival: int) -> None:
        """Start, delay or reject a placed job; *arrival* is its number in the order of arrival."""
        if job_class.never:
            self._reject(job_class, job)
        elif job_class.waiting_jobs:
            self._delay(job_class, job, arrival)
        elif decision := self._request(job_class, job):
            self._start(job_class, job, arrival)
        elif never := tuple(violation for violation in decision.violations if not violation.can_wait):
            job_class.never = never
            self._reject(job_class, job)
        else:
            self._delay(job_class, job, arrival, decision)

    def _class_of(self, queue_path: str, job: Job) -> JobClass:
        tags: TagItems = tuple(sorted(job.tags.items())) if job.tags else ()
        duration = job.promised_time if self.budgets.has_budgets or self.reservations is not None else None
        key = (queue_path, job.user, job.usage, tags, duration)
        if (job_class := self.classes.get(key)) is None:
            limits = self.gauges.limits_of(queue_path, job.user, tags)
            gauges, groups = self.gauges.for_job(limits, job.usage), self.gauges.lending.of_limits(limits, job.usage)
            job_class = JobClass(queue_path, job.user, job.usage, gauges, groups, duration)
            self.classes[key] = job_class
        return job_class

    def _request(self, job_class: JobClass, job: Job) -> Decision:
        self.counters.decisions += 1
        decision = self._allocate(job_class, job)
        if not decision:
            self.budgets.deny(decision.violations)
        if decision or not self.reclaims or not job_class.is_within_guarantee or _is_blocked(decision):
            return decision
        return self._reclaim(job_class, job) or decision

    def _allocate(self, job_class: JobClass, job: Job) -> Decision:
        if self.reservations is not None:
            return self.reservations.allocate(job_class, job)
        name = job.application_id
        return self.partition.allocate(name, name, job_class.usage, duration=job_class.duration)

    def _start(self, job_class: JobClass, job: Job, arrival: int) -> None:
        job_class.charge(self.now)
        self.order.change(self.now, job_class.queue_path, job_class.user, job_class.usage, 1)
        self.counters.use(self.now, job_class.usage, 1)
        if self.recorder:
            self.recorder.record_running(self.now, job_class, 1)
        self.alive.add(job.number)
        self.last_event = self.now
        if arrival in self.restarted:
            self.restarted.remove(arrival)
        else:
            self.counters.start(job, self.now - job.submit_time)
        self.running.start(self.now, job_class, job, arrival, is_evictable=self.reclaims)

    def _delay(self, job_class: JobClass, job: Job, arrival: int, decision: Decision | None = None) -> None:
        """Let a job wait, because of *decision* if it is the first waiting job of its class."""
        job_class.count_waiting(self.now)
        self._request_pending(job_class, job)
        job_class.waiting_jobs.append((arrival, job))
        if decision is not None:
            self._wait(job_class, decision)
        self.budgets.count(job_class.awaited[0])
        job_class.awaited[0].configured.add_impact(job.user.name, 1, 0)
        if self.recorder:
            self.recorder.record_waiting(self.now, job_class, 1)
        self.alive.add(job.number)
        self.counters.most_waiting = max(self.counters.most_waiting, self.waiting_jobs)

    def _request_pending(self, job_class: JobClass, job: Job) -> None:
        """Let a waiting job be pending, if a quota model or a reservation depends on it."""
        if self.reservations is not None:
            self.reservations.request(job_class, job)
        elif self.counts_pending:
            name = job.application_id
            # A pending request can only be granted with its own duration.
            self.partition.request(name, name, job_class.usage, duration=job_class.duration)

    def _reject(self, job_class: JobClass, job: Job) -> None:
        self.partition.remove(job.application_id)
        self.counters.reject(job_class, job)
        for violation in job_class.never:
            gauge = self.gauges.of(violation)
            gauge.configured.rejected += 1
            self.budgets.count(gauge)

    def _wait(self, job_class: JobClass, decision: Decision) -> None:
        """Let a denied job class wait for the first limit that denied it."""
        first = decision.violations[0]
        if self.reservations is not None and first.kind == RESERVED:
            self.reservations.wait(job_class, first)
            return
        gauge, amount = self.gauges.denying(decision.violations, self.partition)
        if not gauge.is_exact:
            self._find_rooms([gauge])
        job_class.wait_for(gauge, amount)

    def _advance(self, time: int) -> None:
        """End jobs and retry waiting jobs up to *time*, and set the clock."""
        while (second := self._next_event()) <= time:
            changes = second == self.timeline.next_change
            if changes:
                self._move_to(second - 1)
                self.budgets.close_periods()
            self._move_to(second)
            if changes and self.reservations is not None:
                self.reservations.follow_limits()
            self._retry(self._end_jobs())
            if changes:
                self.timeline.find_next_change()
            self._observe()
        self._move_to(time)

    def _move_to(self, second: int) -> None:
        """Set the clock, after a check of the thresholds if the last second is over."""
        if second > self.now:
            self.budgets.watch()
            self.timeline.now = second

    def _next_event(self) -> int:
        """Return the next second at which a job ends, or at which a change of limits or budgets may matter."""
        if not self.waiting_jobs and not self.budgets.follows_changes:
            # A job may run through a million changes, and none of them does anything.
            return self.running.next_end
        if self.timeline.next_change <= self.now:
            self.timeline.find_next_change()
        return min(self.running.next_end, self.timeline.next_change)

    def _end_jobs(self) -> Iterable[Gauge]:
        """Release the jobs that end now, and return the lowered gauges that job classes wait for."""
        relieved: dict[Gauge, None] = {}
        for job_class, job in self.running.end(self.now):
            self.last_event = self.now
            self.partition.remove(job.application_id)
            self.alive.remove(job.number)
            self._refund(job_class)
            if self.recorder:
                self.recorder.record_running(self.now, job_class, -1)
            relieved.update((gauge, None) for gauge, _ in job_class.gauges if gauge.waiting)
        return relieved

    def _refund(self, job_class: JobClass) -> None:
        """Refund a running job, which ends or is evicted."""
        job_class.refund(self.now)
        self.order.change(self.now, job_class.queue_path, job_class.user, job_class.usage, -1)
        self.counters.use(self.now, job_class.usage, -1)

    def _retry(self, relieved: Iterable[Gauge]) -> None:
        """Start the waiting jobs that fit now, in their order.

        Usage only grows during a round. Therefore a job class that does not fit a gauge will not fit later in the
        round, and a class that another limit denies is not requested again in the round. Evictions begin another round.
        """
        self._relieve(relieved)
        if self.relieved:
            self.order.refresh(self.now)
        while self.relieved:
            gauges, self.relieved = self.relieved, {}
            self._retry_round(gauges)
        if self.reservations is not None:
            self._end_round(self.reservations)

    def _end_round(self, reservations: JobReservations) -> None:
        self._fill(reservations)
        reservations.end_round()

    def _fill(self, reservations: JobReservations) -> None:
        """Let the first waiting jobs that are delayed only by queue quotas get the reservations that are free."""
        for job_class, gauge, amount in reservations.fill():
            self._end_waiting(job_class)
            self._remove_from_line(job_class)
            job_class.wait_for(gauge, amount)
            self._record_waiting(job_class)

    def _remove_from_line(self, job_class: JobClass) -> None:
        """Let a waiting class wait for no gauge, before it waits for another one."""
        arrival, waiting = job_class.waiting_jobs[0][0], job_class.awaited[0].waiting
        if arrival in waiting:
            waiting.remove(arrival)
        elif self.reservations is not None:
            self.reservations.remove(job_class)

    def _relieve(self, gauges: Iterable[Gauge]) -> None:
        """Retry the job classes that wait for some gauges, and for all that are not exact, in the next round."""
        self.relieved.update((gauge, None) for gauge in gauges)
        self.relieved.update(self.gauges.awaited_inexact())

    def _retry_round(self, relieved: Iterable[Gauge]) -> None:
        candidates: list[_Fitting] = []
        opened: list[Gauge] = []
        self.known_rooms = {gauge for gauge in relieved if not gauge.is_exact}
        for gauge in self.known_rooms:
            gauge.reported_free = MAX_QUANTITY
        if self.known_rooms:
            self._find_rooms(self.known_rooms)
        for gauge in relieved:
            if gauge.open():
                _add_candidate(gauge, candidates)
                opened.append(gauge)
        if self.reservations is not None:
            self.reservations.begin_round(relieved)
        while candidates:
            key, arrival, amount, _, gauge = heappop(candidates)
            # Another job class may have started jobs since, or older jobs of the class may have been evicted. A line
            # whose key has grown takes its new place.
            if arrival in gauge.waiting and gauge.fits(amount) and gauge.waiting.key(arrival) == key:
                if self.reservations is not None:
                    self.reservations.fill_before(key, arrival)
                self._retry_class(gauge.waiting.remove(arrival))
            _add_candidate(gauge, candidates)
        for gauge in opened:
            gauge.waiting.close()

    def _find_rooms(self, gauges: Collection[Gauge]) -> None:
        """Find upper bounds of what classes may need to fit the limits of quota models, or to reclaim their part."""
        limits = [(gauge.configured.key.kind, gauge.name, gauge.configured.key.resource or "") for gauge in gauges]
        for gauge, room in zip(gauges, self.partition.model_rooms(limits), strict=True):
            if room is not None:
                free = max(room, gauge.unused_guarantee) if self.reclaims else room
                gauge.reported_free = min(gauge.reported_free, free)

    def _follow_rooms(self, job_class: JobClass) -> None:
        """Note what a started job has left of the limits of quota models."""
        gauges = [gauge for gauge, _ in job_class.gauges if not gauge.is_exact and gauge.waiting]
        if gauges:
            self._find_rooms(gauges)

    def _retry_class(self, job_class: JobClass) -> None:
        """Request the oldest job of a class, and let the class wait again if jobs still wait."""
        self._end_waiting(job_class)
        if not (self.reclaims and job_class.is_within_guarantee) and (full := self._full_gauge(job_class)) is not None:
            # The request would be denied, and a denial by quota models takes long.
            job_class.wait_for(*full)
            if self.reservations is not None and full[0].is_of_queue:
                self.reservations.reserve(job_class)
        elif decision := self._request(job_class, job_class.waiting_jobs[0][1]):
            arrival, job = job_class.waiting_jobs.popleft()
            self._start(job_class, job, arrival)
            if job_class.waiting_jobs:
                job_class.wait_for(*job_class.awaited)
            self._follow_rooms(job_class)
            if self.reservations is not None:
                self._fill(self.reservations)
        else:
            self._wait(job_class, decision)
        self._record_waiting(job_class)

    def _full_gauge(self, job_class: JobClass) -> tuple[Gauge, int] | None:
        """Return the first gauge that one more job does not fit, with its amount."""
        if (full := job_class.full_gauge()) is not None:
            return full
        for gauge, amount in job_class.gauges:
            if gauge in self.known_rooms and not gauge.fits(amount):
                return gauge, amount
        return None

    def _end_waiting(self, job_class: JobClass) -> None:
        """Count what a class has waited, before its awaited limit changes."""
        job_class.count_waiting(self.now)
        if self.recorder:
            self.recorder.record_waiting(self.now, job_class, -len(job_class.waiting_jobs))

    def _record_waiting(self, job_class: JobClass) -> None:
        if self.recorder:
            self.recorder.record_waiting(self.now, job_class, len(job_class.waiting_jobs))

    # Evictions

    def _reclaim(self, job_class: JobClass, job: Job) -> Decision | None:
        """Evict the jobs that other groups have to return for a job, and allocate the job; None if none may be."""
        plan = self.partition.plan_reclaim(job.application_id, job_class.usage, duration=job_class.duration)
        if not plan:
            return None
        evicted = [self.running.evict(name) for name in self.partition.reclaim(plan)]
        owner = job_class.groups[0][0].name
        for one in evicted:
            self._refund(one.job_class)
            kind, borrower = _borrower_of(one.job_class)
            self.counters.reclaim(kind, borrower, owner, self.now - one.since)
            if self.recorder:
                self.recorder.record_running(self.now, one.job_class, -1)
            self._relieve(gauge for gauge, _ in one.job_class.gauges)
        decision = self._allocate(job_class, job)
        for one in evicted:
            self._delay_again(one)
        return decision

    def _delay_again(self, evicted: EvictableJob) -> None:
        """Let an evicted job wait in its former order; it is requested again in the next round."""
        job_class, arrival, job = evicted.job_class, evicted.arrival, evicted.job
        self.restarted.add(arrival)
        self._request_pending(job_class, job)
        job_class.count_waiting(self.now)
        if job_class.waiting_jobs:
            # A class waits at the position of its oldest job.
            gauge, amount = job_class.awaited
            self._remove_from_line(job_class)
            jobs = sorted([*job_class.waiting_jobs, (arrival, job)], key=itemgetter(0))
            job_class.waiting_jobs.clear()
            job_class.waiting_jobs.extend(jobs)
        else:
            job_class.waiting_jobs.append((arrival, job))
            gauge, amount = job_class.gauges[0]
        job_class.wait_for(gauge, amount)
        job_class.awaited[0].configured.add_impact(job.user.name, 1, 0)
        if self.recorder:
            self.recorder.record_waiting(self.now, job_class, 1)
        self.counters.most_waiting = max(self.counters.most_waiting, self.waiting_jobs)

    def _observe(self) -> None:
        if self.recorder:
            self.recorder.record_counts(self.now, len(self.running), self.waiting_jobs)
        if self.observer:
            self.observer(Progress(self.now, self.counters.submitted, len(self.running), self.waiting_jobs))

    def finish(self, until: int | None) -> None:
        """Continue without further submissions, to the second *until* or until no job runs and none will start."""
        while self._continues() and (until is None or self._next_event() <= until):
            self._advance(self._next_event())
        if until is not None:
            self._advance(until)
        for job_class in self.classes.values():
            job_class.count_waiting(self.now)
        self.gauges.lending.finish(self.now)
        self.counters.use(self.now, Resource(), 0)
        if self.recorder:
            self.recorder.finish(self.now)

    def _continues(self) -> bool:
        """Return whether a job runs, or may start when limits change or budgets are renewed."""
        if self.running.next_end < NEVER or not self.waiting_jobs:
            return self.running.next_end < NEVER
        return self._next_event() - self.last_event < _PATIENCE

    def report(self) -> Report:
        """Verify the partition, and return the report."""
        findings: tuple[str, ...] = ()
        try:
            self.partition.verify()
        except InvariantError as error:
            findings = error.findings
        limits = self.gauges.configured.values()
        budgets, crossings = self.budgets.finish()
        report = self.counters.report(
            still_waiting=self.waiting_jobs,
            end_time=self.now,
            cluster=self.cluster,
            limits=limits,
            lending=self.gauges.lending,
            findings=findings,
        )
        return replace(report, budgets=budgets, crossings=crossings)
