"""Where a consumer would live, and who would have to move or go for it: found without changing anything.

Source: quota-manager of the multi-cluster app dispatcher, "outline of the algorithm". A request walks from its group
to the root. At the lowest node where it fits, or where consumers of lower priority can be slid up to the parent, it
finds its home; above the home it must fit everywhere, and there consumers of any priority are slid up, at the root out
of the tree, because they live on quota that they borrowed. A node that fails above the home sends the search on to
find a home above that node, unless a hard node has been met. If no home is found and the request has a priority, those
of lower priority on its path are preempted, highest node first, until the request fits the last node that was visited,
and the walk is done anew.

The search keeps beside the tree what it would change: who is gone, what that frees, who has been slid out of which
node. Nothing of the tree is touched, so giving up needs no undoing.

What the original leaves to chance has an order here: consumers that a failed walk had moved go to the end of their
node's list in the order in which they were moved.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final, NamedTuple, final

from ugm.quotatree.consumer import Amounts, Consumer, ConsumerInfo, Rank
from ugm.quotatree.node import Held, TreeNode, fits, in_order
from ugm.quotatree.victims import VictimPolicy, first_found

__all__ = ["Found", "Search"]

_NOBODY: Final = frozenset[ConsumerInfo]()


class Found(NamedTuple):
    """The result of a search that succeeded."""

    home: TreeNode
    #: Who goes to the end of its node's list, in this order; nobody if the first walk succeeded.
    requeued: list[Consumer]
    #: Who is preempted for room, in this order.
    preempted: list[Consumer]
    #: For each node from the home up, who is slid out of it: to the parent, or from the root out of the tree.
    slides: list[tuple[TreeNode, list[Consumer]]]


@final
class Search:
    """One search for one consumer whose group is a leaf.

    Args:
        consumer: who asks.
        path: from its group to the root.
        policy: how victims are chosen.
    """

    __slots__ = (
        "_barred",
        "_consumer",
        "_path",
        "_policy",
        "_requeued",
        "_rooms",
        "_slid",
        "lacking",
        "reached",
        "victims",
    )

    _consumer: Consumer
    _path: tuple[TreeNode, ...]
    _policy: VictimPolicy
    #: Whom the consumer may not preempt.
    _barred: frozenset[ConsumerInfo]
    #: What is left at each level, the victims gone.
    _rooms: list[Sequence[int]]
    #: Who has gone to the end of its list in this search, in order.
    _requeued: dict[Consumer, None]
    #: Who has been slid out of a level in this walk.
    _slid: dict[int, list[Consumer]]
    #: What is missing at the node that was visited last even without anybody who may be preempted, by resource; None if
    #: the consumer may preempt nobody.
    lacking: Amounts | None
    #: Who has been preempted for room, in order.
    victims: dict[Consumer, None]
    #: The level of the node that was visited last.
    reached: int

    def __init__(self, consumer: Consumer, path: tuple[TreeNode, ...], policy: VictimPolicy) -> None:
        self._consumer = consumer
        self._path = path
        self._policy = policy
        self._barred = consumer.info.barred_from() if consumer.info.preempted_by else _NOBODY
        self._rooms = [node.free for node in path]
        self._requeued = {}
        self._slid = {}
        self.lacking = None
        self.victims = {}
        self.reached = 0

    def run(self, *, thorough: bool = False) -> Found | None:
        """Return where the consumer would live, or None.

        Args:
            thorough: go through the victims even if it is known that they are not enough.
        """
        home = self._walk()
        while home is None:
            if not self._preempt(thorough=thorough):
                return None
            home = self._walk()
        slides = [(self._path[level], slid) for level, slid in self._slid.items()]
        return Found(self._path[home], list(self._requeued), list(self.victims), slides)

    def moved(self) -> list[Consumer]:
        """Return whom the original, having given up, has put at the end of their lists."""
        return [*(consumer for consumer in self._requeued if consumer not in self.victims), *self.victims]

    # The walk

    def _walk(self) -> int | None:
        """Return the level of the home that the consumer finds, if any."""
        amounts = self._consumer.amounts
        home = None
        hit_hard = False
        for level, node in enumerate(self._path):
            self.reached = level
            hit_hard = hit_hard or node.hard
            if home is None:
                if fits(amounts, self._rooms[level]) or self._slide_up(level, any_priority=False):
                    home = level
                elif node.hard:
                    break
            elif not fits(amounts, self._rooms[level]) and not self._slide_up(level, any_priority=True):
                self._move_back()
                home = None
                if hit_hard:
                    break
        return home

    def _slide_up(self, level: int, *, any_priority: bool) -> bool:
        """Slide consumers out of a node until the consumer fits; if all together are not enough, none."""
        node = self._path[level]
        is_root = node.parent is None
        if node.hard and not is_root:
            return False
        amounts, priority = self._consumer.amounts, self._consumer.rank[0]
        # The priority first: it is at hand, and who is listed may be far away in memory.
        ranks = [h for h in node.held.values() if (any_priority or h.rank[0] < priority) and h.members]
        arrived: Sequence[Consumer] = self._slid.get(level - 1, ())
        if is_root:
            ranks = [held for held in ranks if self._preempts(held.rank)]
            arrived = [c for c in arrived if self._preempts(c.rank) and c.info not in self._barred]
        if not (ranks or arrived) or self._missing(level, ranks, arrived):
            return False
        candidates = self._listed(level, ranks, leaving=is_root)
        choose = self._policy if is_root else first_found
        chosen = choose(chain(candidates, arrived) if arrived else candidates, amounts, self._rooms[level])
        if chosen is None:
            return False
        self._slid[level] = chosen
        return True

    def _preempts(self, rank: Rank) -> bool:
        """Return whether consumers of a rank may be put out of the tree, their priority apart."""
        return rank[1] == self._consumer.rank[1] and not rank[2]

    def _move_back(self) -> None:
        """Put those who were slid in this walk back, at the end of where they were first."""
        for slid in self._slid.values():
            for consumer in slid:
                self._requeued.pop(consumer, None)
                self._requeued[consumer] = None
        self._slid = {}

    # Preemption for room

    def _preempt(self, *, thorough: bool) -> bool:
        """Take victims until the consumer fits the node that was visited last; if all are not enough, none."""
        priority = self._consumer.rank[0]
        if priority <= 0:
            return False
        ranks = [
            [h for h in node.held.values() if h.members and h.rank[0] < priority and self._preempts(h.rank)]
            for node in self._path[: self.reached + 1]
        ]
        self.lacking = self._missing(self.reached, list(chain.from_iterable(ranks)))
        if self.lacking and not thorough:
            return False
        levels = range(self.reached, -1, -1)
        candidates = [victim for level in levels for victim in self._listed(level, ranks[level], leaving=True)]
        victims = self._policy(candidates, self._consumer.amounts, self._rooms[self.reached])
        for victim in candidates if victims is None else victims:
            self._take(victim)
        return victims is not None

    def _take(self, victim: Consumer) -> None:
        self.victims[victim] = None
        leaf, node = self._path[0], victim.node
        for level in range(leaf.depth - node.depth if node else 0, len(self._path)):
            free = list(self._rooms[level])
            for index, amount in victim.amounts:
                free[index] += amount
            self._rooms[level] = free

    # Both

    def _missing(self, level: int, ranks: Sequence[Held], others: Sequence[Consumer] = ()) -> Amounts:
        """Return what is missing at a level if all of some ranks, and some others, go; in fact it may be more."""
        room = self._rooms[level]
        missing = []
        for index, amount in self._consumer.amounts:
            short = amount - room[index]
            if short > 0:
                for held in ranks:
                    short -= held.total[index]
                if short > 0 and others:
                    short -= sum(more for other in others for at, more in other.amounts if at == index and more > 0)
                if short > 0:
                    missing.append((index, short))
        return tuple(missing)

    def _listed(self, level: int, ranks: Sequence[Held], *, leaving: bool) -> Iterable[Consumer]:
        """Return the consumers of some ranks at a level, in the order they have in this search."""
        barred = self._barred if leaving else _NOBODY
        if not (self.victims or self._requeued or barred):
            return in_order(ranks)
        node = self._path[level]
        wanted = {held.rank for held in ranks}
        stayed = (consumer for consumer in in_order(ranks) if consumer not in self._requeued)
        requeued = (consumer for consumer in self._requeued if consumer.node is node and consumer.rank in wanted)
        return (
            consumer
            for consumer in chain(stayed, requeued)
            if consumer not in self.victims and consumer.info not in barred
        )
