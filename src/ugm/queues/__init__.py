"""Queues: quotas, the size of the cluster, placement of applications, and access control."""

from ugm.queues.placement import (
    Acl,
    Filter,
    Placement,
    PlacementRules,
    PlacementTrial,
    QueueView,
    Submission,
    path_allows,
)
from ugm.queues.tree import QueueSpec, QueueState, Quota

__all__ = [
    "Acl",
    "Filter",
    "Placement",
    "PlacementRules",
    "PlacementTrial",
    "QueueSpec",
    "QueueState",
    "QueueView",
    "Quota",
    "Submission",
    "path_allows",
]
