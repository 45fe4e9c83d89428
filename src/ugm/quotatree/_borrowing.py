"""The rule of borrowing: which node holds a consumer, up to a hard quota, and which consumers move or leave.

The problem: a request may fit its group, borrow from a node above, displace consumers that borrow, or preempt consumers
of lower priority. A rejected request must leave the tree unchanged. If the search changed the tree on its way, every
failure would need an undo.

The idea: a search only reads the tree. It records its changes separately: the consumers that it preempts, the amounts
that they free at each level of the path, and the consumers that slide up from each node. `QuotaTree` carries the result
out, or drops it.

The rules (of MCAD, "outline of the algorithm"):

1. The request walks from its group to the root. The *home* is the lowest node where it fits, or where it fits after
   consumers of lower priority slide up to the parent. A hard node that fails ends the walk.
2. Above the home the request must fit at every node. Consumers of any priority slide up there, because they use
   borrowed quota. At the root they leave the tree.
3. If a node above the home fails, the walk continues with the search for a home above that node, unless it has visited
   a hard node.
4. If there is no home and the priority is above 0, consumers of lower priority on the path are preempted, highest node
   first, until the request fits the last visited node. Then the walk starts again.

MCAD leaves one order undefined. Here it is fixed: the consumers that a failed walk moved go to the end of the list of
their node, in the order in which they were moved.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain
from typing import final

from ugm.quotatree._node import Consumer, Rank, TreeNode


@final
@dataclass(slots=True, eq=False)
class Search:
    """One search for one consumer whose group is a leaf.

    Args:
        consumer: the consumer.
        path: from its group to the root.
        preempting: whether consumers may leave the tree.
        thorough: whether to go through the victims even if they are known not to suffice.
    """

    consumer: Consumer
    path: tuple[TreeNode, ...]
    preempting: bool
    thorough: bool
    #: The node that can hold the consumer; None if there is none.
    home: TreeNode | None = field(default=None, init=False)
    #: The consumers that slide out of a level: to the parent, or from the root out of the tree.
    slid: dict[int, list[Consumer]] = field(default_factory=dict, init=False)
    #: The consumers that go to the end of their node's list, in this order; none if the first walk succeeds.
    requeued: dict[Consumer, None] = field(default_factory=dict, init=False)
    #: The consumers that are preempted to make room, in this order.
    victims: dict[Consumer, None] = field(default_factory=dict, init=False)
    #: The amounts that the victims free at each level.
    freed: dict[int, int] = field(default_factory=dict, init=False)
    #: The level of the last visited node.
    reached: int = field(default=0, init=False)

    def run(self, start: int) -> None:
        """Search for a home; the consumer is known to fit at every level below *start*."""
        self.home = self._walk(start)
        while self.home is None and self._preempt():
            self.home = self._walk()

    def requeued_by_rejection(self) -> list[Consumer]:
        """Return the consumers that MCAD moves to the end of their lists when it rejects."""
        return [*(consumer for consumer in self.requeued if consumer not in self.victims), *self.victims]

    def _walk(self, start: int = 0) -> TreeNode | None:
        """Return the home that the walk finds; None if it finds none."""
        packed, mask = self.consumer.packed, self.consumer.mask
        path, freed = self.path, self.freed
        home = path[0] if start else None
        for level, node in enumerate(path[start:], start):
            free = node.free + freed.get(level, 0) if freed else node.free
            if free - packed & mask == mask or self._slide_up(level, free, any_priority=home is not None):
                home = home or node
                continue
            self.reached = level
            if home is not None:
                self._requeue_slid()
                home = None
                # No consumer borrows above a hard node, so there is no home above one that was visited.
                if any(visited.hard for visited in path[: level + 1]):
                    break
            elif node.hard:
                break
        return home

    def _slide_up(self, level: int, free: int, *, any_priority: bool) -> bool:
        """Slide consumers up from a node until the request fits; return False, and slide none, if it never fits.

        A consumer that slides up from the root leaves the tree.
        """
        node = self.path[level]
        is_root = node.parent is None
        if (not node.members and level - 1 not in self.slid) or (not self.preempting if is_root else node.hard):
            return False
        priority = self.consumer.rank.priority
        ranks = [
            rank
            for rank in node.members
            if (any_priority or rank.priority < priority) and (not is_root or self._may_evict(rank))
        ]
        arrived = [other for other in self.slid.get(level - 1, ()) if not is_root or self._may_evict(other.rank)]
        bound = free + sum([node.members[rank].total for rank in ranks])
        if arrived:
            bound += sum([other.freed for other in arrived])
        chosen = self._choose(chain(self._listed(node, ranks), arrived), free, bound)
        if chosen is not None:
            self.slid[level] = chosen
        return chosen is not None

    def _may_evict(self, rank: Rank) -> bool:
        """Return whether the type and the flag of a rank allow preemption, apart from its priority."""
        return rank.type == self.consumer.rank.type and not rank.unpreemptable

    def _requeue_slid(self) -> None:
        """Move the consumers that slid in this walk to the end of their first list."""
        for consumer in chain.from_iterable(self.slid.values()):
            self.requeued.pop(consumer, None)
            self.requeued[consumer] = None
        self.slid = {}

    def _preempt(self) -> bool:
        """Choose victims until the request fits the last visited node; return whether they suffice."""
        priority = self.consumer.rank.priority
        if priority <= 0 or not self.preempting:
            return False
        visited = [
            (node, [rank for rank in node.members if rank.priority < priority and self._may_evict(rank)])
            for node in reversed(self.path[: self.reached + 1])
        ]
        free = self.path[self.reached].free + self.freed.get(self.reached, 0)
        bound = free + sum([node.members[rank].total for node, ranks in visited for rank in ranks])
        candidates: Iterable[Consumer] = chain.from_iterable(self._listed(node, ranks) for node, ranks in visited)
        if self.thorough:
            candidates = list(candidates)
        victims = self._choose(candidates, free, bound)
        self._add_victims(victims or (candidates if self.thorough else ()))
        return victims is not None

    def _add_victims(self, victims: Iterable[Consumer]) -> None:
        for victim in victims:
            self.victims[victim] = None
            depth = victim.node.depth if victim.node else 0
            for level in range(self.path[0].depth - depth, len(self.path)):
                self.freed[level] = self.freed.get(level, 0) + victim.packed

    def _choose(self, candidates: Iterable[Consumer], free: int, bound: int) -> list[Consumer] | None:
        """Take one candidate after the other until the request fits; None if all of them do not suffice."""
        packed, mask = self.consumer.packed, self.consumer.mask
        if bound - packed & mask != mask:
            return None
        chosen = []
        for candidate in candidates:
            chosen.append(candidate)
            free += candidate.packed
            if free - packed & mask == mask:
                return chosen
        return None

    def _listed(self, node: TreeNode, ranks: list[Rank]) -> Iterable[Consumer]:
        """Return the consumers of a node of some ranks, in the order that this search gives them."""
        members = node.consumers(ranks)
        if not (self.victims or self.requeued):
            return members
        stayed = (consumer for consumer in members if consumer not in self.requeued)
        requeued = (consumer for consumer in self.requeued if consumer.node is node and consumer.rank in ranks)
        return (consumer for consumer in chain(stayed, requeued) if consumer not in self.victims)
