"""The limits of a tree at one moment, and the amounts that its groups lend each other, all as values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping

from ugm.decision import EffectiveLimit
from ugm.model import Borrower, Guarantee, OrderNode
from ugm.quotatree._node import TreeNode
from ugm.quotatree._tree import QuotaTree
from ugm.resources import Resource

__all__ = [
    "all_limits",
    "borrowers",
    "node_names",
    "order_nodes",
    "path_limits",
    "room_below",
]


def _path(tree: QuotaTree, group: str | None) -> tuple[TreeNode, ...]:
    """Return the nodes from a leaf to the root; none if there is no such leaf."""
    leaf = tree.nodes.get(group or "")
    return () if leaf is None or leaf.children else leaf.path


def path_limits(tree: QuotaTree, group: str | None) -> list[EffectiveLimit]:
    """Return the limits from a leaf to the root, each with the largest amounts that its group can get now.

    A group can borrow above its node as much as every hard node on its path and the root leave, resource by resource.
    """
    found: list[EffectiveLimit] = []
    above: list[int] | None = None
    for node in reversed(_path(tree, group)):
        free = node.free_amounts()
        may_borrow = above is not None and not node.hard
        if above is None or node.hard:
            above = list(free) if above is None else list(map(min, above, free))
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


def node_names(tree: QuotaTree, group: str | None) -> list[str]:
    """Return the names of the nodes from a leaf to the root, each behind the name of the tree."""
    return [f"{tree.name}/{node.name}" for node in _path(tree, group)]


def all_limits(tree: QuotaTree) -> list[EffectiveLimit]:
    """Return the quotas of all nodes, parents first."""
    return [_limit(tree, node, node.quota, may_borrow=False) for node in tree.nodes.values()]


def order_nodes(tree: QuotaTree) -> list[OrderNode]:
    """Return the nodes with their quotas, parents first."""
    return [
        OrderNode(node.name, node.parent.name if node.parent else "", tree.named(node.quota).amounts)
        for node in tree.nodes.values()
    ]


def _limit(tree: QuotaTree, node: TreeNode, most: Iterable[int], *, may_borrow: bool) -> EffectiveLimit:
    return EffectiveLimit(
        kind="quota node",
        name=node.name,
        queue_path="",
        limit_name=tree.name,
        place=f"quota tree {tree.name!r}",
        max_resources=tree.named(most),
        max_applications=0,
        usage=tree.named(node.allocated()),
        running_applications=0,
        guaranteed=tree.named(node.quota) if may_borrow else None,
    )


def borrowers(tree: QuotaTree, group: str | None, usage: Resource, without: Collection[str]) -> Iterator[Borrower]:
    """Yield all leaves with consumers except that of a request.

    A node is guaranteed its quota. The usage of a node is that of all consumers whose group is in or below it, wherever
    they are held. So a consumer that is held above its group counts as usage of its group.

    Args:
        tree: the tree.
        group: the leaf of the request.
        usage: the request.
        without: the ids of consumers that are not counted.
    """
    claimant = _path(tree, group)
    if not claimant:
        return
    members: defaultdict[TreeNode, list[str]] = defaultdict(list)
    used = {node: [0] * len(tree.resources) for node in tree.nodes.values()}
    for consumer in tree.consumers.values():
        if consumer.leaf is not None and consumer.id not in without:
            members[consumer.leaf].append(consumer.id)
            for node in consumer.leaf.path:
                for at, name in enumerate(tree.resources):
                    used[node][at] += consumer.entry.request.get(name, 0)
    for leaf in sorted(members.keys() - {claimant[0]}, key=lambda node: node.name):
        own = [node for node in leaf.path if node not in claimant]
        side = [node for node in claimant if node not in leaf.path]
        entitled = tuple(guarantee for node in side for guarantee in _guarantees(tree, node, used[node], usage.amounts))
        guarantees = tuple(guarantee for node in own for guarantee in _guarantees(tree, node, used[node], {}))
        yield Borrower("quota node", leaf.name, entitled, guarantees, tuple(members[leaf]))


def _guarantees(tree: QuotaTree, node: TreeNode, used: list[int], more: Mapping[str, int]) -> Iterator[Guarantee]:
    for name, quota, amount in zip(tree.resources, node.quota, used, strict=True):
        place = f"quota tree {tree.name!r}"
        yield Guarantee("quota node", node.name, place, name, quota, quota, amount + more.get(name, 0))
