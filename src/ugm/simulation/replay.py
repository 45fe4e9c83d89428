"""The replay of a workload under a configuration, with a virtual clock.

A job waits only for the partition: its placement rules, the quotas of its queues, the limits of its users and groups,
its quota models and budgets, and the size of the cluster if it is given. Without a cluster size, the cluster is
unlimited. The waiting times in the report are those that the partition causes. `ugm.simulation.player` has the loop.

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
(`ugm.Partition.plan_reclaim`). The evicted jobs wait again in their former order, and start again with their whole run
time.

Limits that change by a schedule and budgets follow the calendar: the workload starts at a given second since 1970. Each
job promises the run time that its user requested, or its run time if that is unknown. When limits change or budgets are
renewed, the partition wakes waiting jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final, Literal, NamedTuple, final

from ugm.arguments import require_callable, require_instance
from ugm.budgets import Budgets
from ugm.budgets.kind import declared_budget
from ugm.configuration import PartitionConfig
from ugm.configuration.family_rules import normal_config
from ugm.configuration.schedules import NEVER
from ugm.decision import Decision
from ugm.errors import InvariantError
from ugm.families import Families
from ugm.identity import TrackingType
from ugm.model import BUDGET, QuotaModel
from ugm.partition import Partition
from ugm.partition.config.compiled import highest_limits
from ugm.queues import Placement
from ugm.resources import Resource
from ugm.simulation.budget_log import BudgetLog
from ugm.simulation.gauges import Gauge, JobClass, ReplayCounters, ReplayGauges
from ugm.simulation.orders import JobOrderName, PeriodicShares, ordered, require_order, reserving
from ugm.simulation.player import Player, RunningJob, Timeline
from ugm.simulation.recorder import Recorder
from ugm.simulation.report import Report
from ugm.simulation.workload import Job

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
    if observer is not None:
        require_callable("observer", observer)
    if recorder is not None:
        require_instance("recorder", recorder, Recorder)
    replayed, given = reserving(ordered(config, require_order(order)), reserves=reserves), list(models())
    if order == "share":
        given.append(PeriodicShares(normal_config(config)))
    budgets = [*map(declared_budget, config.ugm.budgets)]
    budgets += [budget for model in given if isinstance(model, Budgets) for budget in model.budgets]
    if cluster is not None:
        cluster = Families(config.ugm.families).normal(cluster, argument="cluster")
    timeline = Timeline(start, config, budgets)
    partition = Partition(replayed, cluster=cluster, models=given, group_limits=group_limits, clock=timeline.second)
    log = BudgetLog(partition, timeline, bool(budgets), bool(config.ugm.thresholds.shares))
    lasting = highest_limits(replace(replayed, ugm=replace(replayed.ugm, budgets=())))
    gauges = ReplayGauges(Partition(lasting, cluster=cluster, models=models()), timeline.is_scheduled)
    parts = _Parts(log, gauges, observer, recorder)
    replay = _Replay(partition, jobs, timeline, parts, reserves=reserves, reclaims=reclaims)
    replay.run(until)
    return replay.report(cluster)


class _Parts(NamedTuple):
    """The parts of a replay that record what happens, and the observer."""

    budgets: BudgetLog
    gauges: ReplayGauges
    observer: Callable[[Progress], None] | None
    recorder: Recorder | None


@final
class _Replay(Player):
    """A replay that records what happens."""

    def __init__(
        self,
        partition: Partition,
        jobs: Iterable[Job],
        timeline: Timeline,
        parts: _Parts,
        *,
        reserves: bool,
        reclaims: bool,
    ) -> None:
        super().__init__(partition, jobs, timeline, promises=reserves or parts.budgets.has_budgets)
        self._timeline: Final = timeline
        self._budgets, self._gauges, self._observer, self._recorder = parts
        self._reserves: Final = reserves
        self._reclaims: Final = reclaims
        self._counters: Final = ReplayCounters()
        #: The last second at which a job started or ended.
        self._last_event = 0
        #: The jobs that wait after an eviction.
        self._evicted: Final[set[str]] = set()
        #: The gauges that ended jobs have lowered since the last round.
        self._lowered: Final[dict[Gauge, None]] = {}
        #: The waiting classes of groups with guarantees, each with the number of changes at its last denied reclaim.
        self._entitled: Final[dict[JobClass, int]] = {}
        self._changes = 0

    # Time

    def run(self, until: int | None) -> None:
        """Replay all jobs, to the second *until*, or until no job runs and none will start."""
        last = NEVER if until is None else until
        while self._continues() and (second := self.next_event()) <= last:
            self.go_to(second)
        if until is not None:
            self.move_to(until)
        for job_class in dict.fromkeys(job_class for _, job_class in self.waiting.values()):
            job_class.count_waiting(self.now)
        self._counters.use(self.now, Resource(), 0)
        if self._recorder:
            self._recorder.finish(self.now)

    def _continues(self) -> bool:
        """Return whether a job arrives or runs, or may start when limits change or budgets are renewed."""
        if self.running or self.next_job is not None:
            return True
        return bool(self.waiting) and self.next_event() - self._last_event < _PATIENCE

    def next_change(self) -> int:
        """Return the second at which limits change or budgets are renewed next, if that may matter."""
        if not self._counters.submitted or not (self.waiting or self._budgets.follows_changes):
            # A job may run through a million changes, and none of them does anything.
            return NEVER
        if self._timeline.next_change <= self.now:
            self._timeline.find_next_change()
        return self._timeline.next_change

    def go_to(self, second: int) -> None:
        """Let happen what happens first at the second of the next event."""
        if second == self.next_change():
            self.move_to(second - 1)
            self._budgets.close_periods()
        super().go_to(second)

    def move_to(self, second: int) -> None:
        """Set the clock, after a check of the thresholds if the last second is over."""
        if second > self.now:
            self._budgets.watch()
            super().move_to(second)

    def end_round(self) -> None:
        """Follow the guarantees and the limits after a submission or the end of jobs."""
        while self._entitled and self._reclaim_one():
            self.start_waiting()
        for gauge in self._lowered:
            if gauge.has_room:
                for job_class in gauge.with_room():
                    self._find_limit(job_class)
        self._lowered.clear()
        if self._recorder:
            self._recorder.record_counts(self.now, len(self.running), len(self.waiting))
        if self._observer:
            self._observer(Progress(self.now, self._counters.submitted, len(self.running), len(self.waiting)))

    def start_waiting(self) -> None:
        """Start the waiting jobs that fit now.

        Each of them waits for a limit that has denied it, so nothing can start while none of these limits has room.
        """
        if self._reserves or self._gauges.are_any_unknown or any(gauge.has_room for gauge in self._lowered):
            super().start_waiting()

    # Jobs

    def submit(self, job: Job) -> None:
        """Place and request the next job."""
        if self._recorder and not self._counters.submitted:
            self._recorder.origin = self.now
        self._counters.submitted += 1
        super().submit(job)

    def made_class(self, tags: tuple[tuple[str, str], ...], job_class: JobClass) -> None:
        """Find the limits of a class."""
        job_class.gauges = self._gauges.for_class(job_class, tags)

    def started(self, running: RunningJob) -> None:
        """Charge a job that starts."""
        job, job_class = running.job, running.job_class
        self._change_usage(job_class, 1)
        if job.application_id in self._evicted:
            self._evicted.remove(job.application_id)
        else:
            self._counters.start(job, self.now - job.submit_time)

    def ended(self, running: RunningJob) -> None:
        """Refund a job that has ended or was evicted."""
        self._change_usage(running.job_class, -1)
        self._lowered.update((gauge, None) for gauge, _ in running.job_class.gauges if gauge.waiting)

    def _change_usage(self, job_class: JobClass, jobs: int) -> None:
        now = self._last_event = self.now
        self._changes += 1
        for gauge, amount in job_class.gauges:
            gauge.change(now, jobs * amount)
        self._counters.use(now, job_class.usage, jobs)
        if self._recorder:
            self._recorder.record_running(now, job_class, jobs)

    def wait(self, job: Job, job_class: JobClass, decision: Decision | None) -> None:
        """Let a job be pending, and have the reservation of its queues if it is free."""
        super().wait(job, job_class, decision)
        name = job.application_id
        # A pending request reserves when it is denied.
        if self._reserves and decision is not None and name in self.waiting and self.allocate(name, job_class):
            self.start(name, *self.stop_waiting(name))

    def delayed(self, job: Job, job_class: JobClass, decision: Decision | None) -> None:
        """Count a job that begins to wait."""
        job_class.count_waiting(self.now)
        if job_class.awaited is None:
            denied = self._check(job.application_id, job_class) if decision is None else decision
            self._budgets.deny(denied.violations)
            # An evicted job may fit, and start in the same round.
            violations = denied.violations
            job_class.wait_for(self._gauges.of(violations[0]) if violations else job_class.gauges[0])
        assert job_class.awaited is not None  # noqa: S101 - it waits
        gauge = job_class.awaited[0]
        self._budgets.count(gauge)
        gauge.configured.add_impact(job.user.name, 1, 0)
        self._counters.most_waiting = max(self._counters.most_waiting, len(self.waiting) + 1)
        if self._reclaims and job_class.group is not None:
            self._entitled.setdefault(job_class, -1)

    def _check(self, name: str, job_class: JobClass) -> Decision:
        return self.partition.check(name, job_class.usage, duration=job_class.duration)

    def _find_limit(self, job_class: JobClass) -> None:
        """Let a class wait for the limit that denies it now."""
        violations = self._check(next(iter(job_class.waiting)), job_class).violations
        if violations:
            job_class.count_waiting(self.now)
            job_class.wait_for(self._gauges.of(violations[0]))

    def resumed(self, job_class: JobClass) -> None:
        """Count what a class has waited before one of its jobs starts."""
        job_class.count_waiting(self.now)
        if len(job_class.waiting) == 1:
            job_class.wait_for(None)
            self._entitled.pop(job_class, None)

    def rejected(self, job: Job, job_class: JobClass, decision: Decision | None) -> None:
        """Count a job that can never start, or may not even be pending."""
        violations = job_class.never if decision is None else decision.violations
        self._counters.reject(job, job_class.queue_path, job.usage, "; ".join(map(str, violations)))
        for violation in violations:
            gauge, _ = self._gauges.of(violation)
            gauge.configured.rejected += 1
            self._budgets.count(gauge)

    def unplaced(self, job: Job, placement: Placement) -> None:
        """Count a job that no placement rule placed."""
        reason = f"no queue: {'; '.join(map(str, placement.trials))}"
        self._counters.reject(job, job.queue, None, reason)

    # Evictions

    def _reclaim_one(self) -> bool:
        """Evict the jobs that other groups have to return for the first job that may reclaim; False if none may."""
        for job_class, failed_at in self._entitled.items():
            assert job_class.awaited is not None  # noqa: S101 - it waits
            limit = job_class.awaited[0].configured.key
            if failed_at == self._changes or limit.kind in _OTHERS or not job_class.is_within_guarantee:
                continue
            name = next(iter(job_class.waiting))
            plan = self.partition.plan_reclaim(name, job_class.usage, duration=job_class.duration)
            if plan:
                self._evict(name, job_class, self.partition.reclaim(plan))
                return True
            self._entitled[job_class] = self._changes
        return False

    def _evict(self, name: str, job_class: JobClass, names: Iterable[str]) -> None:
        """Start a job in place of others, which wait again."""
        evicted = [self.evict(one) for one in names]
        for one in evicted:
            self._counters.reclaim(one.job_class.group, job_class.group, self.now - one.began)
        if self.allocate(name, job_class):
            self.start(name, *self.stop_waiting(name))
        for one in evicted:
            self._evicted.add(one.job.application_id)
            self.wait(one.job, self.class_of(one.job_class.queue_path, one.job), None)

    # Results

    def report(self, cluster: Resource | None) -> Report:
        """Verify the partition, and return the report."""
        findings: tuple[str, ...] = ()
        try:
            self.partition.verify()
        except InvariantError as error:
            findings = error.findings
        budgets, crossings = self._budgets.finish()
        return Report(
            **self._counters.figures(cluster),
            decisions=self.decisions,
            still_waiting=len(self.waiting),
            end_time=self.now,
            limits=self._gauges.limits(),
            lending=self._gauges.lending(self.now),
            budgets=budgets,
            crossings=crossings,
            findings=findings,
        )
