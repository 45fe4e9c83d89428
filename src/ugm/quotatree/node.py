"""One node of a quota tree: its quota, what is left of it, and the consumers that are held at it.

What is charged to a node is what is held at it and at all nodes below. A consumer is charged to the node that holds it
and to everything above, and not to the nodes between its group and that node.

The consumers of a node have an order, that of their arrival; it decides who is moved or preempted first. Of each rank
(priority, type, preemptible or not) the sum is known, negative amounts apart, so that it is known when the consumers of
some ranks cannot be enough before any of them is looked at.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator
from operator import attrgetter
from typing import Final, final

from ugm.quotatree.consumer import Consumer, Rank
from ugm.quotatree.lanes import Layouts
from ugm.quotatree.packing import Packing
from ugm.quotatree.waiting import Waiting

__all__ = ["TreeNode"]

_by_arrival = attrgetter("sequence")

#: Among so many consumers those of some ranks are picked out; more are listed by rank.
_PICKED: Final = 64

#: A dictionary of a few closes its gaps as it grows, and takes less than 110 bytes for each then; one that takes much
#: more has shrunk, and is made anew.
_GAPPY: Final = 200


@final
class TreeNode:
    """A node with a quota.

    Args:
        name: unique in its tree.
        parent: None for the root.
        hard: whether no request from here may go on to the parent. The root is hard by nature.
        quota: by position of the resource.
        layouts: of the lanes of the tree.
    """

    __slots__ = (
        "_members",
        "_ranked",
        "_removals",
        "children",
        "depth",
        "hard",
        "name",
        "packing",
        "parent",
        "path",
        "quota",
        "room",
        "totals",
        "waiting",
        "waiting_by_leaf",
    )

    name: str
    parent: TreeNode | None
    children: list[TreeNode]
    hard: bool
    quota: tuple[int, ...]
    packing: Packing
    #: What is left of the quota, packed. Below 0 after forced allocations, or when the quota was lowered.
    room: int
    #: The node itself and everything above it, up to the root.
    path: tuple[TreeNode, ...]
    #: 0 for the root.
    depth: int
    #: The sum of what the consumers of each rank can free, and of how many they are, packed.
    totals: dict[Rank, int]
    #: Those who are held at the parent and belong to a leaf in or below this node.
    waiting: Waiting
    #: For each leaf below the node with which those of it wait who are held here.
    waiting_by_leaf: dict[TreeNode | None, Waiting]
    #: By arrival. A dictionary finds its first behind the gaps that others have left; an ordered one has no gaps, but
    #: takes longer to append and remove. So it is made of many only when somebody asks for the first of them.
    _members: dict[Consumer, None]
    #: By rank and arrival, as long as somebody asks for them by rank.
    _ranked: dict[Rank, OrderedDict[Consumer, None]] | None
    #: How many have left since somebody did.
    _removals: int

    def __init__(
        self, name: str, parent: TreeNode | None, quota: tuple[int, ...], layouts: Layouts, *, hard: bool
    ) -> None:
        self.name = name
        self.parent = parent
        self.children = []
        self.hard = hard
        self.quota = quota
        self.packing = layouts.packing
        self.room = layouts.packing.room(quota)
        self.path = (self, *parent.path) if parent else (self,)
        self.depth = len(self.path) - 1
        self.totals = {}
        self.waiting = Waiting(layouts)
        self.waiting_by_leaf = {}
        self._members = {}
        self._ranked = None
        self._removals = 0
        if parent:
            parent.children.append(self)

    def __repr__(self) -> str:
        return f"<TreeNode {self.name!r}>"

    def left(self) -> tuple[int, ...]:
        """Return what is left of the quota, by position of the resource."""
        return self.packing.left(self.room)

    def allocated(self) -> tuple[int, ...]:
        """Return what is charged, by position of the resource."""
        return tuple(quota - left for quota, left in zip(self.quota, self.left(), strict=True))

    def walk(self) -> Iterator[TreeNode]:
        """Yield the node and everything below it, parents first, children by name."""
        pending = [self]
        while pending:
            node = pending.pop()
            yield node
            pending += sorted(node.children, key=attrgetter("name"), reverse=True)

    def consumers(self) -> Collection[Consumer]:
        """Return all who are held here, in the order of their arrival."""
        return self._members.keys()

    def first_at_hand(self) -> Iterable[Consumer]:
        """Return the same so that the first are at hand, however many have left before them."""
        members = self._members
        if len(members) > _PICKED:
            if type(members) is dict:
                members = self._members = OrderedDict.fromkeys(members)
        elif members.__sizeof__() > _GAPPY * (len(members) + 4):
            members = self._members = dict.fromkeys(members)
        return members

    def of_ranks(self, ranks: set[Rank]) -> Iterable[Consumer]:
        """Return the consumers of some ranks, in the order of their arrival."""
        if len(self._members) <= _PICKED:
            return (consumer for consumer in self.first_at_hand() if consumer.rank in ranks)
        ranked = self._ranked
        if ranked is None:
            ranked = self._ranked = {}
            for consumer in self._members:
                ranked.setdefault(consumer.rank, OrderedDict())[consumer] = None
        self._removals = 0
        return _merged(members for rank, members in ranked.items() if rank in ranks)

    def findings(self) -> Iterator[str]:
        """Yield what is not as it has to be, but for what `ugm.quotatree.audit` sees from outside."""
        listed = [] if self._ranked is None else list(_merged(self._ranked.values()))
        if listed and listed != list(self._members):
            yield "does not list the consumers of its ranks"

    # Changes. Whoever calls keeps the amounts in line.

    def append(self, consumer: Consumer, sequence: int) -> None:
        """List a consumer behind all others. Does not charge it."""
        consumer.node = self
        consumer.sequence = sequence
        self._members[consumer] = None
        rank, totals = consumer.rank, self.totals
        totals[rank] = totals.get(rank, 0) + consumer.gives_back
        if self._ranked is not None:
            self._ranked.setdefault(rank, OrderedDict())[consumer] = None
        waiting = consumer.waiting = self.waiting_by_leaf.get(consumer.leaf)
        if waiting is not None:
            waiting.append(consumer)

    def remove(self, consumer: Consumer) -> None:
        """Take a consumer from the list. Does not refund it."""
        del self._members[consumer]
        rank, totals = consumer.rank, self.totals
        total = totals[rank] - consumer.gives_back
        if total:
            totals[rank] = total
        else:
            del totals[rank]
        ranked = self._ranked
        if ranked is not None:
            self._unrank(consumer, ranked)
        waiting = consumer.waiting
        if waiting is not None:
            waiting.remove(consumer)

    def _unrank(self, consumer: Consumer, ranked: dict[Rank, OrderedDict[Consumer, None]]) -> None:
        del ranked[consumer.rank][consumer]
        if not ranked[consumer.rank]:
            del ranked[consumer.rank]
        self._removals += 1
        if 4 * self._removals > len(self._members):
            self._ranked = None

    def clear(self) -> None:
        """Hold nobody, and have all of the quota left; whatever was counted and listed before."""
        self.room = self.packing.room(self.quota)
        self.totals = {}
        self.waiting.clear()
        self._members = {}
        self._ranked = None
        self._removals = 0

    def sort(self) -> None:
        """Put the lists in the order of arrival, after somebody has come back to an earlier place."""
        self._members = dict.fromkeys(sorted(self._members, key=_by_arrival))
        self._ranked = None
        for child in self.children:
            child.waiting.sort()


def _merged(lists: Iterable[Iterable[Consumer]]) -> Iterator[Consumer]:
    """Yield what `heapq.merge` does; most who ask take one or two, and of many lists the first takes less time so."""
    heads = []
    for others in map(iter, lists):
        for first in others:
            heads.append((first.sequence, first, others))
            break
    # Every arrival has its own number, so nothing behind it is compared.
    heapq.heapify(heads)
    while heads:
        _, consumer, others = heads[0]
        yield consumer
        for following in others:
            heapq.heapreplace(heads, (following.sequence, following, others))
            break
        else:
            heapq.heappop(heads)
