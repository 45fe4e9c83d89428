"""Endpoints for decisions: checks, explanations, effective limits, the scheduling order, and plans of preemption.

Only `carry_out` changes the partition.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Final, TypeAlias

from msgspec import Meta, Struct, structs

from ugm import AllocationRequest, UserGroup
from ugm.decision import Decision, EffectiveLimit
from ugm.identity import canonical_path
from ugm.partition import (
    AbstractPartition,
    AllocationState,
    ApplicationInfo,
    PreemptionStatus,
    ReclaimPlan,
    Turn,
    UserInQueue,
)
from ugm.partition.answers.reports import OwnedAllocation
from ugm.partition.interface.operation_kinds import Role
from ugm.preemption import PreemptionPlan, ReductionPlan
from ugm.resources import Resource, optional_dict
from ugm.server.http.payloads import ApiError, require_found
from ugm.server.interface.operations import AllocationIds
from ugm.server.interface.route import PARTITION, Call, Routes, ServedPartition
from ugm.server.interface.schemas import (
    Duration,
    Groups,
    Name,
    Nodes,
    Object,
    PageSize,
    Priority,
    QueuePath,
    RequestedQueue,
    Seconds,
    Tags,
    User,
    ViolationWithHolders,
    with_text,
)
from ugm.server.queries import answer_dict

ROUTES: Final = Routes()
#: The number of pending allocations of an application that are explained.
_MOST_EXPLAINED: Final = 10


class _Request(Struct, forbid_unknown_fields=True):
    """A request of an application, or of a user."""

    usage: Resource
    application_id: Name = ""
    user: Name = ""
    groups: Groups = []
    queue: RequestedQueue = ""
    tags: Tags = {}
    duration: Duration | None = None


class Question(_Request, forbid_unknown_fields=True):
    """A request of an application, or of a user for a new one."""

    quota: Resource | None = None
    #: The number of holders of each missing resource.
    max_holders: Annotated[int, Meta(ge=0, le=100)] = 3


class ReclaimQuestion(_Request, forbid_unknown_fields=True):
    """A request within a guarantee, of an application or of a user in a queue."""

    priority: Priority = 0
    preemptible: bool = True
    nodes: Nodes | None = None


def _subject(*fields: str) -> Meta:
    """Return the rule that a body names an application or a user; an application takes precedence."""
    return Meta(extra_json_schema={"anyOf": [{"required": ["application_id"]}, {"required": list(fields)}]})


_Question: TypeAlias = Annotated[Question, _subject("user")]


class Checked(Decision):
    """The decision on a request."""

    queue_path: str | None
    placement: Object | None


class Explained(Checked):
    """The decision on a request with the holders of missing resources, and every limit that applies."""

    violations: tuple[ViolationWithHolders, ...]
    limits: list[EffectiveLimit]
    headroom: Resource | None


@ROUTES.post(f"{PARTITION}/check")
def check(served: ServedPartition, *, body: _Question) -> Annotated[Object, Checked]:
    """Return the decision on one more allocation."""
    return _explanation(served.partition, body, checks_only=True)


@ROUTES.post(f"{PARTITION}/explain")
def explain(served: ServedPartition, *, body: _Question) -> Annotated[Object, Explained]:
    """Return the decision on one more allocation, the holders of missing resources, and every limit that applies."""
    return _explanation(served.partition, body)


def _explanation(partition: AbstractPartition, body: Question, *, checks_only: bool = False) -> Object:
    usage, terms = body.usage, dict[str, Any](max_holders=body.max_holders, duration=body.duration)
    if body.application_id:
        return answer_dict(partition.explain(body.application_id, usage, **terms), checks_only=checks_only)
    if not body.user:
        raise ApiError(400, "body-invalid", "body: expected application_id or user")
    user, tags = UserGroup(body.user, body.groups), body.tags or None
    report = partition.explain_submission(user, body.queue, usage, tags, quota=body.quota, **terms)
    return answer_dict(report.explanation, report.placement, checks_only=checks_only)


class Order(Struct):
    """Pending requests in scheduling order."""

    turns: tuple[Turn, ...]


@ROUTES.get(f"{PARTITION}/order")
def order(served: ServedPartition, *, limit: PageSize = 100, tree: Name = "") -> Order:
    """Return the first pending requests in the order in which a scheduler should try them, with the reasons."""
    return Order(served.partition.order(max_turns=limit, tree=tree))


@ROUTES.post(f"{PARTITION}/plan_reclaim")
def plan_reclaim(
    served: ServedPartition, *, body: Annotated[ReclaimQuestion, _subject("user", "queue")]
) -> Annotated[Object, ReclaimPlan]:
    """Return the allocations to evict so that a request within its guarantee fits."""
    subject = body.application_id or UserInQueue(UserGroup(body.user, body.groups), body.queue, body.tags or None)
    terms = {name: getattr(body, name) for name in ("usage", "duration", "priority", "preemptible", "nodes")}
    return with_text(served.partition.plan_reclaim(subject, **terms))


class Limits(Struct):
    """The limits of a user in a queue."""

    queue_path: str
    limits: tuple[EffectiveLimit, ...]
    headroom: Resource | None


@ROUTES.get(f"{PARTITION}/limits")
def limits(
    served: ServedPartition,
    *,
    user: User,
    queue: QueuePath,
    group: Annotated[list[User], Meta(max_length=20)] = [],  # noqa: B006 - not changed
) -> Limits:
    """Return every limit that applies to a user in a queue."""
    path = canonical_path(queue)
    # The explanation of an empty request has the limits and the headroom of one moment.
    found = served.partition.explain(UserInQueue(UserGroup(user, group), path), Resource())
    return Limits(path, found.limits, found.headroom)


class Waiting(Struct):
    """A pending allocation, and the answer that it would get."""

    allocation: OwnedAllocation
    explanation: Annotated[Object, Explained]


class ApplicationDetail(ApplicationInfo):
    """An application with its limits, and the explanations of its pending allocations."""

    limits: list[EffectiveLimit]
    headroom: Resource | None
    waiting: list[Waiting]


@ROUTES.get(f"{PARTITION}/application/{{name}}")
def application(served: ServedPartition, *, name: Name) -> Annotated[Object, ApplicationDetail]:
    """Return one application with its limits and the explanations of its pending allocations."""
    find = partial(served.partition.application_report, max_pending=_MOST_EXPLAINED)
    report = require_found("application", name, find)
    return {
        **report.application.to_dict(),
        "limits": report.limits,
        "headroom": optional_dict(report.headroom),
        "waiting": [Waiting(one, answer_dict(found)) for one, found in report.pending],
    }


# Preemption


class PreemptingRequest(Struct, forbid_unknown_fields=True):
    """The request that a plan makes room for."""

    application_id: Name
    usage: Resource
    since: Seconds
    allocation_id: Name = ""
    priority: Priority = 0
    now: Seconds | None = None
    may_preempt: bool = True
    within_queue: bool = False
    nodes: Nodes | None = None

    def plan(self, partition: AbstractPartition) -> PreemptionPlan:
        """Make the plan."""
        terms = structs.asdict(self)
        require_found("application", self.application_id, partition.application)
        named = {name: terms.pop(name) for name in ("allocation_id", "application_id", "usage", "priority")}
        wanted = AllocationRequest(**named)
        pending = partition.allocation(self.allocation_id) if self.allocation_id else None
        if pending is not None and pending.state is AllocationState.PENDING:
            # The body does not have these, and a plan for other ones is stale.
            wanted = wanted._replace(preemptible=pending.preemptible, duration=pending.duration)
        return partition.plan_preemption(wanted, **terms)


class Reductions(Struct, forbid_unknown_fields=True):
    """The arguments of a plan of reductions."""

    now: Seconds | None = None
    overshoot: bool = True

    def plan(self, partition: AbstractPartition) -> ReductionPlan:
        """Make the plan."""
        return partition.plan_reductions(self.now, overshoot=self.overshoot)


class Execution(Struct, forbid_unknown_fields=True):
    """The arguments of a plan, and the victims that it named."""

    victims: Annotated[list[Name], Meta(min_length=1, max_length=10_000)]
    request: PreemptingRequest | None = None
    reductions: Reductions | None = None


@ROUTES.get(f"{PARTITION}/preemption")
def preemption_status(served: ServedPartition) -> PreemptionStatus:
    """Return the terminating allocations, the placed requests, the timers, and the number of plans by outcome."""
    return served.partition.preemption_status()


@ROUTES.post(f"{PARTITION}/plan_preemption")
def plan_preemption(served: ServedPartition, *, body: PreemptingRequest) -> Annotated[Object, PreemptionPlan]:
    """Return the allocations to evict for a request that the guarantees of its queues entitle to resources."""
    return with_text(body.plan(served.partition))


@ROUTES.post(f"{PARTITION}/plan_reductions")
def plan_reductions(served: ServedPartition, *, body: Reductions) -> Annotated[Object, ReductionPlan]:
    """Return the allocations to evict so that queues above a lowered maximum are within it again."""
    return with_text(body.plan(served.partition))


@ROUTES.post(f"{PARTITION}/carry_out", role=Role.OPERATOR)
def carry_out(served: ServedPartition, call: Call, *, body: Execution) -> Annotated[Object, AllocationIds]:
    """Make a plan again, and mark its victims as terminating if they are the named ones; otherwise mark none."""
    with call.operation("carry_out", f"{served.name}: {', '.join(body.victims)}"):
        return {"allocation_ids": _carry_out(served.partition, body)}


def _carry_out(partition: AbstractPartition, body: Execution) -> tuple[str, ...]:
    arguments = body.request or body.reductions
    if arguments is None:
        raise ApiError(422, "body-invalid", "body: expected request or reductions")
    held = (one for name in body.victims if (one := partition.allocation(name)) is not None)
    if not any(one.state is AllocationState.HELD for one in held):
        return ()
    plan = arguments.plan(partition)
    victims = (*plan.victims, *(plan.by_model if isinstance(plan, PreemptionPlan) else ()))
    found = [one.allocation_id for one in victims]
    if sorted(found) != sorted(body.victims):
        names = ", ".join(map(repr, found)) or "none"
        raise ApiError(409, "plan-stale", f"the plan has other victims now: {names}")
    return partition.carry_out(plan)
