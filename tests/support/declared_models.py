"""A configuration with elastic groups and a quota tree, for tests of several packages."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ugm import Resource
from ugm.configuration import (
    ElasticConfig,
    ElasticGroup,
    Extensions,
    GroupSource,
    PartitionConfig,
    QueueConfig,
    QuotaNodeConfig,
    QuotaTreeConfig,
    QuotaTreeDocument,
)

BY_QUEUE: Final = (GroupSource(source="queue"),)
GROUPS: Final = (
    ElasticGroup("a", min=Resource(gpu=4), max=Resource(gpu=8)),
    ElasticGroup("b", min=Resource(gpu=4), max=Resource(gpu=8)),
)
ELASTIC: Final = ElasticConfig(groups=GROUPS, group_by=BY_QUEUE)
NODES: Final = (
    QuotaNodeConfig("root", quota={"gpu": 8}),
    QuotaNodeConfig("a", parent="root", quota={"gpu": 3}),
    QuotaNodeConfig("b", parent="root", hard=True, quota={"gpu": 3}),
)
TREE: Final = QuotaTreeConfig(tree=QuotaTreeDocument("t", resources=("gpu",), nodes=NODES), group_by=BY_QUEUE)


def declaring(*trees: QuotaTreeConfig, elastic: ElasticConfig | None = None) -> PartitionConfig:
    """Return a configuration with the queues ``a`` and ``b``, and some models."""
    extensions = Extensions(elastic=elastic, quota_trees=trees)
    return PartitionConfig(queues=(QueueConfig("a"), QueueConfig("b")), ugm=extensions)


def moved() -> ElasticConfig:
    """Return elastic groups in which the queue ``a`` belongs to group ``b``, below a group ``all``."""
    above = ElasticGroup("all", is_parent=True, min=Resource(gpu=8), max=Resource(gpu=8))
    groups = (above, *(replace(group, parent="all") for group in GROUPS))
    return ElasticConfig(groups=groups, group_by=(GroupSource(source="queue", names={"root": "b"}),))
