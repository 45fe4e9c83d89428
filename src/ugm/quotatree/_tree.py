"""A quota tree with its consumers: allocate, force, deallocate and undo.

A request that fits every node on its path is charged at once. Any other request starts a `Search`, which only reads.
Its result is carried out step by step, in the order of MCAD, so that all lists end in the same order.
A rejected request therefore changes nothing, unless `TreeOptions.requeue_rejected` is set; then the order may change.

An `UndoLog` records the place of every consumer that a change touches. `QuotaTree.undo` restores all of them.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from itertools import count, pairwise
from typing import Final, final
from weakref import WeakSet

from ugm.errors import RequestError
from ugm.quotatree._home_search import Search
from ugm.quotatree._node import Consumer, Places, TreeNode, shared_rank
from ugm.quotatree._packed import Packing
from ugm.quotatree.answers import AllocationPlan, AllocationResponse
from ugm.quotatree.consumer import ConsumerInfo, TreeRequest
from ugm.quotatree.rejection import NodeQuota, Reason, Rejection
from ugm.quotatree.victims import VictimPolicy, first_found

__all__ = ["QuotaTree", "TreeOptions", "UndoLog"]


@final
@dataclass(frozen=True, slots=True)
class TreeOptions:
    """The options of a manager for its trees.

    Attributes:
        policy: chooses the victims.
        requeue_rejected: whether a rejected request moves consumers to the end of their lists if it had moved them in
            its search, as in MCAD.
        check_unrequested: whether a request is rejected if a node is over quota for a resource that is not requested,
            as in MCAD.
    """

    policy: VictimPolicy = first_found
    requeue_rejected: bool = False
    check_unrequested: bool = False


@final
class UndoLog(Places):
    """The previous places of the consumers of one tree that a change touched.

    Attributes:
        preemptions: the pairs of victim and preemptor that were recorded.
    """

    # A tuple, because most changes preempt nobody, and every change makes a log.
    preemptions: tuple[tuple[ConsumerInfo, ConsumerInfo], ...] = ()

    @property
    def is_undone(self) -> bool:
        """True if every consumer is back at its node, possibly at another position."""
        return all(consumer.node is node for consumer, (node, _) in self.items())

    def forget_preemptions(self) -> None:
        """Remove the recorded preemptions from the victims."""
        for victim, preemptor in self.preemptions:
            if victim.preempted_by is not None:
                victim.preempted_by.discard(preemptor)
        self.preemptions = ()


@final
class QuotaTree:
    """A tree of nodes and its consumers.

    Args:
        name: the name of the tree.
        resources: the counted resources, in order.
        root: the top node; None for an empty tree, on which nothing can be allocated.
        options: the options of the manager.
    """

    def __init__(self, name: str, resources: tuple[str, ...], root: TreeNode | None, options: TreeOptions) -> None:
        self.name: Final = name
        self.resources: Final = resources
        self.root: Final = root
        self.options: Final = options
        self.nodes: Final[Mapping[str, TreeNode]] = {node.name: node for node in root.walk()} if root else {}
        #: The allocated consumers, by id.
        self.consumers: Final[dict[str, Consumer]] = {}
        #: Records the current change; None if nothing has to be recorded.
        self.log: UndoLog | None = None
        self._leaves: Final = {name: node for name, node in self.nodes.items() if not node.children}
        self._packing: Final = root.packing if root else Packing(resources)
        #: The sequence numbers of arrivals.
        self._arrivals: Final = count(1)
        self._check_unrequested: Final = options.check_unrequested
        for leaf in self._leaves.values():
            for below, above in pairwise(leaf.path):
                above.queue_by_leaf[leaf] = below.borrowers

    def make_consumer(self, info: ConsumerInfo, entry: TreeRequest) -> Consumer:
        """Return a new consumer for this tree, not yet allocated."""
        consumer = Consumer(info, entry, self._packing, shared_rank(*entry[3:]), self._leaves.get(entry.group))
        if self._check_unrequested:
            consumer.mask = self._packing.signs
        return consumer

    def reject_group(self, consumer: Consumer) -> Rejection:
        """Return the rejection of a consumer whose group is not a leaf."""
        group = consumer.entry.group
        reason = Reason.NOT_A_LEAF if group in self.nodes else Reason.UNKNOWN_GROUP if group else Reason.NO_GROUP
        return Rejection(self.name, consumer.id, group, reason)

    def reject(self, consumer: Consumer, search: Search) -> Rejection:
        """Return the rejection of a request whose search has failed."""
        path = tuple(
            NodeQuota(node.name, node.hard and node.parent is not None, node.quota, node.free_amounts())
            for node in search.path
        )
        return Rejection(
            self.name,
            consumer.id,
            consumer.entry.group,
            Reason.NO_ROOM,
            path[: search.reached + 1],
            path[search.reached + 1 :],
            self.resources,
            consumer.amounts,
            consumer.rank.priority,
            search.missing,
        )

    # Operations

    def plan(self, consumer: Consumer, policy: VictimPolicy | None = None) -> AllocationPlan:
        """Return the changes that `allocate` would make, without making them."""
        leaf = consumer.leaf
        if leaf is None:
            return AllocationPlan(consumer.id, rejection=self.reject_group(consumer))
        search = Search(consumer, leaf.path, policy or self.options.policy)
        if search.run() is None:
            return AllocationPlan(consumer.id, rejection=self.reject(consumer, search))
        return search.plan(consumer.entry.tree_name)

    def allocate(self, consumer: Consumer, policy: VictimPolicy | None = None) -> AllocationResponse:
        """Allocate a consumer under the quotas.

        Args:
            consumer: the consumer.
            policy: chooses the victims instead of the policy of the tree.

        Returns:
            The preempted consumers, in order, or the rejection. A rejected request has changed nothing, unless the tree
            requeues.
        """
        if consumer.leaf is None:
            return AllocationResponse(consumer.id, rejection=self.reject_group(consumer))
        search = self.search(consumer, policy)
        if search is None:
            self.place(consumer, consumer.leaf)
            return AllocationResponse(consumer.info.consumer_id)
        if search.home is not None:
            return AllocationResponse(consumer.id, self._carry_out(consumer, search, search.home))
        if self.options.requeue_rejected:
            self._requeue(search.requeued_by_rejection())
        return AllocationResponse(consumer.id, rejection=self.reject(consumer, search))

    def search(self, consumer: Consumer, policy: VictimPolicy | None = None) -> Search | None:
        """Return the search for a home of a consumer whose group is a leaf; None if the group itself has room.

        Changes nothing. Until the tree changes, `execute` can carry out a search that has found a home.
        """
        packed, mask = consumer.packed, consumer.mask
        path = consumer.leaf.path if consumer.leaf else ()
        for level, node in enumerate(path):  # noqa: B007 - the search continues from here
            if node.free - packed & mask != mask:
                break
        else:
            return None
        options = self.options
        search = Search(consumer, path, policy or options.policy)
        search.run(level, thorough=options.requeue_rejected)
        return search

    def execute(self, consumer: Consumer, search: Search | None) -> tuple[str, ...]:
        """Allocate a consumer at the home that `search` has found, and return the preempted consumers, in order."""
        if search is not None and search.home is not None:
            return self._carry_out(consumer, search, search.home)
        if consumer.leaf is not None:
            self.place(consumer, consumer.leaf)
        return ()

    def force(self, consumer: Consumer, *, fallback: bool = False) -> AllocationResponse:
        """Allocate a consumer at its group, which may be any node, regardless of the quotas.

        Args:
            consumer: the consumer.
            fallback: whether the root holds it if there is no such node. If there is no root, no node holds it.
        """
        node = self.nodes.get(consumer.entry.group)
        if node is None:
            if not fallback:
                return AllocationResponse(consumer.id, rejection=self.reject_group(consumer))
            node = self.root
        if node is not None:
            self.place(consumer, node)
        return AllocationResponse(consumer.id)

    def place(self, consumer: Consumer, node: TreeNode) -> None:
        """Allocate a consumer at a node, regardless of the quotas."""
        if self.log is not None:
            self.log.setdefault(consumer, (None, 0))
        packed = consumer.packed
        for above in node.path:
            above.free -= packed
        node.append(consumer, next(self._arrivals))
        self.consumers[consumer.info.consumer_id] = consumer

    def homes(self, names: Container[str]) -> list[tuple[str, str]]:
        """Return some of the consumers in the order of arrival, each with the node that holds it."""
        held = [consumer for consumer in self.consumers.values() if consumer.id in names]
        held.sort(key=lambda consumer: consumer.sequence)
        return [(consumer.id, consumer.node.name) for consumer in held if consumer.node is not None]

    def place_at(self, consumer: Consumer, name: str) -> None:
        """Allocate a consumer at the node of a name, regardless of the quotas.

        Raises:
            RequestError: there is no such node.
        """
        node = self.nodes.get(name)
        if node is None:
            raise RequestError("node", name, f"tree {self.name!r} has no such node", "state-conflict")
        self.place(consumer, node)

    def deallocate(self, consumer_id: str) -> bool:
        """Release a consumer and move others down where they fit now. Return whether it was allocated."""
        consumer = self.consumers.get(consumer_id)
        if consumer is None or (node := consumer.node) is None:
            return False
        # First, because it logs the place of the consumer.
        node.remove(consumer, self.log)
        del self.consumers[consumer_id]
        consumer.node = None
        packed = consumer.packed
        for above in node.path:
            above.free += packed
            if above.borrowers.contents:
                self._move_down(above)
        return True

    def _move_down(self, node: TreeNode) -> None:
        """Move the consumers that borrow above a node and fit it down, in order."""
        parent = node.path[1]
        for consumer in node.borrowers.fitting(node.free):
            node.free -= consumer.packed
            parent.remove(consumer, self.log)
            node.append(consumer, next(self._arrivals))

    # Steps

    def _carry_out(self, consumer: Consumer, search: Search, home: TreeNode) -> tuple[str, ...]:
        """Make the changes that a search has found, in its order."""
        if search.requeued:
            self._requeue(search.requeued)
        preempted = [*search.victims]
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
                    node.free += other.packed
                    node.remove(other, self.log)
                    parent.append(other, next(self._arrivals))
        self.place(consumer, home)
        if not preempted:
            return ()
        for victim in preempted:
            self._record_preemption(victim.info, consumer.info)
        return tuple(victim.id for victim in preempted)

    def _evict(self, consumer: Consumer) -> None:
        if consumer.node is not None:
            _charge(consumer, consumer.node, -1)
            consumer.node.remove(consumer, self.log)
            consumer.node = None
        del self.consumers[consumer.id]

    def _requeue(self, consumers: Iterable[Consumer]) -> None:
        for consumer in consumers:
            node = consumer.node
            if node is not None:
                node.remove(consumer, self.log)
                node.append(consumer, next(self._arrivals))

    def _record_preemption(self, victim: ConsumerInfo, preemptor: ConsumerInfo) -> None:
        known = victim.preempted_by
        if known is None:
            known = victim.preempted_by = WeakSet()
        if preemptor not in known:
            # First the log, so that an interruption between the two is undone.
            if self.log is not None:
                self.log.preemptions += ((victim, preemptor),)
            known.add(preemptor)

    # Undo

    def undo(self, log: UndoLog) -> None:
        """Return every logged consumer to its previous place, order included.

        Takes time proportional to the number of consumers at the nodes to which any of them returns.
        """
        touched: dict[TreeNode, list[Consumer]] = {}
        for consumer in log:
            if consumer.node is not None:
                _charge(consumer, consumer.node, -1)
                consumer.node.remove(consumer, None)
                consumer.node = None
            self.consumers.pop(consumer.id, None)
        for consumer, (node, sequence) in log.items():
            if node is not None:
                _charge(consumer, node, 1)
                node.append(consumer, sequence)
                self.consumers[consumer.id] = consumer
                touched.setdefault(node, []).append(consumer)
        for node, returned in touched.items():
            node.sort(returned)
        log.forget_preemptions()

    def recover(self, log: UndoLog) -> None:
        """Return every logged consumer to its previous place, from any state that an interrupted change has left.

        Relies only on the log and, for consumers that are not in it, on their node and position. Can be repeated if it
        is interrupted as well. Takes time proportional to the number of nodes and consumers.
        """
        self.log = log
        for consumer, (node, sequence) in sorted(log.items(), key=lambda item: item[1][0] is not None):
            consumer.node, consumer.sequence = node, sequence
            if node is not None:
                self.consumers[consumer.id] = consumer
            elif self.consumers.get(consumer.id) is consumer:
                del self.consumers[consumer.id]
        log.forget_preemptions()
        self._rebuild()
        self.log = None

    def _rebuild(self) -> None:
        """Recompute all counters and lists from the nodes of the consumers."""
        for node in self.nodes.values():
            node.clear()
        for consumer in sorted(self.consumers.values(), key=lambda consumer: consumer.sequence):
            if consumer.node is not None:
                _charge(consumer, consumer.node, 1)
                consumer.node.append(consumer, consumer.sequence)

    def allocate_consumers_of(self, old: QuotaTree, renamed: Mapping[str, str]) -> tuple[str, ...]:
        """Allocate the consumers of the previous version of this tree, regardless of the quotas.

        A consumer follows the new name of its group. It stays at its node if that is still on the path from its group
        to the root. Otherwise its group holds it, or the root if the group is gone. The order at each node is kept.

        Args:
            old: the previous version, which is not changed.
            renamed: the new names of its nodes that have one.

        Returns:
            The ids of the consumers that are not allocated because this tree is empty, sorted.
        """
        root = self.root
        if root is None:
            return tuple(sorted(old.consumers))
        for consumer in sorted(old.consumers.values(), key=lambda consumer: consumer.sequence):
            group = renamed.get(consumer.entry.group, consumer.entry.group)
            moved = self.make_consumer(consumer.info, consumer.entry._replace(group=group))
            name = consumer.node.name if consumer.node else ""
            node = self.nodes.get(renamed.get(name, name))
            if moved.leaf is None or node not in moved.leaf.path:
                node = self.nodes.get(group)
            self.place(moved, node or root)
        return ()


def _charge(consumer: Consumer, node: TreeNode, times: int) -> None:
    for above in node.path:
        above.free -= times * consumer.packed
