"""The nodes of a quota tree and the consumers that they hold.

The amount charged to a node is the sum over the consumers at the node and at all nodes below. A consumer is charged to
the node that holds it and to every node above, but not to the nodes between its group and the node that holds it.

The consumers of a node are ordered by arrival. This order decides which of them is moved or preempted first. A node
keeps them by rank (priority, type, preemptible or not) with the sum of their amounts. So a search knows that the
consumers of some ranks cannot free enough before it looks at any of them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from heapq import merge
from operator import attrgetter
from typing import Final, NamedTuple, TypeAlias, final

from ugm.quotatree._packing import Packing, Size
from ugm.quotatree.consumer import ConsumerInfo, TreeRequest

__all__ = ["Consumer", "Rank", "TreeNode", "by_arrival"]

by_arrival: Final = attrgetter("sequence")


class Rank(NamedTuple):
    """The attributes of a consumer that decide whether it can be preempted."""

    priority: int
    type: int
    unpreemptable: bool


@final
@dataclass(slots=True, eq=False, repr=False)
class Consumer:
    """One consumer in one tree."""

    info: ConsumerInfo
    #: The entry for this tree. Its group follows renames in the tree.
    entry: TreeRequest
    rank: Rank
    #: The group, if it is a leaf of the tree.
    leaf: TreeNode | None
    #: The packed request, the signs of the requested resources (any other resource never denies), the request without
    #: negative amounts, and its size.
    packed: int
    mask: int
    freed: int
    size: Size
    #: The node that holds it; None before it is allocated and after it is deallocated.
    node: TreeNode | None = field(default=None, init=False)
    #: Its position in the order of arrival at the node.
    sequence: int = field(default=0, init=False)

    @property
    def id(self) -> str:
        """The id, unique within a manager."""
        return self.info.consumer_id


#: Consumers in the order of arrival.
_Line: TypeAlias = "OrderedDict[Consumer, None]"


@final
@dataclass(slots=True, eq=False)
class _Members:
    """The consumers of one rank that a node holds."""

    #: The sum of what they can free, packed.
    total: int = 0
    line: _Line = field(default_factory=OrderedDict)


@final
class TreeNode:
    """A node with a quota.

    Args:
        name: unique in its tree.
        parent: None for the root.
        quota: the quotas by position of the resource.
        packing: the positions of the resources of the tree.
        hard: whether consumers below may not borrow above the node. It has no effect at the root.
    """

    __slots__ = (
        "borrowers", "children", "depth", "free", "hard", "members", "name", "packing", "parent",
        "path", "quota", "toward",
    )  # fmt: skip

    def __init__(
        self, name: str, parent: TreeNode | None, quota: tuple[int, ...], packing: Packing, *, hard: bool
    ) -> None:
        self.name: Final = name
        self.parent: Final = parent
        self.children: Final[list[TreeNode]] = []
        self.hard: Final = hard
        self.quota: Final = quota
        self.packing: Final = packing
        #: The node itself and every node above it, up to the root.
        self.path: Final[tuple[TreeNode, ...]] = (self, *parent.path) if parent else (self,)
        #: 0 for the root.
        self.depth: Final = len(self.path) - 1
        #: For each leaf below this node the child on the path to it.
        self.toward: Final[dict[TreeNode, TreeNode]] = {}
        self.clear()
        if parent:
            parent.children.append(self)

    def clear(self) -> None:
        """Reset all counters and lists from any state: no consumers, nothing charged."""
        #: The part of the quota that is not charged, packed. Negative after forced allocations or a lowered quota.
        self.free: int = self.packing.pack_free(self.quota)
        #: The consumers that this node holds, by rank.
        self.members: dict[Rank, _Members] = {}
        #: The consumers that the parent holds and that may move down here, by their size. If a size does not
        #: fit, none of its consumers does.
        self.borrowers: dict[Size, _Line] = {}

    def __repr__(self) -> str:
        return f"<TreeNode {self.name!r}>"

    def free_amounts(self) -> tuple[int, ...]:
        """Return the part of the quota that is not charged, by position of the resource."""
        return self.packing.unpack_free(self.free)

    def allocated(self) -> tuple[int, ...]:
        """Return the charged amounts, by position of the resource."""
        return tuple(quota - free for quota, free in zip(self.quota, self.free_amounts(), strict=True))

    def walk(self) -> Iterator[TreeNode]:
        """Yield the node and all nodes below it, parents first, children by name."""
        pending = [self]
        while pending:
            node = pending.pop()
            yield node
            pending += sorted(node.children, key=attrgetter("name"), reverse=True)

    def consumers(self, ranks: Iterable[Rank] | None = None) -> Iterable[Consumer]:
        """Return the consumers of some ranks, or all of them, in order of arrival."""
        lines = [self.members[rank].line for rank in (self.members if ranks is None else ranks)]
        return lines[0] if len(lines) == 1 else merge(*lines, key=by_arrival)

    def first_borrower(self) -> Consumer | None:
        """Return the first consumer that can move down here, if there is one."""
        free, found = self.free, None
        for (size, signs), line in self.borrowers.items():
            if free - size & signs == signs:
                for consumer in line:
                    mask = consumer.mask
                    if free - consumer.packed & mask == mask:
                        if found is None or consumer.sequence < found.sequence:
                            found = consumer
                        break
        return found

    # Changes. The caller updates the free amounts.

    def append(self, consumer: Consumer, sequence: int) -> None:
        """Add a consumer behind all others, without charging it."""
        consumer.node = self
        consumer.sequence = sequence
        members = self.members.get(consumer.rank)
        if members is None:
            members = self.members[consumer.rank] = _Members()
        members.line[consumer] = None
        members.total += consumer.freed
        if consumer.leaf is not None and consumer.leaf is not self:
            borrowers, size = self.toward[consumer.leaf].borrowers, consumer.size
            line = borrowers.get(size)
            if line is None:
                line = borrowers[size] = OrderedDict()
            line[consumer] = None

    def remove(self, consumer: Consumer) -> None:
        """Remove a consumer, without refunding it."""
        consumer.node = None
        members = self.members[consumer.rank]
        members.total -= consumer.freed
        del members.line[consumer]
        if not members.line:
            del self.members[consumer.rank]
        if consumer.leaf is not None and consumer.leaf is not self:
            borrowers, size = self.toward[consumer.leaf].borrowers, consumer.size
            line = borrowers[size]
            del line[consumer]
            if not line:
                del borrowers[size]

    def sort(self) -> None:
        """Restore the order of arrival after consumers have returned to earlier places."""
        lines = [members.line for members in self.members.values()]
        for line in (*lines, *(line for child in self.children for line in child.borrowers.values())):
            for consumer in sorted(line, key=by_arrival):
                line.move_to_end(consumer)
