"""Users and groups: what they use in which queues, held to the limits of a configuration."""

from ugm.tracking.group_tracker import GroupTracker
from ugm.tracking.limits import LimitEntry, Limits, LimitsInForce, PartitionLimits, QueueLimits
from ugm.tracking.manager import Manager
from ugm.tracking.queue_tracker import QueueTracker
from ugm.tracking.snapshot import GroupUsage, QueueUsage, UserUsage
from ugm.tracking.tracker import EffectiveLimit, Request, Tracker
from ugm.tracking.user_tracker import UserTracker

__all__ = [
    "EffectiveLimit",
    "GroupTracker",
    "GroupUsage",
    "LimitEntry",
    "Limits",
    "LimitsInForce",
    "Manager",
    "PartitionLimits",
    "QueueLimits",
    "QueueTracker",
    "QueueUsage",
    "Request",
    "Tracker",
    "UserTracker",
    "UserUsage",
]
