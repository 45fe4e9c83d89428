"""Quotas for users and groups in a hierarchy of queues: tracked, enforced and explained.

Everything that an embedding program needs is here. Importing this package loads neither pydantic nor yaml; reading a
configuration does.
"""

from typing import TYPE_CHECKING

from ugm.decision import Decision, Violation
from ugm.errors import (
    ConfigError,
    InvariantError,
    NotTrackedError,
    Problem,
    QuantityError,
    ReleaseError,
    RequestError,
    UgmError,
)
from ugm.identity import TrackingType, UserGroup
from ugm.model import Claim, DemandModel, EvictingModel, QuotaModel
from ugm.resources import Resource
from ugm.tracking import (
    EffectiveLimit,
    GroupTracker,
    GroupUsage,
    LimitEntry,
    Limits,
    LimitsInForce,
    Manager,
    PartitionLimits,
    QueueLimits,
    QueueTracker,
    QueueUsage,
    Request,
    Tracker,
    UserTracker,
    UserUsage,
)

if TYPE_CHECKING:
    from ugm.config import load_config, parse_config

__all__ = [
    "Claim",
    "ConfigError",
    "Decision",
    "DemandModel",
    "EffectiveLimit",
    "EvictingModel",
    "GroupTracker",
    "GroupUsage",
    "InvariantError",
    "LimitEntry",
    "Limits",
    "LimitsInForce",
    "Manager",
    "NotTrackedError",
    "PartitionLimits",
    "Problem",
    "QuantityError",
    "QueueLimits",
    "QueueTracker",
    "QueueUsage",
    "QuotaModel",
    "ReleaseError",
    "Request",
    "RequestError",
    "Resource",
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


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415 - costs as much to import as all of ugm

        return version("ugm")
    if name in ("load_config", "parse_config"):
        from ugm import config  # noqa: PLC0415 - loads pydantic and yaml

        return getattr(config, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
