"""Events: what happens in a partition, as values for subscribers.

Pass subscribers to `ugm.Partition` or `ugm.journal.open_partition`.
"""

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

__all__ = [
    "Allocated",
    "AllocationRequested",
    "ApplicationEnded",
    "ApplicationFailing",
    "ApplicationSubmitted",
    "ConfigurationChanged",
    "Denied",
    "Event",
    "GroupAssigned",
    "NodeChanged",
    "PartitionClosed",
    "Preempted",
    "QueueQuotaSet",
    "Released",
    "RequestWithdrawn",
    "Resized",
    "Subscriber",
    "event_name",
    "event_to_dict",
]
