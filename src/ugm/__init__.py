"""Hierarchical quotas for users, groups, queues and teams: tracked, enforced and explained.

A `Partition` enforces limits of users, groups, queues and other quota models on allocations. A `Manager` tracks and
limits only users and groups. Elastic quotas are in `ugm.elastic`, quota trees in `ugm.quotatree`, the events of a
partition in `ugm.events`.

This package exports the names that a first program needs. All other names are in its subpackages. Each name and each
subpackage is loaded when it is first used, because most programs need only some of them. So `import ugm` takes no time,
and yaml is loaded only when a configuration is read.
"""

from importlib import import_module

from ugm._lazy import on_first_use

#: True for type checkers; the module `typing` takes longer to import than this package.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from ugm.config import load_config as load_config
    from ugm.config import parse_config as parse_config
    from ugm.decision import Decision as Decision
    from ugm.decision import Violation as Violation
    from ugm.errors import ConfigError as ConfigError
    from ugm.errors import InvariantError as InvariantError
    from ugm.errors import NotTrackedError as NotTrackedError
    from ugm.errors import Problem as Problem
    from ugm.errors import QuantityError as QuantityError
    from ugm.errors import ReentrantCallError as ReentrantCallError
    from ugm.errors import ReleaseError as ReleaseError
    from ugm.errors import RequestError as RequestError
    from ugm.errors import ResourceNameWarning as ResourceNameWarning
    from ugm.errors import UgmError as UgmError
    from ugm.identity import TrackingType as TrackingType
    from ugm.identity import UserGroup as UserGroup
    from ugm.model import Claim as Claim
    from ugm.model import QuotaModel as QuotaModel
    from ugm.partition import Admission as Admission
    from ugm.partition import Allocation as Allocation
    from ugm.partition import AllocationRequest as AllocationRequest
    from ugm.partition import ApplicationInfo as ApplicationInfo
    from ugm.partition import Explanation as Explanation
    from ugm.partition import Partition as Partition
    from ugm.partition import UserInQueue as UserInQueue
    from ugm.resources import Resource as Resource
    from ugm.service import connect as connect
    from ugm.service import join as join
    from ugm.tracking import GroupTracker as GroupTracker
    from ugm.tracking import Manager as Manager
    from ugm.tracking import QueueTracker as QueueTracker
    from ugm.tracking import Request as Request
    from ugm.tracking import Tracker as Tracker
    from ugm.tracking import UserTracker as UserTracker

#: The modules of the names.
_MODULES = {
    "ugm.config": "load_config parse_config",
    "ugm.decision": "Decision Violation",
    "ugm.errors": (
        "ConfigError InvariantError NotTrackedError Problem QuantityError ReentrantCallError ReleaseError RequestError "
        "ResourceNameWarning UgmError"
    ),
    "ugm.identity": "TrackingType UserGroup",
    "ugm.model": "Claim QuotaModel",
    "ugm.partition": "Admission Allocation AllocationRequest ApplicationInfo Explanation Partition UserInQueue",
    "ugm.resources": "Resource",
    "ugm.service": "connect join",
    "ugm.tracking": "GroupTracker Manager QueueTracker Request Tracker UserTracker",
}

_load, _names = on_first_use(__name__, _MODULES)
# Type checkers read the imports above.
__all__: list[str] = sorted(" ".join(_MODULES.values()).split())  # noqa: PLE0605 - as above


def __getattr__(name: str) -> object:
    if name in __all__:
        return _load(name)
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415 - takes longer to import than all of ugm

        found: object = version("ugm")
    elif name.startswith("_") or (found := _subpackage(name)) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found
    return found


def _subpackage(name: str) -> object:
    try:
        return import_module(f"ugm.{name}")
    except ModuleNotFoundError as error:
        # A missing dependency of the subpackage is another error.
        if error.name != f"ugm.{name}":
            raise
    return None


def __dir__() -> list[str]:
    return _names()
