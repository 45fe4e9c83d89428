"""Answers that combine several things about a partition, all as they were at one moment.

Each report takes the lock once. Under it, decisions are made and what they depend on is copied; text and rankings are
made afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

from ugm.arguments import require_amounts, require_name, require_resource
from ugm.decision import Decision
from ugm.hierarchy import headroom
from ugm.identity import UserGroup, canonical_path
from ugm.model import Claim
from ugm.operation_lock import exclusive
from ugm.partition._submission import submission_of
from ugm.partition.application import ApplicationInfo
from ugm.partition.explanation import Explanation, Held, charged, explain, require_holder_count
from ugm.partition.ledger_entry import Allocation, AllocationRequest, LedgerEntry
from ugm.partition.snapshot import Pace, PartitionSnapshot, copy_of_user, shown_user
from ugm.partition.survey import NAMELESS, Survey, effective
from ugm.queues import Placement, Submission
from ugm.resources import Resource
from ugm.tracking import EffectiveLimit, UserUsage
from ugm.tracking.holding import Holding

__all__ = ["ApplicationReport", "OwnedAllocation", "Reports", "RequestReport"]

_LimitsAndHeadroom: TypeAlias = tuple[tuple[EffectiveLimit, ...], Resource | None]


@dataclass(frozen=True, slots=True)
class RequestReport:
    """What a partition answers to a request, and everything that the answer depends on."""

    #: How the placement rules chose the queue; None for an application, which has one.
    placement: Placement | None
    #: None if no placement rule finds a queue. Then the rest is empty.
    queue_path: str | None
    explanation: Explanation
    #: Every limit that holds there.
    limits: tuple[EffectiveLimit, ...]
    #: The least that any of them leaves, for each limited resource; None where nothing limits resources.
    headroom: Resource | None

    @property
    def allowed(self) -> bool:
        """Whether there is a queue, and the request would be granted in it."""
        return self.queue_path is not None and self.explanation.decision.allowed


@dataclass(frozen=True, slots=True)
class ApplicationReport:
    """An application with its limits, and why what is pending waits."""

    application: ApplicationInfo
    limits: tuple[EffectiveLimit, ...]
    headroom: Resource | None
    #: The first pending allocations in the order of their ids, each with the answer that it would get.
    waiting: tuple[tuple[OwnedAllocation, Explanation], ...]


@dataclass(frozen=True, slots=True)
class OwnedAllocation:
    """An allocation with the user, the group and the queue of its application."""

    allocation: Allocation
    user: str
    #: None if the application is charged to no group, or has not run yet.
    group: str | None
    queue_path: str

    def to_dict(self) -> dict[str, Any]:
        """Return the allocation for JSON."""
        return {
            **self.allocation.to_dict(),
            "user": self.user,
            "group": self.group,
            "queue_path": self.queue_path,
        }


class Reports(Survey):
    """What a `ugm.PartitionView` answers in one piece; see there."""

    __slots__ = ()

    def snapshot(self, pace: Pace | None = None) -> PartitionSnapshot:
        """Return a copy of the partition at this moment, from which everything else can be worked out.

        Takes time in the number of queues and applications, under the lock: about half a microsecond for each.

        Args:
            pace: wraps every long loop over the copy, for a caller who wants to pause now and then; None for no pause.
        """
        return self._lock.run(PartitionSnapshot, self._state, pace)

    def user_usage(self, name: str) -> UserUsage | None:
        """Return what one user uses in which queues, also in those where something is only pending.

        Returns:
            None if nothing runs and nothing is pending for the user.
        """
        found = self._lock.run(copy_of_user, self._state, require_name("name", name))
        return None if found is None else shown_user(*found)

    @exclusive
    def applications_by_id(self, application_ids: Iterable[str]) -> tuple[ApplicationInfo, ...]:
        """Return those of some applications that exist, all at one moment, in the given order."""
        found = [self._state.applications.get(name) for name in application_ids]
        return tuple(one.shown() for one in found if one is not None)

    @exclusive
    def allocations_by_id(self, allocation_ids: Iterable[str]) -> tuple[OwnedAllocation, ...]:
        """Return those of some allocations that exist, with their owners, all at one moment, in the given order."""
        found = [(name, self._state.ledger.get(name)) for name in allocation_ids]
        return tuple(_owned(name, entry) for name, entry in found if entry is not None)

    def request_report(self, application_id: str, usage: Resource, *, most: int = 3) -> RequestReport:
        """Return what `ugm.PartitionView.explain` does, with every limit that holds there, and the headroom.

        Raises:
            RequestError: as for `ugm.PartitionView.explain`.
        """
        require_holder_count(most)
        return self._lock.run(self._reported, application_id, usage).explained(most)

    def _reported(self, application_id: str, usage: Resource) -> _Copied:
        application = self._admission.application(application_id)
        decision = self._admission.check(AllocationRequest("", application_id, usage))
        found = _limits(self._state.open(application))
        return _Copied(None, application.queue.queue_path, decision, charged(self._state, decision), found)

    def request_report_for(
        self,
        user: UserGroup,
        queue: str,
        usage: Resource,
        tags: Mapping[str, str] | None = None,
        *,
        quota: Resource | None = None,
        most: int = 3,
    ) -> RequestReport:
        """Return where the placement rules put a new application of a user, and what its first allocation is answered.

        Args:
            user: the user.
            queue: the queue that is asked for, for the placement rules; may be empty.
            usage: what the allocation would take.
            tags: as for `ugm.Partition.submit`.
            quota: as for `ugm.Partition.submit`: the quota of a namespace.
            most: how many holders of each short resource are listed.

        Raises:
            RequestError: an argument cannot be used, or the partition is being removed.
        """
        require_holder_count(most)
        asked = submission_of(NAMELESS, user, queue, tags)
        amounts, quota = require_resource("usage", usage), require_amounts("quota", quota)
        return self._lock.run(self._reported_for, asked, amounts, quota).explained(most)

    def _reported_for(self, asked: Submission, usage: Resource, quota: Resource | None) -> _Copied:
        placement = self._state.compiled.rules.place(asked, self._state.tree)
        if placement.queue_path is None:
            return _Copied(placement, None, Decision(), [], ((), None))
        path = canonical_path(placement.queue_path)
        decision = self._decision_for(Claim("", NAMELESS, usage, path, asked.user, asked.tags), quota)
        found = _limits(self._would_be(asked.user, path, quota))
        return _Copied(placement, path, decision, charged(self._state, decision), found)

    def application_report(self, application_id: str, *, waiting: int = 10, most: int = 3) -> ApplicationReport | None:
        """Return an application with its limits, and why its first pending allocations wait.

        Args:
            application_id: the application.
            waiting: how many pending allocations are explained.
            most: how many holders of each short resource are listed.

        Returns:
            None if there is no such application.
        """
        found = self._lock.run(self._application_copied, require_name("application_id", application_id), waiting)
        if found is None:
            return None
        shown, (limits, left), pending, decisions, copies = found
        shared = iter(copies)
        explained = [explain(decision, [next(shared) for _ in decision.violations], most) for decision in decisions]
        return ApplicationReport(shown, limits, left, tuple(zip(pending, explained, strict=True)))

    def _application_copied(self, application_id: str, waiting: int) -> _ApplicationCopied | None:
        application = self._state.applications.get(application_id)
        if application is None:
            return None
        entries = {} if application.failing else application.pending
        pending = list(islice(sorted(entries.items()), waiting))
        decisions = [self._admission.check(_ask(application_id, entry)) for _, entry in pending]
        owned = [_owned(name, entry) for name, entry in pending]
        found = _limits(self._state.open(application))
        return _ApplicationCopied(application.shown(), found, owned, decisions, charged(self._state, *decisions))


class _ApplicationCopied(NamedTuple):
    """What an `ApplicationReport` is made from."""

    shown: ApplicationInfo
    limits: _LimitsAndHeadroom
    pending: list[OwnedAllocation]
    decisions: list[Decision]
    charged: list[Sequence[Held]]


class _Copied(NamedTuple):
    """What a `RequestReport` is made from."""

    placement: Placement | None
    queue_path: str | None
    decision: Decision
    charged: list[Sequence[Held]]
    limits: _LimitsAndHeadroom

    def explained(self, most: int) -> RequestReport:
        """Return the report."""
        explanation = explain(self.decision, self.charged, most)
        return RequestReport(self.placement, self.queue_path, explanation, *self.limits)


def _owned(allocation_id: str, entry: LedgerEntry) -> OwnedAllocation:
    application = entry.application
    user, path = application.submission.user.name, application.queue.queue_path
    return OwnedAllocation(entry.shown(allocation_id), user, application.group or None, path)


def _ask(application_id: str, entry: LedgerEntry) -> AllocationRequest:
    return AllocationRequest(
        "", application_id, entry.usage, priority=entry.traits.priority, preemptible=entry.traits.preemptible
    )


def _limits(holding: Holding) -> _LimitsAndHeadroom:
    nodes = holding.enforced(holding.chain())
    return effective(nodes), headroom(nodes)
