"""Queues: quotas, the size of the cluster, placement of applications, and access control."""

from ugm.queues.acl import Acl, path_allows
from ugm.queues.filters import Filter
from ugm.queues.placement import Placement, PlacementRules, PlacementTrial, QueueView
from ugm.queues.placement_rules import Submission
from ugm.queues.snapshot import QueueState
from ugm.queues.specs import QueueSpec, Quota

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
