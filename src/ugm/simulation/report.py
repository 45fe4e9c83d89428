"""The figures of a replay: frozen values, and their form in JSON.

Nothing here depends on when or how fast the replay ran: the same workload and configuration give an equal report. Times
are seconds of the workload, amounts are base units.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, final

from ugm.resources import Resource

__all__ = ["JobRejection", "LimitSummary", "Report", "UserImpact", "WaitingTime"]


@final
@dataclass(frozen=True, slots=True)
class WaitingTime:
    """How long jobs waited, of those that started.

    >>> WaitingTime.of([0, 0, 30, 10])
    Waiting(jobs=4, delayed=2, total=40, p95=30, max=30)
    """

    jobs: int
    #: Those that did not start at once.
    delayed: int
    total: int
    #: The shortest wait that is not exceeded by 95 of 100 jobs; 0 without jobs, as is the longest.
    p95: int
    max: int

    @classmethod
    def of(cls, waits: Sequence[int]) -> WaitingTime:
        """Summarise the waits of some jobs."""
        if not waits:
            return cls(0, 0, 0, 0, 0)
        ordered = sorted(waits)
        # Nearest rank: the position is 95 hundredths of the count, rounded up.
        rank = -(-95 * len(ordered) // 100)
        delayed = sum(1 for wait in ordered if wait)
        return cls(len(ordered), delayed, sum(ordered), ordered[rank - 1], ordered[-1])

    @property
    def mean(self) -> float:
        """The mean over all jobs that started, also those that did not wait."""
        return self.total / self.jobs if self.jobs else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return the figures for JSON."""
        return {**asdict(self), "mean": round(self.mean, 3)}


@final
@dataclass(frozen=True, slots=True)
class UserImpact:
    """What one limit did to the jobs of one user."""

    user: str
    jobs: int
    seconds: int


@final
@dataclass(frozen=True, slots=True)
class LimitSummary:
    """What one configured limit, on one resource or on running applications, did during the replay.

    Each held job is counted once, by the limit that denied it when it came; where several did, by the first in the
    order of `ugm.Decision.violations`. Each second that a job is held is booked on one limit: the one that stands
    against the job, from when that was found until the limit has room for it. The seconds of all limits therefore add
    up to all the waiting there was.
    """

    #: Whether users, a group or the queue itself is limited: a `ugm.TrackingType`.
    kind: str
    #: Resources of the queue ``root`` are those of the cluster.
    queue_path: str
    #: The user or group that the limit is for, or ``*``; empty for a queue.
    limit_name: str
    #: None for the number of running applications.
    resource: str | None
    #: The entry that sets it, for example ``root.prod limits[2]``; the path for a queue.
    place: str
    limit: int
    #: The highest usage of any one user, group or queue that the limit holds for, and whose it was.
    peak: int
    peak_name: str
    #: For how many users, groups or queues the limit held.
    names: int
    held_jobs: int
    held_seconds: int
    #: Jobs that asked for more than the limit, which no waiting can change.
    rejected: int
    #: Whom it held, those held the longest first.
    users: tuple[UserImpact, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the figures for JSON."""
        return {**asdict(self), "kind": str(self.kind), "users": [asdict(hit) for hit in self.users]}


@final
@dataclass(frozen=True, slots=True)
class JobRejection:
    """Equal jobs that can never start under the configuration, and why."""

    user: str
    #: Where they were placed. Where no placement rule found a queue: what they asked for, empty for none.
    queue_path: str
    #: None for jobs of any size, where no placement rule found a queue.
    usage: Resource | None
    #: The limits that they exceed by themselves, or what every placement rule said.
    reason: str
    jobs: int
    #: The number of the first of them in the workload.
    first_job: int

    def to_dict(self) -> dict[str, Any]:
        """Return the figures for JSON."""
        return {
            "user": self.user,
            "queue_path": self.queue_path,
            "usage": None if self.usage is None else dict(self.usage),
            "reason": self.reason,
            "jobs": self.jobs,
            "first_job": self.first_job,
        }


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a configuration would have done to a workload."""

    #: Jobs read; each of them is started, rejected, or still held at the end.
    read: int
    started: int
    rejected: int
    held: int
    #: The most jobs that were held at one time.
    most_held: int
    #: Requests that the partition answered.
    decisions: int
    #: The second at which the replay ended.
    end_time: int
    waiting: WaitingTime
    #: By name, those that waited longest in total first. A job counts in each of the groups that it came with.
    users: tuple[tuple[str, WaitingTime], ...]
    groups: tuple[tuple[str, WaitingTime], ...]
    #: Those that held jobs longest first; only limits that some job met.
    limits: tuple[LimitSummary, ...]
    #: Those that concern most jobs first.
    rejections: tuple[JobRejection, ...]
    #: What the self-check of the partition found at the end; empty when all is well.
    findings: tuple[str, ...]

    @property
    def is_clean(self) -> bool:
        """Whether the self-check of the partition found nothing."""
        return not self.findings

    def to_dict(self) -> dict[str, Any]:
        """Return the report for JSON."""
        return {
            "jobs": {
                "read": self.read,
                "started": self.started,
                "rejected": self.rejected,
                "held": self.held,
                "most_held": self.most_held,
            },
            "decisions": self.decisions,
            "end_time": self.end_time,
            "waiting": self.waiting.to_dict(),
            "users": [{"user": name, **waiting.to_dict()} for name, waiting in self.users],
            "groups": [{"group": name, **waiting.to_dict()} for name, waiting in self.groups],
            "limits": [limit.to_dict() for limit in self.limits],
            "rejections": [rejection.to_dict() for rejection in self.rejections],
            "verify": {"clean": self.is_clean, "findings": list(self.findings)},
        }
