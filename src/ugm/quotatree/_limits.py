"""The limits of a quota tree as values, with the amounts that a group could borrow from nodes above."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ugm.decision import EffectiveLimit, Violation
from ugm.quotatree._node import TreeNode
from ugm.quotatree._tree import QuotaTree
from ugm.quotatree.rejection import QuotaNodeViolation
from ugm.resources import MAX_QUANTITY, Resource

__all__ = ["all_limits", "node_names", "path_limits", "room_below", "root_violations"]


def path_limits(tree: QuotaTree, group: str) -> list[EffectiveLimit]:
    """Return the limits from a leaf to the root, each with the largest amounts that its group can get now.

    A group can borrow above its node as much as every hard node on its path and the root leave, resource by resource.
    """
    leaf = tree.nodes.get(group)
    if leaf is None or leaf.children:
        return []
    found: list[EffectiveLimit] = []
    above: tuple[int, ...] | None = None
    for node in reversed(leaf.path):
        free = node.free_amounts()
        may_borrow = above is not None and not node.hard
        if above is None or node.hard:
            above = free if above is None else tuple(map(min, above, free))
        most = zip(node.allocated(), above if may_borrow else free, strict=True)
        found.append(_limit(tree, node, [used + rest for used, rest in most], may_borrow=may_borrow))
    return found[::-1]


def room_below(tree: QuotaTree, name: str, resource: str) -> int | None:
    """Return the most of a resource that a leaf in or below a node can get now; None if the tree does not count it.

    Without preemption, every consumer of such a leaf has to fit the root and every hard node from the node upward:
    nothing slides up from a hard node, and no consumer borrows above it. Other nodes may be passed by borrowing.
    """
    node = tree.nodes.get(name)
    if node is None or resource not in tree.resources:
        return None
    at = tree.resources.index(resource)
    return min(one.free_amounts()[at] for one in node.path if one.hard or one.parent is None)


def node_names(tree: QuotaTree, group: str) -> list[str]:
    """Return the names of the nodes from a leaf to the root, each behind the name of the tree."""
    leaf = tree.nodes.get(group)
    return [] if leaf is None or leaf.children else [f"{tree.name}/{node.name}" for node in leaf.path]


def root_violations(tree: QuotaTree, group: str, usage: Resource) -> Iterator[Violation]:
    """Yield the quotas of the root for the resources of which a request of a leaf exceeds every possible quota."""
    leaf = tree.nodes.get(group)
    if tree.root is None or leaf is None or leaf.children:
        return
    for name, quota, used in zip(tree.resources, tree.root.quota, tree.root.allocated(), strict=True):
        if usage.get(name, 0) > MAX_QUANTITY:
            yield QuotaNodeViolation("quota node", tree.root.name, "", tree.name, name, quota, used, usage[name])


def all_limits(tree: QuotaTree) -> list[EffectiveLimit]:
    """Return the quotas of all nodes, parents first."""
    nodes = tree.root.walk() if tree.root else ()
    return [_limit(tree, node, node.quota, may_borrow=False) for node in nodes]


def _limit(tree: QuotaTree, node: TreeNode, most: Iterable[int], *, may_borrow: bool) -> EffectiveLimit:
    def named(amounts: Iterable[int]) -> Resource:
        return Resource(dict(zip(tree.resources, amounts, strict=True)))

    return EffectiveLimit(
        kind="quota node",
        name=node.name,
        queue_path="",
        limit_name=tree.name,
        place=f"quota tree {tree.name!r}",
        max_resources=named(most),
        max_applications=0,
        usage=named(node.allocated()),
        running_applications=0,
        guaranteed=named(node.quota) if may_borrow else None,
    )
