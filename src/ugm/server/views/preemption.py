"""Endpoints for preemption: plans, their execution, and the state of those that are being carried out.

Only `carry_out` changes the partition.
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, Struct

from ugm import AllocationRequest
from ugm.partition import AbstractPartition, AllocationState, PreemptionStatus
from ugm.partition.interface.operations import Role
from ugm.preemption import PreemptionPlan, ReductionPlan
from ugm.resources import Resource
from ugm.server.http.payloads import ApiError, require_found
from ugm.server.interface.fields import Name, Nodes, Priority, Seconds
from ugm.server.interface.operations import AllocationIds
from ugm.server.interface.route import Call, Routes
from ugm.server.interface.schemas import Object, with_text
from ugm.server.interface.state import ServedPartition

__all__ = ["ROUTES"]

ROUTES: Final = Routes()
_PARTITION: Final = "/partition/{partition}"


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
        require_found("application", self.application_id, partition.application)
        wanted = AllocationRequest(self.allocation_id, self.application_id, self.usage, priority=self.priority)
        pending = partition.allocation(self.allocation_id) if self.allocation_id else None
        if pending is not None and pending.state is AllocationState.PENDING:
            # The body does not have these, and a plan for other ones is stale.
            wanted = wanted._replace(preemptible=pending.preemptible, duration=pending.duration)
        return partition.plan_preemption(
            wanted,
            since=self.since,
            now=self.now,
            may_preempt=self.may_preempt,
            within_queue=self.within_queue,
            nodes=self.nodes,
        )


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


@ROUTES.get(f"{_PARTITION}/preemption")
def preemption_status(served: ServedPartition) -> PreemptionStatus:
    """Return the terminating allocations, the placed requests, the timers, and the number of plans by outcome."""
    return served.partition.preemption_status()


@ROUTES.post(f"{_PARTITION}/plan_preemption")
def plan_preemption(served: ServedPartition, *, body: PreemptingRequest) -> Annotated[Object, PreemptionPlan]:
    """Return the allocations to evict for a request that the guarantees of its queues entitle to resources."""
    return with_text(body.plan(served.partition))


@ROUTES.post(f"{_PARTITION}/plan_reductions")
def plan_reductions(served: ServedPartition, *, body: Reductions) -> Annotated[Object, ReductionPlan]:
    """Return the allocations to evict so that queues above a lowered maximum are within it again."""
    return with_text(body.plan(served.partition))


@ROUTES.post(f"{_PARTITION}/carry_out", role=Role.OPERATOR)
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
