"""Hierarchical quotas for users, groups, queues and teams: tracked, enforced and explained.

A `Partition` enforces limits of users, groups, queues and other quota models on allocations. A `Manager` tracks and
limits only users and groups. Elastic quotas are in `ugm.elastic`, quota trees in `ugm.quotatree`, the events of a
partition in `ugm.events`.

This package exports the names that a first program needs. All other names are in its subpackages. Each name and each
subpackage is loaded when it is first used, because most programs need only some of them. So `import ugm` takes no time,
and yaml is loaded only when a configuration is read.
"""

from importlib import import_module

from ugm._lazy import load

#: True for type checkers; the module `typing` takes longer to import than this package.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from ugm.config import load_config, parse_config
    from ugm.decision import Decision, Violation
    from ugm.errors import (
        ConfigError,
        InvariantError,
        NotTrackedError,
        Problem,
        QuantityError,
        ReentrantCallError,
        ReleaseError,
        RequestError,
        ResourceNameWarning,
        UgmError,
    )
    from ugm.identity import TrackingType, UserGroup
    from ugm.model import Claim, QuotaModel
    from ugm.partition import (
        Admission,
        Allocation,
        AllocationRequest,
        ApplicationInfo,
        Explanation,
        Partition,
        UserInQueue,
    )
    from ugm.resources import Resource
    from ugm.service import connect, join
    from ugm.tracking import GroupTracker, Manager, QueueTracker, Request, Tracker, UserTracker

__all__ = [
    "Admission",
    "Allocation",
    "AllocationRequest",
    "ApplicationInfo",
    "Claim",
    "ConfigError",
    "Decision",
    "Explanation",
    "GroupTracker",
    "InvariantError",
    "Manager",
    "NotTrackedError",
    "Partition",
    "Problem",
    "QuantityError",
    "QueueTracker",
    "QuotaModel",
    "ReentrantCallError",
    "ReleaseError",
    "Request",
    "RequestError",
    "Resource",
    "ResourceNameWarning",
    "Tracker",
    "TrackingType",
    "UgmError",
    "UserGroup",
    "UserInQueue",
    "UserTracker",
    "Violation",
    "connect",
    "join",
    "load_config",
    "parse_config",
]

#: The modules of the names, except those of `ugm.errors`.
_MODULES = {
    "config": "load_config parse_config",
    "decision": "Decision Violation",
    "identity": "TrackingType UserGroup",
    "model": "Claim QuotaModel",
    "partition": "Admission Allocation AllocationRequest ApplicationInfo Explanation Partition UserInQueue",
    "resources": "Resource",
    "service": "connect join",
    "tracking": "GroupTracker Manager QueueTracker Request Tracker UserTracker",
}


def __getattr__(name: str) -> object:
    if name in __all__:
        module = next((module for module, names in _MODULES.items() if name in names.split()), "errors")
        found = load(f"ugm.{module}", name)
    elif name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415 - takes longer to import than all of ugm

        found = version("ugm")
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
    return sorted({*globals(), *__all__})
