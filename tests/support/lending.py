"""Partitions whose quota models lend: elastic groups, and a quota tree with consumers above their own node."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Final

from support.partition_fixtures import config
from support.quotatree_fixtures import document, tree_model
from ugm import Partition, Resource, UserGroup
from ugm.elastic import ElasticGroup, ElasticModel, ElasticQuota, ElasticTree
from ugm.elastic.model import GROUP_TAG
from ugm.model import QuotaModel
from ugm.partition import AbstractPartition
from ugm.quotatree import TreeModel

#: The tag of an application that names its leaf in the quota tree.
LEAF_TAG: Final = "leaf"
#: The tags of an application of a group and leaf of `lending_models`.
TAGS: Final = {GROUP_TAG: "ml-web", LEAF_TAG: "B"}
_NODES: Final = {"R": ("nil", 8000), "A": ("R", 2000), "B!": ("R", 4000)}


def lending_models() -> list[QuotaModel]:
    """Return elastic groups for 8 cores, and a quota tree for the same."""
    groups = [
        _group("ml", "", 6000, 8000, is_parent=True),
        _group("ml-train", "ml", 2000, 8000),
        _group("ml-web", "ml", 2000, 4000),
        _group("ops", "", 2000, 8000),
    ]
    return [_elastic(Resource(vcore=8000), groups), _tree_model("Teams", _NODES)]


def lending(create: Callable[..., AbstractPartition] = Partition) -> AbstractPartition:
    """Return a partition in which a group and a consumer borrow.

    The group ``ml-train`` has a minimum of 2 cores and uses 2.5. Its consumer ``t1`` is above its own node ``A``.
    """
    partition = create(config("{name: a}"), models=lending_models())
    for name, group, leaf in (("train", "ml-train", "A"), ("web", "ml-web", "B")):
        partition.submit(name, UserGroup("sue"), "root.a", tags={GROUP_TAG: group, LEAF_TAG: leaf})
    for name, application_id, cores in (("t0", "train", 1500), ("t1", "train", 1000), ("w0", "web", 500)):
        assert partition.allocate(name, application_id, Resource(vcore=cores))
    return partition


def crowd_of_groups(groups: int, *, per_team: int = 100, every: int = 3) -> Partition:
    """Return a partition with a number of elastic groups, and as many nodes of a quota tree; some are in use."""
    teams, random = groups // per_team, Random(7)
    elastic = [_group(f"team{team}", "", 200_000, 400_000, is_parent=True) for team in range(teams)]
    nodes = {"R": ("nil", 300_000 * teams)}
    for team in range(teams):
        nodes[f"team{team}"] = ("R", 200_000)
        for number in range(per_team - 1):
            elastic.append(_group(f"team{team}-{number}", f"team{team}", 2000, 16_000))
            nodes[f"team{team}-{number}"] = (f"team{team}", 2000)
    models: list[QuotaModel] = [_elastic(Resource(vcore=300_000 * teams), elastic), _tree_model("Teams", nodes)]
    partition = Partition(config("{name: a}"), models=models)
    for team in range(teams):
        for number in range(0, per_team - 1, every):
            name = f"team{team}-{number}"
            partition.submit(name, UserGroup("sue"), "root.a", tags={GROUP_TAG: name, LEAF_TAG: name})
            partition.allocate(f"{name}/0", name, Resource(vcore=random.randint(100, 4000)))
            partition.allocate(f"{name}/1", name, Resource(vcore=random.randint(100, 900)))
    return partition


def _group(name: str, parent: str, least: int, most: int, **options: Any) -> ElasticGroup:  # noqa: ANN401 - passed on
    return ElasticGroup(name, parent, Resource(vcore=least), Resource(vcore=most), **options)


def _elastic(total: Resource, groups: list[ElasticGroup]) -> ElasticModel:
    return ElasticModel(ElasticQuota(ElasticTree(total, groups)))


def _tree_model(name: str, nodes: Mapping[str, tuple[str, int]]) -> TreeModel:
    return tree_model(document(nodes, name, "vcore"), lambda claim: claim.tags.get(LEAF_TAG))
