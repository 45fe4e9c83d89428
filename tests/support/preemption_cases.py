"""Read recorded cases of preemption into the values that a planner takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ugm import Resource
from ugm.preemption import AllocationFacts, PreemptionPolicy, PreemptionRequest, QueueFacts, World


def world_of(case: Mapping[str, Any]) -> World:
    """Return the queues and allocations of a case."""
    return World([_queue(one) for one in case["tree"]], [_allocation(one) for one in case.get("allocations") or ()])


def request_of(case: Mapping[str, Any]) -> PreemptionRequest:
    """Return the request of a case."""
    ask = case["ask"]
    return PreemptionRequest(
        ask["id"],
        ask["application"],
        ask["queue"],
        Resource(ask["usage"]),
        ask["priority"],
        ask["since"],
        ask.get("may_preempt", True),
        case.get("options", {}).get("within_queue", False),
    )


def _queue(one: Mapping[str, Any]) -> QueueFacts:
    return QueueFacts(
        one["path"],
        Resource(one.get("max") or {}),
        guaranteed=Resource(one.get("guaranteed") or {}),
        policy=PreemptionPolicy(one["preemption"]) if "preemption" in one else None,
        delay=one.get("delay"),
        reduction_delay=one.get("reduction_delay", 0),
    )


def _allocation(one: Mapping[str, Any]) -> AllocationFacts:
    return AllocationFacts(
        one["id"],
        one["application"],
        one["queue"],
        Resource(one["usage"]),
        one["priority"],
        one.get("preemptible", True),
        one.get("going", False),
    )
