"""The nodes of a quota tree and the consumers that they hold.

The amount charged to a node is the sum over the consumers at the node and at all nodes below. A consumer is charged to
the node that holds it and to every node above, but not to the nodes between its group and the node that holds it.

The consumers of a node are ordered by arrival. This order decides which of them is moved or preempted first. For each
rank (priority, type, preemptible or not) a node keeps the sum of the amounts, so that a search knows that the consumers
of some ranks cannot free enough before it looks at any of them.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from operator import attrgetter
from typing import Final, TypeAlias, final

from ugm.quotatree._packed import Amounts, PackedQueue, Packing
from ugm.quotatree.consumer import ConsumerInfo, TreeRequest

__all__ = ["Consumer", "Places", "Rank", "TreeNode", "shared_rank"]

_by_arrival = attrgetter("sequence")

#: Up to this many consumers of a node are filtered by rank; more are listed by rank.
_FILTERED: Final = 64

#: A dictionary with more bytes per entry than this has shrunk (one that has grown takes less than 110). It is copied
#: then, so that its first entries are found without a search through deleted ones.
_GAPPY: Final = 200


@final
@dataclass(slots=True, eq=False)
class Rank:
    """The attributes of a consumer that decide whether it can be preempted.

    Ranks are compared by identity, which is fast. `shared_rank` returns one object for equal attributes. After very
    many other ranks it returns a new one. Its consumers are then counted apart from earlier ones, which is harmless.
    """

    priority: int
    type: int
    unpreemptable: bool


#: Returns the rank with some attributes.
shared_rank: Final = lru_cache(maxsize=2**14)(Rank)


@final
@dataclass(slots=True, eq=False, repr=False)
class Consumer:
    """One consumer in one tree."""

    info: ConsumerInfo
    #: The entry for this tree. Its group follows renames in the tree.
    entry: TreeRequest
    packing: Packing
    rank: Rank
    #: The group, if it is a leaf of the tree.
    leaf: TreeNode | None
    #: The packed request, the signs of the requested resources, and the request without negative amounts.
    packed: int = field(init=False)
    mask: int = field(init=False)
    freed: int = field(init=False)
    #: The node that holds it; None before it is allocated and after it is deallocated.
    node: TreeNode | None = field(default=None, init=False)
    #: Its position in the order of arrival at the node.
    sequence: int = field(init=False)
    #: The queue in which it waits to move down toward its group; None if its group holds it or is not a leaf.
    queue: PackedQueue[Consumer] | None = field(init=False)
    #: Its position in the queue.
    slot: int = field(init=False)

    def __post_init__(self) -> None:
        self.packed, self.mask, self.freed = self.packing.pack_request(self.entry.request.amounts)

    @property
    def id(self) -> str:
        """The id, unique within a manager."""
        return self.info.consumer_id

    @property
    def amounts(self) -> Amounts:
        """The requested amounts, by position of the resource in the tree."""
        return self.packing.unpack_request(self.packed, self.mask)


#: For each consumer a place: the node, if any, and the position in the order there.
Places: TypeAlias = dict[Consumer, "tuple[TreeNode | None, int]"]


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

    # Attributes in slots are read faster, which counts here: every operation visits all nodes of a path.
    __slots__ = (
        "_members", "_ranked", "_removals", "borrowers", "children", "depth", "free", "hard", "name", "packing",
        "parent", "path", "queue_by_leaf", "quota", "totals",
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
        #: The consumers that the parent holds and that belong to a leaf in or below this node. They may move down here.
        self.borrowers: Final = PackedQueue[Consumer](packing)
        #: For each leaf below this node the queue of the consumers of that leaf that this node holds.
        self.queue_by_leaf: Final[dict[TreeNode | None, PackedQueue[Consumer]]] = {}
        self.clear()
        if parent:
            parent.children.append(self)

    def clear(self) -> None:
        """Reset all counters and lists from any state: no consumers, nothing charged."""
        #: The part of the quota that is not charged, packed. Negative after forced allocations or a lowered quota.
        self.free: int = self.packing.pack_free(self.quota)
        #: By rank the packed sum of what its consumers can free, and of their number.
        self.totals: dict[Rank, int] = {}
        self.borrowers.clear()
        #: The consumers of this node by arrival. A dictionary has to skip the gaps of removed entries to find its first
        #: one. An ordered dictionary has no gaps, but is slower to change, so a large one is made only when the first
        #: consumers are needed.
        self._members: dict[Consumer, None] = {}
        #: The same by rank, while searches use it.
        self._ranked: dict[Rank, OrderedDict[Consumer, None]] | None = None
        #: The number of removals since the last such search.
        self._removals = 0

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

    def consumers(self) -> Collection[Consumer]:
        """Return the consumers of this node, in order of arrival."""
        return self._members.keys()

    def first_consumers(self) -> Iterable[Consumer]:
        """Return the same, so that the first ones are found quickly even after many removals."""
        members = self._members
        if len(members) > _FILTERED:
            if type(members) is dict:
                members = self._members = OrderedDict.fromkeys(members)
        elif members.__sizeof__() > _GAPPY * (len(members) + 4):
            members = self._members = dict.fromkeys(members)
        return members

    def with_ranks(self, ranks: set[Rank]) -> Iterable[Consumer]:
        """Return the consumers of some ranks, in order of arrival."""
        if len(self._members) <= _FILTERED:
            return (consumer for consumer in self.first_consumers() if consumer.rank in ranks)
        ranked = self._ranked
        if ranked is None:
            ranked = self._ranked = {}
            for consumer in self._members:
                ranked.setdefault(consumer.rank, OrderedDict())[consumer] = None
        self._removals = 0
        return heapq.merge(*(members for rank, members in ranked.items() if rank in ranks), key=_by_arrival)

    def violations(self) -> Iterator[str]:
        """Yield a message for each violated invariant of the lists by rank."""
        listed = [] if self._ranked is None else list(heapq.merge(*self._ranked.values(), key=_by_arrival))
        if listed and listed != list(self._members):
            yield "has lists by rank that do not contain its consumers"

    # Changes. The caller updates the free amounts.

    def append(self, consumer: Consumer, sequence: int) -> None:
        """Add a consumer behind all others, without charging it."""
        consumer.node = self
        consumer.sequence = sequence
        self._members[consumer] = None
        rank, totals = consumer.rank, self.totals
        totals[rank] = totals.get(rank, 0) + consumer.freed
        if self._ranked is not None:
            self._ranked.setdefault(rank, OrderedDict())[consumer] = None
        queue = consumer.queue = self.queue_by_leaf.get(consumer.leaf)
        if queue is not None:
            queue.append(consumer)

    def remove(self, consumer: Consumer, log: Places | None) -> None:
        """Remove a consumer, without refunding it. Its first place is logged."""
        if log is not None:
            log.setdefault(consumer, (self, consumer.sequence))
        del self._members[consumer]
        rank, totals = consumer.rank, self.totals
        total = totals[rank] - consumer.freed
        if total:
            totals[rank] = total
        else:
            del totals[rank]
        if self._ranked is not None:
            self._remove_ranked(consumer, self._ranked)
        queue = consumer.queue
        if queue is not None:
            queue.remove(consumer)

    def _remove_ranked(self, consumer: Consumer, ranked: dict[Rank, OrderedDict[Consumer, None]]) -> None:
        del ranked[consumer.rank][consumer]
        if not ranked[consumer.rank]:
            del ranked[consumer.rank]
        self._removals += 1
        if 4 * self._removals > len(self._members):
            self._ranked = None

    def sort(self, returned: Iterable[Consumer]) -> None:
        """Restore the order of arrival after consumers have returned to earlier places."""
        self._members = dict.fromkeys(sorted(self._members, key=_by_arrival))
        self._ranked = None
        for queue in dict.fromkeys(consumer.queue for consumer in returned):
            if queue is not None:
                queue.sort()
