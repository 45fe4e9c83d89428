"""Quota trees and forests: soft and hard quotas, borrowing, priorities, preemption, live changes and undo.

A tree has a quota for each of its nodes. A consumer belongs to a leaf. The leaf holds it or, if its quota is full and
soft, a node above from which the consumer borrows. The consumer moves down when quota is released below. It moves
further up or leaves the tree when the owners of the borrowed quota need it. A forest grants a request on several trees
or on none.

The package reimplements the quota manager of the multi-cluster app dispatcher, called *MCAD* in the documentation of
its modules.

The yaml package is imported only for YAML documents.
"""

from ugm.quotatree._forest import Mode
from ugm.quotatree._node import ConsumerInfo, TreeRequest
from ugm.quotatree.answers import (
    AllocationResponse,
    ConsumerView,
    NodeQuota,
    NodeView,
    QuotaNodeViolation,
    Reason,
    Rejection,
    SoftQuotaViolation,
    TreeCreateResponse,
    TreeView,
    UpdateResponse,
)
from ugm.quotatree.documents import (
    DEFAULT_RESOURCES,
    DEFAULT_TREE_NAME,
    NodeSpec,
    TreeCache,
    consumer_from_struct,
    parse_consumer,
)
from ugm.quotatree.manager import QuotaManager
from ugm.quotatree.models import ForestModel, TreeModel

__all__ = [
    "DEFAULT_RESOURCES",
    "DEFAULT_TREE_NAME",
    "AllocationResponse",
    "ConsumerInfo",
    "ConsumerView",
    "ForestModel",
    "Mode",
    "NodeQuota",
    "NodeSpec",
    "NodeView",
    "QuotaManager",
    "QuotaNodeViolation",
    "Reason",
    "Rejection",
    "SoftQuotaViolation",
    "TreeCache",
    "TreeCreateResponse",
    "TreeModel",
    "TreeRequest",
    "TreeView",
    "UpdateResponse",
    "consumer_from_struct",
    "parse_consumer",
]
