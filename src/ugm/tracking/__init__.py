"""Users and groups: their usage by queue, and the limits of a configuration that apply to them."""

from ugm.tracking.limits import Limits
from ugm.tracking.limits_in_force import LimitsInForce
from ugm.tracking.manager import Manager
from ugm.tracking.snapshot import GroupUsage, QueueUsage, UserUsage
from ugm.tracking.tracker import EffectiveLimit, Request, Tracker
from ugm.tracking.trackers import GroupTracker, QueueTracker, UserTracker

__all__ = [
    "EffectiveLimit",
    "GroupTracker",
    "GroupUsage",
    "Limits",
    "LimitsInForce",
    "Manager",
    "QueueTracker",
    "QueueUsage",
    "Request",
    "Tracker",
    "UserTracker",
    "UserUsage",
]
