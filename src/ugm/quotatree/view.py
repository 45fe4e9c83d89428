"""Views: the state of a tree at one moment, as values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from operator import sub
from typing import NamedTuple, final

from ugm.quotatree._node import TreeNode
from ugm.quotatree._tree import QuotaTree
from ugm.quotatree.consumer import TreeRequest
from ugm.resources import Resource

__all__ = ["ConsumerView", "KnownNodes", "NodeView", "TreeView", "capture_state", "view_of"]


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

    def to_dict(self) -> dict[str, object]:
        """Return the tree for JSON."""
        nodes = [node.to_dict() for node in self.nodes]
        return {"name": self.name, "resources": list(self.resources), "nodes": nodes}


def _plain(value: object) -> object:
    if isinstance(value, Resource):
        return dict(value.amounts)
    return [consumer.to_dict() for consumer in value] if isinstance(value, tuple) else value


class _CopiedNode(NamedTuple):
    """A node with its charged amounts, and its consumers with their leaves; the other attributes never change."""

    node: TreeNode
    free: int
    consumers: list[tuple[str, TreeRequest, TreeNode | None]]


def view_of(tree: QuotaTree) -> TreeView:
    """Return the current state of a tree."""
    copied = _copied_nodes(tree)
    borrowed = _borrowed(copied)
    nodes = tuple(_view(one, tree.resources, borrowed[one.node.name]) for one in copied)
    return TreeView(tree.name, tree.resources, nodes)


def _copied_nodes(tree: QuotaTree) -> list[_CopiedNode]:
    return [
        _CopiedNode(node, node.free, [(consumer.id, consumer.entry, consumer.leaf) for consumer in node.consumers()])
        for node in (tree.root.walk() if tree.root else ())
    ]


class _KnownNode(NamedTuple):
    """A node as plain data, with the copy and the borrowed amounts from which it was made."""

    copied: _CopiedNode
    borrowed: Mapping[str, int]
    state: dict[str, object]


@final
class KnownNodes:
    """The last state of one tree. States may be computed in several threads, in any order.

    Attributes:
        latest: the resources and the nodes by name; None before the first state. It is replaced, and never changed.
    """

    __slots__ = ("latest",)

    def __init__(self) -> None:
        self.latest: tuple[tuple[str, ...], dict[str, _KnownNode]] | None = None


def capture_state(tree: QuotaTree, known: KnownNodes) -> Callable[[], dict[str, object]]:
    """Return a function that returns the state of a tree at this moment, as `TreeView.to_dict`.

    This copies only the numbers, about half a microsecond for each node and consumer. The returned function converts
    them to plain data, and does not need the lock of the tree.

    Args:
        tree: the tree.
        known: the last state of the tree, whose unchanged nodes are the same objects in the next one.
    """
    name, resources, copied = tree.name, tree.resources, _copied_nodes(tree)

    def known_node(one: _CopiedNode, borrowed: Mapping[str, int], before: _KnownNode | None) -> _KnownNode:
        if before is not None and before.copied == one and before.borrowed == borrowed:
            return before
        return _KnownNode(one, borrowed, _view(one, resources, borrowed).to_dict())

    def state() -> dict[str, object]:
        latest, borrowed = known.latest, _borrowed(copied)
        before = latest[1] if latest is not None and latest[0] == resources else {}
        names = [one.node.name for one in copied]
        nodes = [known_node(one, borrowed[each], before.get(each)) for each, one in zip(names, copied, strict=True)]
        known.latest = resources, dict(zip(names, nodes, strict=True))
        return {"name": name, "resources": list(resources), "nodes": [node.state for node in nodes]}

    return state


def _view(copied: _CopiedNode, resources: tuple[str, ...], borrowed: Mapping[str, int]) -> NodeView:
    node = copied.node
    free = node.packing.unpack_free(copied.free)
    lent: dict[str, int] = {}
    for _, entry, leaf in copied.consumers:
        if leaf is not node:
            _add(lent, entry.request)

    def named(amounts: Mapping[str, int]) -> Resource:
        return Resource({resource: amounts.get(resource, 0) for resource in resources})

    return NodeView(
        name=node.name,
        parent=node.parent.name if node.parent else "",
        depth=node.depth,
        hard=node.hard,
        quota=Resource(dict(zip(resources, node.quota, strict=True))),
        allocated=Resource(dict(zip(resources, map(sub, node.quota, free), strict=True))),
        borrowed=named(borrowed),
        lent=named(lent),
        consumers=tuple(
            ConsumerView(consumer_id, entry.group, node.name, *entry[2:]) for consumer_id, entry, _ in copied.consumers
        ),
    )


def _borrowed(nodes: Collection[_CopiedNode]) -> dict[str, dict[str, int]]:
    """Return the amounts that consumers of groups in or below each node hold above it."""
    borrowed: dict[str, dict[str, int]] = {copied.node.name: {} for copied in nodes}
    for node, _, consumers in nodes:
        for _, entry, leaf in consumers:
            for passed in leaf.path[: leaf.depth - node.depth] if leaf else ():
                _add(borrowed[passed.name], entry.request)
    return borrowed


def _add(sums: dict[str, int], request: Resource) -> None:
    for resource, amount in request.amounts.items():
        sums[resource] = sums.get(resource, 0) + amount
