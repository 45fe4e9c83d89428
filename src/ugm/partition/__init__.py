"""One atomic admission over users, groups, queues and any other quota model, with a ledger of allocations."""

from ugm.partition.application import ApplicationInfo, ApplicationState, GangStyle
from ugm.partition.audit import AuditReport, Difference, Running
from ugm.partition.changes import Changes, Detail, LimitChange, LimitValue, QueueChange, changes
from ugm.partition.compiled import PartitionQueue, PartitionSettings
from ugm.partition.entry import Allocation, AllocationState, Ask
from ugm.partition.events import (
    Allocated,
    Asked,
    Closed,
    Configured,
    Denied,
    Ended,
    Event,
    Failing,
    Linked,
    NodeChanged,
    Preempted,
    QuotaGiven,
    Released,
    Resized,
    Submitted,
    Subscriber,
    Withdrawn,
    event_dict,
    event_name,
)
from ugm.partition.explanation import Explanation, Holder
from ugm.partition.partition import Partition
from ugm.partition.plan import Leaving, Plan
from ugm.partition.reports import ApplicationReport, OwnedAllocation, RequestReport
from ugm.partition.snapshot import Pace, PartitionSnapshot, Pending
from ugm.partition.survey import Standing
from ugm.partition.view import PartitionView

__all__ = [
    "Allocated",
    "Allocation",
    "AllocationState",
    "ApplicationInfo",
    "ApplicationReport",
    "ApplicationState",
    "Ask",
    "Asked",
    "AuditReport",
    "Changes",
    "Closed",
    "Configured",
    "Denied",
    "Detail",
    "Difference",
    "Ended",
    "Event",
    "Explanation",
    "Failing",
    "GangStyle",
    "Holder",
    "Leaving",
    "LimitChange",
    "LimitValue",
    "Linked",
    "NodeChanged",
    "OwnedAllocation",
    "Pace",
    "Partition",
    "PartitionQueue",
    "PartitionSettings",
    "PartitionSnapshot",
    "PartitionView",
    "Pending",
    "Plan",
    "Preempted",
    "QueueChange",
    "QuotaGiven",
    "Released",
    "RequestReport",
    "Resized",
    "Running",
    "Standing",
    "Submitted",
    "Subscriber",
    "Withdrawn",
    "changes",
    "event_dict",
    "event_name",
]
