"""Users and groups: their usage by queue, and the limits of a configuration that apply to them.

`limits` selects the limits of a user or group. `holding` charges the usage of one application in one queue, and
`holding_index` finds it. `trackers` is the public view of the usage of one user or group.

Each name is loaded when it is first used: a `ugm.Partition` needs no `Manager`.
"""

from ugm._lazy import on_first_use

#: True for type checkers; the module `typing` takes longer to import than this package.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from ugm.decision import EffectiveLimit as EffectiveLimit
    from ugm.tracking.limits import ActiveLimits as ActiveLimits
    from ugm.tracking.limits import Limits as Limits
    from ugm.tracking.manager import Manager as Manager
    from ugm.tracking.manager import Request as Request
    from ugm.tracking.manager import Tracker as Tracker
    from ugm.tracking.trackers import GroupTracker as GroupTracker
    from ugm.tracking.trackers import GroupUsage as GroupUsage
    from ugm.tracking.trackers import QueueTracker as QueueTracker
    from ugm.tracking.trackers import QueueUsage as QueueUsage
    from ugm.tracking.trackers import UserTracker as UserTracker
    from ugm.tracking.trackers import UserUsage as UserUsage

#: The modules of the names.
_MODULES = {
    "ugm.decision": "EffectiveLimit",
    "ugm.tracking.limits": "ActiveLimits Limits",
    "ugm.tracking.manager": "Manager Request Tracker",
    "ugm.tracking.trackers": "GroupTracker GroupUsage QueueTracker QueueUsage UserTracker UserUsage",
}

_load, _names = on_first_use(__name__, _MODULES)
if not TYPE_CHECKING:
    __all__ = sorted(" ".join(_MODULES.values()).split())  # noqa: PLE0605 - type checkers read the imports above


def __getattr__(name: str) -> object:
    return _load(name)


def __dir__() -> list[str]:
    return _names()
