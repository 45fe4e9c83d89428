"""Quota trees and forests: soft and hard quotas, borrowing, priority, preemption, live changes, undo.

A tree has a quota for each of its nodes. A consumer belongs to a leaf, and is held there or, where a quota is full and
soft, at a node above on whose quota it lives; when room is made below it comes down, and when that quota is needed by
those whom it belongs to it goes further up or has to leave. A forest grants a request on several trees or on none.

Reading a document in JSON loads neither pydantic nor yaml; reading one in YAML does.
"""

from ugm.quotatree.adapter import ForestModel, TreeModel
from ugm.quotatree.answers import AllocationPlan, AllocationResponse, Move, TreeCreateResponse, TreePlan, UpdateResponse
from ugm.quotatree.cache import DEFAULT_RESOURCES, DEFAULT_TREE_NAME, TreeCache
from ugm.quotatree.consumer import ConsumerInfo, TreeRequest
from ugm.quotatree.documents import NodeSpec, consumer_from_struct, parse_consumer
from ugm.quotatree.manager import QuotaManager
from ugm.quotatree.picture import draw, to_graphviz, to_mermaid
from ugm.quotatree.rejection import Reason, Rejection, Room, SoftQuotaViolation
from ugm.quotatree.tree_manager import Mode
from ugm.quotatree.victims import VictimPolicy, fewest, first_found
from ugm.quotatree.view import ConsumerView, NodeView, TreeView

__all__ = [
    "DEFAULT_RESOURCES",
    "DEFAULT_TREE_NAME",
    "AllocationPlan",
    "AllocationResponse",
    "ConsumerInfo",
    "ConsumerView",
    "ForestModel",
    "Mode",
    "Move",
    "NodeSpec",
    "NodeView",
    "QuotaManager",
    "Reason",
    "Rejection",
    "Room",
    "SoftQuotaViolation",
    "TreeCache",
    "TreeCreateResponse",
    "TreeModel",
    "TreePlan",
    "TreeRequest",
    "TreeView",
    "UpdateResponse",
    "VictimPolicy",
    "consumer_from_struct",
    "draw",
    "fewest",
    "first_found",
    "parse_consumer",
    "to_graphviz",
    "to_mermaid",
]
