"""Queries. They change nothing and return values.

`Queries` lists applications, allocations, queues, users and groups. Most answers are formatted without the lock, from
copies that are made under it, so that a query over a large partition does not delay a scheduler. A method whose name
begins with `copy_` returns such a copy.

`SubjectQueries` explains the answer that a request of an application, or of a user in a queue, would get. A user in a
queue has no application there yet. For such a subject a detached holding is made, which no counter and no index refers
to, with the limits of the queue and of its parents. If the queue does not exist, these are the limits that it would
have if placement created it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import nsmallest
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, final

from ugm.arguments import require_amounts, require_resource, require_user, require_vector
from ugm.counters import Counter
from ugm.decision import Decision, EffectiveLimit, Violation, effective_limits, exceeded, headroom_of
from ugm.errors import RequestError
from ugm.identity import ROOT, TrackingType, UserGroup, canonical_path, is_below
from ugm.model import Claim
from ugm.partition.admission.admission import AdmissionControl
from ugm.partition.admission.applications import require_submission
from ugm.partition.answers.reports import (
    ApplicationReport,
    Explanation,
    Holder,
    OwnedAllocation,
    Subject,
    SubmissionReport,
    UserInQueue,
)
from ugm.partition.config.emptied import with_prospects
from ugm.partition.engine.application import Application, ApplicationCopy, ApplicationInfo, PendingHeadroom
from ugm.partition.engine.model_set import ModelSet
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
from ugm.queues import Placement, QueueState, Submission
from ugm.queues.tree import Queue, QueueSpec, queue_state
from ugm.resources import Resource
from ugm.tracking.holding import Amounts, Holding, all_holdings, amount_of

if TYPE_CHECKING:
    from ugm.partition.answers.model_queries import ModelQueries

if TYPE_CHECKING:
    from ugm.partition.answers.owner_usage import OwnerLimits

__all__ = ["Queries", "QueryRequest", "SubjectQueries", "require_query_submission", "require_subject"]


@final
class Queries:
    """The answers to queries. The caller holds the lock."""

    __slots__ = ("_admission", "_state")

    def __init__(self, state: PartitionState, admission: AdmissionControl) -> None:
        self._state: Final = state
        self._admission: Final = admission

    # Applications and allocations

    def application(self, application_id: str) -> ApplicationInfo | None:
        """Return the current state of an application."""
        found = self._state.applications.get(application_id)
        return None if found is None else found.info()

    def copy_applications(self, queue_path: str | None) -> list[ApplicationCopy]:
        """Copy all applications, or those in and below a queue."""
        found: Mapping[str, Application] = self._state.applications
        if queue_path is not None:
            below = self._admission.require_queue(queue_path).below()
            found = {name: self._state.applications[name] for queue in below for name in queue.applications}
        return [one.copy() for one in found.values()]

    def applications_by_id(self, application_ids: Iterable[str]) -> tuple[ApplicationInfo, ...]:
        """Return those of the given applications that exist, in the given order."""
        found = [self._state.applications.get(name) for name in application_ids]
        return tuple(one.info() for one in found if one is not None)

    def allocation(self, allocation_id: str) -> Allocation | None:
        """Return the current state of an allocation."""
        return self._state.allocations.get(allocation_id)

    def copy_allocations(self, application_id: str | None) -> dict[str, Allocation]:
        """Copy the allocations of all applications, or of one."""
        rows = self._state.allocations
        if application_id is None:
            return dict(rows)
        application = self._admission.require_application(application_id)
        return {name: rows[name] for name in (*application.allocations, *application.pending)}

    def copy_for_audit(self) -> tuple[dict[str, Allocation], set[str]]:
        """Copy all allocations, and the ids of all applications."""
        return dict(self._state.allocations), set(self._state.applications)

    def allocations_by_id(self, allocation_ids: Iterable[str]) -> tuple[OwnedAllocation, ...]:
        """Return those of the given allocations that exist, with their owners, in the given order."""
        found = [self._state.allocations.get(name) for name in allocation_ids]
        owners = self._state.applications
        return tuple(OwnedAllocation.of(owners[row.application_id], row) for row in found if row is not None)

    # Queues

    def queue(self, queue_path: str, *, alone: bool) -> QueueState | None:
        """Return the current state of a queue, with the queues below it or *alone*."""
        found = self._state.tree.queues.get(canonical_path(queue_path))
        return None if found is None else queue_state(found, self._state.tree.cluster, alone=alone)

    def queue_headroom(self, queue_path: str, *, cluster: bool) -> Resource | None:
        """Return the minimum that a queue and its parents leave."""
        return self._state.tree.headroom(self._admission.require_queue(queue_path).queue_path, cluster=cluster)

    def queue_maximum(self, queue_path: str) -> Resource | None:
        """Return the minimum of the maxima of a queue and its parents."""
        return self._state.tree.maximum(self._admission.require_queue(queue_path).queue_path)

    def pending_usages(self, queue_path: str) -> list[Resource]:
        """Return the amounts of the pending allocations in a queue itself."""
        found = self._state.tree.queues.get(queue_path)
        names = [] if found is None else list(found.applications)
        return [one.usage for name in names for one in self._state.applications[name].pending.values()]

    def nodes(self) -> dict[str, Resource]:
        """Return the resources of every registered node."""
        return dict(sorted(self._state.cluster.nodes.items()))

    # Users and groups

    def owner(self, kind: TrackingType, name: str, *, pending: bool = False) -> OwnerLimits | None:
        """Copy the usage of a user or group, also of its *pending* allocations; None if there is none."""
        from ugm.partition.answers import owner_usage as values  # noqa: PLC0415 - few programs ask for it

        index, limits = self._state.holding_index, self._state.active_limits.limits
        trees, table = (index.users, limits.users) if kind is TrackingType.USER else (index.groups, limits.groups)
        held = all_holdings(trees[name].holdings) if name in trees else ()
        lines = [values.usage_line(holding, holding.amounts) for holding in held]
        applications = self._state.applications.values() if pending else ()
        waiting = [values.pending_line(one) for one in applications if one.pending and one.submission.user.name == name]
        return values.OwnerLimits(kind, name, table, lines, waiting) if lines or waiting else None

    def owners(self, kind: TrackingType) -> list[OwnerLimits]:
        """Copy the usage of all users or groups, sorted by name."""
        index = self._state.holding_index
        names = sorted(index.users if kind is TrackingType.USER else index.groups)
        return [found for name in names if (found := self.owner(kind, name)) is not None]


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


class SubjectLimits(NamedTuple):
    """The limits that hold for a subject, at one moment; the fields are the last ones of an `Explanation`."""

    limits: tuple[EffectiveLimit, ...] = ()
    #: The queue of the subject; empty if there is none.
    queue_path: str = ""
    #: The headroom that other quota models leave; None if it follows from `limits`.
    model_headroom: Resource | None = None


#: Returns the largest holders for each violation of a decision; without the lock.
_HoldersOf: TypeAlias = Callable[[Decision], tuple[tuple[Holder, ...], ...]]


@final
class SubjectQueries:
    """The answers to queries about a subject. The caller holds the lock, and has called `require_subject`."""

    __slots__ = ("_admission", "_models", "_state")

    def __init__(self, state: PartitionState, models: ModelSet, admission: AdmissionControl) -> None:
        self._state: Final = state
        self._models: Final = models
        self._admission: Final = admission

    def _model_queries(self) -> ModelQueries:
        from ugm.partition.answers.model_queries import ModelQueries  # noqa: PLC0415 - few partitions have other models

        return ModelQueries(self._models)

    def check(self, subject: Subject, query: QueryRequest) -> Decision:
        """Return the answer that one more allocation would get."""
        self._admission.request_vector(query.usage)
        if isinstance(subject, UserInQueue):
            return self._check_user(subject, query)
        return self._admission.check(query.of(subject))

    def explain(self, subject: Subject, query: QueryRequest, max_holders: int) -> Callable[[], Explanation]:
        """Return a function that returns the same with its reasons; it may be called without the lock."""
        decision = self.check(subject, query)
        limits, holders = self._limits_and_headroom(subject, query), copy_holders(self._state, [decision], max_holders)
        return lambda: Explanation(decision, holders(decision), *limits)

    def limits(self, subject: Subject) -> tuple[EffectiveLimit, ...]:
        """Return every limit that holds for the subject."""
        found = self._own_limits(self._holding(subject)) + self._pending_limits(subject)
        return found + self._model_queries().limits(self.claim(subject, _NOTHING)) if self._models.all else found

    def headroom(self, subject: Subject, duration: int | None) -> Resource | None:
        """Return the amounts that the subject may request for a duration."""
        if duration is not None:
            require_duration(duration)
        holding = self._holding(subject)
        free = headroom_of(self._own_limits(holding))
        if not self._models.all:
            return free
        return self._model_headroom(holding, self.claim(subject, _NOTHING._replace(duration=duration)), free)

    def _limits_and_headroom(self, subject: Subject, query: QueryRequest = _NOTHING) -> SubjectLimits:
        """Return the limits of the subject with the headroom of the models, at one moment."""
        holding = self._holding(subject)
        limits = self._own_limits(holding) + self._pending_limits(subject)
        if not self._models.all:
            return SubjectLimits(limits, holding.queue_path)
        claim = self.claim(subject, query._replace(usage=_NOTHING.usage))
        headroom = self._model_headroom(holding, claim, headroom_of(limits))
        limits += self._model_queries().limits(claim)
        return SubjectLimits(limits, holding.queue_path, None if headroom == headroom_of(limits) else headroom)

    @staticmethod
    def _own_limits(holding: Holding) -> tuple[EffectiveLimit, ...]:
        """Return the limits of users, groups and queues."""
        return effective_limits(holding.enforced(holding.chain()))

    def _pending_limits(self, subject: Subject) -> tuple[EffectiveLimit, ...]:
        """Return the limits on pending work."""
        counted = self._state.pending_usage
        return () if counted is None else counted.limits(self._owner(subject))

    def pending_headroom(self, subject: Subject) -> PendingHeadroom:
        """Return the pending work that the subject may still add."""
        counted, owner = self._state.pending_usage, self._owner(subject)
        return PendingHeadroom() if counted is None else counted.headroom(owner)

    def _owner(self, subject: Subject) -> Application | tuple[str, UserGroup]:
        if isinstance(subject, UserInQueue):
            return subject.queue_path, require_user(subject.user)
        return self._admission.require_application(subject)

    def _model_headroom(self, holding: Holding, claim: Claim, free: Resource | None) -> Resource | None:
        names = {*self._state.active_limits.epoch.layout.names, *holding.held()}
        return self._model_queries().headroom(claim, free, names, offered=self._state.cluster.total)

    def place(self, submission: Submission) -> Placement:
        """Return where an application would be placed."""
        return self._state.place(submission)

    def explain_submission(
        self, submission: Submission, usage: Resource, quota: Resource | None, duration: int | None, max_holders: int
    ) -> Callable[[], SubmissionReport]:
        """Return a function that returns the placement of an application, with the answer to its first allocation."""
        placement = self.place(submission)
        if placement.queue_path is None:
            return lambda: SubmissionReport(placement, Explanation(Decision()))
        path = canonical_path(placement.queue_path)
        subject = UserInQueue(submission.user, path, submission.tags, quota)
        explanation = self.explain(subject, QueryRequest(usage, duration=duration), max_holders)
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
            (OwnedAllocation.of(application, row), self._admission.check(_request(row)))
            for row in map(self._state.tables.allocations.__getitem__, pending)
        ]
        holders = copy_holders(self._state, [decision for _, decision in answers], max_holders)
        info, limits = application.info(), self._limits_and_headroom(application_id)
        return lambda: ApplicationReport(
            info,
            limits.limits,
            tuple((owned, Explanation(decision, holders(decision), *limits)) for owned, decision in answers),
            limits.model_headroom,
        )

    def own_violations(self, subject: Subject, usage: Resource) -> tuple[Violation, ...]:
        """Return every limit of users, groups, queues and the cluster that one more allocation would exceed."""
        holding = self._holding(subject)
        if isinstance(subject, UserInQueue):
            return _violations(holding, usage)
        return holding.violations(self._state.vector(usage))

    def violations_without(
        self, subject: Subject, usage: Resource, claim: Claim, leaving: Sequence[Allocation]
    ) -> tuple[Violation, ...]:
        """Return every limit that a request would exceed after the release of some allocations; nothing changes."""
        for row in leaving:
            self._state.refund(row)
        found = self.own_violations(subject, usage)
        for row in leaving:
            self._state.charge(row)
        if not self._models.all:
            return found
        return found + self._models.shortage(claim, [self._state.claim(row) for row in leaving])

    def _check_user(self, subject: UserInQueue, query: QueryRequest) -> Decision:
        if self._state.row.closed:
            raise RequestError("queue_path", subject.queue_path, "the partition is closed", "partition-closed")
        usage, claim = require_resource("usage", query.usage), self.claim(subject, query)
        violations = self.own_violations(subject, usage)
        if violations:
            violations = with_prospects(self._state, violations, ((self._application(subject), usage),))
        if self._models.all:
            violations += self._models.check(claim)
        return Decision(violations)

    def claim(self, subject: Subject, query: QueryRequest) -> Claim:
        """Return a query for models.

        Raises:
            RequestError: the application does not exist, or a property has a wrong type or value.
        """
        request = query.of(_NO_APPLICATION if isinstance(subject, UserInQueue) else subject)
        row = allocation_of(request, AllocationState.HELD, self._admission.now([request], changes=False))
        if not isinstance(subject, UserInQueue):
            application = self._admission.require_application(subject)
            return application.claim(row)
        path, tags = subject.queue_path, subject.tags or {}
        return Claim(
            "", _NO_APPLICATION, query.usage, path, subject.user, tags, row.priority, row.preemptible, row.until
        )

    def _application(self, subject: UserInQueue) -> Application:
        """Return an application of a user in a queue, which may not exist."""
        queue = Queue(QueueSpec(subject.queue_path), None, {}, managed=False)
        known = self._state.tree.queues.get(subject.queue_path)
        if known is None or not known.managed:
            queue.quota_override = subject.quota
        path = subject.queue_path
        row = ApplicationRow(
            _NO_APPLICATION, subject.user, path, path, subject.tags or {}, GangStyle.SOFT, is_adopted=False, number=0
        )
        return Application(row, queue)

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


def _request(row: Allocation) -> AllocationRequest:
    return QueryRequest(row.usage, row.priority, row.preemptible, row.duration).of(row.application_id)


def _violations(holding: Holding, usage: Resource) -> tuple[Violation, ...]:
    """Return every limit that a detached holding would exceed; its counters may have different layouts."""
    chain = holding.chain()
    starting = holding.newly_counted(chain)
    return tuple(
        violation
        for counter in holding.enforced(chain)
        for violation in exceeded((counter,), require_vector("usage", usage, counter.layout), starting)
    )


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
