"""The checked arguments of calls that plan preemptions and carry plans out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ugm.arguments import require_application_id, require_name, require_nodes, require_resource
from ugm.errors import RequestError
from ugm.partition.admission.applications import require_requests
from ugm.partition.rows import AllocationRequest
from ugm.preemption import PlacedRequest, PreemptionPlan, ReductionPlan
from ugm.resources import Resource

__all__ = [
    "PreemptionCall",
    "call_of",
    "require_preemption_call",
    "require_preemption_plan",
    "require_reduction_call",
]


class PreemptionCall(NamedTuple):
    """The checked arguments of `PreemptionPlanning.plan`."""

    request: AllocationRequest
    since: int
    now: int | None
    may_preempt: bool
    within_queue: bool
    placed: Sequence[AllocationRequest]
    nodes: Mapping[str, Resource] | None


def call_of(plan: PreemptionPlan, now: int) -> PreemptionCall:
    """Return the arguments with which a plan is made again, for its node only."""
    name, application_id, _, usage, priority, since, may_preempt = plan.request
    traits = False, priority, plan.preemptible, plan.duration
    request = AllocationRequest(name, application_id, usage, *traits)
    placed = [_request_of(one) for one in plan.placed if one.application_id]
    nodes = None if plan.node is None else {plan.node: plan.free_on_node or Resource()}
    return PreemptionCall(request, since, now, may_preempt, plan.within_queue, placed, nodes)


def _request_of(placed: PlacedRequest) -> AllocationRequest:
    _, usage, name, application_id, priority, preemptible, duration, node = placed
    traits = False, priority, preemptible, duration, node
    return AllocationRequest(name, application_id, usage, *traits)


def require_preemption_call(
    request: AllocationRequest,
    since: int,
    now: int | None,
    placed: Iterable[AllocationRequest | tuple[str, str, Resource]],
    nodes: Mapping[str, Resource] | None = None,
    *,
    may_preempt: bool,
    within_queue: bool,
) -> PreemptionCall:
    """Return the arguments after checking them.

    Raises:
        RequestError: an argument is invalid.
    """
    if not isinstance(request, AllocationRequest):
        raise RequestError("request", request, "expected an AllocationRequest")
    require_resource("usage", request.usage)
    for argument, value in (("since", since), ("now", 0 if now is None else now)):
        if type(value) is not int:
            raise RequestError(argument, value, "expected whole seconds")
    for argument, flag in (("may_preempt", may_preempt), ("within_queue", within_queue)):
        if type(flag) is not bool:
            raise RequestError(argument, flag, "expected True or False")
    listed = require_requests(placed, "placed")
    for one in listed:
        require_name("allocation_id", one.allocation_id)
        require_application_id(one.application_id)
    return PreemptionCall(request, since, now, may_preempt, within_queue, listed, require_nodes(nodes))


def require_reduction_call(now: int | None, *, overshoot: bool) -> None:
    """Check the arguments of a plan of reductions.

    Raises:
        RequestError: an argument is invalid.
    """
    if now is not None and type(now) is not int:
        raise RequestError("now", now, "expected whole seconds")
    if type(overshoot) is not bool:
        raise RequestError("overshoot", overshoot, "expected True or False")


def require_preemption_plan(plan: object) -> PreemptionPlan | ReductionPlan:
    """Return a plan, after checking its type.

    Raises:
        RequestError: it is not a plan.
    """
    if not isinstance(plan, PreemptionPlan | ReductionPlan):
        raise RequestError("plan", plan, "expected a PreemptionPlan or a ReductionPlan")
    return plan
