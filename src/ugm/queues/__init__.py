"""Queues: their quotas, the size of the cluster, which queue an application is placed in, and who may submit to it."""

from ugm.queues.acl import Acl, path_allows
from ugm.queues.cluster import Cluster
from ugm.queues.filters import Filter, FilterSpec
from ugm.queues.placement import MOST_NAMES, Placement, PlacementRules, PlacementTrial, QueueView
from ugm.queues.queue import Queue, Tenant
from ugm.queues.rules import RuleConfig, Submission
from ugm.queues.snapshot import QueueState, queue_state
from ugm.queues.specs import QueueSettings, QueueSpec, QueueSpecs, Quota
from ugm.queues.tree import QueueTree

__all__ = [
    "MOST_NAMES",
    "Acl",
    "Cluster",
    "Filter",
    "FilterSpec",
    "Placement",
    "PlacementRules",
    "PlacementTrial",
    "Queue",
    "QueueSettings",
    "QueueSpec",
    "QueueSpecs",
    "QueueState",
    "QueueTree",
    "QueueView",
    "Quota",
    "RuleConfig",
    "Submission",
    "Tenant",
    "path_allows",
    "queue_state",
]
