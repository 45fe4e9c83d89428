"""Preemption: plans that name the allocations to evict for a request or for a lowered maximum, with the reasons.

A plan is a value that follows from queues and allocations alone, so this package knows no partition.
`ugm.Partition.plan_preemption` copies the state, and `ugm.Partition.carry_out` marks the victims.
"""

from ugm.preemption.eligibility import PreemptionProtection
from ugm.preemption.plan import (
    GuaranteeUse,
    Outcome,
    PlanCost,
    PreemptionPlan,
    ProtectedAllocations,
    QueueAmount,
    Victim,
    plan_preemption,
)
from ugm.preemption.queue_usage_tree import AllocationFacts, PreemptionPolicy, PreemptionRequest, QueueFacts, World
from ugm.preemption.reduction import Reduction, ReductionPlan, ReductionTimer, plan_reductions

__all__ = [
    "AllocationFacts",
    "GuaranteeUse",
    "Outcome",
    "PlanCost",
    "PreemptionPlan",
    "PreemptionPolicy",
    "PreemptionProtection",
    "PreemptionRequest",
    "ProtectedAllocations",
    "QueueAmount",
    "QueueFacts",
    "Reduction",
    "ReductionPlan",
    "ReductionTimer",
    "Victim",
    "World",
    "plan_preemption",
    "plan_reductions",
]
