"""One atomic admission over users, groups, queues and any other quota model, with a ledger of allocations."""

from ugm.partition.application import ApplicationInfo, ApplicationState, GangStyle
from ugm.partition.audit import AuditReport, Difference, Running
from ugm.partition.config_changes import Changes, Detail, LimitChange, LimitValue, QueueChange, changes
from ugm.partition.event_codec import event_name, event_to_dict
from ugm.partition.events import (
    Allocated,
    AllocationRequested,
    ApplicationEnded,
    ApplicationFailing,
    ApplicationSubmitted,
    ConfigurationChanged,
    Denied,
    Event,
    GroupAssigned,
    NodeChanged,
    PartitionClosed,
    Preempted,
    QueueQuotaSet,
    Released,
    RequestWithdrawn,
    Resized,
    Subscriber,
)
from ugm.partition.explanation import Explanation, Holder
from ugm.partition.ledger_entry import Allocation, AllocationRequest, AllocationState
from ugm.partition.partition import Partition
from ugm.partition.plan import Leaving, Plan
from ugm.partition.reports import ApplicationReport, OwnedAllocation, RequestReport
from ugm.partition.snapshot import Pace, PartitionSnapshot, Pending
from ugm.partition.survey import LimitUtilization
from ugm.partition.view import PartitionView

__all__ = [
    "Allocated",
    "Allocation",
    "AllocationRequest",
    "AllocationRequested",
    "AllocationState",
    "ApplicationEnded",
    "ApplicationFailing",
    "ApplicationInfo",
    "ApplicationReport",
    "ApplicationState",
    "ApplicationSubmitted",
    "AuditReport",
    "Changes",
    "ConfigurationChanged",
    "Denied",
    "Detail",
    "Difference",
    "Event",
    "Explanation",
    "GangStyle",
    "GroupAssigned",
    "Holder",
    "Leaving",
    "LimitChange",
    "LimitUtilization",
    "LimitValue",
    "NodeChanged",
    "OwnedAllocation",
    "Pace",
    "Partition",
    "PartitionClosed",
    "PartitionSnapshot",
    "PartitionView",
    "Pending",
    "Plan",
    "Preempted",
    "QueueChange",
    "QueueQuotaSet",
    "Released",
    "RequestReport",
    "RequestWithdrawn",
    "Resized",
    "Running",
    "Subscriber",
    "changes",
    "event_name",
    "event_to_dict",
]
