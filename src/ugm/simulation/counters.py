"""What a replay counts on its way, and the report it makes of that."""

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


def _waits() -> array[int]:
    """Return a list of seconds that takes 8 bytes for each: logs have millions of jobs."""
    return array("q")


@final
class ReplayCounters:
    """Counts and waiting times of one replay."""

    __slots__ = ("_all", "_groups", "_misplaced", "_rejections", "_users", "most_held", "read", "rejected")

    read: int
    most_held: int
    rejected: int

    def __init__(self) -> None:
        self.read = self.most_held = self.rejected = 0
        self._all: Final = _waits()
        self._users: Final[defaultdict[str, array[int]]] = defaultdict(_waits)
        self._groups: Final[defaultdict[str, array[int]]] = defaultdict(_waits)
        #: Kind to the number of the first of its jobs, and their count.
        self._rejections: Final[dict[JobClass, tuple[int, int]]] = {}
        #: User, queue asked for and reason to the number of the first job that was not placed, and their count.
        self._misplaced: Final[dict[tuple[str, str, str], tuple[int, int]]] = {}

    @property
    def started(self) -> int:
        """How many jobs have started."""
        return len(self._all)

    def start(self, job: Job, wait: int) -> None:
        """Count a job that starts after waiting."""
        self._all.append(wait)
        self._users[job.user.name].append(wait)
        for group in job.user.groups:
            self._groups[group].append(wait)

    def reject(self, kind: JobClass, job: Job) -> None:
        """Count a job that can never start."""
        self.rejected += 1
        first, count = self._rejections.get(kind, (job.number, 0))
        self._rejections[kind] = first, count + 1

    def misplace(self, job: Job, placement: Placement) -> None:
        """Count a job for which no placement rule found a queue."""
        self.rejected += 1
        key = job.user.name, job.queue, f"no queue: {'; '.join(map(str, placement.trials))}"
        first, count = self._misplaced.get(key, (job.number, 0))
        self._misplaced[key] = first, count + 1

    def report(
        self, *, held: int, decisions: int, end_time: int, rules: Iterable[ConfiguredLimit], findings: tuple[str, ...]
    ) -> Report:
        """Return the figures, with what only the replay knows."""
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
            limits=tuple(sorted((rule.figures() for rule in rules), key=_impact)),
            rejections=self._rejection_figures(),
            findings=findings,
        )

    def _rejection_figures(self) -> tuple[JobRejection, ...]:
        figures = [
            JobRejection(kind.user.name, kind.queue_path, kind.usage, "; ".join(map(str, kind.never)), count, first)
            for kind, (first, count) in self._rejections.items()
        ]
        figures += [
            JobRejection(user, queue, None, reason, count, first)
            for (user, queue, reason), (first, count) in self._misplaced.items()
        ]
        return tuple(sorted(figures, key=lambda rejection: (-rejection.jobs, rejection.first_job)))


def _by_name(waits: Mapping[str, Sequence[int]]) -> tuple[tuple[str, WaitingTime], ...]:
    figures = [(name, WaitingTime.of(waited)) for name, waited in waits.items()]
    return tuple(sorted(figures, key=lambda item: (-item[1].total, item[0])))


def _impact(limit: LimitSummary) -> tuple[int, int, str, str, str, str]:
    """Sort by what the limit did; the rest makes the order complete."""
    return (
        -limit.held_seconds,
        -limit.held_jobs,
        limit.queue_path,
        str(limit.kind),
        limit.limit_name,
        limit.resource or "",
    )
