"""The amounts that the groups of a quota tree lend each other.

A node is guaranteed its quota. The usage of a node is that of all consumers whose group is in or below it, wherever
they are held. So a consumer that is held above its group counts as usage of its group.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import TypeAlias

from ugm.model import Borrower, Guarantee
from ugm.quotatree._node import Consumer, TreeNode
from ugm.quotatree._tree import QuotaTree
from ugm.resources import Resource

__all__ = ["borrowers"]

_Usage: TypeAlias = Mapping[TreeNode, list[int]]


def borrowers(tree: QuotaTree, group: str, usage: Resource, without: Collection[str]) -> Iterator[Borrower]:
    """Yield all leaves with consumers except that of a request. Takes time proportional to the number of consumers.

    Args:
        tree: the tree.
        group: the leaf of the request.
        usage: the request.
        without: the ids of consumers that are not counted.
    """
    claimant = tree.nodes.get(group)
    if claimant is None or claimant.children:
        return
    members: dict[TreeNode, list[Consumer]] = {}
    for consumer in tree.consumers.values():
        if consumer.leaf is not None and consumer.id not in without:
            members.setdefault(consumer.leaf, []).append(consumer)
    used = _usage_of(tree, members)
    for leaf in sorted(members.keys() - {claimant}, key=lambda node: node.name):
        own = [node for node in leaf.path if node not in claimant.path]
        side = [node for node in claimant.path if node not in leaf.path]
        entitled = tuple(guarantee for node in side for guarantee in _guarantees(tree, node, used, usage))
        guarantees = tuple(guarantee for node in own for guarantee in _guarantees(tree, node, used))
        ids = tuple(consumer.id for consumer in members[leaf])
        yield Borrower("quota node", leaf.name, entitled, guarantees, ids)


def _usage_of(tree: QuotaTree, members: Mapping[TreeNode, list[Consumer]]) -> _Usage:
    """Return the usage of every node by position of the resource, from the consumers of all leaves."""
    used = {node: [0] * len(tree.resources) for node in tree.nodes.values()}
    for leaf, consumers in members.items():
        # Most consumers request the same amounts as others.
        alike = Counter([(consumer.packed, consumer.mask) for consumer in consumers])
        for request, count in alike.items():
            for position, amount in leaf.packing.unpack_request(*request):
                for node in leaf.path:
                    used[node][position] += amount * count
    return used


def _guarantees(tree: QuotaTree, node: TreeNode, used: _Usage, usage: Resource | None = None) -> Iterator[Guarantee]:
    """Yield the guarantees of a node; its usage includes *usage*."""
    for name, quota, amount in zip(tree.resources, node.quota, used[node], strict=True):
        more = 0 if usage is None else usage.get(name, 0)
        yield Guarantee("quota node", node.name, f"quota tree {tree.name!r}", name, quota, quota, amount + more)
