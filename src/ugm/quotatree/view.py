"""Views: the state of a tree at one moment, as values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from ugm.quotatree._node import TreeNode
from ugm.quotatree._tree import QuotaTree
from ugm.resources import Resource

__all__ = ["ConsumerView", "NodeView", "TreeView", "view_of"]


@dataclass(frozen=True, slots=True)
class ConsumerView:
    """A consumer that a tree holds."""

    consumer_id: str
    group: str
    #: The node that holds it: its group, or a node above from which it borrows.
    node: str
    request: Resource
    priority: int
    type: int
    unpreemptable: bool

    @property
    def is_borrowing(self) -> bool:
        """True if a node above its group holds it."""
        return self.node != self.group

    def to_dict(self) -> dict[str, object]:
        """Return the consumer for JSON."""
        return {name: _plain(getattr(self, name)) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node with its quota and the amounts charged to it."""

    name: str
    #: Empty for the root.
    parent: str
    #: 0 for the root.
    depth: int
    hard: bool
    quota: Resource
    #: The amounts held at the node and below it.
    allocated: Resource
    #: The amounts that consumers of groups in or below the node hold above it.
    borrowed: Resource
    #: The consumers that this node holds, in order of arrival.
    consumers: tuple[ConsumerView, ...]

    def to_dict(self) -> dict[str, object]:
        """Return the node for JSON."""
        return {name: _plain(getattr(self, name)) for name in self.__slots__}


class TreeView(NamedTuple):
    """A tree with its nodes, parents first, children by name."""

    name: str
    resources: tuple[str, ...]
    nodes: tuple[NodeView, ...]

    @property
    def consumers(self) -> dict[str, ConsumerView]:
        """All consumers of the tree, by id."""
        return {consumer.consumer_id: consumer for node in self.nodes for consumer in node.consumers}

    def to_dict(self) -> dict[str, object]:
        """Return the tree for JSON."""
        nodes = [node.to_dict() for node in self.nodes]
        return {"name": self.name, "resources": list(self.resources), "nodes": nodes}


def _plain(value: object) -> object:
    if isinstance(value, Resource):
        return dict(value.amounts)
    return [consumer.to_dict() for consumer in value] if isinstance(value, tuple) else value


def view_of(tree: QuotaTree) -> TreeView:
    """Return the current state of a tree."""
    nodes = tree.root.walk() if tree.root else ()
    borrowed = _borrowed(tree)
    return TreeView(tree.name, tree.resources, tuple(_node(tree, node, borrowed[node.name]) for node in nodes))


def _node(tree: QuotaTree, node: TreeNode, borrowed: list[int]) -> NodeView:
    def named(amounts: Iterable[int]) -> Resource:
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
