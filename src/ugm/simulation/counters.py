"""The counters of a replay, and the report that is created from them."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, final

from ugm.queues import Placement
from ugm.simulation.gauges import ConfiguredLimit, JobClass
from ugm.simulation.report import JobRejection, LimitSummary, Report, WaitingTime
from ugm.simulation.workload import Job

__all__ = ["ReplayCounters"]


def _seconds() -> array[int]:
    """Return an empty array of seconds, with 8 bytes for each: logs have millions of jobs."""
    return array("q")


@final
class ReplayCounters:
    """Counts and waiting times of one replay."""

    __slots__ = ("_all", "_groups", "_rejections", "_unplaced", "_users", "most_held", "read", "rejected")

    read: int
    most_held: int
    rejected: int

    def __init__(self) -> None:
        self.read = self.most_held = self.rejected = 0
        self._all: Final = _seconds()
        self._users: Final[defaultdict[str, array[int]]] = defaultdict(_seconds)
        self._groups: Final[defaultdict[str, array[int]]] = defaultdict(_seconds)
        #: The number of the first rejected job, and the count, by job class.
        self._rejections: Final[dict[JobClass, tuple[int, int]]] = {}
        #: The number of the first job without a queue, and the count, by user, requested queue and reason.
        self._unplaced: Final[dict[tuple[str, str, str], tuple[int, int]]] = {}

    @property
    def started(self) -> int:
        """The number of started jobs."""
        return len(self._all)

    def start(self, job: Job, wait: int) -> None:
        """Count a started job and its waiting time."""
        self._all.append(wait)
        self._users[job.user.name].append(wait)
        for group in job.user.groups:
            self._groups[group].append(wait)

    def reject(self, job_class: JobClass, job: Job) -> None:
        """Count a job that can never start."""
        self.rejected += 1
        first, count = self._rejections.get(job_class, (job.number, 0))
        self._rejections[job_class] = first, count + 1

    def reject_unplaced(self, job: Job, placement: Placement) -> None:
        """Count a job that no placement rule placed."""
        self.rejected += 1
        key = job.user.name, job.queue, f"no queue: {'; '.join(map(str, placement.trials))}"
        first, count = self._unplaced.get(key, (job.number, 0))
        self._unplaced[key] = first, count + 1

    def report(
        self, *, held: int, decisions: int, end_time: int, limits: Iterable[ConfiguredLimit], findings: tuple[str, ...]
    ) -> Report:
        """Return the report, with further data of the replay."""
        return Report(
            read=self.read,
            started=self.started,
            rejected=self.rejected,
            held=held,
            most_held=self.most_held,
            decisions=decisions,
            end_time=end_time,
            waiting=WaitingTime.of(self._all),
            users=_by_name(self._users),
            groups=_by_name(self._groups),
            limits=tuple(sorted((limit.summary() for limit in limits), key=_impact)),
            rejections=self._rejection_list(),
            findings=findings,
        )

    def _rejection_list(self) -> tuple[JobRejection, ...]:
        figures = [
            JobRejection(each.user.name, each.queue_path, each.usage, "; ".join(map(str, each.never)), count, first)
            for each, (first, count) in self._rejections.items()
        ]
        figures += [
            JobRejection(user, queue, None, reason, count, first)
            for (user, queue, reason), (first, count) in self._unplaced.items()
        ]
        return tuple(sorted(figures, key=lambda rejection: (-rejection.jobs, rejection.first_job)))


def _by_name(waits: Mapping[str, Sequence[int]]) -> tuple[tuple[str, WaitingTime], ...]:
    figures = [(name, WaitingTime.of(waited)) for name, waited in waits.items()]
    return tuple(sorted(figures, key=lambda item: (-item[1].total, item[0])))


def _impact(limit: LimitSummary) -> tuple[int, int, str, str, str, str]:
    """Return a sort key: the effect of the limit, and its name to make the order unique."""
    return (
        -limit.held_seconds,
        -limit.held_jobs,
        limit.queue_path,
        str(limit.kind),
        limit.limit_name,
        limit.resource or "",
    )
