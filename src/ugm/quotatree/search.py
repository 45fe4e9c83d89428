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
from typing import Final, final

from ugm.quotatree.consumer import Consumer, ConsumerInfo, Rank
from ugm.quotatree.node import TreeNode
from ugm.quotatree.packing import Amounts
from ugm.quotatree.victims import VictimPolicy

__all__ = ["Search"]

_NOBODY: Final = frozenset[ConsumerInfo]()


@final
class Search:
    """One search for one consumer whose group is a leaf.

    Args:
        consumer: who asks.
        path: from its group to the root.
        policy: how victims are chosen.
    """

    __slots__ = (
        "_consumer",
        "_freed",
        "_policy",
        "home",
        "lacking",
        "path",
        "reached",
        "requeued",
        "slid",
        "victims",
    )

    _consumer: Consumer
    _policy: VictimPolicy
    #: What the victims free at each level.
    _freed: dict[int, int]
    #: From the group of the consumer to the root.
    path: tuple[TreeNode, ...]
    #: Who is slid out of a level, from the home up: to the parent, or from the root out of the tree.
    slid: dict[int, list[Consumer]]
    #: Where the consumer would live; None if it finds no home.
    home: TreeNode | None
    #: What is missing at the node that was visited last even without anybody who may be preempted, by resource; None if
    #: the consumer may preempt nobody.
    lacking: Amounts | None
    #: The level of the node that was visited last.
    reached: int
    #: Who goes to the end of its node's list, in this order; nobody if the first walk succeeds.
    requeued: dict[Consumer, None]
    #: Who is preempted for room, in this order.
    victims: dict[Consumer, None]

    def __init__(self, consumer: Consumer, path: tuple[TreeNode, ...], policy: VictimPolicy) -> None:
        self._consumer = consumer
        self.path = path
        self._policy = policy
        self._freed = {}
        self.slid = {}
        self.lacking = None
        self.requeued = {}
        self.victims = {}

    def run(self, fits_below: int = 0, *, thorough: bool = False) -> TreeNode | None:
        """Look for a home, and return it, if there is one.

        Args:
            fits_below: of which level it is known that the consumer fits everywhere below it.
            thorough: go through the victims even if it is known that they are not enough.
        """
        home = self._walk(fits_below)
        while home is None and self._preempt(thorough=thorough):
            home = self._walk()
        self.home = home
        return home

    def moved(self) -> list[Consumer]:
        """Return whom the original, having given up, has put at the end of their lists."""
        return [*(consumer for consumer in self.requeued if consumer not in self.victims), *self.victims]

    # The walk

    def _walk(self, fits_below: int = 0) -> TreeNode | None:
        """Return the home that the consumer finds, if any."""
        consumer, freed = self._consumer, self._freed
        amount, asked = consumer.amount, consumer.asked
        path = self.path
        home = path[0] if fits_below else None
        for level in range(fits_below, len(path)):
            node = path[level]
            room = node.room
            if freed:
                room += freed.get(level, 0)
            if room - amount & asked == asked or self._slide(node, level, room, home is not None):
                if home is None:
                    home = node
                continue
            self.reached = level
            if home is not None:
                self._move_back()
                home = None
                # Nothing is borrowed above a hard node, so no home is looked for above one that was visited.
                if any(visited.hard for visited in path[: level + 1]):
                    break
            elif node.hard:
                break
        return home

    def _slide(self, node: TreeNode, level: int, room: int, any_priority: bool) -> bool:  # noqa: FBT001 - a hot call
        """Slide consumers out of a node until the consumer fits; if all together are not enough, none."""
        if node.parent is None:
            return self._put_out(node, level, room, any_priority)
        if node.hard:
            return False
        consumer = self._consumer
        amount, asked = consumer.amount, consumer.asked
        ranks: set[Rank] | None = None
        arrived: Sequence[Consumer] = ()
        if any_priority:
            arrived = self.slid.get(level - 1, ())
            most = sum(node.totals.values(), room)
            if arrived:
                most += sum([other.gives_back for other in arrived])
        else:
            most, ranks = room, set()
            priority = consumer.rank.priority
            for rank, total in node.totals.items():
                if rank.priority < priority:
                    most += total
                    ranks.add(rank)
        if most - amount & asked != asked:
            return False
        candidates = self._listed(node, ranks)
        chosen = []
        for candidate in chain(candidates, arrived) if arrived else candidates:
            chosen.append(candidate)
            room += candidate.amount
            if room - amount & asked == asked:
                self.slid[level] = chosen
                return True
        return False

    def _put_out(self, root: TreeNode, level: int, room: int, any_priority: bool) -> bool:  # noqa: FBT001 - as above
        """Do at the root what is done below it: who is slid out there is preempted."""
        consumer, barred = self._consumer, self._barred()
        priority = consumer.rank.priority
        ranks = {r for r in root.totals if (any_priority or r.priority < priority) and self._preempts(r)}
        arrived = [c for c in self.slid.get(level - 1, ()) if self._preempts(c.rank) and c.info not in barred]
        most = room + sum(root.totals[rank] for rank in ranks) + sum(other.gives_back for other in arrived)
        if most - consumer.amount & consumer.asked != consumer.asked:
            return False
        chosen = self._choose(chain(self._listed(root, ranks, barred), arrived), room)
        if chosen is None:
            return False
        self.slid[level] = chosen
        return True

    def _preempts(self, rank: Rank) -> bool:
        """Return whether consumers of a rank may be put out of the tree, their priority apart."""
        return rank.type == self._consumer.rank.type and not rank.unpreemptable

    def _barred(self) -> frozenset[ConsumerInfo]:
        """Return whom the consumer may not preempt."""
        info = self._consumer.info
        return info.barred_from() if info.preempted_by else _NOBODY

    def _choose(self, candidates: Iterable[Consumer], room: int) -> list[Consumer] | None:
        consumer = self._consumer
        return self._policy(candidates, consumer.amounts, consumer.packing.left(room))

    def _move_back(self) -> None:
        """Put those who were slid in this walk back, at the end of where they were first."""
        for slid in self.slid.values():
            for consumer in slid:
                self.requeued.pop(consumer, None)
                self.requeued[consumer] = None
        self.slid = {}

    # Preemption for room

    def _preempt(self, *, thorough: bool) -> bool:
        """Take victims until the consumer fits the node that was visited last; if all are not enough, none."""
        consumer, path, reached = self._consumer, self.path, self.reached
        priority = consumer.rank.priority
        if priority <= 0:
            return False
        visited = path[: reached + 1]
        ranks = [
            {rank for rank in node.totals if rank.priority < priority and self._preempts(rank)} for node in visited
        ]
        room = path[reached].room + self._freed.get(reached, 0)
        most = room + sum(node.totals[rank] for node, some in zip(visited, ranks, strict=True) for rank in some)
        left = consumer.packing.left(most)
        # What is negative is not counted, so that in fact more may be missing.
        self.lacking = tuple((at, amount - left[at]) for at, amount in consumer.amounts if amount > left[at])
        if self.lacking and not thorough:
            return False
        barred = self._barred()
        candidates = [
            victim for level in range(reached, -1, -1) for victim in self._listed(path[level], ranks[level], barred)
        ]
        victims = self._choose(candidates, room)
        for victim in candidates if victims is None else victims:
            self._take(victim)
        return victims is not None

    def _take(self, victim: Consumer) -> None:
        self.victims[victim] = None
        leaf, node = self.path[0], victim.node
        for level in range(leaf.depth - node.depth if node else 0, len(self.path)):
            self._freed[level] = self._freed.get(level, 0) + victim.amount

    # Both

    def _listed(
        self, node: TreeNode, ranks: set[Rank] | None, barred: frozenset[ConsumerInfo] = _NOBODY
    ) -> Iterable[Consumer]:
        """Return the consumers of a node, or those of some ranks, in the order they have in this search."""
        members = node.first_at_hand() if ranks is None else node.of_ranks(ranks)
        if not (self.victims or self.requeued or barred):
            return members
        stayed = (consumer for consumer in members if consumer not in self.requeued)
        requeued = (c for c in self.requeued if c.node is node and (ranks is None or c.rank in ranks))
        return (
            consumer
            for consumer in chain(stayed, requeued)
            if consumer not in self.victims and consumer.info not in barred
        )
