"""The partition: atomic admission over users, groups, queues and other quota models, with a ledger of allocations.

`AbstractPartition` describes the operations. `Partition` keeps everything in memory. Each name is loaded when it is
first used, because most programs need only some of them.
"""

from ugm._lazy import on_first_use

#: True for type checkers; the module `typing` takes longer to import than this package.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from ugm.decision import LimitRise as LimitRise
    from ugm.decision import headroom_of as headroom_of
    from ugm.partition.admission.running_work import AuditReport as AuditReport
    from ugm.partition.admission.running_work import Difference as Difference
    from ugm.partition.admission.running_work import RunningAllocation as RunningAllocation
    from ugm.partition.admission.running_work import RunningApplication as RunningApplication
    from ugm.partition.answers.model_queries import ModelReport as ModelReport
    from ugm.partition.answers.reports import Admission as Admission
    from ugm.partition.answers.reports import ApplicationReport as ApplicationReport
    from ugm.partition.answers.reports import Explanation as Explanation
    from ugm.partition.answers.reports import Holder as Holder
    from ugm.partition.answers.reports import LimitUtilization as LimitUtilization
    from ugm.partition.answers.reports import OwnedAllocation as OwnedAllocation
    from ugm.partition.answers.reports import Subject as Subject
    from ugm.partition.answers.reports import SubmissionReport as SubmissionReport
    from ugm.partition.answers.reports import SyncReport as SyncReport
    from ugm.partition.answers.reports import UserInQueue as UserInQueue
    from ugm.partition.answers.snapshot import LineIndex as LineIndex
    from ugm.partition.answers.snapshot import OwnerLimits as OwnerLimits
    from ugm.partition.answers.snapshot import PartitionSnapshot as PartitionSnapshot
    from ugm.partition.answers.snapshot import UsageSum as UsageSum
    from ugm.partition.answers.thresholds import ThresholdCrossed as ThresholdCrossed
    from ugm.partition.answers.thresholds import ThresholdWatch as ThresholdWatch
    from ugm.partition.config.changes import Changes as Changes
    from ugm.partition.config.changes import ConfigChange as ConfigChange
    from ugm.partition.config.changes import Detail as Detail
    from ugm.partition.config.changes import LimitRisk as LimitRisk
    from ugm.partition.config.changes import changes as changes
    from ugm.partition.config.compiled import ScheduledViolation as ScheduledViolation
    from ugm.partition.config.plan import ConfigPlan as ConfigPlan
    from ugm.partition.config.plan import DrainingQueue as DrainingQueue
    from ugm.partition.config.plan import PlannedReduction as PlannedReduction
    from ugm.partition.config.plan import ScheduledChange as ScheduledChange
    from ugm.partition.engine.application import ApplicationInfo as ApplicationInfo
    from ugm.partition.engine.application import ApplicationState as ApplicationState
    from ugm.partition.engine.application import PendingHeadroom as PendingHeadroom
    from ugm.partition.eviction.preemption import PreemptionStatus as PreemptionStatus
    from ugm.partition.eviction.reclaim_plan import ProtectedCount as ProtectedCount
    from ugm.partition.eviction.reclaim_plan import ReclaimPlan as ReclaimPlan
    from ugm.partition.eviction.reclaim_plan import ReclaimVictim as ReclaimVictim
    from ugm.partition.interface import AbstractPartition as AbstractPartition
    from ugm.partition.ordering.pending_order import ApplicationKey as ApplicationKey
    from ugm.partition.ordering.planned_start import Reservation as Reservation
    from ugm.partition.ordering.scheduling_pass import Head as Head
    from ugm.partition.ordering.scheduling_pass import SchedulingPass as SchedulingPass
    from ugm.partition.ordering.scheduling_pass import Turn as Turn
    from ugm.partition.ordering.scheduling_pass import by_share as by_share
    from ugm.partition.ordering.waiting_list import WaitingList as WaitingList
    from ugm.partition.partition import Partition as Partition
    from ugm.partition.rows import Allocation as Allocation
    from ugm.partition.rows import AllocationRequest as AllocationRequest
    from ugm.partition.rows import AllocationSpec as AllocationSpec
    from ugm.partition.rows import AllocationState as AllocationState
    from ugm.partition.rows import GangStyle as GangStyle

#: The modules of the names.
_MODULES = {
    "ugm.decision": "LimitRise headroom_of",
    "ugm.partition.rows": "Allocation AllocationRequest AllocationSpec AllocationState GangStyle",
    "ugm.partition.engine.application": "ApplicationInfo ApplicationState PendingHeadroom",
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
    "ugm.partition.eviction.reclaim_plan": "ProtectedCount ReclaimPlan ReclaimVictim",
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
if not TYPE_CHECKING:
    __all__ = sorted(" ".join(_MODULES.values()).split())  # noqa: PLE0605 - type checkers read the imports above


def __getattr__(name: str) -> object:
    return _load(name)


def __dir__() -> list[str]:
    return _names()
