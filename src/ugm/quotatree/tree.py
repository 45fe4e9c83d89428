"""A quota tree with its consumers: allocate, force, deallocate, and take back.

A request that fits everywhere on the way is charged at once. Any other is looked into by a `Search`, which changes
nothing; what it finds is then carried out step by step, as the original does it, so that all lists end in the same
order. A rejected request has therefore changed nothing, unless the tree requeues as the original does: then the order
may be another.

A `Trial` notes where everybody was who has been touched since it began, and takes all of it back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import count, pairwise
from typing import Final, final
from weakref import WeakSet

from ugm.quotatree.consumer import Consumer, ConsumerInfo, Rank, TreeRequest
from ugm.quotatree.node import TreeNode
from ugm.quotatree.packing import Packing
from ugm.quotatree.rejection import Reason, Rejection, no_room
from ugm.quotatree.search import Search
from ugm.quotatree.victims import VictimPolicy, first_found

__all__ = ["QuotaTree", "Trial"]

#: So many ranks more than could be held are remembered.
_SPARE_RANKS: Final = 1024


@final
class Trial:
    """What has been touched in a tree, as it was before."""

    __slots__ = ("before", "preemptions")

    #: Where everybody was, nobody more than once: the node, if any, and the place in the order there.
    before: dict[Consumer, tuple[TreeNode | None, int]]
    #: Who was noted as the preemptor of whom.
    preemptions: list[tuple[ConsumerInfo, ConsumerInfo]]

    def __init__(self) -> None:
        self.before = {}
        self.preemptions = []

    @property
    def is_undone(self) -> bool:
        """Whether everybody is back at the node where they were, maybe at another place in the order."""
        return all(consumer.node is node for consumer, (node, _) in self.before.items())

    def forget_preemptions(self) -> None:
        """Let nobody have preempted anybody since it began."""
        for victim, preemptor in self.preemptions:
            if victim.preempted_by is not None:
                victim.preempted_by.discard(preemptor)
        self.preemptions.clear()


@final
class QuotaTree:
    """A tree of nodes and the consumers that it holds.

    Args:
        name: the name of the tree.
        resources: what the tree counts, in order.
        root: the top of the nodes, if there is one; without, nothing can be allocated.
        policy: how victims are chosen.
        requeue_rejected: whether a rejected request puts the consumers at the end of their lists that it had moved on
            the way, as in the original.
        check_unrequested: whether a resource that is not requested denies where it is over its quota, as in the
            original.
    """

    __slots__ = (
        "_arrivals",
        "_leaves",
        "_packing",
        "_ranks",
        "check_unrequested",
        "consumers",
        "name",
        "nodes",
        "policy",
        "requeue_rejected",
        "resources",
        "root",
        "trial",
    )

    name: str
    resources: tuple[str, ...]
    root: TreeNode | None
    nodes: Mapping[str, TreeNode]
    _leaves: Mapping[str, TreeNode]
    _packing: Packing
    #: By priority, type and whether it is safe. Those that nobody has are forgotten from time to time; who comes back
    #: with one is summed up apart from newcomers of the same rank, which is harmless.
    _ranks: dict[tuple[int, int, bool], Rank]
    #: Who is allocated, by id.
    consumers: dict[str, Consumer]
    #: The number of every arrival on a list.
    _arrivals: Iterator[int]
    policy: VictimPolicy
    requeue_rejected: bool
    check_unrequested: bool
    #: What is to be noted now; None if nothing is.
    trial: Trial | None

    def __init__(
        self,
        name: str,
        resources: tuple[str, ...],
        root: TreeNode | None,
        *,
        policy: VictimPolicy = first_found,
        requeue_rejected: bool = False,
        check_unrequested: bool = False,
    ) -> None:
        self.name = name
        self.resources = resources
        self.root = root
        self.nodes = {node.name: node for node in root.walk()} if root else {}
        self._leaves = {name: node for name, node in self.nodes.items() if not node.children}
        for leaf in self._leaves.values():
            for below, above in pairwise(leaf.path):
                above.waiting_by_leaf[leaf] = below.waiting
        self._packing = root.packing if root else Packing(resources)
        self._ranks = {}
        self.consumers = {}
        self._arrivals = count(1)
        self.policy = policy
        self.requeue_rejected = requeue_rejected
        self.check_unrequested = check_unrequested
        self.trial = None

    def consumer(self, info: ConsumerInfo, entry: TreeRequest) -> Consumer:
        """Return a consumer of this tree, which nobody knows of yet."""
        told = entry[3:]
        rank = self._ranks.get(told) or self._new_rank(told)
        consumer = Consumer(info, entry, self._packing, rank, self._leaves.get(entry.group))
        if self.check_unrequested:
            consumer.asked = self._packing.signs
        return consumer

    def _new_rank(self, told: tuple[int, int, bool]) -> Rank:
        if len(self._ranks) > _SPARE_RANKS + 2 * len(self.consumers):
            held = {consumer.rank for consumer in self.consumers.values()}
            self._ranks = {(rank.priority, rank.type, rank.unpreemptable): rank for rank in held}
        rank = self._ranks[told] = Rank(*told)
        return rank

    def homeless(self, consumer: Consumer) -> Rejection:
        """Return the rejection of a consumer whose group is no leaf."""
        group = consumer.entry.group
        reason = Reason.NOT_A_LEAF if group in self.nodes else Reason.UNKNOWN_GROUP if group else Reason.NO_GROUP
        return Rejection(self.name, consumer.id, group, reason)

    # Asking

    def find(self, consumer: Consumer, policy: VictimPolicy | None = None) -> Search | Rejection:
        """Return what `allocate` would do, without doing it; under another policy, if one is given."""
        leaf = consumer.leaf
        if leaf is None:
            return self.homeless(consumer)
        search = Search(consumer, leaf.path, policy or self.policy)
        return search if search.run() is not None else self._no_room(consumer, search)

    def _no_room(self, consumer: Consumer, search: Search) -> Rejection:
        return no_room(self.name, consumer, self.resources, search.reached, search.lacking)

    # Changing

    def allocate(self, consumer: Consumer, policy: VictimPolicy | None = None) -> tuple[str, ...] | Rejection:
        """Allocate a consumer under the quotas.

        Returns:
            Who was preempted, in order; or why the request is rejected. Then nothing has changed, unless the tree
            requeues.
        """
        leaf = consumer.leaf
        if leaf is None:
            return self.homeless(consumer)
        amount, asked = consumer.amount, consumer.asked
        path = leaf.path
        for level, node in enumerate(path):  # noqa: B007 - how far it got
            if node.room - amount & asked != asked:
                break
        else:
            self._settle(consumer, leaf)
            return ()
        search = Search(consumer, path, policy or self.policy)
        home = search.run(level, thorough=self.requeue_rejected)
        if home is not None:
            return self._carry_out(consumer, search, home)
        if self.requeue_rejected:
            self._requeue(search.moved())
        return self._no_room(consumer, search)

    def force(self, consumer: Consumer, *, anywhere: bool = False) -> tuple[str, ...] | Rejection:
        """Allocate a consumer at its group, which may be any node, whatever the quotas.

        Args:
            consumer: the consumer.
            anywhere: whether the root takes it if there is no such node; if there is no root it is held nowhere.
        """
        node = self.nodes.get(consumer.entry.group)
        if node is None:
            if not anywhere:
                return self.homeless(consumer)
            node = self.root
        if node is not None:
            self._settle(consumer, node)
        return ()

    def place(self, consumer: Consumer, node: TreeNode) -> None:
        """Allocate a consumer at a node, whatever the quotas."""
        self._settle(consumer, node)

    def deallocate(self, consumer_id: str) -> bool:
        """Give back what a consumer holds, and let others come down where that makes room. Return whether it held."""
        consumer = self.consumers.get(consumer_id)
        if consumer is None or consumer.node is None:
            return False
        node = consumer.node
        # First of all the trial notes where the consumer was.
        self._lift(consumer, node)
        del self.consumers[consumer_id]
        consumer.node = None
        amount = consumer.amount
        for above in node.path:
            above.room += amount
            waiting = above.waiting
            if waiting.few or waiting.rows:
                self._let_down(above)
        return True

    def _let_down(self, node: TreeNode) -> None:
        """Move those down into a node who wait above it and fit, in order."""
        parent = node.path[1]
        for consumer in node.waiting.fitting(node.room):
            node.room -= consumer.amount
            self._move(consumer, parent, node)

    # Moves

    def _settle(self, consumer: Consumer, node: TreeNode) -> None:
        if self.trial is not None:
            self.trial.before.setdefault(consumer, (None, 0))
        amount = consumer.amount
        for above in node.path:
            above.room -= amount
        node.append(consumer, next(self._arrivals))
        self.consumers[consumer.info.consumer_id] = consumer

    def _lift(self, consumer: Consumer, node: TreeNode) -> None:
        if self.trial is not None:
            self.trial.before.setdefault(consumer, (node, consumer.sequence))
        node.remove(consumer)

    def _carry_out(self, consumer: Consumer, search: Search, home: TreeNode) -> tuple[str, ...]:
        """Do what a search has found, in its order."""
        if search.requeued:
            self._requeue(search.requeued)
        preempted = list(search.victims)
        for victim in preempted:
            self._evict(victim)
        for level, slid in search.slid.items():
            node = search.path[level]
            parent = node.parent
            if parent is None:
                for other in slid:
                    self._evict(other)
                preempted += slid
            else:
                for other in slid:
                    node.room += other.amount
                    self._move(other, node, parent)
        self._settle(consumer, home)
        for victim in preempted:
            self._note_preemption(victim.info, consumer.info)
        return tuple(victim.id for victim in preempted) if preempted else ()

    def _move(self, consumer: Consumer, source: TreeNode, target: TreeNode) -> None:
        if self.trial is not None:
            self.trial.before.setdefault(consumer, (source, consumer.sequence))
        source.remove(consumer)
        target.append(consumer, next(self._arrivals))

    def _evict(self, consumer: Consumer) -> None:
        if consumer.node is not None:
            self._charge(consumer, consumer.node, -1)
            self._lift(consumer, consumer.node)
            consumer.node = None
        del self.consumers[consumer.id]

    def _requeue(self, consumers: Iterable[Consumer]) -> None:
        for consumer in consumers:
            node = consumer.node
            if node is not None:
                self._move(consumer, node, node)

    def _note_preemption(self, victim: ConsumerInfo, preemptor: ConsumerInfo) -> None:
        known = victim.preempted_by
        if known is None:
            known = victim.preempted_by = WeakSet()
        if preemptor not in known:
            known.add(preemptor)
            if self.trial is not None:
                self.trial.preemptions.append((victim, preemptor))

    def take_back(self, trial: Trial) -> None:
        """Put everybody back where they were when a trial began, order included.

        Takes time in the number of consumers at the nodes that are concerned.
        """
        touched: dict[TreeNode, None] = {}
        for consumer in trial.before:
            if consumer.node is not None:
                touched[consumer.node] = None
                self._charge(consumer, consumer.node, -1)
                consumer.node.remove(consumer)
                consumer.node = None
            self.consumers.pop(consumer.id, None)
        for consumer, (node, sequence) in trial.before.items():
            if node is not None:
                touched[node] = None
                self._charge(consumer, node, 1)
                node.append(consumer, sequence)
                self.consumers[consumer.id] = consumer
        for node in touched:
            node.sort()
        trial.forget_preemptions()

    def recover(self, trial: Trial) -> None:
        """Put everybody back where they were when a trial began, whatever an interrupted change has left.

        Relies on nothing but the trial and, for those who are not in it, on their node and place in the order. Can be
        repeated if it is interrupted itself. Takes time in the number of nodes and consumers.
        """
        self.trial = trial
        for consumer, (node, sequence) in sorted(trial.before.items(), key=lambda item: item[1][0] is not None):
            consumer.node, consumer.sequence = node, sequence
            if node is not None:
                self.consumers[consumer.id] = consumer
            elif self.consumers.get(consumer.id) is consumer:
                del self.consumers[consumer.id]
        trial.forget_preemptions()
        self.rebuild()
        self.trial = None

    def rebuild(self) -> None:
        """Make all counters and lists anew from the nodes of the consumers."""
        for node in self.nodes.values():
            node.clear()
        for consumer in sorted(self.consumers.values(), key=lambda consumer: consumer.sequence):
            if consumer.node is not None:
                self._charge(consumer, consumer.node, 1)
                consumer.node.append(consumer, consumer.sequence)

    @staticmethod
    def _charge(consumer: Consumer, node: TreeNode, times: int) -> None:
        for above in node.path:
            above.room -= times * consumer.amount
