"""Queues: which queue an application is placed in, and who may submit to it."""

from ugm.queues.acl import Acl, path_allows
from ugm.queues.filters import Filter, FilterSpec
from ugm.queues.placement import Placement, PlacementRules, QueueView, Trial
from ugm.queues.rules import RuleConfig, Submission

__all__ = [
    "Acl",
    "Filter",
    "FilterSpec",
    "Placement",
    "PlacementRules",
    "QueueView",
    "RuleConfig",
    "Submission",
    "Trial",
    "path_allows",
]
