"""Quota trees and forests that a configuration declares."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from ugm.configuration import QuotaTreeConfig, QuotaTreeDocument, QuotaTreeRules
from ugm.configuration.fields import to_data
from ugm.configuration.model_kinds import GroupFinder, finder_of
from ugm.model import Claim
from ugm.quotatree._forest import Mode
from ugm.quotatree.documents import NodeSpec
from ugm.quotatree.manager import QuotaManager
from ugm.quotatree.models import ForestModel, Groups, TreeModel

__all__ = ["children_of", "declared_model", "document_of", "leaves_of"]


def document_of(
    tree: QuotaTreeDocument, write_quota: Callable[[str, int], object] = lambda _, amount: str(amount)
) -> dict[str, object]:
    """Return the document of a declared tree.

    Args:
        tree: the tree.
        write_quota: writes an amount of a resource.
    """
    nodes: dict[str, object] = {}
    for node in tree.nodes:
        quota = {name: write_quota(name, amount) for name, amount in node.quota.items()}
        nodes[node.name] = {**NodeSpec(node.parent or None, node.hard, {}).to_dict(), "quota": quota}
    spec = {"resourceNames": list(tree.resources), "nodes": nodes}
    return {"kind": "QuotaTree", "metadata": {"name": tree.name}, "spec": spec}


def children_of(tree: QuotaTreeDocument) -> dict[str, list[str]]:
    """Return the names of the nodes below each node that is connected to the root; the root is below an empty name.

    If there are several roots, only the first by name is part of the tree.
    """
    below: dict[str, list[str]] = {}
    for node in tree.nodes:
        below.setdefault(node.parent, []).append(node.name)
    connected: dict[str, list[str]] = {"": sorted(below.get("", ()))[:1]}
    pending = list(connected[""])
    while pending:
        name = pending.pop()
        connected[name] = below.get(name, [])
        pending += connected[name]
    return connected


def leaves_of(tree: QuotaTreeDocument) -> set[str]:
    """Return the names of the leaves of a tree."""
    return {name for name, below in children_of(tree).items() if name and not below}


def declared_model(trees: Sequence[QuotaTreeConfig], rules: QuotaTreeRules) -> TreeModel | ForestModel:
    """Return the model of one tree, or of the trees of one forest, in normal mode and without claims.

    Raises:
        ConfigError: the document of a tree is malformed.
        RequestError: two trees have the same name, or a tree has none.
    """
    manager = QuotaManager(
        requeue_rejected=rules.requeue_rejected,
        check_unrequested=rules.check_unrequested,
    )
    manager.set_mode(Mode.NORMAL)
    for one in trees:
        manager.add_tree_from_struct(document_of(one.tree))
    model = _forest_model(manager, trees) if trees[0].forest else _tree_model(manager, trees[0])
    model.described = {"quotatrees": to_data(tuple(trees)), "quotatreerules": to_data(rules)}
    model.make_emptied = partial(declared_model, trees, rules)
    return model


def _tree_model(manager: QuotaManager, config: QuotaTreeConfig) -> TreeModel:
    find, default = _leaf_finder(config), config.default_group or None
    return TreeModel(manager, config.tree.name, find, default_group=default, unrestricted=config.unrestricted)


def _forest_model(manager: QuotaManager, trees: Sequence[QuotaTreeConfig]) -> ForestModel:
    forest = trees[0].forest
    manager.add_forest(forest)
    for one in trees:
        manager.add_tree_to_forest(forest, one.tree.name)
    finders = [(one, _leaf_finder(one)) for one in trees]

    def groups_of(claim: Claim) -> Groups:
        found = {one.tree.name: find(claim) or one.default_group or None for one, find in finders}
        # A tree that is not restricted does not limit a claim without a leaf.
        return {one.tree.name: found[one.tree.name] for one in trees if found[one.tree.name] or not one.unrestricted}

    return ForestModel(manager, forest, groups_of, unrestricted=all(one.unrestricted for one in trees))


def _leaf_finder(config: QuotaTreeConfig) -> GroupFinder:
    finders = tuple(map(finder_of, config.group_by))

    def found(claim: Claim) -> Iterator[str]:
        return (name for find in finders if (name := find(claim)))

    return lambda claim: next(found(claim), None)
