"""How far each limit is used during a replay, and which held jobs stand in front of it.

The partition decides; nothing here grants anything. A *gauge* follows one limit on one resource, or on running
applications, of one user, group or queue. It serves the report (how near the usage came to the limit), and it
tells the replay when to ask again: a held job cannot start before the limit that stands against it has room.

Gauges of one limit of the configuration share a `ConfiguredLimit`: a user wildcard has one gauge for each user.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple, final

from ugm.decision import Violation
from ugm.identity import UserGroup
from ugm.partition import Partition
from ugm.resources import Resource
from ugm.simulation.first_fit import FirstFit
from ugm.simulation.report import LimitSummary, UserImpact
from ugm.simulation.workload import Job
from ugm.tracking import EffectiveLimit

__all__ = ["ConfiguredLimit", "Gauge", "Gauges", "JobClass"]

#: The application that is asked what would hold for it.
_ANYBODY: Final = "anybody"


class _RuleKey(NamedTuple):
    """One amount in the configuration: one resource, or the application count, of one name in one queue."""

    kind: str
    queue_path: str
    limit_name: str
    resource: str | None


@final
class ConfiguredLimit:
    """One amount in the configuration, with the gauges of everybody whom it limits and the jobs that it held."""

    __slots__ = ("gauges", "hits", "key", "limit", "place", "rejected")

    #: In the order in which the replay met them.
    gauges: list[Gauge]
    #: User to the number of jobs held and the seconds that they were held, by this limit.
    hits: dict[str, list[int]]

    def __init__(self, key: _RuleKey, place: str, limit: int) -> None:
        self.key: Final = key
        self.place: Final = place
        self.limit: Final = limit
        self.gauges = []
        self.hits = {}
        self.rejected = 0

    def book(self, user: str, jobs: int, seconds: int) -> None:
        """Add jobs that the limit began to hold, and seconds for which it held jobs."""
        hit = self.hits.setdefault(user, [0, 0])
        hit[0] += jobs
        hit[1] += seconds

    def figures(self) -> LimitSummary:
        """Return what the report says about the limit."""
        highest = max(self.gauges, key=lambda gauge: gauge.peak)
        hits = [UserImpact(user, jobs, seconds) for user, (jobs, seconds) in self.hits.items()]
        return LimitSummary(
            *self.key,
            place=self.place,
            limit=self.limit,
            peak=highest.peak,
            peak_name=highest.name,
            names=len(self.gauges),
            held_jobs=sum(hit.jobs for hit in hits),
            held_seconds=sum(hit.seconds for hit in hits),
            rejected=self.rejected,
            users=tuple(sorted(hits, key=lambda hit: (-hit.seconds, -hit.jobs, hit.user))),
        )


@final
class Gauge:
    """The usage of one user, group or queue under one limit.

    Invariant, outside of a round of retries: the gauge has no room for any kind that is waiting for it.
    """

    __slots__ = ("limit", "name", "peak", "rule", "used", "waiting")

    rule: ConfiguredLimit
    #: Whose usage it is: the user, group or queue, ``*`` for the group wildcard.
    name: str
    limit: int
    used: int
    peak: int
    #: Kinds with held jobs, in the order in which the first of these came.
    waiting: FirstFit[JobClass]

    def __init__(self, rule: ConfiguredLimit, name: str) -> None:
        self.rule = rule
        self.name = name
        self.limit = rule.limit
        self.used = self.peak = 0
        self.waiting = FirstFit()

    def has_room(self, amount: int) -> bool:
        """Whether so much more would be within the limit."""
        return self.used + amount <= self.limit

    def next_in_line(self) -> tuple[int, int] | None:
        """Return the position of the first kind that the gauge has room for, and the amount that it needs."""
        return self.waiting.first(self.limit - self.used)


@final
class JobClass:
    """Jobs that no limit can tell apart: of one user with the same groups, in one queue, asking the same.

    If one of them is denied, so are all. The replay asks for the first and lets the others stand behind it.
    """

    __slots__ = ("__weakref__", "gauges", "held", "last_booked", "never", "queue_path", "usage", "user", "watched")

    #: Every gauge that the usage counts on and the amount that it takes there: the user's, the group's, the queue's.
    gauges: tuple[tuple[Gauge, int], ...]
    #: With the order of their arrival, which is first come first served.
    held: deque[tuple[int, Job]]
    #: The gauge that stands against the held jobs, and the amount that each needs there; set while jobs are held.
    watched: tuple[Gauge, int]
    #: Up to which second the watched rule has been booked for holding.
    last_booked: int
    #: The limits that a job of this kind exceeds by itself; empty unless they are why such jobs are rejected.
    never: tuple[Violation, ...]

    def __init__(self, queue_path: str, user: UserGroup, usage: Resource, gauges: Iterable[tuple[Gauge, int]]) -> None:
        self.queue_path: Final = queue_path
        self.user: Final = user
        self.usage: Final = usage
        self.gauges = tuple(gauges)
        self.held = deque()
        self.last_booked = 0
        self.never = ()

    def charge(self) -> None:
        """Count one more running job on every gauge."""
        for gauge, amount in self.gauges:
            gauge.used += amount
            gauge.peak = max(gauge.peak, gauge.used)

    def refund(self) -> None:
        """Count one running job less on every gauge."""
        for gauge, amount in self.gauges:
            gauge.used -= amount

    def book(self, now: int) -> None:
        """Book the time since the last booking on the limit that held the jobs for it, before that changes."""
        if self.held and now > self.last_booked:
            self.watched[0].rule.book(self.user.name, 0, len(self.held) * (now - self.last_booked))
        self.last_booked = now

    def wait_for(self, gauge: Gauge, amount: int) -> None:
        """Stand before a gauge until it has room for *amount*; there must be a held job."""
        self.watched = gauge, amount
        gauge.waiting.add(self.held[0][0], amount, self)


@final
class Gauges:
    """All gauges and rules of one replay, made as jobs meet them.

    Args:
        partition: asked which limits there are, never for usage: one of its own, in which nothing ever runs.
    """

    __slots__ = ("_gauges", "_limits", "_partition", "rules")

    #: In the order in which jobs met them.
    rules: dict[_RuleKey, ConfiguredLimit]

    def __init__(self, partition: Partition) -> None:
        self._partition: Final = partition
        self._gauges: dict[tuple[str, str, str, str | None], Gauge] = {}
        #: What the partition said, by queue path and user: limits do not change during a replay.
        self._limits: dict[tuple[str, UserGroup], tuple[EffectiveLimit, ...]] = {}
        self.rules = {}

    def of(self, violation: Violation) -> Gauge:
        """Return the gauge of a limit that a job has met."""
        # What no node of the cluster offers is no limit that anybody sets; it is met all the same.
        return self._gauge(violation, violation.queue_path, violation.resource, violation.limit)

    def for_job(self, queue_path: str, user: UserGroup, usage: Resource) -> list[tuple[Gauge, int]]:
        """Return every gauge that a job in a queue counts on, with the amount."""
        where = (queue_path, user)
        if (limits := self._limits.get(where)) is None:
            limits = self._limits[where] = self._limits_of(user, queue_path)
        return [
            (self._gauge(limit, limit.place, resource, most), 1 if resource is None else usage[resource])
            for limit in limits
            for resource, most in _amounts(limit)
            if resource is None or usage.get(resource)
        ]

    def _limits_of(self, user: UserGroup, queue_path: str) -> tuple[EffectiveLimit, ...]:
        """Return all limits for a user in a queue, which is made for the occasion if there is none."""
        self._partition.adopt_application(_ANYBODY, user, queue_path)
        limits = self._partition.effective_limits(_ANYBODY)
        self._partition.remove(_ANYBODY)
        return limits

    def _gauge(self, limit: EffectiveLimit | Violation, place: str, resource: str | None, most: int) -> Gauge:
        whose = (limit.kind, limit.name, limit.queue_path, resource)
        if (gauge := self._gauges.get(whose)) is None:
            key = _RuleKey(limit.kind, limit.queue_path, limit.limit_name, resource)
            rule = self.rules.setdefault(key, ConfiguredLimit(key, place, most))
            gauge = self._gauges[whose] = Gauge(rule, limit.name)
            rule.gauges.append(gauge)
        return gauge


def _amounts(limit: EffectiveLimit) -> Iterable[tuple[str | None, int]]:
    if limit.max_applications:
        yield None, limit.max_applications
    yield from (limit.max_resources or {}).items()
