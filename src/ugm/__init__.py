"""Hierarchical quotas for users, groups, queues and teams: tracked, enforced and explained.

A `Partition` holds allocations to the limits of users, groups and queues and to quota models beside them; a `Manager`
tracks and limits users and groups alone. Elastic quotas are in `ugm.elastic`, quota trees in `ugm.quotatree`.

Importing this package loads neither pydantic nor yaml; reading a configuration does. What belongs to a `Partition` is
loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

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
    UgmError,
)
from ugm.identity import TrackingType, UserGroup
from ugm.model import Claim, DemandModel, EvictingModel, QuotaModel, ResettableModel
from ugm.resources import Resource
from ugm.tracking import (
    EffectiveLimit,
    GroupTracker,
    GroupUsage,
    Limits,
    LimitsInForce,
    Manager,
    QueueTracker,
    QueueUsage,
    Request,
    Tracker,
    UserTracker,
    UserUsage,
)

if TYPE_CHECKING:
    from ugm.config import load_config, parse_config
    from ugm.partition import (
        Allocated,
        Allocation,
        AllocationRequest,
        AllocationRequested,
        AllocationState,
        ApplicationEnded,
        ApplicationFailing,
        ApplicationInfo,
        ApplicationState,
        ApplicationSubmitted,
        AuditReport,
        Changes,
        ConfigurationChanged,
        Denied,
        Detail,
        Difference,
        Event,
        Explanation,
        GangStyle,
        GroupAssigned,
        Holder,
        Leaving,
        LimitChange,
        LimitUtilization,
        LimitValue,
        NodeChanged,
        Partition,
        PartitionClosed,
        PartitionView,
        Plan,
        Preempted,
        QueueChange,
        QueueQuotaSet,
        Released,
        RequestWithdrawn,
        Resized,
        Running,
        Subscriber,
    )
    from ugm.queues import Placement, PlacementTrial, QueueSpec, QueueState, Quota

__all__ = [
    "Allocated",
    "Allocation",
    "AllocationRequest",
    "AllocationRequested",
    "AllocationState",
    "ApplicationEnded",
    "ApplicationFailing",
    "ApplicationInfo",
    "ApplicationState",
    "ApplicationSubmitted",
    "AuditReport",
    "Changes",
    "Claim",
    "ConfigError",
    "ConfigurationChanged",
    "Decision",
    "DemandModel",
    "Denied",
    "Detail",
    "Difference",
    "EffectiveLimit",
    "Event",
    "EvictingModel",
    "Explanation",
    "GangStyle",
    "GroupAssigned",
    "GroupTracker",
    "GroupUsage",
    "Holder",
    "InvariantError",
    "Leaving",
    "LimitChange",
    "LimitUtilization",
    "LimitValue",
    "Limits",
    "LimitsInForce",
    "Manager",
    "NodeChanged",
    "NotTrackedError",
    "Partition",
    "PartitionClosed",
    "PartitionView",
    "Placement",
    "PlacementTrial",
    "Plan",
    "Preempted",
    "Problem",
    "QuantityError",
    "QueueChange",
    "QueueQuotaSet",
    "QueueSpec",
    "QueueState",
    "QueueTracker",
    "QueueUsage",
    "Quota",
    "QuotaModel",
    "ReentrantCallError",
    "ReleaseError",
    "Released",
    "Request",
    "RequestError",
    "RequestWithdrawn",
    "ResettableModel",
    "Resized",
    "Resource",
    "Running",
    "Subscriber",
    "Tracker",
    "TrackingType",
    "UgmError",
    "UserGroup",
    "UserTracker",
    "UserUsage",
    "Violation",
    "load_config",
    "parse_config",
]


#: What is loaded on first use belongs to a partition, but for these names: reading a configuration loads pydantic and
#: yaml, and a program with a `Manager` of its own needs neither.
_LATER: Final = {
    "load_config": "ugm.config",
    "parse_config": "ugm.config",
    "Placement": "ugm.queues",
    "QueueSpec": "ugm.queues",
    "QueueState": "ugm.queues",
    "Quota": "ugm.queues",
    "PlacementTrial": "ugm.queues",
}


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415 - costs as much to import as all of ugm

        return version("ugm")
    if name in __all__:
        return getattr(import_module(_LATER.get(name, "ugm.partition")), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
