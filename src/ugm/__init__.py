"""Hierarchical quotas for users, groups, queues and teams: tracked, enforced and explained.

A `Partition` enforces limits of users, groups, queues and other quota models on allocations. A `Manager` tracks and
limits only users and groups. Elastic quotas are in `ugm.elastic`, quota trees in `ugm.quotatree`, the events of a
partition in `ugm.events`.

This package exports the names that a first program needs. All other names are in its subpackages. `import ugm` loads
neither pydantic nor yaml; they are loaded when a configuration is read.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

from ugm._signatures import show_types
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
from ugm.resources import Resource
from ugm.tracking import GroupTracker, Manager, QueueTracker, Request, Tracker, UserTracker

if TYPE_CHECKING:
    from ugm.config import load_config, parse_config
    from ugm.partition import (
        Admission,
        Allocation,
        AllocationRequest,
        ApplicationInfo,
        Explanation,
        Partition,
        UserInQueue,
    )
    from ugm.service import connect, join

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

#: Names that are loaded on first use, because most programs need only some of them.
_LAZY: Final = {
    "Admission": "ugm.partition",
    "Allocation": "ugm.partition",
    "AllocationRequest": "ugm.partition",
    "ApplicationInfo": "ugm.partition",
    "Explanation": "ugm.partition",
    "Partition": "ugm.partition",
    "UserInQueue": "ugm.partition",
    "connect": "ugm.service",
    "join": "ugm.service",
    "load_config": "ugm.config",
    "parse_config": "ugm.config",
}

show_types(tuple(globals().values()))


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415 - costs as much to import as all of ugm

        return version("ugm")
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
