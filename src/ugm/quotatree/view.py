"""A tree as it is at a moment: what a picture is drawn of, and what tests compare."""

from __future__ import annotations

from typing import NamedTuple

from ugm.quotatree.node import TreeNode
from ugm.quotatree.tree import QuotaTree
from ugm.resources import Resource

__all__ = ["ConsumerView", "NodeView", "TreeView", "view_of"]


class ConsumerView(NamedTuple):
    """A consumer as it is held."""

    consumer_id: str
    group: str
    #: Where it is held: its group, or a node above on whose quota it lives.
    node: str
    request: Resource
    priority: int
    type: int
    unpreemptable: bool

    @property
    def is_borrowing(self) -> bool:
        """Whether it is held above its group."""
        return self.node != self.group


class NodeView(NamedTuple):
    """A node with its quota and what is charged to it."""

    name: str
    #: Empty for the root.
    parent: str
    #: 0 for the root.
    depth: int
    hard: bool
    quota: Resource
    #: What is held at the node and below.
    allocated: Resource
    #: What consumers of groups in or below the node hold above it.
    borrowed: Resource
    #: Who is held at this very node, in the order of arrival.
    consumers: tuple[ConsumerView, ...]


class TreeView(NamedTuple):
    """A tree with its nodes, parents first, children by name."""

    name: str
    resources: tuple[str, ...]
    nodes: tuple[NodeView, ...]

    @property
    def consumers(self) -> dict[str, ConsumerView]:
        """Everybody who is held, by id."""
        return {consumer.consumer_id: consumer for node in self.nodes for consumer in node.consumers}


def view_of(tree: QuotaTree) -> TreeView:
    """Return a tree as it is now."""
    nodes = tree.root.walk() if tree.root else ()
    borrowed = _borrowed(tree)
    return TreeView(tree.name, tree.resources, tuple(_node(tree, node, borrowed[node.name]) for node in nodes))


def _node(tree: QuotaTree, node: TreeNode, borrowed: list[int]) -> NodeView:
    def named(amounts: tuple[int, ...] | list[int]) -> Resource:
        return Resource(dict(zip(tree.resources, amounts, strict=True)))

    consumers = tuple(
        ConsumerView(consumer.id, consumer.entry.group, node.name, *consumer.entry[2:]) for consumer in node.consumers()
    )
    parent = node.parent.name if node.parent else ""
    quota, allocated = named(node.quota), named(node.allocated())
    return NodeView(node.name, parent, node.depth, node.hard, quota, allocated, named(borrowed), consumers)


def _borrowed(tree: QuotaTree) -> dict[str, list[int]]:
    borrowed = {name: [0] * len(tree.resources) for name in tree.nodes}
    for consumer in tree.consumers.values():
        if consumer.leaf is None or consumer.node is None:
            continue
        for node in consumer.leaf.path[: consumer.leaf.depth - consumer.node.depth]:
            for index, amount in consumer.amounts:
                borrowed[node.name][index] += amount
    return borrowed
