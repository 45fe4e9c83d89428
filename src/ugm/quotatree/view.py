"""The state of a tree at one moment, its limits, and the amounts that its groups lend each other, all as values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from ugm.decision import EffectiveLimit
from ugm.model import Borrower, Guarantee, OrderNode
from ugm.quotatree._node import Consumer, TreeNode
from ugm.quotatree._tree import QuotaTree
from ugm.resources import Resource

__all__ = [
    "ConsumerView",
    "NodeView",
    "TreeView",
    "all_limits",
    "borrowers",
    "node_names",
    "order_nodes",
    "path_limits",
    "room_below",
    "view_of",
]


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
        OrderNode(
            node.name, node.parent.name if node.parent else "", dict(zip(tree.resources, node.quota, strict=True))
        )
        for node in tree.nodes.values()
    ]


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
