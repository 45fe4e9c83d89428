"""The partition: atomic admission over users, groups, queues and other quota models, with a ledger of allocations.

`AbstractPartition` describes the operations. `Partition` keeps everything in memory. Each name is loaded when it is
first used, because most programs need only some of them.
"""

from ugm._lazy import on_first_use

#: True for type checkers; the module `typing` takes longer to import than this package.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from ugm.decision import LimitRise, headroom_of
    from ugm.partition.admission.running_work import AuditReport, Difference, RunningAllocation, RunningApplication
    from ugm.partition.answers.model_queries import ModelReport
    from ugm.partition.answers.reports import (
        Admission,
        ApplicationReport,
        Explanation,
        Holder,
        LimitUtilization,
        OwnedAllocation,
        Subject,
        SubmissionReport,
        SyncReport,
        UserInQueue,
    )
    from ugm.partition.answers.snapshot import LineIndex, OwnerLimits, PartitionSnapshot, UsageSum
    from ugm.partition.answers.thresholds import ThresholdCrossed, ThresholdWatch
    from ugm.partition.config.changes import Changes, ConfigChange, Detail, LimitRisk, changes
    from ugm.partition.config.compiled import ScheduledViolation
    from ugm.partition.config.plan import ConfigPlan, DrainingQueue, PlannedReduction, ScheduledChange
    from ugm.partition.engine.application import ApplicationInfo, ApplicationState, GangStyle, PendingHeadroom
    from ugm.partition.eviction.preemption import PreemptionStatus
    from ugm.partition.eviction.reclaim_plan import (
        ProtectedCount,
        Protection,
        ReclaimOutcome,
        ReclaimPlan,
        ReclaimVictim,
    )
    from ugm.partition.interface import AbstractPartition
    from ugm.partition.ordering.pending_order import ApplicationKey
    from ugm.partition.ordering.planned_start import Reservation
    from ugm.partition.ordering.scheduling_pass import Head, SchedulingPass, Turn, by_share
    from ugm.partition.ordering.waiting_list import WaitingList
    from ugm.partition.partition import Partition
    from ugm.partition.rows import Allocation, AllocationRequest, AllocationSpec, AllocationState

__all__ = [
    "AbstractPartition",
    "Admission",
    "Allocation",
    "AllocationRequest",
    "AllocationSpec",
    "AllocationState",
    "ApplicationInfo",
    "ApplicationKey",
    "ApplicationReport",
    "ApplicationState",
    "AuditReport",
    "Changes",
    "ConfigChange",
    "ConfigPlan",
    "Detail",
    "Difference",
    "DrainingQueue",
    "Explanation",
    "GangStyle",
    "Head",
    "Holder",
    "LimitRise",
    "LimitRisk",
    "LimitUtilization",
    "LineIndex",
    "ModelReport",
    "OwnedAllocation",
    "OwnerLimits",
    "Partition",
    "PartitionSnapshot",
    "PendingHeadroom",
    "PlannedReduction",
    "PreemptionStatus",
    "ProtectedCount",
    "Protection",
    "ReclaimOutcome",
    "ReclaimPlan",
    "ReclaimVictim",
    "Reservation",
    "RunningAllocation",
    "RunningApplication",
    "ScheduledChange",
    "ScheduledViolation",
    "SchedulingPass",
    "Subject",
    "SubmissionReport",
    "SyncReport",
    "ThresholdCrossed",
    "ThresholdWatch",
    "Turn",
    "UsageSum",
    "UserInQueue",
    "WaitingList",
    "by_share",
    "changes",
    "headroom_of",
]

#: The modules of the names.
_MODULES = {
    "ugm.decision": "LimitRise headroom_of",
    "ugm.partition.rows": "Allocation AllocationRequest AllocationSpec AllocationState",
    "ugm.partition.engine.application": "ApplicationInfo ApplicationState GangStyle PendingHeadroom",
    "ugm.partition.admission.running_work": "AuditReport Difference RunningAllocation RunningApplication",
    "ugm.partition.config.changes": "Changes ConfigChange Detail LimitRisk changes",
    "ugm.partition.config.plan": "ConfigPlan DrainingQueue PlannedReduction ScheduledChange",
    "ugm.partition.config.compiled": "ScheduledViolation",
    "ugm.partition.interface": "AbstractPartition",
    "ugm.partition.answers.model_queries": "ModelReport",
    "ugm.partition.answers.snapshot": "LineIndex OwnerLimits PartitionSnapshot UsageSum",
    "ugm.partition.partition": "Partition",
    "ugm.partition.eviction.preemption": "PreemptionStatus",
    "ugm.partition.ordering.planned_start": "Reservation",
    "ugm.partition.eviction.reclaim_plan": "ProtectedCount Protection ReclaimOutcome ReclaimPlan ReclaimVictim",
    "ugm.partition.answers.reports": (
        "Admission ApplicationReport Explanation Holder LimitUtilization OwnedAllocation Subject SubmissionReport "
        "SyncReport UserInQueue"
    ),
    "ugm.partition.ordering.pending_order": "ApplicationKey",
    "ugm.partition.ordering.scheduling_pass": "Head SchedulingPass Turn by_share",
    "ugm.partition.answers.thresholds": "ThresholdCrossed ThresholdWatch",
    "ugm.partition.ordering.waiting_list": "WaitingList",
}

_load, _names = on_first_use(__name__, _MODULES)


def __getattr__(name: str) -> object:
    return _load(name)


def __dir__() -> list[str]:
    return _names()
