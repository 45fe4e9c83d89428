"""One atomic admission over users, groups, queues and any other quota model, with a ledger of allocations."""

from ugm.partition.application import ApplicationInfo, ApplicationState, GangStyle
from ugm.partition.audit import AuditReport, Difference, Running
from ugm.partition.books import PartitionQueue, PartitionSettings
from ugm.partition.changes import Changes, Detail, LimitChange, LimitValue, QueueChange, changes
from ugm.partition.entry import Allocation, AllocationState, Ask
from ugm.partition.explanation import Explanation, Holder
from ugm.partition.partition import Partition
from ugm.partition.plan import Leaving, Plan
from ugm.partition.view import PartitionView

__all__ = [
    "Allocation",
    "AllocationState",
    "ApplicationInfo",
    "ApplicationState",
    "Ask",
    "AuditReport",
    "Changes",
    "Detail",
    "Difference",
    "Explanation",
    "GangStyle",
    "Holder",
    "Leaving",
    "LimitChange",
    "LimitValue",
    "Partition",
    "PartitionQueue",
    "PartitionSettings",
    "PartitionView",
    "Plan",
    "QueueChange",
    "Running",
    "changes",
]
