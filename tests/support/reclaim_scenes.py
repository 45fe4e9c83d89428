"""Partitions whose groups lend each other what they do not use: as elastic groups, as a quota tree, or both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from support.partition_fixtures import SUE, config
from support.quotatree_fixtures import document, tree_model
from ugm import Partition, Resource
from ugm.elastic import ElasticGroup, ElasticModel, ElasticQuota, ElasticTree
from ugm.elastic.model import GROUP_TAG
from ugm.model import QuotaModel
from ugm.partition import AbstractPartition
from ugm.quotatree import TreeModel

QUEUES: Final = "{name: a}, {name: b}, {name: c}, {name: d}"


class Held(NamedTuple):
    """An allocation of the application of a group."""

    group: str
    gpu: int
    priority: int = 0
    preemptible: bool = True
    is_terminating: bool = False


def elastic_groups(guaranteed: Mapping[str, int], total: int, *, departments: bool = False) -> ElasticModel:
    """Return groups with minimums; with departments, the first two are in one, and the others in another one."""
    parents = dict.fromkeys(guaranteed, "")
    groups = []
    if departments:
        parents = {name: "x" if position < 2 else "y" for position, name in enumerate(guaranteed)}
        for parent in sorted(set(parents.values())):
            minimum = sum(amount for name, amount in guaranteed.items() if parents[name] == parent)
            groups.append(ElasticGroup(parent, "", Resource(gpu=minimum), Resource(gpu=total), is_parent=True))
    for name, amount in guaranteed.items():
        groups.append(ElasticGroup(name, parents[name], Resource(gpu=amount), Resource(gpu=total)))
    return ElasticModel(ElasticQuota(ElasticTree(Resource(gpu=total), groups)))


def quota_tree(guaranteed: Mapping[str, int], total: int, *, departments: bool = False) -> TreeModel:
    """Return a tree with the same groups; its root has the total."""
    nodes = {"top": ("nil", total)}
    for position, (name, amount) in enumerate(guaranteed.items()):
        parent = "top" if not departments else "x" if position < 2 else "y"
        nodes[name] = parent, amount
        if departments:
            nodes[parent] = "top", nodes.get(parent, ("", 0))[1] + amount
    return tree_model(document(nodes, "tree", "gpu"), lambda claim: claim.tags[GROUP_TAG])


def lending_models(
    kinds: str, guaranteed: Mapping[str, int], total: int, *, departments: bool = False
) -> list[QuotaModel]:
    """Return the models of the kinds ``elastic`` and ``tree`` that a text names."""
    models: list[QuotaModel] = []
    if "elastic" in kinds:
        models.append(elastic_groups(guaranteed, total, departments=departments))
    if "tree" in kinds:
        models.append(quota_tree(guaranteed, total, departments=departments))
    return models


def submit_groups(partition: AbstractPartition, groups: Iterable[str]) -> None:
    """Submit one application for each group, with its name, in the queue of that name."""
    for name in groups:
        assert partition.submit(name, SUE, f"root.{name}", tags={GROUP_TAG: name})


def lending_partition(
    kinds: str,
    guaranteed: Mapping[str, int],
    total: int,
    held: Iterable[Held] = (),
    *,
    departments: bool = False,
    **options: Any,  # noqa: ANN401 - handed on
) -> Partition:
    """Return a partition with an application for each group; allocation 0 of group a is ``a-0``."""
    models = lending_models(kinds, guaranteed, total, departments=departments)
    partition = Partition(config(QUEUES), cluster=Resource(gpu=total), models=models, **options)
    submit_groups(partition, guaranteed)
    counts = dict.fromkeys(guaranteed, 0)
    for one in held:
        name = f"{one.group}-{counts[one.group]}"
        counts[one.group] += 1
        usage = Resource(gpu=one.gpu)
        partition.adopt(name, one.group, usage, priority=one.priority, preemptible=one.preemptible)
        if one.is_terminating:
            partition.preempt(name)
    return partition
