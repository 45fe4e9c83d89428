"""The report of a replay: frozen values with a JSON form.

The report does not depend on the time or speed of the replay: the same workload and configuration lead to an equal
report. Times are seconds of the workload, and amounts are in base units.

A comparison of replays of one workload under several configurations or orders shows who gains, and who loses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import final

from ugm._json_values import JsonObject, Row, attributes, to_json
from ugm.resources import Resource

__all__ = [
    "BudgetUse",
    "GroupReclaim",
    "JobRejection",
    "LimitComparison",
    "LimitSummary",
    "ReplayComparison",
    "Report",
    "ResourceUse",
    "UserImpact",
    "WaitingComparison",
    "WaitingTime",
]


@final
@dataclass(frozen=True, slots=True)
class WaitingTime(Row):
    """The waiting times of started jobs.

    >>> WaitingTime.of([0, 0, 30, 10])
    WaitingTime(jobs=4, delayed=2, total=40, p95=30, max=30)
    """

    jobs: int
    #: Jobs that did not start immediately.
    delayed: int
    total: int
    #: The 95th percentile and the maximum; 0 without jobs.
    p95: int
    max: int

    @classmethod
    def of(cls, waits: Sequence[int]) -> WaitingTime:
        """Summarize the waiting times of jobs."""
        if not waits:
            return cls(0, 0, 0, 0, 0)
        ordered = sorted(waits)
        # The nearest-rank method: the position is 95 % of the count, rounded up.
        rank = -(-95 * len(ordered) // 100)
        delayed = sum(1 for wait in ordered if wait)
        return cls(len(ordered), delayed, sum(ordered), ordered[rank - 1], ordered[-1])

    @property
    def mean(self) -> float:
        """The mean over all started jobs, including those that did not wait."""
        return self.total / self.jobs if self.jobs else 0.0

    def to_dict(self) -> JsonObject:
        """Return the values for JSON, with the mean."""
        return {**attributes(self, self.__slots__), "mean": round(self.mean, 3)}


@final
@dataclass(frozen=True, slots=True)
class ResourceUse(Row):
    """The use of one resource by all jobs."""

    resource: str
    #: In amounts times seconds.
    area: int
    #: From the first start to the end of the replay.
    seconds: int
    #: The amount in the cluster; None if it is unlimited.
    available: int | None

    @property
    def mean(self) -> float:
        """The mean amount in use."""
        return self.area / self.seconds if self.seconds else 0.0

    @property
    def share(self) -> float | None:
        """The mean part of the cluster in use; None if the cluster is unlimited."""
        return None if self.available is None else self.mean / self.available if self.available else 0.0

    def to_dict(self) -> JsonObject:
        """Return the use for JSON, with the mean and the share."""
        share = None if self.share is None else round(self.share, 4)
        return {**attributes(self, self.__slots__), "mean": round(self.mean, 3), "share": share}


@final
@dataclass(frozen=True, slots=True)
class UserImpact(Row):
    """The effect of one limit on the jobs of one user."""

    user: str
    jobs: int
    seconds: int


@final
@dataclass(frozen=True, slots=True)
class LimitSummary(Row):
    """The effect of one configured limit, on one resource or on running applications.

    Each delayed job is counted for one limit: the one that denied it when it arrived, or if there were several, the
    first in the order of `ugm.Decision.violations`. Each second for which a job waits is counted for the limit that the
    job waits for, from the denial until the limit has enough free. So the sum of the seconds of all limits is the total
    waiting time.
    """

    #: A `ugm.TrackingType`: users, a group or the queue itself; or the term of a quota model for its limit.
    kind: str
    #: Limits on resources of the queue ``root`` are the size of the cluster.
    queue_path: str
    #: The user or group in the configuration, or ``*``; empty for a queue.
    limit_name: str
    #: None for the number of running applications.
    resource: str | None
    #: The entry of the configuration, for example ``root.prod limits[2]``; the path for a queue.
    place: str
    limit: int
    #: The highest usage of a single user, group or queue under the limit, and its name.
    peak: int
    peak_name: str
    #: The number of users, groups or queues to which the limit applied.
    names: int
    delayed_jobs: int
    delayed_seconds: int
    #: Jobs that requested more than the limit, so that they can never start.
    rejected: int
    #: The users whose jobs it delayed, those with the longest time first.
    users: tuple[UserImpact, ...]
    #: The part that a group of a quota model need not borrow: the minimum of an elastic group, or the quota of a node;
    #: None for other limits.
    guaranteed: int | None = None
    #: The usage of such a group beyond its guarantee, times seconds.
    borrowed: int = 0

    @property
    def key(self) -> tuple[str, str, str, str | None]:
        """The kind, the queue, the name and the resource, which no other limit of a report has."""
        return self.kind, self.queue_path, self.limit_name, self.resource


@final
@dataclass(frozen=True, slots=True)
class BudgetUse(Row):
    """The use of one account of a budget in one period.

    Amounts are amounts times seconds, and fractions only if weights are.
    """

    budget: str
    #: The user, group, queue, elastic group or quota node, and which of these.
    owner: str
    scope: str
    #: The queue in and below which the budget applies.
    queue_path: str
    resource: str
    #: The second of the workload at which the period ended; None for the one in which the replay ended.
    end: int | None
    #: The limit and the usage at the end of the period, or at that of the replay.
    limit: int | Fraction
    settled: int | Fraction
    #: The second at which it first denied a job in this period; None if it denied none.
    ran_out: int | None
    #: The jobs of this period that it delayed when they arrived.
    denied_jobs: int


@final
@dataclass(frozen=True, slots=True)
class JobRejection(Row):
    """Equal jobs that can never start under the configuration, with the reason."""

    user: str
    #: The queue of the jobs. If no placement rule placed them: the requested queue, empty for none.
    queue_path: str
    #: None if no placement rule placed the jobs; they may have different sizes.
    usage: Resource | None
    #: The limits that a single job exceeds, or the results of all placement rules.
    reason: str
    jobs: int
    #: The number of the first of them in the workload.
    first_job: int


@final
@dataclass(frozen=True, slots=True)
class GroupReclaim(Row):
    """The jobs that were evicted from one group, so that another one got what it was guaranteed."""

    kind: str
    borrower: str
    owner: str
    jobs: int
    #: The seconds for which these jobs had been running when they were evicted.
    lost_seconds: int


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The effect of a configuration on a workload."""

    #: The number of jobs; each is started, rejected, or still waiting at the end.
    submitted: int
    still_waiting: int
    #: The most waiting jobs at any time.
    most_waiting: int
    #: The number of decisions of the partition.
    decisions: int
    #: The second at which the replay ended.
    end_time: int
    waiting: WaitingTime
    #: By name, those with the longest total waiting time first. A job counts for each of its groups.
    users: tuple[tuple[str, WaitingTime], ...]
    groups: tuple[tuple[str, WaitingTime], ...]
    #: The limits that apply to any job, those that delayed jobs longest first.
    limits: tuple[LimitSummary, ...]
    #: Those with most jobs first.
    rejections: tuple[JobRejection, ...]
    #: Those with most jobs first.
    reclaims: tuple[GroupReclaim, ...] = ()
    #: The accounts of budgets in each period in which they were used or denied jobs: those that denied jobs, by the
    #: time of the first denial, and then those that used most of their limit.
    budgets: tuple[BudgetUse, ...] = ()
    #: The findings of the self-check of the partition at the end; empty if there are none.
    findings: tuple[str, ...]
    #: The waiting times that the log has for the started jobs; None if it has none.
    logged: WaitingTime | None = None
    utilization: tuple[ResourceUse, ...] = ()

    @property
    def started(self) -> int:
        """The number of started jobs."""
        return self.waiting.jobs

    @property
    def rejected(self) -> int:
        """The number of rejected jobs."""
        return sum(one.jobs for one in self.rejections)

    @property
    def lending(self) -> tuple[LimitSummary, ...]:
        """The limits of groups that lend and borrow, by kind and resource; those that borrowed most first."""
        found = (one for one in self.limits if one.guaranteed is not None)
        return tuple(sorted(found, key=lambda one: (one.kind, str(one.resource), -one.borrowed, one.limit_name)))

    @property
    def is_clean(self) -> bool:
        """True if the self-check of the partition had no findings."""
        return not self.findings

    def to_dict(self) -> JsonObject:
        """Return the report for JSON."""
        return {
            "jobs": attributes(self, ("submitted", "started", "rejected", "still_waiting", "most_waiting")),
            **attributes(self, ("decisions", "end_time")),
            "waiting": self.waiting.to_dict(),
            "logged_waiting": to_json(self.logged),
            "utilization": to_json(self.utilization),
            "users": [{"user": name, **waiting.to_dict()} for name, waiting in self.users],
            "groups": [{"group": name, **waiting.to_dict()} for name, waiting in self.groups],
            **attributes(self, ("limits", "rejections", "reclaims", "budgets")),
            "verify": {"clean": self.is_clean, "findings": list(self.findings)},
        }


@final
@dataclass(frozen=True, slots=True)
class WaitingComparison(Row):
    """The waiting times of one user or group in every replay."""

    name: str
    #: In the order of the replays; without jobs if none was started.
    waiting: tuple[WaitingTime, ...]
    #: The differences of the mean from that of the first replay, in seconds; negative for a gain.
    changes: tuple[float, ...]


@final
@dataclass(frozen=True, slots=True)
class LimitComparison(Row):
    """The jobs that one limit delayed in every replay."""

    kind: str
    queue_path: str
    limit_name: str
    resource: str | None
    #: The values of the limit; None for a replay without the limit, or in which no job was charged to it.
    limits: tuple[int | None, ...]
    #: The jobs that it delayed, and the seconds for which they waited.
    delayed_jobs: tuple[int, ...]
    delayed_seconds: tuple[int, ...]


@final
@dataclass(frozen=True, slots=True)
class ReplayComparison:
    """Several replays of one workload. The first one is the reference of all changes."""

    #: By a name that distinguishes the replay from the others, for example its order.
    reports: Mapping[str, Report]

    @property
    def users(self) -> tuple[WaitingComparison, ...]:
        """The users, those whose waiting changes most in total first."""
        return self._waiting(lambda report: report.users)

    @property
    def groups(self) -> tuple[WaitingComparison, ...]:
        """The groups, sorted like the users."""
        return self._waiting(lambda report: report.groups)

    def _waiting(self, figures: Callable[[Report], Iterable[tuple[str, WaitingTime]]]) -> tuple[WaitingComparison, ...]:
        sides = [dict(figures(report)) for report in self.reports.values()]
        names = {name: None for side in sides for name in side}
        found = []
        for name in names:
            waits = tuple(side.get(name, WaitingTime.of(())) for side in sides)
            changes = tuple(round(one.mean - waits[0].mean, 3) for one in waits)
            found.append(WaitingComparison(name, waits, changes))
        return tuple(sorted(found, key=_impact))

    @property
    def limits(self) -> tuple[LimitComparison, ...]:
        """The limits that delayed jobs in any replay, those that delayed them longest in one of them first."""
        sides = [{limit.key: limit for limit in report.limits} for report in self.reports.values()]
        keys = {key: None for side in sides for key, limit in side.items() if limit.delayed_seconds}
        found = []
        for key in keys:
            limits = [side.get(key) for side in sides]
            figures = ((one.limit, one.delayed_jobs, one.delayed_seconds) if one else (None, 0, 0) for one in limits)
            found.append(LimitComparison(*key, *zip(*figures, strict=True)))
        return tuple(sorted(found, key=lambda one: (-max(one.delayed_seconds), one.queue_path, str(one.kind))))

    def to_dict(self) -> JsonObject:
        """Return the comparison for JSON, without the reports."""
        return {"variants": list(self.reports), **attributes(self, ("users", "groups", "limits"))}


def _impact(one: WaitingComparison) -> tuple[int, str]:
    totals: Sequence[int] = [waits.total for waits in one.waiting]
    return min(totals) - max(totals), one.name
