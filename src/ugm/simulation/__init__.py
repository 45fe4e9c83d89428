"""Simulation: replay a workload with a virtual clock, and report the effect of a configuration on its jobs.

    records = read_swf("last-month.swf.gz")
    report = simulate(JobMapping().jobs(records), load_config("queues.yaml").partition())
    print(report.waiting.p95, report.limits[0])

The command ``ugm simulate`` does this and shows the report.
"""

from ugm.simulation.orders import JobOrderName
from ugm.simulation.recorder import Envelope, LimitSeries, Recorder
from ugm.simulation.replay import Progress, simulate
from ugm.simulation.report import (
    BudgetUse,
    Crossing,
    GroupLending,
    GroupReclaim,
    JobRejection,
    LimitComparison,
    LimitSummary,
    ReplayComparison,
    Report,
    ResourceUse,
    UserImpact,
    Variant,
    WaitingComparison,
    WaitingTime,
)
from ugm.simulation.workload import Job, JobMapping, SwfHeader, SwfRecord, WorkloadError, parse_swf, read_swf

__all__ = [
    "BudgetUse",
    "Crossing",
    "Envelope",
    "GroupLending",
    "GroupReclaim",
    "Job",
    "JobMapping",
    "JobOrderName",
    "JobRejection",
    "LimitComparison",
    "LimitSeries",
    "LimitSummary",
    "Progress",
    "Recorder",
    "ReplayComparison",
    "Report",
    "ResourceUse",
    "SwfHeader",
    "SwfRecord",
    "UserImpact",
    "Variant",
    "WaitingComparison",
    "WaitingTime",
    "WorkloadError",
    "parse_swf",
    "read_swf",
    "simulate",
]
