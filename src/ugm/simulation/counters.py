"""The counters of a replay, and the report that is created from them."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias, final

from ugm.resources import VCORE, Resource
from ugm.simulation.gauges import Gauge
from ugm.simulation.report import (
    BudgetUse,
    Crossing,
    GroupLending,
    GroupReclaim,
    JobRejection,
    LimitSummary,
    Report,
    ResourceUse,
    WaitingTime,
)
from ugm.simulation.workload import Job

__all__ = ["ReplayCounters"]

#: Equal jobs: the user, the queue, the usage if they were placed, and the reason.
_Rejected: TypeAlias = tuple[str, str, Resource | None, str]


def _seconds() -> array[int]:
    """Return an empty array of seconds, with 8 bytes for each: logs have millions of jobs."""
    return array("q")


@final
@dataclass(slots=True, eq=False)
class ReplayCounters:
    """Counts and waiting times of one replay."""

    #: The numbers of submitted and rejected jobs, and the most waiting jobs at any time.
    submitted: int = 0
    rejected: int = 0
    most_waiting: int = 0
    #: The number of decisions of the partition.
    decisions: int = 0
    _all: array[int] = field(default_factory=_seconds)
    _users: defaultdict[str, array[int]] = field(default_factory=partial(defaultdict, _seconds))
    _groups: defaultdict[str, array[int]] = field(default_factory=partial(defaultdict, _seconds))
    #: The number of the first rejected job, and the count, of equal jobs.
    _rejections: dict[_Rejected, tuple[int, int]] = field(default_factory=dict)
    #: The number of evicted jobs and the lost seconds, by kind, borrower and owner.
    _reclaims: dict[tuple[str, str, str], tuple[int, int]] = field(default_factory=dict)

    #: The amounts in use, since a second, and up to it the amounts times seconds, by resource.
    _in_use: defaultdict[str, int] = field(default_factory=partial(defaultdict, int))
    _used_until: int = 0
    _areas: defaultdict[str, int] = field(default_factory=partial(defaultdict, int))
    #: The usage of the started jobs of each user, in amounts times seconds.
    _used: defaultdict[str, int] = field(default_factory=partial(defaultdict, int))
    #: The waiting times in the log.
    _logged: array[int] = field(default_factory=_seconds)
    _first: int | None = None

    def start(self, job: Job, wait: int) -> None:
        """Count a started job and its waiting time."""
        self._all.append(wait)
        self._used[job.user.name] += job.usage.get(VCORE, 0) * job.run_time
        if job.logged_wait is not None:
            self._logged.append(job.logged_wait)
        self._users[job.user.name].append(wait)
        for group in job.user.groups:
            self._groups[group].append(wait)

    def use(self, now: int, usage: Resource, jobs: int) -> None:
        """Count that a job starts (1) or ends (-1), and what was in use since the last call."""
        seconds, self._used_until = now - self._used_until, now
        if self._first is None:
            self._first = now
        elif seconds:
            for name, amount in self._in_use.items():
                self._areas[name] += amount * seconds
        for name, amount in usage.items():
            self._in_use[name] += jobs * amount

    def _utilization(self, cluster: Resource | None) -> tuple[ResourceUse, ...]:
        seconds = self._used_until - (self._first or 0)
        available: Mapping[str, int] = cluster or {}
        return tuple(
            ResourceUse(name, area, seconds, available.get(name)) for name, area in sorted(self._areas.items())
        )

    def reject(self, job: Job, queue_path: str, usage: Resource | None, reason: str) -> None:
        """Count a job that can never start, with its equals."""
        self.rejected += 1
        equal = job.user.name, queue_path, usage, reason
        first, count = self._rejections.get(equal, (job.number, 0))
        self._rejections[equal] = first, count + 1

    def reclaim(self, borrower: Gauge | None, owner: Gauge | None, seconds: int) -> None:
        """Count an evicted job, and the seconds for which it has been running."""
        kind = "" if borrower is None else borrower.configured.key.kind
        key = kind, "" if borrower is None else borrower.name, "" if owner is None else owner.name
        jobs, lost = self._reclaims.get(key, (0, 0))
        self._reclaims[key] = jobs + 1, lost + seconds

    def report(
        self,
        *,
        still_waiting: int,
        end_time: int,
        cluster: Resource | None,
        limits: tuple[LimitSummary, ...],
        lending: tuple[GroupLending, ...],
        budgets: tuple[BudgetUse, ...],
        crossings: tuple[Crossing, ...],
        findings: tuple[str, ...],
    ) -> Report:
        """Return the report, with further data of the replay."""
        return Report(
            submitted=self.submitted,
            started=len(self._all),
            rejected=self.rejected,
            still_waiting=still_waiting,
            most_waiting=self.most_waiting,
            decisions=self.decisions,
            end_time=end_time,
            waiting=WaitingTime.of(self._all),
            logged=WaitingTime.of(self._logged) if self._logged else None,
            users=_by_name(self._users),
            usage=tuple(sorted(self._used.items())),
            utilization=self._utilization(cluster),
            groups=_by_name(self._groups),
            limits=tuple(sorted(limits, key=_impact)),
            rejections=self._rejection_list(),
            lending=lending,
            reclaims=self._reclaim_list(),
            budgets=budgets,
            crossings=crossings,
            findings=findings,
        )

    def _reclaim_list(self) -> tuple[GroupReclaim, ...]:
        found = [GroupReclaim(*groups, *counts) for groups, counts in self._reclaims.items()]
        return tuple(sorted(found, key=lambda one: (-one.jobs, one.kind, one.borrower, one.owner)))

    def _rejection_list(self) -> tuple[JobRejection, ...]:
        found = [JobRejection(*equal, count, first) for equal, (first, count) in self._rejections.items()]
        return tuple(sorted(found, key=lambda rejection: (-rejection.jobs, rejection.first_job)))


def _by_name(waits: Mapping[str, Sequence[int]]) -> tuple[tuple[str, WaitingTime], ...]:
    figures = [(name, WaitingTime.of(waited)) for name, waited in waits.items()]
    return tuple(sorted(figures, key=lambda item: (-item[1].total, item[0])))


def _impact(limit: LimitSummary) -> tuple[int, int, str, str, str, str]:
    """Return a sort key: the effect of the limit, and its name to make the order unique."""
    name = limit.queue_path, str(limit.kind), limit.limit_name, limit.resource or ""
    return -limit.delayed_seconds, -limit.delayed_jobs, *name
