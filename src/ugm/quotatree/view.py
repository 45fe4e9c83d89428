"""Views: the state of a tree at one moment, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from ugm.quotatree._node import Consumer, TreeNode
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
    #: The amounts that the node itself holds for consumers of groups below it.
    lent: Resource
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

    def to_dict(self, known: Mapping[str, dict[str, object]] = MappingProxyType({})) -> dict[str, Any]:
        """Return the tree for JSON.

        Args:
            known: earlier nodes by name. The result shares those that have not changed.
        """
        states = {node.name: node.to_dict() for node in self.nodes}
        nodes = [known[name] if known.get(name) == state else state for name, state in states.items()]
        return {"name": self.name, "resources": list(self.resources), "nodes": nodes}


def _plain(value: object) -> object:
    if isinstance(value, Resource):
        return dict(value.amounts)
    return [consumer.to_dict() for consumer in value] if isinstance(value, tuple) else value


def view_of(tree: QuotaTree) -> TreeView:
    """Return the current state of a tree."""
    count = len(tree.resources)
    borrowed = {name: [0] * count for name in tree.nodes}
    lent = {name: [0] * count for name in tree.nodes}
    for consumer in tree.consumers.values():
        leaf, node = consumer.leaf, consumer.node
        if node is None or leaf is node:
            continue
        passed = leaf.path[: leaf.depth - node.depth] if leaf else ()
        for sums in (lent[node.name], *(borrowed[each.name] for each in passed)):
            for at, name in enumerate(tree.resources):
                sums[at] += consumer.entry.request.get(name, 0)

    def named(amounts: tuple[int, ...] | list[int]) -> Resource:
        return Resource(dict(zip(tree.resources, amounts, strict=True)))

    def node_view(node: TreeNode) -> NodeView:
        return NodeView(
            name=node.name,
            parent=node.parent.name if node.parent else "",
            depth=node.depth,
            hard=node.hard,
            quota=named(node.quota),
            allocated=named(node.allocated()),
            borrowed=named(borrowed[node.name]),
            lent=named(lent[node.name]),
            consumers=tuple(_consumer_view(consumer, node) for consumer in node.consumers()),
        )

    return TreeView(tree.name, tree.resources, tuple(map(node_view, tree.nodes.values())))


def _consumer_view(consumer: Consumer, node: TreeNode) -> ConsumerView:
    return ConsumerView(consumer.id, consumer.entry.group, node.name, *consumer.entry[2:])
