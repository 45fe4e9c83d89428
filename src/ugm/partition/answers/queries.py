"""The answers that a request of an application, or of a user in a queue, would get, with the reasons.

A user in a queue has no application there yet. For such a subject an application and a detached holding are made, which
no counter and no index refers to, with the limits of the queue and of its parents. If the queue does not exist, these
are the limits that it would have if placement created it.

Most answers are formatted without the lock, from copies that are made under it, so that a query over a large partition
does not delay a scheduler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from heapq import nsmallest
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from ugm.arguments import require_amounts
from ugm.decision import ALLOWED, Decision, EffectiveLimit, Violation, effective_limits, headroom_of
from ugm.errors import RequestError
from ugm.identity import ROOT, TrackingType, UserGroup, canonical_path, is_below
from ugm.model import Claim
from ugm.partition.admission.admission import AdmissionPart, granted, with_objections
from ugm.partition.admission.applications import require_submission
from ugm.partition.admission.trial_charges import with_prospects
from ugm.partition.answers.reports import (
    ApplicationReport,
    Explanation,
    Holder,
    OwnedAllocation,
    Subject,
    SubmissionReport,
    UserInQueue,
)
from ugm.partition.engine.application import Application, PendingHeadroom
from ugm.partition.engine.state import PartitionState
from ugm.partition.rows import (
    Allocation,
    AllocationRequest,
    AllocationState,
    ApplicationRow,
    GangStyle,
    allocation_of,
    require_duration,
)
from ugm.queues import Submission
from ugm.queues.tree import Queue, QueueSpec
from ugm.resources import Resource
from ugm.tracking.holding import Amounts, Holding, all_holdings, amount_of

if TYPE_CHECKING:
    from ugm.partition.answers.model_queries import ModelQueries
    from ugm.partition.eviction.reclaim_plan import ReclaimPlan
    from ugm.preemption import PreemptionPlan

#: The number of an application that is not submitted yet. It has no id.
_NO_NUMBER: Final = 0


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
    # A plan with the subject can be pickled: the tags of a submission are a view.
    return UserInQueue(subject.user, path, dict(submission.tags), quota)


def require_query_submission(user: UserGroup, queue: str, tags: Mapping[str, str] | None) -> Submission:
    """Return the submission of an application that has no id yet.

    Raises:
        RequestError: an argument is invalid.
    """
    return require_submission("?", user, queue, tags)


#: A plan for a request.
_PlanT = TypeVar("_PlanT", "PreemptionPlan", "ReclaimPlan")
#: The best outcomes of plans.
_BEST: Final = ("fits", "awaits_terminating", "plan")
#: The request of a query for nothing.
_NOTHING: Final = AllocationRequest("", "", Resource())


#: Returns the largest holders for each violation of a decision; without the lock.
_HoldersOf: TypeAlias = Callable[[Decision], tuple[tuple[Holder, ...], ...]]


class SubjectQueries(AdmissionPart):
    """The answers to queries about a subject. The caller holds the lock, and has called `require_subject`."""

    def _model_queries(self) -> ModelQueries:
        from ugm.partition.answers.model_queries import ModelQueries  # noqa: PLC0415 - few partitions have other models

        return ModelQueries(self._models)

    def application_of(self, subject: Subject) -> Application:
        """Return the application of a subject; that of a user in a queue is in no table, and its queue may not exist.

        Raises:
            RequestError: the application does not exist, or the quota has names of resources that are not allowed.
        """
        if not isinstance(subject, UserInQueue):
            return self._admission.require_application(subject)
        path, tags, quota = subject.queue_path, subject.tags or {}, subject.quota
        self._state.active_limits.request_names.require("quota", quota)
        queue, known = Queue(QueueSpec(path), None, {}, managed=False), self._state.tree.queues.get(path)
        queue.chain = self._state.tree.chain_if_made(path, quota)
        if known is None or not known.managed:
            queue.quota_override = quota
        row = ApplicationRow("", subject.user, path, path, tags, GangStyle.SOFT, is_adopted=False, number=_NO_NUMBER)
        return Application(row, queue)

    def best_plan(
        self,
        application: Application,
        query: AllocationRequest,
        plan: Callable[[AllocationRequest, tuple[Violation, ...]], _PlanT],
    ) -> _PlanT:
        """Return the best plan for a request: if it leaves variants open, of the plans for several divisions.

        Args:
            application: the application of the request.
            query: the request.
            plan: returns the plan for a request without open amounts, with the objections to its variants.
        """
        variants = self._admission.variants
        if variants is None:
            return plan(query, ())
        plans = [
            plan(query._replace(usage=usage, assign=None, prefer=()), objections)
            for usage, objections in variants.alternatives(application, query)
        ]
        best = [[one for one in plans if one.outcome == outcome] for outcome in _BEST]
        return min(next(filter(None, best), plans), key=lambda one: len(one.allocation_ids))

    def check(self, subject: Subject, query: AllocationRequest) -> Decision:
        """Return the answer that one more allocation would get."""
        self._admission.request_vector(query.usage)
        application = self.application_of(subject)
        return self._check(application, query)

    def _check(self, application: Application, query: AllocationRequest) -> Decision:
        is_submitted = _is_submitted(application)
        if self._state.row.closed and not is_submitted:
            queue_path = application.queue.queue_path
            raise RequestError("queue_path", queue_path, "the partition is closed", "partition-closed")
        self._admission.require_not_failing(application)
        row = self._row(application, query)
        usage, evictions = row.usage, tuple[str, ...]()
        found = self._state.violations(application, usage)
        if found:
            found = with_prospects(self._state, found, ((application, usage),))
        if self._models.all:
            claim = application.claim(row)
            by_models = self._models.check(claim)
            found += by_models
            evictions = self._admission.evictions(claim, application) if by_models and is_submitted else ()
        if row.assign is not None:
            found = with_objections(found, self._admission.objections(application, row))
        return Decision(found, evictions) if found else granted(row)

    def explain(self, subject: Subject, query: AllocationRequest, max_holders: int) -> Callable[[], Explanation]:
        """Return a function that returns the same with its reasons; it may be called without the lock."""
        decision = self.check(subject, query)
        explained = self._explained(self.application_of(subject), query)
        holders = copy_holders(self._state, [decision], max_holders)
        return lambda: replace(explained, decision=decision, holders=holders(decision))

    def limits(self, subject: Subject) -> tuple[EffectiveLimit, ...]:
        """Return every limit that holds for the subject."""
        application = self.application_of(subject)
        found = self._own_limits(application)
        return found + self._model_queries().limits(self.claim(application, _NOTHING)) if self._models.all else found

    def headroom(self, subject: Subject, duration: int | None) -> Resource | None:
        """Return the amounts that the subject may request for a duration."""
        if duration is not None:
            require_duration(duration)
        application = self.application_of(subject)
        return self._headroom(application, self._own_limits(application), _NOTHING._replace(duration=duration))

    def _headroom(
        self, application: Application, limits: tuple[EffectiveLimit, ...], query: AllocationRequest
    ) -> Resource | None:
        free = headroom_of(limits)
        families, offered = self._state.compiled.limits.families, self._state.cluster.total
        if self._models.all:
            names = {*self._state.active_limits.epoch.layout.names, *(application.held() or ())}
            free = self._model_queries().headroom(self.claim(application, query), free, names, offered)
        return free if families is None or free is None else families.capped(free, offered)

    def _explained(self, application: Application, query: AllocationRequest = _NOTHING) -> Explanation:
        """Return the limits of an application with the headroom, at one moment, without a decision."""
        query, limits = query._replace(usage=_NOTHING.usage), self._own_limits(application)
        headroom = self._headroom(application, limits, query)
        if self._models.all:
            limits += self._model_queries().limits(self.claim(application, query))
        return Explanation(ALLOWED, (), limits, application.queue.queue_path, headroom)

    def _own_limits(self, application: Application) -> tuple[EffectiveLimit, ...]:
        """Return the limits of users, groups and queues, and those on pending work."""
        holding, counted = self._state.holding_of(application), self._state.pending_usage
        found = effective_limits(holding.enforced(holding.chain()))
        return found if counted is None else found + counted.limits(application)

    def pending_headroom(self, subject: Subject) -> PendingHeadroom:
        """Return the pending work that the subject may still add."""
        counted, application = self._state.pending_usage, self.application_of(subject)
        return PendingHeadroom() if counted is None else counted.headroom(application)

    def explain_submission(
        self, submission: Submission, usage: Resource, quota: Resource | None, duration: int | None, max_holders: int
    ) -> Callable[[], SubmissionReport]:
        """Return a function that returns the placement of an application, with the answer to its first allocation."""
        placement = self._state.place(submission)
        if placement.queue_path is None:
            return lambda: SubmissionReport(placement, Explanation(Decision()))
        subject = UserInQueue(submission.user, placement.queue_path, submission.tags, quota)
        explanation = self.explain(subject, _NOTHING._replace(usage=usage, duration=duration), max_holders)
        return lambda: SubmissionReport(placement, explanation())

    def application_report(
        self, application_id: str, max_pending: int, max_holders: int
    ) -> Callable[[], ApplicationReport | None]:
        """Return a function that returns an application with the answers to its first pending allocations."""
        application = self._state.applications.get(application_id)
        if application is None:
            return lambda: None
        pending = [] if application.row.failing else sorted(application.pending)[:max_pending]
        answers = [
            (OwnedAllocation.of(application, row), self._check(application, row.request))
            for row in map(self._state.tables.allocations.__getitem__, pending)
        ]
        holders = copy_holders(self._state, [decision for _, decision in answers], max_holders)
        info, explained = application.info(), self._explained(application)
        return lambda: ApplicationReport(
            info,
            explained.limits,
            tuple((owned, replace(explained, decision=one, holders=holders(one))) for owned, one in answers),
            explained.headroom,
        )

    def violations_without(
        self, application: Application, claim: Claim, leaving: Sequence[Allocation]
    ) -> tuple[tuple[Violation, ...], tuple[Violation, ...]]:
        """Return every limit that a claim would exceed after the release of some allocations; nothing changes.

        Returns:
            The limits of users, groups and queues, and those of other quota models.
        """
        found = self._state.violations(application, claim.usage, leaving)
        if not self._models.all:
            return found, ()
        return found, self._models.shortage(claim, [self._state.claim(row) for row in leaving])

    def claim(self, application: Application, query: AllocationRequest) -> Claim:
        """Return a query for models.

        Raises:
            RequestError: a property has a wrong type or value.
        """
        return application.claim(self._row(application, query))

    def possible_nodes(self, claim: Claim, nodes: Mapping[str, Resource] | None) -> Mapping[str, Resource] | None:
        """Return the nodes for which no model denies a claim more than elsewhere; others need no victims."""
        if nodes is None or not self._models.sees_nodes:
            return nodes
        elsewhere = frozenset(self._models.check(claim))
        checked = ((name, self._models.check(claim._replace(node=name))) for name in nodes)
        return {name: nodes[name] for name, violations in checked if elsewhere.issuperset(violations)}

    def _row(self, application: Application, query: AllocationRequest) -> Allocation:
        # A query has no allocation and no node.
        request = query._replace(
            allocation_id="", application_id=application.row.application_id, placeholder=False, node=None, label=None
        )
        row = allocation_of(request, AllocationState.HELD, self._admission.now([request], changes=False))
        return self._admission.assigned(application, row)


def _is_submitted(application: Application) -> bool:
    return application.row.number != _NO_NUMBER


# The largest holders


def copy_holders(state: PartitionState, decisions: Iterable[Decision], max_holders: int) -> _HoldersOf:
    """Copy the amounts that are charged to the owner of each violated limit; the caller holds the lock.

    Violations of other quota models have no holders. The time depends on the number of applications that are charged to
    the limits; each owner is copied once.

    Returns:
        A function that returns the largest holders for each violation of a decision: none if waiting cannot help.
    """
    copies: dict[tuple[str, str], list[tuple[Holding, Amounts]]] = {}
    for violation in (violation for decision in decisions for violation in decision.violations):
        if _owner(violation) not in copies:
            held = all_holdings(_charged_to(state, violation))
            copies[_owner(violation)] = [(holding, holding.amounts) for holding in held]

    def holders_of(decision: Decision) -> tuple[tuple[Holder, ...], ...]:
        most = max_holders if decision.can_wait else 0
        return tuple(
            tuple(nsmallest(most, _holders(violation, copies[_owner(violation)]), lambda one: (-one.amount, one[0])))
            for violation in decision.violations
        )

    return holders_of


def _owner(violation: Violation) -> tuple[str, str]:
    return violation.kind, "" if violation.kind == TrackingType.QUEUE else violation.name


def _holders(violation: Violation, copies: Iterable[tuple[Holding, Amounts]]) -> Iterator[Holder]:
    for holding, amounts in copies:
        amount = 1 if violation.resource is None else amount_of(amounts, violation.resource)
        if amount and is_below(holding.queue_path, violation.queue_path or ROOT):
            yield Holder(holding.application_id, holding.owner.name, holding.queue_path, amount)


def _charged_to(state: PartitionState, violation: Violation) -> Mapping[str, Holding]:
    index = state.holding_index
    if violation.kind == TrackingType.QUEUE:
        return index.holdings
    trees = {TrackingType.USER: index.users, TrackingType.GROUP: index.groups}.get(violation.kind, {})  # type: ignore[call-overload]
    return trees[violation.name].holdings if violation.name in trees else {}
