"""The search for the node that can hold a consumer, and for the consumers that have to move or leave.

The problem: a request may fit its group, borrow from a node above, displace consumers that borrow, or preempt consumers
of lower priority. A rejected request must leave the tree unchanged. If the search changed the tree on its way, every
failure would need an exact undo.

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

The cost: the walk compares the request once with each node. The sums by rank (`TreeNode.totals`) let the search skip a
node that cannot free enough, without reading its consumers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, final

from ugm.quotatree._node import Consumer, Rank, TreeNode
from ugm.quotatree._packed import Amounts
from ugm.quotatree.answers import AllocationPlan, Move, TreePlan
from ugm.quotatree.consumer import ConsumerInfo
from ugm.quotatree.victims import VictimPolicy, no_victims

__all__ = ["Search"]

_EMPTY: Final = frozenset[ConsumerInfo]()


@final
@dataclass(slots=True, eq=False)
class Search:
    """One search for one consumer whose group is a leaf.

    Args:
        consumer: the consumer.
        path: from its group to the root.
        policy: chooses the victims.
    """

    consumer: Consumer
    path: tuple[TreeNode, ...]
    policy: VictimPolicy
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
    #: The amounts that the last visited node would lack even without the preemptible consumers; None if the consumer
    #: may not preempt at all.
    missing: Amounts | None = field(default=None, init=False)

    def run(self, fits_below: int = 0, *, thorough: bool = False) -> TreeNode | None:
        """Search for a home, and return it; None if there is none.

        Args:
            fits_below: the consumer is known to fit at every level below this one.
            thorough: whether to go through the victims even if they are known not to suffice.
        """
        home = self._walk(fits_below)
        while home is None and self._preempt(thorough=thorough):
            home = self._walk()
        self.home = home
        return home

    def plan(self, tree_name: str) -> AllocationPlan:
        """Return the changes of a search that has found a home."""
        moves = {victim.id: Move(victim.id, victim.node.name, None) for victim in self.victims if victim.node}
        for level, slid in self.slid.items():
            node = self.path[level]
            for consumer in slid:
                source = consumer.node.name if consumer.node else node.name
                if node.parent is None:
                    # Consumers that leave the tree come last.
                    moves.pop(consumer.id, None)
                moves[consumer.id] = Move(consumer.id, source, node.parent.name if node.parent else None)
        preempted = tuple(move.consumer_id for move in moves.values() if move.target is None)
        tree = TreePlan(tree_name, self.home.name if self.home else None, tuple(moves.values()))
        return AllocationPlan(self.consumer.id, (tree,), preempted)

    def requeued_by_rejection(self) -> list[Consumer]:
        """Return the consumers that MCAD moves to the end of their lists when it rejects."""
        return [*(consumer for consumer in self.requeued if consumer not in self.victims), *self.victims]

    # The walk

    def _walk(self, fits_below: int = 0) -> TreeNode | None:
        """Return the home that the walk finds; None if it finds none."""
        consumer, freed = self.consumer, self.freed
        packed, mask = consumer.packed, consumer.mask
        path = self.path
        home = path[0] if fits_below else None
        for level, node in enumerate(path[fits_below:], fits_below):
            free = node.free
            if freed:
                free += freed.get(level, 0)
            if free - packed & mask == mask or self._slide_up(node, level, free, home is not None):
                if home is None:
                    home = node
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

    def _slide_up(self, node: TreeNode, level: int, free: int, any_priority: bool) -> bool:  # noqa: FBT001 - a hot call
        """Slide consumers up from a node until the request fits; return False, and slide none, if it never fits."""
        if node.parent is None:
            return self._slide_out(node, level, free, any_priority)
        if node.hard:
            return False
        consumer = self.consumer
        packed, mask = consumer.packed, consumer.mask
        ranks: set[Rank] | None = None
        arrived: Sequence[Consumer] = ()
        if any_priority:
            arrived = self.slid.get(level - 1, ())
            bound = sum(node.totals.values(), free)
            if arrived:
                bound += sum([other.freed for other in arrived])
        else:
            bound, ranks = free, set()
            priority = consumer.rank.priority
            for rank, total in node.totals.items():
                if rank.priority < priority:
                    bound += total
                    ranks.add(rank)
        if bound - packed & mask != mask:
            return False
        candidates = self._listed(node, ranks)
        chosen = []
        for candidate in chain(candidates, arrived) if arrived else candidates:
            chosen.append(candidate)
            free += candidate.packed
            if free - packed & mask == mask:
                self.slid[level] = chosen
                return True
        return False

    def _slide_out(self, root: TreeNode, level: int, free: int, any_priority: bool) -> bool:  # noqa: FBT001 - as above
        """Do the same at the root, where a consumer that slides up leaves the tree."""
        consumer, barred = self.consumer, self._barred()
        priority = consumer.rank.priority
        ranks = {r for r in root.totals if (any_priority or r.priority < priority) and self._may_preempt(r)}
        arrived = [c for c in self.slid.get(level - 1, ()) if self._may_preempt(c.rank) and c.info not in barred]
        bound = free + sum(root.totals[rank] for rank in ranks) + sum(other.freed for other in arrived)
        if bound - consumer.packed & consumer.mask != consumer.mask:
            return False
        chosen = self._choose(chain(self._listed(root, ranks, barred), arrived), free)
        if chosen is None:
            return False
        self.slid[level] = chosen
        return True

    def _may_preempt(self, rank: Rank) -> bool:
        """Return whether the type and the flag of a rank allow preemption, apart from its priority."""
        return rank.type == self.consumer.rank.type and not rank.unpreemptable

    def _barred(self) -> frozenset[ConsumerInfo]:
        """Return the consumers that the consumer may not preempt."""
        info = self.consumer.info
        return info.barred_from() if info.preempted_by else _EMPTY

    def _choose(self, candidates: Iterable[Consumer], free: int) -> list[Consumer] | None:
        consumer = self.consumer
        return self.policy(candidates, consumer.amounts, consumer.packing.unpack_free(free))

    def _requeue_slid(self) -> None:
        """Move the consumers that slid in this walk to the end of their first list."""
        for slid in self.slid.values():
            for consumer in slid:
                self.requeued.pop(consumer, None)
                self.requeued[consumer] = None
        self.slid = {}

    # Preemption

    def _preempt(self, *, thorough: bool) -> bool:
        """Choose victims until the request fits the last visited node; return whether they suffice."""
        consumer, path, reached = self.consumer, self.path, self.reached
        priority = consumer.rank.priority
        if priority <= 0:
            return False
        visited = path[: reached + 1]
        ranks = [
            {rank for rank in node.totals if rank.priority < priority and self._may_preempt(rank)} for node in visited
        ]
        free = path[reached].free + self.freed.get(reached, 0)
        bound = free + sum(node.totals[rank] for node, some in zip(visited, ranks, strict=True) for rank in some)
        left = consumer.packing.unpack_free(bound)
        # The sums leave out negative amounts, so even more may be missing.
        self.missing = tuple((at, amount - left[at]) for at, amount in consumer.amounts if amount > left[at])
        if (self.missing and not thorough) or self.policy is no_victims:
            return False
        barred = self._barred()
        candidates = [
            victim for level in range(reached, -1, -1) for victim in self._listed(path[level], ranks[level], barred)
        ]
        victims = self._choose(candidates, free)
        for victim in candidates if victims is None else victims:
            self._add_victim(victim)
        return victims is not None

    def _add_victim(self, victim: Consumer) -> None:
        self.victims[victim] = None
        leaf, node = self.path[0], victim.node
        for level in range(leaf.depth - node.depth if node else 0, len(self.path)):
            self.freed[level] = self.freed.get(level, 0) + victim.packed

    # Both

    def _listed(
        self, node: TreeNode, ranks: set[Rank] | None, barred: frozenset[ConsumerInfo] = _EMPTY
    ) -> Iterable[Consumer]:
        """Return the consumers of a node, or those of some ranks, in the order that this search gives them."""
        members = node.first_consumers() if ranks is None else node.with_ranks(ranks)
        if not (self.victims or self.requeued or barred):
            return members
        stayed = (consumer for consumer in members if consumer not in self.requeued)
        requeued = (c for c in self.requeued if c.node is node and (ranks is None or c.rank in ranks))
        return (
            consumer
            for consumer in chain(stayed, requeued)
            if consumer not in self.victims and consumer.info not in barred
        )
