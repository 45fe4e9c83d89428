"""Users and groups: their usage by queue, and the limits of a configuration that apply to them.

`limits` selects the limits of a user or group. `holding` charges the usage of one application in one queue, and
`holding_index` finds it. `trackers` is the public view of the usage of one user or group.

Each name is loaded when it is first used: a `ugm.Partition` needs no `Manager`.
"""

from ugm._lazy import on_first_use

#: True for type checkers; the module `typing` takes longer to import than this package.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from ugm.decision import EffectiveLimit
    from ugm.tracking.limits import ActiveLimits, Limits
    from ugm.tracking.manager import Manager, Request, Tracker
    from ugm.tracking.snapshot import GroupUsage, QueueUsage, UserUsage
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

_load, _names = on_first_use(
    __name__,
    {
        "ugm.decision": "EffectiveLimit",
        "ugm.tracking.limits": "ActiveLimits Limits",
        "ugm.tracking.manager": "Manager Request Tracker",
        "ugm.tracking.snapshot": "GroupUsage QueueUsage UserUsage",
        "ugm.tracking.trackers": "GroupTracker QueueTracker UserTracker",
    },
)


def __getattr__(name: str) -> object:
    return _load(name)


def __dir__() -> list[str]:
    return _names()
