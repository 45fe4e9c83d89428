"""Queries that explain the answer that a request of an application, or of a user in a queue, would get.

A user in a queue has no application there yet. For such a subject a detached holding is made, which no counter and no
index refers to, with the limits of the queue and of its parents. If the queue does not exist, these are the limits that
it would have if placement created it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple, final

from ugm.arguments import require_amounts, require_resource, require_user, require_vector
from ugm.decision import Decision, Violation, exceeded
from ugm.errors import RequestError
from ugm.hierarchy import Node
from ugm.identity import UserGroup, canonical_path
from ugm.model import Claim
from ugm.partition._submission import submission_of
from ugm.partition.admission import Admission
from ugm.partition.allocation import AllocationRequest, AllocationState, traits_of
from ugm.partition.application import ApplicationInfo, LedgerEntry
from ugm.partition.explanation import CopiedHolding, Explanation, copy_holdings, explain
from ugm.partition.model_set import ModelSet
from ugm.partition.reports import ApplicationReport, OwnedAllocation, SubmissionReport
from ugm.partition.state import PartitionState
from ugm.partition.subject import Subject, UserInQueue
from ugm.queues import Placement, Submission
from ugm.resources import Resource
from ugm.tracking import EffectiveLimit
from ugm.tracking.holding import Holding

__all__ = ["SubjectQueries", "is_limiting", "require_subject", "require_submission"]

#: The id of an application that is not submitted yet, for quota models.
_NO_APPLICATION: Final = "?"


def require_subject(subject: Subject) -> Subject:
    """Return a subject whose values are checked and copied, so that no foreign code runs under the lock.

    The id of an application is checked when the application is looked up.

    Raises:
        RequestError: a value is invalid.
    """
    if not isinstance(subject, UserInQueue):
        return subject
    submission = require_submission(subject.user, subject.queue_path, subject.tags)
    path, quota = canonical_path(subject.queue_path), require_amounts("quota", subject.quota)
    return UserInQueue(subject.user, path, submission.tags, quota)


def require_submission(user: UserGroup, queue: str, tags: Mapping[str, str] | None) -> Submission:
    """Return the submission of an application that has no id yet.

    Raises:
        RequestError: an argument is invalid.
    """
    return submission_of(_NO_APPLICATION, user, queue, tags)


class _ExplanationData(NamedTuple):
    """The data of an explanation, copied at one moment."""

    decision: Decision
    copies: Sequence[Sequence[CopiedHolding]]
    limits: tuple[EffectiveLimit, ...]
    queue_path: str

    def explanation(self, most: int) -> Explanation:
        """Return the explanation; without the lock."""
        return explain(self.decision, self.copies, self.limits, self.queue_path, most)


class _SubmissionData(NamedTuple):
    """The data of a `SubmissionReport`, copied at one moment."""

    placement: Placement
    data: _ExplanationData

    def report(self, most: int) -> SubmissionReport:
        """Return the report; without the lock."""
        return SubmissionReport(self.placement, self.data.explanation(most))


class _ApplicationData(NamedTuple):
    """The data of an `ApplicationReport`, copied at one moment."""

    application: ApplicationInfo
    limits: tuple[EffectiveLimit, ...]
    waiting: list[tuple[OwnedAllocation, Decision]]
    copies: list[Sequence[CopiedHolding]]

    def report(self, most: int) -> ApplicationReport:
        """Return the report; without the lock."""
        copies, path = iter(self.copies), self.application.queue_path
        waiting = tuple(
            (owned, explain(decision, [next(copies) for _ in decision.violations], self.limits, path, most))
            for owned, decision in self.waiting
        )
        return ApplicationReport(self.application, self.limits, waiting)


@final
class SubjectQueries:
    """The answers to queries about a subject. The caller holds the lock, and has called `require_subject`."""

    __slots__ = ("_admission", "_models", "_state")

    def __init__(self, state: PartitionState, models: ModelSet, admission: Admission) -> None:
        self._state: Final = state
        self._models: Final = models
        self._admission: Final = admission

    def check(self, subject: Subject, usage: Resource, priority: int, preemptible: bool) -> Decision:  # noqa: FBT001
        """Return the answer that one more allocation would get."""
        application_id = _NO_APPLICATION if isinstance(subject, UserInQueue) else subject
        request = AllocationRequest("", application_id, usage, priority=priority, preemptible=preemptible)
        if isinstance(subject, UserInQueue):
            return self._check_user(subject, request)
        return self._admission.check(request)

    def explain(self, subject: Subject, usage: Resource, priority: int, preemptible: bool) -> _ExplanationData:  # noqa: FBT001
        """Return the same with the holdings and limits that the answer depends on."""
        decision = self.check(subject, usage, priority, preemptible)
        holding = self._holding(subject)
        limits = effective_limits(holding.enforced(holding.chain()))
        return _ExplanationData(decision, copy_holdings(self._state, decision), limits, holding.queue_path)

    def limits(self, subject: Subject) -> tuple[EffectiveLimit, ...]:
        """Return every limit that holds for the subject."""
        holding = self._holding(subject)
        return effective_limits(holding.enforced(holding.chain()))

    def place(self, submission: Submission) -> Placement:
        """Return where the placement rules would put an application."""
        return self._state.compiled.rules.place(submission, self._state.tree)

    def explain_submission(self, submission: Submission, usage: Resource, quota: Resource | None) -> _SubmissionData:
        """Return the placement of an application, with the answer to its first allocation."""
        placement = self.place(submission)
        if placement.queue_path is None:
            return _SubmissionData(placement, _ExplanationData(Decision(), (), (), ""))
        path = canonical_path(placement.queue_path)
        data = self.explain(UserInQueue(submission.user, path, submission.tags, quota), usage, 0, preemptible=True)
        return _SubmissionData(placement, data)

    def application_report(self, application_id: str, waiting: int) -> _ApplicationData | None:
        """Return an application with its limits and the answers to its first pending allocations."""
        application = self._state.applications.get(application_id)
        if application is None:
            return None
        pending = {} if application.failing else application.pending
        answers = [
            (OwnedAllocation.of(name, entry), self._admission.check(_request(application_id, entry)))
            for name, entry in islice(sorted(pending.items()), waiting)
        ]
        copies = copy_holdings(self._state, *(decision for _, decision in answers))
        return _ApplicationData(application.info(), self.limits(application_id), answers, copies)

    def _check_user(self, subject: UserInQueue, request: AllocationRequest) -> Decision:
        if self._state.closed:
            raise RequestError("queue_path", subject.queue_path, "the partition is being removed")
        usage = require_resource("usage", request.usage)
        _, _, priority, preemptible = traits_of(AllocationState.HELD, request)
        violations = _violations(self._holding(subject), usage)
        if self._models:
            user, path, tags = subject.user, subject.queue_path, subject.tags or {}
            violations += self._models.check(Claim("", _NO_APPLICATION, usage, path, user, tags, priority, preemptible))
        return Decision(violations)

    def _holding(self, subject: Subject) -> Holding:
        """Return the holding of an application, or a detached one for a user in a queue."""
        if not isinstance(subject, UserInQueue):
            return self._state.holding_of(self._admission.application(subject))
        holding = self._state.holding_index.detached(subject.queue_path, "", require_user(subject.user))
        holding.quotas = _QueueChain(self._state.tree.chain_if_made(subject.queue_path, subject.quota))
        return holding


class _QueueChain(NamedTuple):
    """The limits of a queue that may not exist."""

    chain: tuple[Node, ...]


def _request(application_id: str, entry: LedgerEntry) -> AllocationRequest:
    _, _, priority, preemptible = entry.traits
    return AllocationRequest("", application_id, entry.usage, priority=priority, preemptible=preemptible)


def _violations(holding: Holding, usage: Resource) -> tuple[Violation, ...]:
    """Return every limit that a detached holding would exceed; its counters may have different layouts."""
    chain = holding.chain()
    starting = holding.newly_counted(chain)
    return tuple(
        violation
        for node in holding.enforced(chain)
        for violation in exceeded((node,), require_vector("usage", usage, node.layout), starting)
    )


def effective_limits(nodes: Sequence[Node]) -> tuple[EffectiveLimit, ...]:
    """Return the limits of some counters, without counters that exist only for a guarantee."""
    return tuple(EffectiveLimit.of(node) for node in nodes if is_limiting(node))


def is_limiting(node: Node) -> bool:
    """Return whether a counter limits anything."""
    limit = node.limit
    return bool(limit.resources or limit.applications or limit.closed)
