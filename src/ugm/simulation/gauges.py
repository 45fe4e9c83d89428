"""Gauges: the usage under each limit during a replay, and the waiting jobs that wait for the limit.

The partition makes all decisions; gauges only count. A *gauge* follows one limit on one resource, or on the number of
running applications, of one user, group or queue. The report shows the peak of each gauge. The replay uses gauges to
decide when to request a waiting job again: it cannot start before the limit that denied it has enough free.

Gauges of one limit of the configuration share a `ConfiguredLimit`: a user wildcard has one gauge for each user.

The limits of other quota models change with the requests and the usage of all groups. Their gauges, and those of
scheduled limits and of budgets, only know the free amount that the model or a denial has reported in the same round
(`Gauge.reported_free`). The report shows the highest scheduled maximum. The gauges of budgets do not count usage.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Final, NamedTuple, TypeAlias, final

from ugm.budgets.denial import KIND as BUDGET
from ugm.decision import Violation
from ugm.identity import TrackingType, UserGroup
from ugm.partition import AbstractPartition, Partition
from ugm.resources import MAX_QUANTITY, Resource
from ugm.simulation.job_order import JobOrder
from ugm.simulation.lending import LendingGroup, LendingGroups
from ugm.simulation.ordered_lines import Candidate, OrderedLines
from ugm.simulation.report import LimitSummary, UserImpact
from ugm.simulation.workload import Job
from ugm.tracking import EffectiveLimit

__all__ = ["ConfiguredLimit", "Gauge", "JobClass", "ReplayGauges", "TagItems", "is_tracked"]

#: The tags of a job, as a key.
TagItems: TypeAlias = tuple[tuple[str, str], ...]

#: The kinds of limits that do not depend on the usage of others.
_TRACKED: Final = frozenset(map(str, TrackingType))
#: Those of them that do not limit all users together.
_OWNERS: Final = _TRACKED - {TrackingType.QUEUE.value}

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
    impacts: dict[str, list[int]] = field(default_factory=dict)
    #: The number of jobs that can never start because of the limit.
    rejected: int = 0

    def add_impact(self, user: str, jobs: int, seconds: int) -> None:
        """Count jobs that the limit began to delay, and seconds for which it delayed jobs."""
        impact = self.impacts.setdefault(user, [0, 0])
        impact[0] += jobs
        impact[1] += seconds

    def summary(self) -> LimitSummary:
        """Return the summary of the limit for the report."""
        highest = max(self.gauges, key=lambda gauge: gauge.peak)
        impacts = [UserImpact(user, jobs, seconds) for user, (jobs, seconds) in self.impacts.items()]
        return LimitSummary(
            *self.key,
            place=self.place,
            limit=self.limit,
            peak=highest.peak,
            peak_name=highest.name,
            names=len(self.gauges),
            delayed_jobs=sum(impact.jobs for impact in impacts),
            delayed_seconds=sum(impact.seconds for impact in impacts),
            rejected=self.rejected,
            users=tuple(sorted(impacts, key=lambda impact: (-impact.seconds, -impact.jobs, impact.user))),
        )


@final
@dataclass(slots=True, eq=False)
class Gauge:
    """The usage of one user, group or queue under one limit.

    Invariant, except during a round of retries: the gauge has not enough free for any job class that waits for it.
    """

    configured: ConfiguredLimit
    #: The user, group or queue, or ``*`` for the group wildcard.
    name: str
    #: The job classes that wait for the gauge, by the arrival of their oldest waiting job.
    waiting: OrderedLines[JobClass]
    used: int = 0
    peak: int = 0
    #: The largest amount of a job that is charged to the gauge.
    largest: int = 0
    #: Whether the limit is that of users, groups or queues, so that the free amount is exact.
    is_exact: bool = True
    #: Whether the limit applies to every job that is charged. A group limit may not apply to users with own limits.
    is_always_enforced: bool = True
    #: The free amount that the last denial in this round reported, if the gauge is not exact.
    reported_free: int = MAX_QUANTITY
    #: What the group of the gauge is guaranteed, if it is the limit of such a group.
    group: LendingGroup | None = None
    #: Whether a job class whose groups have a guarantee has waited for this gauge.
    has_guarantee: bool = False
    #: If the gauge is not exact: all such gauges that job classes wait for; some may have no waiting class any more.
    awaited: dict[Gauge, None] | None = None

    def fits(self, amount: int) -> bool:
        """Return whether an additional amount is within the limit."""
        return amount <= self._free()

    @property
    def place(self) -> tuple[str, str | None, int]:
        """The queue, the resource and the amount of the limit."""
        return self.configured.key.queue_path, self.configured.key.resource, self.configured.limit

    @property
    def is_of_queue(self) -> bool:
        """True if the limit is that of a queue, for all users together."""
        return self.configured.key.kind == TrackingType.QUEUE

    @property
    def is_of_owner(self) -> bool:
        """True if the limit is that of a user or a group of the configuration."""
        return self.configured.key.kind in _OWNERS

    def open(self) -> bool:
        """Begin a search for waiting job classes that fit, like `OrderedLines.open`."""
        return self.waiting.open(self._free())

    def first_fitting(self) -> Candidate | None:
        """Return the first waiting job class that fits: its key, its position and the amount that it needs."""
        return self.waiting.first(self._free())

    @property
    def unused_guarantee(self) -> int:
        """The most that a class may need whose groups use no more than they are guaranteed; an upper bound."""
        if self.group is not None and self.group.guaranteed:
            return self.group.guaranteed - self.group.used
        return MAX_QUANTITY if self.has_guarantee else 0

    def _free(self) -> int:
        """Return the free amount; an upper bound of it if the gauge is not exact."""
        return self.configured.limit - self.used if self.is_exact else self.reported_free


@final
@dataclass(slots=True, eq=False, weakref_slot=True)
class JobClass:
    """Jobs that all limits treat equally: those of one user with the same groups, in one queue, with the same size.

    If one of them is denied, all others are, too. Therefore the replay requests only the oldest of them.
    """

    queue_path: str
    user: UserGroup
    usage: Resource
    #: Every gauge that a job is charged to, with the amount: those of the user, the group and the queue.
    gauges: list[tuple[Gauge, int]]
    #: Every group of other quota models that a job is charged to, with the amount.
    groups: list[tuple[LendingGroup, int]]
    #: The duration that each job promises; None without budgets, so that jobs of all durations are equal.
    duration: int | None = None
    #: The waiting jobs, each with the number of its arrival; the oldest is first.
    waiting_jobs: deque[tuple[int, Job]] = field(default_factory=deque)
    #: The gauge that the waiting jobs wait for, and the amount that each needs there; set while there are any.
    awaited: tuple[Gauge, int] = field(init=False)
    #: The second up to which the waiting time has been counted.
    counted_until: int = 0
    #: The limits that a single job exceeds, so that jobs of this class are rejected; empty if there are none.
    never: tuple[Violation, ...] = ()

    def charge(self, now: int) -> None:
        """Charge one running job to every gauge and group."""
        for gauge, amount in self.gauges:
            used = gauge.used = gauge.used + amount
            if used > gauge.peak:  # noqa: PLR1730 - a call of `max` takes longer
                gauge.peak = used
        for group, amount in self.groups:
            group.change(now, amount)

    def refund(self, now: int) -> None:
        """Refund one running job on every gauge and group."""
        for gauge, amount in self.gauges:
            gauge.used -= amount
        for group, amount in self.groups:
            group.change(now, -amount)

    @property
    def is_within_guarantee(self) -> bool:
        """True if the groups are guaranteed something, and use no more than that with one more job."""
        guaranteed = [(group, amount) for group, amount in self.groups if group.guaranteed]
        return bool(guaranteed) and all(group.used + amount <= group.guaranteed for group, amount in guaranteed)

    def full_gauge(self) -> tuple[Gauge, int] | None:
        """Return the first exact gauge that certainly denies one more job, with its amount."""
        for gauge, amount in self.gauges:
            if gauge.is_exact and gauge.is_always_enforced and amount > gauge.configured.limit - gauge.used:
                return gauge, amount
        return None

    def count_waiting(self, now: int) -> None:
        """Add the waiting time since the last call to the awaited limit; called before that limit changes."""
        if self.waiting_jobs and now > self.counted_until:
            self.awaited[0].configured.add_impact(
                self.user.name, 0, len(self.waiting_jobs) * (now - self.counted_until)
            )
        self.counted_until = now

    def wait_for(self, gauge: Gauge, amount: int) -> None:
        """Wait for a gauge until *amount* fits; requires a waiting job."""
        self.awaited = gauge, amount
        gauge.waiting.add(self.waiting_jobs[0][0], amount, self)
        if gauge.awaited is not None:
            gauge.awaited[gauge] = None
            gauge.has_guarantee = gauge.has_guarantee or any(group.guaranteed for group, _ in self.groups)


@final
@dataclass(slots=True, eq=False)
class ReplayGauges:
    """All gauges and configured limits of one replay, created on first use."""

    #: An empty partition, of which only the limits are queried.
    partition: AbstractPartition
    order: JobOrder
    #: Whether limits change by a schedule. Then the partition has the highest maxima.
    is_scheduled: bool = False
    #: Whether the limits of groups apply to all of their users.
    enforces_groups: bool = True
    _gauges: dict[tuple[str, str, str, str, str | None], Gauge] = field(default_factory=dict)
    #: The gauges that are not exact and that job classes wait for; some may have no waiting class any more.
    _awaited: dict[Gauge, None] = field(default_factory=dict)
    #: The gauges of queues.
    of_queues: list[Gauge] = field(default_factory=list)
    #: The limits by queue path, user and tags; they do not change during a replay.
    _limits: dict[tuple[str, UserGroup, TagItems], tuple[EffectiveLimit, ...]] = field(default_factory=dict)
    lending: LendingGroups = field(init=False)
    #: In the order of their first use.
    configured: dict[_LimitKey, ConfiguredLimit] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.lending = LendingGroups.of(self.partition)

    def of(self, violation: Violation) -> Gauge:
        """Return the gauge of the limit that a violation names."""
        # For a resource that no node has, there is no configured limit, but there are violations.
        return self._gauge(violation, violation.queue_path, violation.resource, violation.limit)

    def denying(self, violations: Sequence[Violation], partition: Partition) -> tuple[Gauge, int]:
        """Return the gauge to wait for after a denial, and the requested amount.

        This is the first limit that alone denies the request. Any node of a quota tree could delay a job, so it is the
        one of them with most room.

        Args:
            violations: the violations of the denial.
            partition: the partition that has denied the request.
        """
        first, room = _denier(violations, partition)
        gauge = self.of(first)
        if not gauge.is_exact:
            most = first.requested - 1
            gauge.reported_free = most if room is not None else min(first.limit - first.used, most)
        return gauge, first.requested

    @property
    def may_deny(self) -> bool:
        """False if every job would fit the queue limits."""
        return self.is_scheduled or any(gauge.is_exact and not gauge.fits(gauge.largest) for gauge in self.of_queues)

    def awaited_inexact(self) -> Mapping[Gauge, None]:
        """Return the gauges that are not exact and that job classes wait for."""
        for gauge in [gauge for gauge in self._awaited if not gauge.waiting]:
            del self._awaited[gauge]
        return self._awaited

    def limits_of(self, queue_path: str, user: UserGroup, tags: TagItems) -> tuple[EffectiveLimit, ...]:
        """Return all limits of the jobs of a user in a queue."""
        where = (queue_path, user, tags)
        if (limits := self._limits.get(where)) is None:
            limits = self._limits[where] = self._limits_of(user, queue_path, dict(tags))
        return limits

    def for_job(self, limits: Iterable[EffectiveLimit], usage: Resource) -> list[tuple[Gauge, int]]:
        """Return every gauge that a job with some limits is charged to, with the amount."""
        found = [
            (self._gauge(limit, limit.place, resource, most), 1 if resource is None else usage[resource])
            for limit in limits
            for resource, most in _amounts(limit)
            if resource is None or usage.get(resource)
        ]
        for gauge, amount in found:
            gauge.largest = max(gauge.largest, amount)
        return found

    def _limits_of(self, user: UserGroup, queue_path: str, tags: Mapping[str, str]) -> tuple[EffectiveLimit, ...]:
        """Return all limits of a user in a queue, which is created if it does not exist."""
        self.partition.adopt_application(_PROBE, user, queue_path, tags=tags)
        limits = tuple(limit for limit in self.partition.limits(_PROBE) if limit.kind != BUDGET)
        self.partition.remove(_PROBE)
        return limits

    def _gauge(self, limit: EffectiveLimit | Violation, place: str, resource: str | None, most: int) -> Gauge:
        # The violation of a budget has the name of the budget, and that of the owner of the account.
        name = limit.limit_name if limit.kind == BUDGET else limit.name
        subject = (limit.kind, limit.name, name, limit.queue_path, resource)
        if (gauge := self._gauges.get(subject)) is None:
            counts = is_tracked(limit)
            is_exact = counts and not self.is_scheduled
            # The limits of other quota models belong to no queue, so only the name distinguishes them.
            key = _LimitKey(limit.kind, limit.queue_path, limit.limit_name if counts else limit.name, resource)
            configured = self.configured.setdefault(key, ConfiguredLimit(key, place, most))
            is_always = self.enforces_groups or limit.kind != TrackingType.GROUP
            lines: OrderedLines[JobClass] = OrderedLines(self.order)
            gauge = Gauge(configured, name, lines, is_exact=is_exact, is_always_enforced=is_always)
            if not is_exact:
                gauge.awaited = self._awaited
                gauge.group = self.lending.group(place, name, resource)
            self._gauges[subject] = gauge
            configured.gauges.append(gauge)
            if limit.kind == TrackingType.QUEUE:
                self.of_queues.append(gauge)
        return gauge


def is_tracked(limit: EffectiveLimit | Violation) -> bool:
    """Return whether a limit is that of users, groups or queues, and not of another quota model."""
    return limit.kind in _TRACKED


def _denier(violations: Sequence[Violation], partition: Partition) -> tuple[Violation, int | None]:
    """Return the violation of a limit to wait for, and the largest amount that the limit allows; None if it is unknown.

    A request may exceed a quota by borrowing, so not every violated quota denies it by itself.
    """
    first = violations[0]
    if is_tracked(first):
        return first, None
    rooms = partition.model_rooms([(one.kind, one.name, one.resource or "") for one in violations])
    known = [(one, room) for one, room in zip(violations, rooms, strict=True) if room is not None]
    deniers = [(one, room) for one, room in known if room < one.requested]
    if not deniers:
        return first, None
    named = deniers[0][0]
    alike = [found for found in deniers if (found[0].kind, found[0].resource) == (named.kind, named.resource)]
    return max(alike, key=itemgetter(1))


def _amounts(limit: EffectiveLimit) -> Iterable[tuple[str | None, int]]:
    if limit.max_applications:
        yield None, limit.max_applications
    yield from (limit.max_resources or {}).items()
