"""Results that combine several values of one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ugm._people import denial_for_people, one_line
from ugm.decision import Decision, EffectiveLimit, Explanation, Violation, headroom_of
from ugm.partition.allocation import Allocation
from ugm.partition.application import ApplicationInfo, LedgerEntry
from ugm.preemption import ReductionTimer
from ugm.queues import Placement
from ugm.resources import Resource

__all__ = ["Admission", "ApplicationReport", "OwnedAllocation", "PreemptionStatus", "SubmissionReport", "SyncReport"]


@dataclass(frozen=True, slots=True)
class Admission:
    """The answer to ``admit``: true if the application is placed and holds all of its allocations."""

    placement: Placement
    #: The decision about the allocations together; None if the application got no queue.
    decision: Decision | None
    #: The allocations that were asked for, as they are held now; empty after a denial.
    allocations: tuple[Allocation, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.placement) and bool(self.decision)

    @property
    def queue_path(self) -> str | None:
        """The queue of the application; None if it got none."""
        return self.placement.queue_path

    @property
    def summary(self) -> str:
        """The answer in one line of at most 200 characters."""
        return one_line(str(self.placement)) if self.decision is None else self.decision.summary

    def for_people(self) -> str:
        """Return the answer in sentences for end users; see `Decision.for_people`."""
        if self.decision is not None:
            return self.decision.for_people()
        if self.placement.violations:
            return denial_for_people(self.placement.violations)
        return "No queue accepts this work for you. Check the name of the queue, or ask an administrator."

    def to_dict(self) -> dict[str, object]:
        """Return the answer for JSON."""
        return {
            "admitted": bool(self),
            "placement": {**self.placement.to_dict(), "text": str(self.placement)},
            "decision": None if self.decision is None else {**self.decision.to_dict(), "text": str(self.decision)},
            "summary": self.summary,
            "for_people": self.for_people(),
            "allocations": [one.to_dict() for one in self.allocations],
        }

    def __str__(self) -> str:
        return str(self.placement if self.decision is None else self.decision)


@dataclass(frozen=True, slots=True)
class SyncReport:
    """The changes that ``synchronize`` has made; true if there are any. All ids are sorted."""

    #: The applications and allocations that ran, and that the partition did not have.
    adopted_applications: tuple[str, ...] = ()
    adopted: tuple[str, ...] = ()
    #: The allocations that had another size or node.
    corrected: tuple[str, ...] = ()
    #: The allocations that no longer ran, and the applications that were gone.
    released: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()
    #: Every limit that is exceeded now.
    exceeded: tuple[Violation, ...] = ()

    def __bool__(self) -> bool:
        return any((self.adopted_applications, self.adopted, self.corrected, self.released, self.ended))

    def to_dict(self) -> dict[str, object]:
        """Return the report for JSON."""
        return {
            **{name: list(getattr(self, name)) for name in _CHANGES},
            "exceeded": [violation.to_dict() for violation in self.exceeded],
        }

    def __str__(self) -> str:
        changes = [
            f"{name.replace('_', ' ')}: {', '.join(map(repr, ids))}"
            for name in _CHANGES
            if (ids := getattr(self, name))
        ]
        return "\n".join([*(changes or ["nothing has changed"]), *(f"exceeded: {one}" for one in self.exceeded)])


_CHANGES: Final = ("adopted_applications", "adopted", "corrected", "released", "ended")


@dataclass(frozen=True, slots=True)
class SubmissionReport:
    """The placement of an application that is not submitted yet, and the answer to its first allocation."""

    placement: Placement
    #: Empty if no placement rule finds a queue.
    explanation: Explanation

    @property
    def queue_path(self) -> str | None:
        """The queue; None if no placement rule finds one."""
        return self.explanation.queue_path or None

    @property
    def allowed(self) -> bool:
        """True if there is a queue, and the allocation would be granted in it."""
        return self.queue_path is not None and self.explanation.decision.allowed


@dataclass(frozen=True, slots=True)
class OwnedAllocation:
    """An allocation with the user, the group and the queue of its application."""

    allocation: Allocation
    user: str
    #: None if the application is charged to no group, or has not run yet.
    group: str | None
    queue_path: str

    @classmethod
    def of(cls, allocation_id: str, entry: LedgerEntry) -> OwnedAllocation:
        """Return an entry of the ledger with its owner."""
        application = entry.application
        user, path = application.submission.user.name, application.queue.queue_path
        return cls(entry.to_allocation(allocation_id), user, application.group or None, path)

    def to_dict(self) -> dict[str, object]:
        """Return the allocation for JSON."""
        return {
            **self.allocation.to_dict(),
            "user": self.user,
            "group": self.group,
            "queue_path": self.queue_path,
        }


@dataclass(frozen=True, slots=True)
class PreemptionStatus:
    """The allocations, requests and timers of preemption plans and reductions, and the number of plans by outcome."""

    #: The allocations that were marked and not released yet, sorted by id.
    terminating: tuple[OwnedAllocation, ...]
    #: The pending requests for which a plan has made room, sorted by id. Plans for others count them as granted.
    placed: tuple[OwnedAllocation, ...]
    #: The queues above their maximum that take part in reductions, sorted by path.
    timers: tuple[ReductionTimer, ...]
    #: The number of plans that this process has made for requests, by outcome. In addition, ``reduction`` is the number
    #: of plans for due queues, ``carried_out`` that of plans that were carried out, and ``stale`` that of refused ones.
    plans: Mapping[str, int]

    def to_dict(self) -> dict[str, object]:
        """Return the status for JSON."""
        return {
            "terminating": [one.to_dict() for one in self.terminating],
            "placed": [one.to_dict() for one in self.placed],
            "timers": [one.to_dict() for one in self.timers],
            "plans": dict(self.plans),
        }


@dataclass(frozen=True, slots=True)
class ApplicationReport:
    """An application with its limits, and explanations for its pending allocations."""

    application: ApplicationInfo
    limits: tuple[EffectiveLimit, ...]
    #: The first pending allocations in the order of their ids, each with the answer that it would get.
    pending: tuple[tuple[OwnedAllocation, Explanation], ...]
    #: The headroom that other quota models leave; None if it follows from `limits`.
    model_headroom: Resource | None = None

    @property
    def headroom(self) -> Resource | None:
        """The amounts that may be requested, for each limited resource; None if no resource is limited."""
        return headroom_of(self.limits) if self.model_headroom is None else self.model_headroom
