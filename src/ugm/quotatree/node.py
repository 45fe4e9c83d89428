"""One node of a quota tree: its quota, what is left of it, and the consumers that are held at it.

What is charged to a node is what is held at it and at all nodes below. A consumer is charged to the node that holds it
and to everything above, and not to the nodes between its group and that node.

The consumers of a node have an order, that of their arrival; it decides who is moved or preempted first. They are kept
by rank (priority, type, preemptible or not) with the sum of each rank, so that it is known whether the consumers of
some ranks are enough before any of them is looked at.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from operator import attrgetter
from typing import Final, final

from ugm.quotatree.consumer import Amounts, Consumer, Rank
from ugm.quotatree.waiting import Waiting

__all__ = ["Held", "TreeNode", "fits", "in_order"]

_by_arrival = attrgetter("sequence")

#: So many consumers are sorted sooner than their lists are merged.
_FEW: Final = 16

#: So many ranks stay listed at a node when nobody of them is left: they soon come again.
_FEW_RANKS: Final = 8


def fits(amounts: Amounts, room: Sequence[int]) -> bool:
    """Return whether a request fits a room."""
    for index, amount in amounts:  # noqa: SIM110 - `all` takes twice the time
        if room[index] < amount:
            return False
    return True


@final
class Held:
    """The consumers of one rank at one node."""

    __slots__ = ("gone", "members", "rank", "total")

    rank: Rank
    #: By arrival.
    members: dict[Consumer, None]
    #: How many have left the dictionary. It finds its first behind the gaps that they leave.
    gone: int
    #: The most that they can free, by position of the resource: what they request together, negative requests apart.
    total: list[int]

    def __init__(self, rank: Rank, width: int) -> None:
        self.rank = rank
        self.members = {}
        self.gone = 0
        self.total = [0] * width

    def in_order(self) -> dict[Consumer, None]:
        """Return the consumers by arrival, with no more gaps than consumers.

        An ordered dictionary has no gaps, but takes longer to append and remove.
        """
        if self.gone > len(self.members):
            self.list_anew(self.members)
        return self.members

    def list_anew(self, members: Iterable[Consumer]) -> None:
        """List consumers without gaps."""
        self.members = dict.fromkeys(members)
        self.gone = 0


@final
class TreeNode:
    """A node with a quota.

    Args:
        name: unique in its tree.
        parent: None for the root.
        hard: whether no request from here may go on to the parent. The root is hard by nature.
        quota: by position of the resource.
    """

    __slots__ = ("children", "depth", "free", "hard", "held", "name", "parent", "path", "quota", "waiting")

    name: str
    parent: TreeNode | None
    children: list[TreeNode]
    hard: bool
    quota: tuple[int, ...]
    #: What is left of the quota. Below 0 after forced allocations, or when the quota was lowered.
    free: list[int]
    #: The node itself and everything above it, up to the root.
    path: tuple[TreeNode, ...]
    #: 0 for the root.
    depth: int
    held: dict[Rank, Held]
    #: Those who are held at the parent and belong to a leaf in or below this node.
    waiting: Waiting

    def __init__(self, name: str, parent: TreeNode | None, quota: tuple[int, ...], *, hard: bool) -> None:
        self.name = name
        self.parent = parent
        self.children = []
        self.hard = hard
        self.quota = quota
        self.free = list(quota)
        self.path = (self, *parent.path) if parent else (self,)
        self.depth = len(self.path) - 1
        self.held = {}
        self.waiting = Waiting(len(quota))
        if parent:
            parent.children.append(self)

    def __repr__(self) -> str:
        return f"<TreeNode {self.name!r}>"

    def consumers(self) -> list[Consumer]:
        """Return all who are held here, in the order of their arrival."""
        return list(in_order(self.held.values()))

    def allocated(self) -> tuple[int, ...]:
        """Return what is charged, by position of the resource."""
        return tuple(quota - free for quota, free in zip(self.quota, self.free, strict=True))

    def walk(self) -> Iterator[TreeNode]:
        """Yield the node and everything below it, parents first, children by name."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting += sorted(node.children, key=attrgetter("name"), reverse=True)

    # Changes. Whoever calls keeps the amounts in line.

    def append(self, consumer: Consumer, sequence: int) -> None:
        """List a consumer behind all others. Does not charge it."""
        consumer.node = self
        consumer.sequence = sequence
        rank = consumer.rank
        held = self.held.get(rank)
        if held is None:
            held = self.held[rank] = Held(rank, len(self.quota))
        consumer.held = held
        held.members[consumer] = None
        total = held.total
        for index, amount in consumer.amounts:
            if amount > 0:
                total[index] += amount
        leaf = consumer.leaf
        if leaf is None or leaf is self:
            consumer.waiting = None
        else:
            waiting = consumer.waiting = leaf.path[leaf.depth - self.depth - 1].waiting
            waiting.append(consumer)

    def remove(self, consumer: Consumer) -> None:
        """Take a consumer from the list. Does not refund it."""
        held = consumer.held
        del held.members[consumer]
        held.gone += 1
        if held.members or len(self.held) <= _FEW_RANKS:
            total = held.total
            for index, amount in consumer.amounts:
                if amount > 0:
                    total[index] -= amount
        else:
            del self.held[consumer.rank]
        if consumer.waiting is not None:
            consumer.waiting.remove(consumer)

    def sort(self) -> None:
        """Put the lists in the order of arrival, after somebody has come back to an earlier place."""
        for held in self.held.values():
            held.list_anew(sorted(held.members, key=_by_arrival))
        for child in self.children:
            child.waiting.rebuild()


def in_order(ranks: Iterable[Held]) -> Iterator[Consumer]:
    """Yield the consumers of some ranks of a node in the order of their arrival."""
    lists = [held.in_order() for held in ranks]
    if len(lists) == 1:
        return iter(lists[0])
    if sum(map(len, lists)) <= _FEW:
        return iter(sorted(chain.from_iterable(lists), key=_by_arrival))
    return _merged(lists)


def _merged(lists: Iterable[Iterable[Consumer]]) -> Iterator[Consumer]:
    """Yield what `heapq.merge` does; most who ask take one or two, and the first takes less time so."""
    heads = []
    for others in map(iter, lists):
        for first in others:
            heads.append((first.sequence, first, others))
            break
    # Every arrival has its own number, so nothing behind it is compared.
    heads.sort()
    while heads:
        _, consumer, others = heads[0]
        yield consumer
        for following in others:
            heapq.heapreplace(heads, (following.sequence, following, others))
            break
        else:
            heapq.heappop(heads)
