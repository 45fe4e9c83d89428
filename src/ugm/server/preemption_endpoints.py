"""Endpoints for preemption: plans, their execution, and the state of those that are being carried out.

Only `carry_out` changes the partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ugm import AllocationRequest
from ugm._json_values import JsonMapping
from ugm.partition import AbstractPartition, AllocationState
from ugm.preemption import PreemptionPlan, ReductionPlan
from ugm.server.decision_endpoints import parse_amounts, parse_nodes
from ugm.server.payloads import ApiError, require_found
from ugm.server.schemas import NAME, NODES, QUANTITIES, SECONDS, TRAITS, Schema, listing, record
from ugm.server.state import RequestContext, ServedPartition, ServerState

__all__ = [
    "CARRY_OUT_BODY",
    "PREEMPTION_BODY",
    "REDUCTIONS_BODY",
    "carry_out",
    "plan_preemption",
    "plan_reductions",
    "preemption_status",
]

#: The number of victims that one request may name.
_MOST: Final = 10_000
_FLAG: Final[Schema] = {"type": "boolean"}
_OPTIONAL: Final = {
    "allocation_id": NAME,
    "priority": TRAITS["priority"],
    "now": SECONDS,
    "may_preempt": _FLAG,
    "within_queue": _FLAG,
    "nodes": NODES,
}

#: The request that a plan makes room for.
PREEMPTION_BODY: Final[Schema] = record(_OPTIONAL, application_id=NAME, usage=QUANTITIES, since=SECONDS)
#: The arguments of a plan of reductions.
REDUCTIONS_BODY: Final[Schema] = record({"now": SECONDS, "overshoot": _FLAG})
_VICTIMS: Final = listing(NAME, minItems=1, maxItems=_MOST)
#: The arguments of a plan, and the victims that it named.
CARRY_OUT_BODY: Final[Schema] = {
    "anyOf": [
        record(request=PREEMPTION_BODY, victims=_VICTIMS),
        record(reductions=REDUCTIONS_BODY, victims=_VICTIMS),
    ]
}


def preemption_status(served: ServedPartition, _request: RequestContext) -> object:
    """Return the terminating allocations, the placed requests, the timers, and the number of plans by outcome."""
    return served.partition.preemption_status().to_dict()


def plan_preemption(served: ServedPartition, request: RequestContext) -> object:
    """Return the allocations to evict for a request that the guarantees of its queues entitle to resources."""
    return _plan_dict(_plan(served.partition, request.body))


def plan_reductions(served: ServedPartition, request: RequestContext) -> object:
    """Return the allocations to evict so that queues above a lowered maximum are within it again."""
    return _plan_dict(_reductions(served.partition, request.body))


def _plan_dict(plan: PreemptionPlan | ReductionPlan) -> object:
    return {**plan.to_dict(), "text": str(plan)}


def _plan(partition: AbstractPartition, body: JsonMapping) -> PreemptionPlan:
    application_id = body["application_id"]
    require_found("application", application_id, partition.application)
    name = body.get("allocation_id", "")
    wanted = AllocationRequest(name, application_id, parse_amounts(body["usage"]), priority=body.get("priority", 0))
    pending = partition.allocation(name) if name else None
    if pending is not None and pending.state is AllocationState.PENDING:
        # The body does not have these, and a plan for other ones is stale.
        wanted = wanted._replace(preemptible=pending.preemptible, duration=pending.duration)
    return partition.plan_preemption(
        wanted,
        since=body["since"],
        now=body.get("now"),
        may_preempt=body.get("may_preempt", True),
        within_queue=body.get("within_queue", False),
        nodes=parse_nodes(body),
    )


def _reductions(partition: AbstractPartition, body: JsonMapping) -> ReductionPlan:
    return partition.plan_reductions(body.get("now"), overshoot=body.get("overshoot", True))


def carry_out(server: ServerState, request: RequestContext) -> object:
    """Make a plan again, and mark its victims as terminating if they are the named ones; otherwise mark none."""
    served = require_found("partition", request.path["partition"], server.partitions.get)
    body: JsonMapping = request.body
    target = f"{served.name}: {', '.join(body['victims'])}"
    with server.audit.operation(client=request.client, role="operator", action="carry_out", target=target):
        marked = _carry_out(served.partition, body)
    return {"allocation_ids": list(marked)}


def _carry_out(partition: AbstractPartition, body: JsonMapping) -> tuple[str, ...]:
    victims: Sequence[str] = body["victims"]
    if not _any_held(partition, victims):
        return ()
    plan: PreemptionPlan | ReductionPlan
    if "request" in body:
        plan = _plan(partition, body["request"])
        found = [one.allocation_id for one in (*plan.by_model, *plan.victims)]
    else:
        plan = _reductions(partition, body["reductions"])
        found = [one.allocation_id for one in plan.victims]
    if sorted(found) != sorted(victims):
        names = ", ".join(map(repr, found)) or "none"
        raise ApiError(409, "plan-stale", f"the plan has other victims now: {names}")
    return partition.carry_out(plan)


def _any_held(partition: AbstractPartition, victims: Sequence[str]) -> bool:
    found = map(partition.allocation, victims)
    return any(one is not None and one.state is AllocationState.HELD for one in found)
