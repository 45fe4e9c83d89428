"""Users and groups: their usage by queue, and the limits of a configuration that apply to them."""

from ugm.decision import EffectiveLimit
from ugm.tracking.limit_epochs import ActiveLimits
from ugm.tracking.limits import Limits
from ugm.tracking.manager import Manager
from ugm.tracking.snapshot import GroupUsage, QueueUsage, UserUsage
from ugm.tracking.tracker_interface import Request, Tracker
from ugm.tracking.trackers import GroupTracker, QueueTracker, UserTracker

__all__ = [
    "ActiveLimits",
    "EffectiveLimit",
    "GroupTracker",
    "GroupUsage",
    "Limits",
    "Manager",
    "QueueTracker",
    "QueueUsage",
    "Request",
    "Tracker",
    "UserTracker",
    "UserUsage",
]
