"""The results of a quota manager: responses, updates, rejections and the state of a tree, all of them values.

A rejection holds the numbers of the moment when the request was rejected. Its text is built when it is read. A request
that a tree or a forest cannot decide about, because something is missing, has violations of its own kinds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from ugm._json_values import JsonObject, Row, attributes
from ugm.decision import Violation
from ugm.resources import Resource


class AllocationResponse(NamedTuple):
    """The response to an allocation; true if it was granted."""

    consumer_id: str
    #: The preempted consumers, in order of preemption. They are no longer allocated.
    preempted: tuple[str, ...] = ()
    #: None if the request was granted.
    rejection: Rejection | None = None

    def __bool__(self) -> bool:
        return self.rejection is None

    @property
    def allocated(self) -> bool:
        """True if the consumer is allocated now."""
        return self.rejection is None

    def __str__(self) -> str:
        if self.rejection is not None:
            return str(self.rejection)
        preempting = f", preempting {', '.join(map(repr, self.preempted))}" if self.preempted else ""
        return f"{self.consumer_id!r} allocated{preempting}"


class TreeCreateResponse(NamedTuple):
    """The result of building a tree from its cache."""

    tree_name: str
    #: Empty if there is none.
    root: str
    #: The nodes of the cache that are not in the tree, sorted.
    dangling: tuple[str, ...]

    @property
    def is_clean(self) -> bool:
        """True if there is a root and every node is in the tree."""
        return bool(self.root) and not self.dangling


class UpdateResponse(NamedTuple):
    """The result of an update."""

    #: The consumers that are no longer allocated, sorted.
    unallocated: tuple[str, ...]
    #: By the name of the tree in the manager.
    trees: Mapping[str, TreeCreateResponse]


class QuotaNodeViolation(Violation):
    """A quota of a node that is exceeded, or that a request would exceed; ``limit_name`` is the tree."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"{self.kind} {self.name!r} of tree {self.limit_name!r}: {self._what()}"


class SoftQuotaViolation(QuotaNodeViolation):
    """A soft quota that a request would exceed. A node above may hold it later, so waiting can help."""

    __slots__ = ()

    @property
    def can_wait(self) -> bool:
        """True: waiting can help."""
        return True


class Reason(StrEnum):
    """The kinds of rejection."""

    NO_ROOM = "no room"
    UNKNOWN_GROUP = "unknown group"
    NOT_A_LEAF = "not a leaf"
    NO_GROUP = "no group"


class NodeQuota(NamedTuple):
    """The quota of a node at the moment of a rejection."""

    node: str
    #: Whether consumers below may not borrow above it; False for the root.
    is_hard: bool
    #: By position of the resource.
    quota: tuple[int, ...]
    #: The part of the quota that is not charged; negative if the node is over its quota.
    free: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Rejection:
    """A request that a tree rejected."""

    tree_name: str
    consumer_id: str
    group: str
    reason: Reason
    #: Every node from the group up to the last visited node.
    visited: tuple[NodeQuota, ...] = ()
    #: The nodes above these, up to the root.
    above: tuple[NodeQuota, ...] = ()
    resources: tuple[str, ...] = ()
    #: The positions of the requested resources, and their amounts.
    amounts: tuple[tuple[int, int], ...] = ()

    @property
    def violations(self) -> tuple[Violation, ...]:
        """Every violated quota, from the group upward.

        If waiting can help at every visited node, the list continues with the nodes above whose whole quota is too
        small, because there it cannot help.
        """
        found = tuple(
            self._violation(level, at, amount)
            for level, node in enumerate(self.visited)
            for at, amount in self.amounts
            if node.free[at] < amount
        )
        if not all(violation.can_wait for violation in found):
            return found
        return found + tuple(
            self._violation(level, at, amount)
            for level, node in enumerate(self.above, len(self.visited))
            for at, amount in self.amounts
            if node.quota[at] < amount and not self._may_borrow(level)
        )

    def _violation(self, level: int, at: int, amount: int) -> Violation:
        node = (self.visited + self.above)[level]
        quota, used = node.quota[at], node.quota[at] - node.free[at]
        kind = SoftQuotaViolation if self._may_borrow(level) else QuotaNodeViolation
        return kind("quota node", node.node, "", self.tree_name, self.resources[at], quota, used, amount)

    def _may_borrow(self, level: int) -> bool:
        """Return whether a node above a level may hold a request that exceeds the quota of the node at this level.

        It may not if this node or a node below it on the path is hard. Above the root there is no node.
        """
        path = self.visited + self.above
        return level + 1 < len(path) and not any(node.is_hard for node in path[: level + 1])

    @property
    def blocked_by(self) -> str:
        """The lowest hard node that the search visited: nothing is borrowed above it; empty if there is none."""
        return next((node.node for node in self.visited if node.is_hard), "")

    def __str__(self) -> str:
        lines = [f"{self.consumer_id!r} rejected in group {self.group!r} of tree {self.tree_name!r}: {self.reason}"]
        lines += [f"  {violation}" for violation in self.violations]
        if self.blocked_by:
            lines.append(f"  {self.blocked_by!r} is hard: nothing is borrowed above it")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class ConsumerView(Row):
    """A consumer that a tree holds."""

    consumer_id: str
    group: str
    #: The node that holds it: its group, or a node above from which it borrows.
    node: str
    request: Resource
    priority: int
    type: int
    unpreemptable: bool


@dataclass(frozen=True, slots=True)
class NodeView(Row):
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


class TreeView(NamedTuple):
    """A tree with its nodes, parents first, children by name."""

    name: str
    resources: tuple[str, ...]
    nodes: tuple[NodeView, ...]

    @property
    def consumers(self) -> dict[str, ConsumerView]:
        """All consumers of the tree, by id."""
        return {consumer.consumer_id: consumer for node in self.nodes for consumer in node.consumers}

    def to_dict(self) -> JsonObject:
        """Return the tree for JSON."""
        return attributes(self, self._fields)
