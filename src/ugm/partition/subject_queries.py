"""Queries that explain the answer that a request of an application, or of a user in a queue, would get.

A user in a queue has no application there yet. For such a subject a detached holding is made, which no counter and no
index refers to, with the limits of the queue and of its parents. If the queue does not exist, these are the limits that
it would have if placement created it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, final

from ugm.arguments import require_amounts, require_resource, require_user, require_vector
from ugm.counters import Counter
from ugm.decision import Decision, EffectiveLimit, Explanation, Violation, effective_limits, exceeded, headroom_of
from ugm.errors import RequestError
from ugm.identity import UserGroup, canonical_path
from ugm.model import Claim
from ugm.partition.admission import AdmissionControl
from ugm.partition.allocation import AllocationRequest, AllocationState, require_duration, traits_of
from ugm.partition.application import Application, ApplicationInfo, GangStyle, LedgerEntry
from ugm.partition.emptied import with_prospects
from ugm.partition.explanation import CopiedHolding, SubjectLimits, copy_holdings, explain
from ugm.partition.model_queries import ModelQueries
from ugm.partition.model_set import ModelSet
from ugm.partition.pending_usage import PendingHeadroom
from ugm.partition.reports import ApplicationReport, OwnedAllocation, SubmissionReport
from ugm.partition.state import PartitionState
from ugm.partition.subject import Subject, UserInQueue
from ugm.partition.submission import require_submission
from ugm.queues import Placement, Submission
from ugm.queues.queue import Queue
from ugm.queues.specs import QueueSpec
from ugm.resources import Resource
from ugm.tracking.holding import Holding

__all__ = ["QueryRequest", "SubjectQueries", "require_query_submission", "require_subject"]

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
    submission = require_query_submission(subject.user, subject.queue_path, subject.tags)
    path, quota = canonical_path(subject.queue_path), require_amounts("quota", subject.quota)
    return UserInQueue(subject.user, path, submission.tags, quota)


def require_query_submission(user: UserGroup, queue: str, tags: Mapping[str, str] | None) -> Submission:
    """Return the submission of an application that has no id yet.

    Raises:
        RequestError: an argument is invalid.
    """
    return require_submission(_NO_APPLICATION, user, queue, tags)


class QueryRequest(NamedTuple):
    """The allocation that a query is about, for any subject; see `AllocationRequest`."""

    usage: Resource
    priority: int = 0
    preemptible: bool = True
    duration: int | None = None

    def of(self, application_id: str) -> AllocationRequest:
        """Return the request of an application."""
        usage, priority, preemptible, duration = self
        return AllocationRequest(
            "", application_id, usage, priority=priority, preemptible=preemptible, duration=duration
        )


_NOTHING: Final = QueryRequest(Resource())


class _ExplanationData(NamedTuple):
    """The data of an explanation, copied at one moment."""

    decision: Decision
    copies: Sequence[Sequence[CopiedHolding]]
    limits: SubjectLimits

    def explanation(self, max_holders: int) -> Explanation:
        """Return the explanation; without the lock."""
        return explain(self.decision, self.copies, self.limits, max_holders)


class _SubmissionData(NamedTuple):
    """The data of a `SubmissionReport`, copied at one moment."""

    placement: Placement
    data: _ExplanationData

    def report(self, max_holders: int) -> SubmissionReport:
        """Return the report; without the lock."""
        return SubmissionReport(self.placement, self.data.explanation(max_holders))


class _ApplicationData(NamedTuple):
    """The data of an `ApplicationReport`, copied at one moment."""

    application: ApplicationInfo
    limits: SubjectLimits
    pending: list[tuple[OwnedAllocation, Decision]]
    copies: list[Sequence[CopiedHolding]]

    def report(self, max_holders: int) -> ApplicationReport:
        """Return the report; without the lock."""
        copies = iter(self.copies)
        pending = tuple(
            (owned, explain(decision, [next(copies) for _ in decision.violations], self.limits, max_holders))
            for owned, decision in self.pending
        )
        return ApplicationReport(self.application, self.limits.limits, pending, self.limits.model_headroom)


@final
class SubjectQueries:
    """The answers to queries about a subject. The caller holds the lock, and has called `require_subject`."""

    __slots__ = ("_admission", "_model_queries", "_models", "_state")

    def __init__(self, state: PartitionState, models: ModelSet, admission: AdmissionControl) -> None:
        self._state: Final = state
        self._models: Final = models
        self._model_queries: Final = ModelQueries(models)
        self._admission: Final = admission

    def check(self, subject: Subject, query: QueryRequest) -> Decision:
        """Return the answer that one more allocation would get."""
        self._admission.request_vector(query.usage)
        if isinstance(subject, UserInQueue):
            return self._check_user(subject, query)
        return self._admission.check(query.of(subject))

    def explain(self, subject: Subject, query: QueryRequest) -> _ExplanationData:
        """Return the same with the holdings and limits that the answer depends on."""
        decision = self.check(subject, query)
        limits = self.limits_and_headroom(subject, query)
        return _ExplanationData(decision, copy_holdings(self._state, decision), limits)

    def limits(self, subject: Subject) -> tuple[EffectiveLimit, ...]:
        """Return every limit that holds for the subject."""
        found = self._own_limits(self._holding(subject)) + self._pending_limits(subject)
        return found + self._model_queries.limits(self.claim(subject, _NOTHING)) if self._models else found

    def headroom(self, subject: Subject, duration: int | None) -> Resource | None:
        """Return the amounts that the subject may request for a duration."""
        if duration is not None:
            require_duration(duration)
        holding = self._holding(subject)
        free = headroom_of(self._own_limits(holding))
        if not self._models:
            return free
        return self._model_headroom(holding, self.claim(subject, _NOTHING._replace(duration=duration)), free)

    def limits_and_headroom(self, subject: Subject, query: QueryRequest = _NOTHING) -> SubjectLimits:
        """Return the limits of the subject with the headroom of the models, at one moment."""
        holding = self._holding(subject)
        limits = self._own_limits(holding) + self._pending_limits(subject)
        if not self._models:
            return SubjectLimits(holding.queue_path, limits)
        claim = self.claim(subject, query._replace(usage=_NOTHING.usage))
        headroom = self._model_headroom(holding, claim, headroom_of(limits))
        limits += self._model_queries.limits(claim)
        return SubjectLimits(holding.queue_path, limits, None if headroom == headroom_of(limits) else headroom)

    @staticmethod
    def _own_limits(holding: Holding) -> tuple[EffectiveLimit, ...]:
        """Return the limits of users, groups and queues."""
        return effective_limits(holding.enforced(holding.chain()))

    def _pending_limits(self, subject: Subject) -> tuple[EffectiveLimit, ...]:
        """Return the limits on pending work."""
        counted = self._state.ledger.pending_usage
        return () if counted is None else counted.limits(self._owner(subject))

    def pending_headroom(self, subject: Subject) -> PendingHeadroom:
        """Return the pending work that the subject may still add."""
        counted, owner = self._state.ledger.pending_usage, self._owner(subject)
        return PendingHeadroom() if counted is None else counted.headroom(owner)

    def _owner(self, subject: Subject) -> Application | tuple[str, UserGroup]:
        if isinstance(subject, UserInQueue):
            return subject.queue_path, require_user(subject.user)
        return self._admission.require_application(subject)

    def _model_headroom(self, holding: Holding, claim: Claim, free: Resource | None) -> Resource | None:
        names = {*self._state.active_limits.epoch.layout.names, *holding.held()}
        return self._model_queries.headroom(claim, free, names, offered=self._state.cluster.total)

    def place(self, submission: Submission) -> Placement:
        """Return where an application would be placed."""
        return self._state.place(submission)

    def explain_submission(
        self, submission: Submission, usage: Resource, quota: Resource | None, duration: int | None
    ) -> _SubmissionData:
        """Return the placement of an application, with the answer to its first allocation."""
        placement = self.place(submission)
        if placement.queue_path is None:
            return _SubmissionData(placement, _ExplanationData(Decision(), (), SubjectLimits("", ())))
        path = canonical_path(placement.queue_path)
        query = QueryRequest(usage, duration=duration)
        data = self.explain(UserInQueue(submission.user, path, submission.tags, quota), query)
        return _SubmissionData(placement, data)

    def application_report(self, application_id: str, max_pending: int) -> _ApplicationData | None:
        """Return an application with its limits and the answers to its first pending allocations."""
        application = self._state.applications.get(application_id)
        if application is None:
            return None
        pending = {} if application.failing else application.pending
        answers = [
            (OwnedAllocation.of(name, entry), self._admission.check(_request(application_id, entry)))
            for name, entry in sorted(pending.items())[:max_pending]
        ]
        copies = copy_holdings(self._state, *(decision for _, decision in answers))
        return _ApplicationData(application.info(), self.limits_and_headroom(application_id), answers, copies)

    def own_violations(self, subject: Subject, usage: Resource) -> tuple[Violation, ...]:
        """Return every limit of users, groups, queues and the cluster that one more allocation would exceed."""
        holding = self._holding(subject)
        if isinstance(subject, UserInQueue):
            return _violations(holding, usage)
        return holding.violations(self._admission.vector(usage))

    def violations_without(
        self, subject: Subject, usage: Resource, claim: Claim, leaving: Sequence[tuple[str, LedgerEntry]]
    ) -> tuple[Violation, ...]:
        """Return every limit that a request would exceed after the release of some allocations; nothing changes."""
        for _, entry in leaving:
            self._state.refund(entry)
        found = self.own_violations(subject, usage)
        for _, entry in leaving:
            self._state.charge(entry, self._admission.vector(entry.usage))
        if not self._models:
            return found
        return found + self._models.shortage(claim, [entry.claim(name) for name, entry in leaving])

    def _check_user(self, subject: UserInQueue, query: QueryRequest) -> Decision:
        if self._state.closed:
            raise RequestError("queue_path", subject.queue_path, "the partition is closed", "partition-closed")
        usage, claim = require_resource("usage", query.usage), self.claim(subject, query)
        violations = self.own_violations(subject, usage)
        if violations:
            violations = with_prospects(self._state, violations, (self._entry(subject, query),))
        if self._models:
            violations += self._models.check(claim)
        return Decision(violations)

    def claim(self, subject: Subject, query: QueryRequest) -> Claim:
        """Return a query for models.

        Raises:
            RequestError: the application does not exist, or a property has a wrong type or value.
        """
        request = query.of(_NO_APPLICATION if isinstance(subject, UserInQueue) else subject)
        traits = traits_of(AllocationState.HELD, request, self._admission.now([request], changes=False))
        if not isinstance(subject, UserInQueue):
            return LedgerEntry(self._admission.require_application(subject), query.usage, traits).claim("")
        path, tags = subject.queue_path, subject.tags or {}
        return Claim("", _NO_APPLICATION, query.usage, path, subject.user, tags, *traits[2:5])

    def _entry(self, subject: UserInQueue, query: QueryRequest) -> LedgerEntry:
        """Return the entry of a user in a queue, which may not exist."""
        queue = Queue(QueueSpec(subject.queue_path), None, {}, managed=False)
        known = self._state.tree.queues.get(subject.queue_path)
        if known is None or not known.managed:
            queue.quota_override = subject.quota
        submission = Submission(_NO_APPLICATION, subject.user, subject.queue_path, subject.tags or {})
        request = query.of(_NO_APPLICATION)
        return LedgerEntry(
            Application(submission, queue, GangStyle.SOFT), query.usage, traits_of(AllocationState.HELD, request, 0)
        )

    def _holding(self, subject: Subject) -> Holding:
        """Return the holding of an application, or a detached one for a user in a queue."""
        if not isinstance(subject, UserInQueue):
            return self._state.holding_of(self._admission.require_application(subject))
        self._state.active_limits.request_names.require("quota", subject.quota)
        holding = self._state.holding_index.detached(subject.queue_path, "", require_user(subject.user))
        holding.queue = _QueueChain(self._state.tree.chain_if_made(subject.queue_path, subject.quota))
        return holding


class _QueueChain(NamedTuple):
    """The limits of a queue that may not exist."""

    chain: tuple[Counter, ...]


def _request(application_id: str, entry: LedgerEntry) -> AllocationRequest:
    _, _, priority, preemptible, _, duration, _ = entry.traits
    return QueryRequest(entry.usage, priority, preemptible, duration).of(application_id)


def _violations(holding: Holding, usage: Resource) -> tuple[Violation, ...]:
    """Return every limit that a detached holding would exceed; its counters may have different layouts."""
    chain = holding.chain()
    starting = holding.newly_counted(chain)
    return tuple(
        violation
        for counter in holding.enforced(chain)
        for violation in exceeded((counter,), require_vector("usage", usage, counter.layout), starting)
    )
