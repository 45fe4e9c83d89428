"""The jobs of a replay with preemption: equal ones, waiting ones and running ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, final

from ugm.resources import Resource
from ugm.simulation.claimed_room import ClaimedRoom
from ugm.simulation.watched_guarantee import WatchedGuarantee
from ugm.simulation.workload import Job

__all__ = ["EqualJobs", "RunningJob", "WaitingJob"]


@final
@dataclass(slots=True, eq=False)
class EqualJobs:
    """Equal jobs: if one of them is denied, the others are, too."""

    usage: Resource
    #: The queues with a guarantee above them, leaf to root.
    guarantees: tuple[WatchedGuarantee[EqualJobs], ...]
    #: The delay of their preemption, in seconds.
    delay: int
    #: The cluster, and the queues with a maximum above them.
    rooms: tuple[ClaimedRoom, ...]
    #: The count of usage changes at which their last plan has failed.
    failed_at: int = -1

    @property
    def is_entitled(self) -> bool:
        """True if a queue above them is below its guarantee."""
        return any(guarantee.entitles(self.usage) for guarantee in self.guarantees)

    def has_room(self, before: str | None = None) -> bool:
        """Return whether one of them leaves the room of jobs with a claim.

        Args:
            before: the first claim that need not be respected; None to respect all.
        """
        return all(room.fits(self.usage, before) for room in self.rooms)


class WaitingJob(NamedTuple):
    """A waiting job."""

    #: Its number in the order of arrival.
    arrival: int
    job: Job
    #: The time since which it has been waiting, and the run time that is left.
    since: int
    left: int
    has_run: bool


@final
@dataclass(slots=True)
class RunningJob:
    """A running job."""

    waiting: WaitingJob
    kind: EqualJobs
    began: int
    end: int
    #: The time at which it stops because it is a victim; None otherwise.
    stops: int | None = None
