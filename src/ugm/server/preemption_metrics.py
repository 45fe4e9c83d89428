"""Metrics of preemption: plans, terminating allocations, placed requests, and timers of reductions."""

from __future__ import annotations

from ugm.partition import PreemptionStatus
from ugm.server.metric_samples import MetricSamples

__all__ = ["add_preemption"]


def add_preemption(samples: MetricSamples, partition: str, status: PreemptionStatus) -> None:
    """Add the samples of a partition; an outcome has one once a plan has had it."""
    samples.add("ugm_terminating_allocations", len(status.terminating), partition=partition)
    samples.add("ugm_placed_requests", len(status.placed), partition=partition)
    samples.add("ugm_reduction_timers", len(status.timers), partition=partition)
    for outcome, count in status.plans.items():
        samples.add("ugm_preemption_plans", count, partition=partition, outcome=outcome)
