"""The arguments with which a plan of preemption is made, and made again before it is carried out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self

from ugm.arguments import require_application_id, require_instance, require_name, require_resource
from ugm.errors import RequestError
from ugm.partition.rows import AllocationRequest
from ugm.preemption import PlacedRequest, PreemptionPlan, ReductionPlan
from ugm.resources import Resource

__all__ = ["PreemptionCall", "call_of", "node_of", "require_preemption_plan", "require_reduction_call"]


class PreemptionCall(NamedTuple):
    """The arguments of `PreemptionPlanning.plan`."""

    request: AllocationRequest
    since: int
    now: int | None
    may_preempt: bool
    within_queue: bool
    placed: Sequence[AllocationRequest]
    nodes: Mapping[str, Resource] | None

    def checked(self) -> Self:
        """Return the arguments after checking them.

        Raises:
            RequestError: an argument is invalid.
        """
        require_resource("usage", require_instance("request", self.request, AllocationRequest).usage)
        _require_type(int, since=self.since, now=0 if self.now is None else self.now)
        _require_type(bool, may_preempt=self.may_preempt, within_queue=self.within_queue)
        for one in self.placed:
            require_name("allocation_id", one.allocation_id)
            require_application_id(one.application_id)
        return self


def _require_type(kind: type, **arguments: object) -> None:
    for argument, value in arguments.items():
        if type(value) is not kind:
            raise RequestError(argument, value, "expected whole seconds" if kind is int else "expected True or False")


def call_of(plan: PreemptionPlan, now: int) -> PreemptionCall:
    """Return the arguments with which a plan is made again, for its node only."""
    name, application_id, _, usage, priority, since, may_preempt = plan.request
    traits = False, priority, plan.preemptible, plan.duration
    request = AllocationRequest(name, application_id, usage, *traits)
    placed = [_request_of(one) for one in plan.placed if one.application_id]
    return PreemptionCall(request, since, now, may_preempt, plan.within_queue, placed, node_of(plan))


def _request_of(placed: PlacedRequest) -> AllocationRequest:
    _, usage, name, application_id, priority, preemptible, duration, node = placed
    traits = False, priority, preemptible, duration, node
    return AllocationRequest(name, application_id, usage, *traits)


def require_reduction_call(now: int | None, *, overshoot: bool) -> None:
    """Check the arguments of a plan of reductions.

    Raises:
        RequestError: an argument is invalid.
    """
    _require_type(int, now=0 if now is None else now)
    _require_type(bool, overshoot=overshoot)


def require_preemption_plan(plan: object) -> PreemptionPlan | ReductionPlan:
    """Return a plan, after checking its type.

    Raises:
        RequestError: it is not a plan.
    """
    if not isinstance(plan, PreemptionPlan | ReductionPlan):
        raise RequestError("plan", plan, "expected a PreemptionPlan or a ReductionPlan")
    return plan


def node_of(plan: PreemptionPlan) -> Mapping[str, Resource] | None:
    """Return the node of a plan with its free amounts."""
    return None if plan.node is None else {plan.node: plan.free_on_node or Resource()}
