"""Queues: quotas, the size of the cluster, placement of applications, and access control."""

from ugm.queues.acl import Acl, path_allows
from ugm.queues.cluster import Cluster
from ugm.queues.filters import Filter
from ugm.queues.placement import MOST_NAMES, Placement, PlacementRules, PlacementTrial, QueueView
from ugm.queues.queue import Queue, Tenant
from ugm.queues.rules import Submission
from ugm.queues.snapshot import QueueState, queue_state
from ugm.queues.specs import QueueSpec, QueueSpecs, Quota
from ugm.queues.tree import QueueTree

__all__ = [
    "MOST_NAMES",
    "Acl",
    "Cluster",
    "Filter",
    "Placement",
    "PlacementRules",
    "PlacementTrial",
    "Queue",
    "QueueSpec",
    "QueueSpecs",
    "QueueState",
    "QueueTree",
    "QueueView",
    "Quota",
    "Submission",
    "Tenant",
    "path_allows",
    "queue_state",
]
