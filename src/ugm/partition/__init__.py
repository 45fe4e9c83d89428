"""The partition: atomic admission over users, groups, queues and other quota models, with a ledger of allocations.

`AbstractPartition` describes the operations. `Partition` keeps everything in memory.
"""

from ugm._signatures import show_types
from ugm.decision import Explanation, Holder, LimitRise, ScheduledViolation, headroom_of
from ugm.partition.allocation import Allocation, AllocationRequest, AllocationSpec, AllocationState
from ugm.partition.application import ApplicationInfo, ApplicationState, GangStyle
from ugm.partition.audit import AuditReport, Difference, RunningAllocation, RunningApplication
from ugm.partition.config_changes import (
    Changes,
    Detail,
    LimitChange,
    LimitValue,
    ModelChange,
    QueueChange,
    ScheduleChange,
    changes,
)
from ugm.partition.config_plan import ConfigPlan, ConfigPlanInput, DrainingQueue, PlannedReduction, ScheduledChange
from ugm.partition.interface import AbstractPartition
from ugm.partition.limit_risks import LimitRisk
from ugm.partition.line_index import CooperativeIteration, UsageSum
from ugm.partition.model_queries import ModelReport
from ugm.partition.owner_limits import OwnerLimits
from ugm.partition.partition import Partition
from ugm.partition.pending_usage import PendingHeadroom
from ugm.partition.planned_start import Reservation
from ugm.partition.reclaim_plan import ProtectedCount, Protection, ReclaimOutcome, ReclaimPlan, ReclaimVictim
from ugm.partition.reports import (
    Admission,
    ApplicationReport,
    OwnedAllocation,
    PreemptionStatus,
    SubmissionReport,
    SyncReport,
)
from ugm.partition.scheduling_order import ApplicationKey, Turn, by_share
from ugm.partition.scheduling_pass import Head, SchedulingPass
from ugm.partition.snapshot import PartitionSnapshot
from ugm.partition.subject import Subject, UserInQueue
from ugm.partition.thresholds import ThresholdCrossed, ThresholdWatch
from ugm.partition.usage_feed import UsageFeed, UsageOwner
from ugm.partition.utilization import LimitUtilization
from ugm.partition.waiting_list import WaitingList

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
    "ConfigPlan",
    "ConfigPlanInput",
    "CooperativeIteration",
    "Detail",
    "Difference",
    "DrainingQueue",
    "Explanation",
    "GangStyle",
    "Head",
    "Holder",
    "LimitChange",
    "LimitRise",
    "LimitRisk",
    "LimitUtilization",
    "LimitValue",
    "ModelChange",
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
    "QueueChange",
    "ReclaimOutcome",
    "ReclaimPlan",
    "ReclaimVictim",
    "Reservation",
    "RunningAllocation",
    "RunningApplication",
    "ScheduleChange",
    "ScheduledChange",
    "ScheduledViolation",
    "SchedulingPass",
    "Subject",
    "SubmissionReport",
    "SyncReport",
    "ThresholdCrossed",
    "ThresholdWatch",
    "Turn",
    "UsageFeed",
    "UsageOwner",
    "UsageSum",
    "UserInQueue",
    "WaitingList",
    "by_share",
    "changes",
    "headroom_of",
]

show_types(tuple(globals().values()))
