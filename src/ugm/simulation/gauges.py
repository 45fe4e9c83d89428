"""Gauges: the usage under each limit during a replay, and the waiting jobs that wait for the limit.

The partition makes all decisions; gauges only count for the report. A *gauge* follows one limit on one resource, or on
the number of running applications, of one user, group or queue. Gauges of one limit of the configuration share a
`ConfiguredLimit`: a user wildcard has one gauge for each user.

The counters of a replay become its report.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any, Final, NamedTuple, TypeAlias, final

from ugm.configuration.schedules import NEVER
from ugm.decision import COUNTED_KINDS, EffectiveLimit, Violation
from ugm.families import SEPARATOR
from ugm.identity import TrackingType, UserGroup, ancestors
from ugm.model import BUDGET
from ugm.partition import Partition
from ugm.resources import Resource
from ugm.simulation.report import (
    GroupReclaim,
    JobRejection,
    LimitSummary,
    ResourceUse,
    UserImpact,
    WaitingTime,
)
from ugm.simulation.workload import Job

#: The kind of the violation by which a reservation denies a request.
RESERVATION: Final = "reservation"
#: The kinds of limits of users, groups and queues.
_TRACKED: Final = frozenset(map(str, TrackingType))
#: The id of a temporary application, of which the limits are queried.
_PROBE: Final = "probe"


class _LimitKey(NamedTuple):
    """The key of a configured limit: one resource, or the application count, of one name in one queue."""

    kind: str
    queue_path: str
    limit_name: str
    resource: str | None


@final
@dataclass(slots=True, eq=False)
class ConfiguredLimit:
    """One limit of the configuration, with the gauges of all its subjects and the jobs that it delayed."""

    key: _LimitKey
    place: str
    limit: int
    #: In the order of their first use.
    gauges: list[Gauge] = field(default_factory=list)
    #: The number of delayed jobs and the seconds for which they waited, by user.
    delayed: Counter[str] = field(default_factory=Counter)
    seconds: Counter[str] = field(default_factory=Counter)
    #: The number of jobs that can never start because of the limit.
    rejected: int = 0

    def summary(self, now: int) -> LimitSummary:
        """Return the summary of the limit for the report."""
        highest = max(self.gauges, key=lambda gauge: gauge.peak)
        if highest.guaranteed is not None:
            highest.count_borrowed(now)
        users = self.delayed | self.seconds
        impacts = [UserImpact(user, self.delayed[user], self.seconds[user]) for user in users]
        return LimitSummary(
            *self.key,
            place=self.place,
            limit=self.limit,
            peak=highest.peak,
            peak_name=highest.name,
            names=len(self.gauges),
            delayed_jobs=self.delayed.total(),
            delayed_seconds=self.seconds.total(),
            rejected=self.rejected,
            users=tuple(sorted(impacts, key=lambda impact: (-impact.seconds, -impact.jobs, impact.user))),
            guaranteed=highest.guaranteed,
            borrowed=highest.borrowed,
        )


@final
@dataclass(slots=True, eq=False)
class Gauge:
    """The usage of one user, group or queue under one limit."""

    configured: ConfiguredLimit
    #: The user, group or queue, or ``*`` for the group wildcard.
    name: str
    #: Whether the free amount is known: the limit is fixed, and depends on nothing but the usage. A request for any
    #: variant of a resource that waits for one of them may get another one.
    is_exact: bool
    #: The part of the limit that a group of a quota model does not borrow; None for other limits.
    guaranteed: int | None = None
    used: int = 0
    peak: int = 0
    #: The amounts beyond the guarantee times seconds, up to a second.
    borrowed: int = 0
    _counted_until: int = 0
    #: The job classes that wait for the gauge, by the amount that each job needs.
    waiting: dict[int, dict[JobClass, None]] = field(default_factory=dict)

    def count_borrowed(self, now: int) -> None:
        """Count what was borrowed since the last call, before the usage changes at a second."""
        self.borrowed += max(self.used - (self.guaranteed or 0), 0) * (now - self._counted_until)
        self._counted_until = now

    def with_room(self) -> list[JobClass]:
        """Return the classes that wait for the gauge and for which it is known to have room."""
        free = self.configured.limit - self.used
        found = [classes for amount, classes in self.waiting.items() if amount <= free] if self.is_exact else []
        return [*chain.from_iterable(found)]


@final
@dataclass(slots=True, eq=False)
class JobClass:
    """Jobs that all limits treat equally: those of one user, in one queue, with the same tags and size."""

    queue_path: str
    user: UserGroup
    usage: Resource
    #: The duration that each job promises; None if they promise none.
    duration: int | None = None
    #: Every gauge that a job is charged to, with the amount.
    gauges: list[tuple[Gauge, int]] = field(default_factory=list)
    #: The same for the guarantees of its queue and of those above.
    guarantees: list[tuple[Gauge, int]] = field(default_factory=list)
    #: The waiting jobs by application id.
    waiting: dict[str, None] = field(default_factory=dict)
    #: The gauge that the jobs wait for, None if none waits; and the amount that each needs.
    awaited: Gauge | None = None
    _needed: int = 0
    #: The second up to which the waiting time has been counted.
    counted_until: int = 0
    #: The limits that a single job exceeds, so that jobs of this class are rejected; empty if there are none.
    never: tuple[Violation, ...] = ()

    @property
    def group(self) -> Gauge | None:
        """The gauge of its group that may lend and borrow; None if it has no such group."""
        return next((gauge for gauge, _ in self.gauges if gauge.guaranteed is not None), None)

    @property
    def is_within_guarantee(self) -> bool:
        """True if its group is guaranteed something, and uses no more than that with one more job."""
        name = None if self.group is None else self.group.name
        found = [
            gauge.used + amount <= gauge.guaranteed
            for gauge, amount in self.gauges
            if gauge.guaranteed and gauge.name == name
        ]
        return bool(found) and all(found)

    @property
    def may_preempt(self) -> bool:
        """True if a queue that is guaranteed something uses no more than that with one more job."""
        return any(gauge.used + amount <= (gauge.guaranteed or 0) for gauge, amount in self.guarantees)

    def count_waiting(self, now: int) -> None:
        """Add the waiting time since the last call to the awaited limit."""
        if self.awaited is not None and now > self.counted_until:
            self.awaited.configured.seconds[self.user.name] += len(self.waiting) * (now - self.counted_until)
        self.counted_until = now

    def wait_for(self, gauge: Gauge, amount: int) -> None:
        """Wait for a gauge in place of the former one."""
        self.stop_waiting()
        self.awaited, self._needed = gauge, amount
        gauge.waiting.setdefault(amount, {})[self] = None

    def stop_waiting(self) -> None:
        """Wait for no gauge."""
        if self.awaited is not None:
            waiting = self.awaited.waiting
            del waiting[self._needed][self]
            if not waiting[self._needed]:
                del waiting[self._needed]
        self.awaited = None


#: Gauges with the resource that each counts; None counts the applications.
_Counted: TypeAlias = "list[tuple[Gauge, str | None]]"


@final
@dataclass(slots=True, eq=False)
class ReplayGauges:
    """All gauges and configured limits of one replay, created on first use."""

    #: Without applications, with the highest limits of a schedule, and with the limits of groups for all users.
    partition: Partition
    #: Whether limits change by a schedule.
    is_scheduled: bool
    #: In the order of their first use.
    configured: dict[_LimitKey, ConfiguredLimit] = field(default_factory=dict)
    _gauges: dict[tuple[str, str, str, str, str | None], Gauge] = field(default_factory=dict)
    #: The gauges of limits and of guarantees, by the queue, user, tags and resources of jobs.
    _charged: dict[tuple[Any, ...], tuple[_Counted, _Counted]] = field(default_factory=dict)
    #: By queue, each resource that it is guaranteed.
    _guarantees: dict[str, dict[str, Gauge]] = field(default_factory=dict)

    def of(self, violation: Violation) -> tuple[Gauge, int]:
        """Return the gauge of the limit that a violation names, and the requested amount."""
        if violation.kind == RESERVATION:
            # All reserved jobs of a queue are one line of the report.
            violation = violation._replace(name="", limit_name="")
        # For a resource that no node has, there is no configured limit, but there are violations.
        gauge = self._gauge(violation, violation.queue_path, violation.resource, violation.limit)
        return gauge, violation.requested

    def connect(self, job_class: JobClass, tags: tuple[tuple[str, str], ...]) -> None:
        """Find every gauge that the jobs of a class are charged to, with the amount."""
        usage = job_class.usage
        resources = tuple([name for name, amount in usage.items() if amount])
        key = job_class.queue_path, job_class.user, tags, resources
        # Most classes differ from others only in their amounts.
        found = self._charged.get(key)
        if found is None:
            found = self._charged[key] = self._gauges_for(*key)
        job_class.gauges, job_class.guarantees = (
            [(gauge, 1 if resource is None else usage[resource]) for gauge, resource in gauges] for gauges in found
        )

    def _gauges_for(
        self, queue_path: str, user: UserGroup, tags: tuple[tuple[str, str], ...], resources: Collection[str]
    ) -> tuple[_Counted, _Counted]:
        """Return the gauges of all limits and guarantees that count some resources."""
        self.partition.adopt_application(_PROBE, user, queue_path, tags=dict(tags))
        limits = self.partition.limits(_PROBE)
        guarantees = [item for path in ancestors(queue_path) for item in self._guarantees_of(path).items()]
        self.partition.remove(_PROBE)
        charged: _Counted = []
        for limit in limits:
            if limit.kind == BUDGET or limit.kind.partition(" ")[0] in COUNTED_KINDS:
                continue
            guaranteed: Mapping[str, int] = limit.guaranteed or {}
            if limit.max_applications and limit.kind in _TRACKED:
                charged.append((self._gauge(limit, limit.place, None, limit.max_applications), None))
            for resource, most in (limit.max_resources or {}).items():
                if resource in resources:
                    gauge = self._gauge(limit, limit.place, resource, most)
                    if limit.guaranteed is not None:
                        gauge.guaranteed = guaranteed.get(resource, 0)
                    charged.append((gauge, resource))
        return charged, [(gauge, resource) for resource, gauge in guarantees if resource in resources]

    def _guarantees_of(self, path: str) -> dict[str, Gauge]:
        if path not in self._guarantees:
            queue = self.partition.queue(path)
            found = self._guarantees[path] = {}
            for resource, amount in ((queue and queue.guaranteed) or Resource()).items():
                guarantee = ConfiguredLimit(_LimitKey(TrackingType.QUEUE, path, path, resource), path, amount)
                found[resource] = Gauge(guarantee, path, is_exact=False, guaranteed=amount)
        return self._guarantees[path]

    def _gauge(self, limit: EffectiveLimit | Violation, place: str, resource: str | None, most: int) -> Gauge:
        # The violation of a budget has the name of the budget, and that of the owner of the account.
        name = limit.limit_name if limit.kind == BUDGET else limit.name
        subject = (limit.kind, limit.name, name, limit.queue_path, resource)
        if (gauge := self._gauges.get(subject)) is None:
            is_tracked = limit.kind in _TRACKED
            # The limits of other quota models belong to no queue, so only the name distinguishes them.
            key = _LimitKey(limit.kind, limit.queue_path, limit.limit_name if is_tracked else limit.name, resource)
            configured = self.configured.setdefault(key, ConfiguredLimit(key, place, most))
            is_exact = is_tracked and not self.is_scheduled and SEPARATOR not in (resource or "")
            gauge = self._gauges[subject] = Gauge(configured, name, is_exact)
            configured.gauges.append(gauge)
        return gauge

    def limits(self, now: int) -> tuple[LimitSummary, ...]:
        """Return the effect of every limit, the largest first."""
        # The name of a limit makes the order unique.
        named = sorted(self.configured.values(), key=lambda one: (one.key.queue_path, *map(str, one.key)))
        found = (limit.summary(now) for limit in named)
        return tuple(sorted(found, key=lambda one: (-one.delayed_seconds, -one.delayed_jobs)))


#: Equal jobs: the user, the queue, the usage if they were placed, and the reason.
_Rejected: TypeAlias = tuple[str, str, Resource | None, str]


def _numbers() -> array[int]:
    """Return an empty array of numbers, with 8 bytes for each: logs have millions of jobs."""
    return array("q")


@final
@dataclass(slots=True, eq=False)
class ReplayCounters:
    """Counts and waiting times of one replay."""

    #: The number of submitted jobs, and the most waiting jobs at any time.
    submitted: int = 0
    most_waiting: int = 0
    #: The waiting times of started jobs; a job counts for its user and each of its groups.
    _users: defaultdict[str, array[int]] = field(default_factory=partial(defaultdict, _numbers))
    _groups: defaultdict[str, array[int]] = field(default_factory=partial(defaultdict, _numbers))
    #: The numbers of rejected jobs that are equal.
    _rejections: defaultdict[_Rejected, array[int]] = field(default_factory=partial(defaultdict, _numbers))
    #: The seconds that evicted jobs have lost, by kind, borrower and owner.
    _reclaims: defaultdict[tuple[str, str, str], array[int]] = field(default_factory=partial(defaultdict, _numbers))
    #: The usage of the ended jobs by resource, in amounts times seconds.
    _areas: Counter[str] = field(default_factory=Counter)
    #: The waiting times in the log.
    _logged: array[int] = field(default_factory=_numbers)
    #: The second at which the first job started.
    _first: int = NEVER

    def start(self, job: Job, wait: int) -> None:
        """Count a started job and its waiting time."""
        self._first = min(self._first, job.submit_time + wait)
        if job.logged_wait is not None:
            self._logged.append(job.logged_wait)
        self._users[job.user.name].append(wait)
        for group in job.user.groups:
            self._groups[group].append(wait)

    def end(self, usage: Resource, seconds: int) -> None:
        """Count the usage of a job that has run for some seconds."""
        for name, amount in usage.items():
            self._areas[name] += amount * seconds

    def reject(self, job: Job, queue_path: str, usage: Resource | None, reason: str) -> None:
        """Count a job that can never start, with its equals."""
        self._rejections[job.user.name, queue_path, usage, reason].append(job.number)

    def evict(self, borrower: JobClass, owner: JobClass, seconds: int) -> None:
        """Count an evicted job, and the seconds for which it has been running."""
        groups = borrower.group, owner.group
        if groups[0] is None or groups[1] is None:
            key = TrackingType.QUEUE.value, borrower.queue_path, owner.queue_path
        else:
            key = groups[0].configured.key.kind, groups[0].name, groups[1].name
        self._reclaims[key].append(seconds)

    def figures(self, cluster: Resource | None, now: int) -> dict[str, Any]:
        """Return the fields of a `Report` that the counters determine at the end of the replay."""
        available: Mapping[str, int] = cluster or {}
        use = [ResourceUse(name, area, now - self._first, available.get(name)) for name, area in self._areas.items()]
        rejections = [JobRejection(*equal, len(jobs), jobs[0]) for equal, jobs in self._rejections.items()]
        reclaims = [GroupReclaim(*groups, len(lost), sum(lost)) for groups, lost in self._reclaims.items()]
        return {
            "submitted": self.submitted,
            "most_waiting": self.most_waiting,
            "waiting": WaitingTime.of([*chain.from_iterable(self._users.values())]),
            "logged": WaitingTime.of(self._logged) if self._logged else None,
            "users": _by_name(self._users),
            "utilization": tuple(sorted(use, key=lambda one: one.resource)),
            "groups": _by_name(self._groups),
            "rejections": tuple(sorted(rejections, key=lambda one: (-one.jobs, one.first_job))),
            "reclaims": tuple(sorted(reclaims, key=lambda one: (-one.jobs, one.kind, one.borrower, one.owner))),
        }


def _by_name(waits: Mapping[str, Sequence[int]]) -> tuple[tuple[str, WaitingTime], ...]:
    figures = [(name, WaitingTime.of(waited)) for name, waited in waits.items()]
    return tuple(sorted(figures, key=lambda item: (-item[1].total, item[0])))
