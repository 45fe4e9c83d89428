"""A quota tree with its consumers: allocate, force, deallocate and undo; and its limits as values.

A request that fits every node on its path is charged at once. Any other request starts a `Search`, which only reads.
Its result is carried out step by step, in the order of MCAD, so that all lists end in the same order.

While a change is made, `QuotaTree.log` has the previous place of every consumer that it touches. `QuotaTree.undo`
restores all of them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count, pairwise
from typing import Final, TypeAlias, final

from ugm.decision import EffectiveLimit
from ugm.errors import RequestError
from ugm.model import Borrower, Guarantee, OrderNode
from ugm.quotatree._borrowing import Search
from ugm.quotatree._node import Consumer, ConsumerInfo, Packing, Rank, TreeNode, TreeRequest, by_arrival
from ugm.quotatree.answers import AllocationResponse, ConsumerView, NodeQuota, NodeView, Reason, Rejection, TreeView
from ugm.resources import Resource

#: For each consumer a place: the node, if any, and the position in the order there.
Places: TypeAlias = "dict[Consumer, tuple[TreeNode | None, int]]"


@final
@dataclass(frozen=True, slots=True)
class TreeOptions:
    """The options of a manager for its trees.

    Attributes:
        requeue_rejected: whether a rejected request moves consumers to the end of their lists if it had moved them in
            its search, as in MCAD.
        check_unrequested: whether a request is rejected if a node is over quota for a resource that is not requested,
            as in MCAD.
    """

    requeue_rejected: bool = False
    check_unrequested: bool = False


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
        #: The previous places of the consumers that the current change has touched.
        self.log: Places = {}
        #: A new object after each change.
        self.version: object = None
        self._packing: Final = root.packing if root else Packing(resources)
        #: The nodes without children, by name.
        self.leaves: Final = {name: node for name, node in self.nodes.items() if not node.children}
        #: The sequence numbers of arrivals.
        self._arrivals: Final = count(1)
        for leaf in self.leaves.values():
            for below, above in pairwise(leaf.path):
                above.toward[leaf] = below

    def make_consumer(self, info: ConsumerInfo, entry: TreeRequest) -> Consumer:
        """Return a new consumer for this tree, not yet allocated."""
        packed, mask, freed, size = self._packing.pack_request(entry.request.amounts)
        if self.options.check_unrequested:
            mask = self._packing.signs
        return Consumer(info, entry, Rank(*entry[3:]), self.leaves.get(entry.group), packed, mask, freed, size)

    def named(self, amounts: Iterable[int]) -> Resource:
        """Return amounts that are in the order of the resources by name."""
        return Resource(dict(zip(self.resources, amounts, strict=True)))

    def unpack(self, packed: int) -> tuple[int, ...]:
        """Return a packed amount by position of the resource."""
        return self._packing.unpack_free(self._packing.signs + packed)

    def view(self) -> TreeView:
        """Return the current state of the tree."""
        borrowed, lent = Counter[str](), Counter[str]()
        for consumer in self.consumers.values():
            leaf, node = consumer.leaf, consumer.node
            if node is None or leaf is node:
                continue
            lent[node.name] += consumer.packed
            for passed in leaf.path[: leaf.depth - node.depth] if leaf else ():
                borrowed[passed.name] += consumer.packed

        def node_view(node: TreeNode) -> NodeView:
            return NodeView(
                name=node.name,
                parent=node.parent.name if node.parent else "",
                depth=node.depth,
                hard=node.hard,
                quota=self.named(node.quota),
                allocated=self.named(node.allocated()),
                borrowed=self.named(self.unpack(borrowed[node.name])),
                lent=self.named(self.unpack(lent[node.name])),
                consumers=tuple(
                    ConsumerView(one.id, one.entry.group, node.name, *one.entry[2:]) for one in node.consumers()
                ),
            )

        return TreeView(self.name, self.resources, tuple(map(node_view, self.nodes.values())))

    # Rejections

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
        visited, above = path[: search.reached + 1], path[search.reached + 1 :]
        group, requested = consumer.entry.group, consumer.entry.request
        amounts = tuple((at, requested[name]) for at, name in enumerate(self.resources) if requested.get(name))
        return Rejection(self.name, consumer.id, group, Reason.NO_ROOM, visited, above, self.resources, amounts)

    def judge(self, consumer: Consumer) -> Rejection | None:
        """Return the reason why the tree cannot hold a consumer without preemption; None if it can."""
        if consumer.leaf is None:
            return self.reject_group(consumer)
        search = self._search(consumer, preempting=False)
        return self.reject(consumer, search) if search is not None and search.home is None else None

    # Operations

    def allocate(self, consumer: Consumer, *, preempting: bool = True) -> AllocationResponse:
        """Allocate a consumer under the quotas.

        Args:
            consumer: the consumer.
            preempting: whether others may leave the tree for it.

        Returns:
            The preempted consumers, in order, or the rejection. A rejected request has changed nothing, unless the tree
            requeues.
        """
        if consumer.leaf is None:
            return AllocationResponse(consumer.id, rejection=self.reject_group(consumer))
        search = self._search(consumer, preempting=preempting)
        if search is None:
            self.place(consumer, consumer.leaf)
            return AllocationResponse(consumer.id)
        if search.home is not None:
            return AllocationResponse(consumer.id, self._carry_out(consumer, search, search.home))
        if search.thorough:
            self._requeue(search.requeued_by_rejection())
        return AllocationResponse(consumer.id, rejection=self.reject(consumer, search))

    def _search(self, consumer: Consumer, *, preempting: bool) -> Search | None:
        """Return the search for a home of a consumer; None if the group itself has room."""
        path = consumer.leaf.path if consumer.leaf else ()
        packed, mask = consumer.packed, consumer.mask
        for level, node in enumerate(path):
            if node.free - packed & mask != mask:
                search = Search(consumer, path, preempting, self.options.requeue_rejected)
                search.run(level)
                return search
        return None

    def force(self, consumer: Consumer, *, fallback: bool = False) -> Rejection | None:
        """Allocate a consumer at its group, which may be any node, regardless of the quotas; or return a rejection.

        Args:
            consumer: the consumer.
            fallback: whether the root holds it if there is no such node. If there is no root, no node holds it.
        """
        node = self.nodes.get(consumer.entry.group) or (self.root if fallback else None)
        if node is None:
            return None if fallback else self.reject_group(consumer)
        self.place(consumer, node)
        return None

    def place(self, consumer: Consumer, node: TreeNode) -> None:
        """Allocate a consumer at a node, regardless of the quotas."""
        self.log.setdefault(consumer, (None, 0))
        _charge(consumer, node, 1)
        node.append(consumer, next(self._arrivals))
        self.consumers[consumer.id] = consumer

    def deallocate(self, consumer_id: str) -> None:
        """Release a consumer, if the tree holds it, and move others down where they fit now."""
        consumer = self.consumers.get(consumer_id)
        if consumer is None or (node := consumer.node) is None:
            return
        self._remove(consumer, node)
        del self.consumers[consumer_id]
        for above in node.path:
            above.free += consumer.packed
            if above.borrowers:
                self._move_down(above)

    def _move_down(self, node: TreeNode) -> None:
        """Move the consumers that borrow above a node and fit it down, in order."""
        while (consumer := node.first_borrower()) is not None:
            node.free -= consumer.packed
            self._remove(consumer, node.path[1])
            node.append(consumer, next(self._arrivals))

    def homes(self, names: Container[str]) -> list[tuple[str, str]]:
        """Return some of the consumers in the order of arrival, each with the node that holds it."""
        held = sorted(self.consumers.values(), key=by_arrival)
        return [(one.id, one.node.name) for one in held if one.node is not None and one.id in names]

    def place_at(self, consumer: Consumer, name: str) -> None:
        """Allocate a consumer at the node of a name, regardless of the quotas.

        Raises:
            RequestError: there is no such node.
        """
        node = self.nodes.get(name)
        if node is None:
            raise RequestError("node", name, f"tree {self.name!r} has no such node", "state-conflict")
        self.place(consumer, node)

    # Steps

    def _remove(self, consumer: Consumer, node: TreeNode) -> None:
        self.log.setdefault(consumer, (node, consumer.sequence))
        node.remove(consumer)

    def _carry_out(self, consumer: Consumer, search: Search, home: TreeNode) -> tuple[str, ...]:
        """Make the changes that a search has found, in its order."""
        self._requeue(search.requeued)
        preempted = [*search.victims]
        for victim in preempted:
            self._evict(victim)
        for level, slid in search.slid.items():
            node = search.path[level]
            if node.parent is None:
                for other in slid:
                    self._evict(other)
                preempted += slid
                continue
            for other in slid:
                node.free += other.packed
                self._remove(other, node)
                node.parent.append(other, next(self._arrivals))
        self.place(consumer, home)
        return tuple(victim.id for victim in preempted)

    def _evict(self, consumer: Consumer) -> None:
        if consumer.node is not None:
            _charge(consumer, consumer.node, -1)
            self._remove(consumer, consumer.node)
        del self.consumers[consumer.id]

    def _requeue(self, consumers: Iterable[Consumer]) -> None:
        for consumer in consumers:
            node = consumer.node
            if node is not None:
                self._remove(consumer, node)
                node.append(consumer, next(self._arrivals))

    # Undo

    def undo(self) -> None:
        """Return every logged consumer to its previous place, order included."""
        for consumer in self.log:
            if consumer.node is not None:
                _charge(consumer, consumer.node, -1)
                consumer.node.remove(consumer)
            self.consumers.pop(consumer.id, None)
        touched = set()
        for consumer, (node, sequence) in self.log.items():
            if node is not None:
                _charge(consumer, node, 1)
                node.append(consumer, sequence)
                self.consumers[consumer.id] = consumer
                touched.add(node)
        for node in touched:
            node.sort()
        self.log = {}

    def put_back(self, consumer_id: str, victims: Iterable[str]) -> None:
        """Release a consumer and allocate its victims again, as in MCAD when another tree of a forest rejects.

        The result may differ from the state before. It is kept only if nothing but the order differs.
        """
        touched = {consumer.id: consumer for consumer in self.log}
        self.deallocate(consumer_id)
        for victim in victims:
            if victim in touched and victim not in self.consumers:
                self.allocate(touched[victim])

    def recover(self, leaving: Collection[ConsumerInfo] = ()) -> None:
        """Undo the current change from any state in which an exception has left it, and release some consumers.

        Recomputes all counters and lists from the nodes of the consumers.
        """
        for consumer, (node, sequence) in self.log.items():
            consumer.node, consumer.sequence = node, sequence
            self.consumers[consumer.id] = consumer
        self.log = {}
        for node in self.nodes.values():
            node.clear()
        gone = [one for one in self.consumers.values() if one.node is None or one.info in leaving]
        for consumer in sorted(self.consumers.values(), key=by_arrival):
            if consumer.node is not None and consumer.info not in leaving:
                _charge(consumer, consumer.node, 1)
                consumer.node.append(consumer, consumer.sequence)
        # Last: if this is interrupted, it can be repeated.
        for consumer in gone:
            del self.consumers[consumer.id]

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
        for consumer in sorted(old.consumers.values(), key=by_arrival):
            group = renamed.get(consumer.entry.group, consumer.entry.group)
            moved = self.make_consumer(consumer.info, consumer.entry._replace(group=group))
            name = consumer.node.name if consumer.node else ""
            node = self.nodes.get(renamed.get(name, name))
            if moved.leaf is None or node not in moved.leaf.path:
                node = self.nodes.get(group)
            self.place(moved, node or root)
        return ()

    def violations(self) -> list[str]:
        """Return a message for each node whose counters and lists do not follow from the consumers, and correct them.

        Any difference is a bug in ugm.
        """
        before = self._counters()
        self.recover()
        due = self._counters()
        where = f"of tree {self.name!r} counts"
        return [
            f"node {name!r} {where} {found}, expected {due[name]}"
            for name, found in before.items()
            if found != due[name]
        ]

    def _counters(self) -> dict[str, tuple[object, ...]]:
        return {
            name: (
                node.allocated(),
                [one.id for one in node.consumers()],
                sorted((rank, members.total) for rank, members in node.members.items()),
                sorted((size, [one.id for one in line]) for size, line in node.borrowers.items()),
            )
            for name, node in self.nodes.items()
        }

    # Limits as values

    def _path(self, group: str | None) -> tuple[TreeNode, ...]:
        """Return the nodes from a leaf to the root; none if there is no such leaf."""
        leaf = self.leaves.get(group or "")
        return () if leaf is None else leaf.path

    def path_limits(self, group: str | None) -> list[EffectiveLimit]:
        """Return the limits from a leaf to the root, each with the largest amounts that its group can get now.

        A group can borrow above its node as much as every hard node on its path and the root leave, resource by
        resource.
        """
        found: list[EffectiveLimit] = []
        above: list[int] | None = None
        for node in reversed(self._path(group)):
            free = node.free_amounts()
            may_borrow = above is not None and not node.hard
            if above is None or node.hard:
                above = list(free) if above is None else list(map(min, above, free))
            most = zip(node.allocated(), above if may_borrow else free, strict=True)
            found.append(self._limit(node, [used + rest for used, rest in most], may_borrow=may_borrow))
        return found[::-1]

    def room_below(self, name: str, resource: str) -> int | None:
        """Return the most of a resource that a leaf in or below a node can get now; None if the tree does not count it.

        Without preemption, every consumer of such a leaf has to fit the root and every hard node from the node upward:
        nothing slides up from a hard node, and no consumer borrows above it. Other nodes may be passed by borrowing.
        """
        node = self.nodes.get(name)
        if node is None or resource not in self.resources:
            return None
        at = self.resources.index(resource)
        return min(one.free_amounts()[at] for one in node.path if one.hard or one.parent is None)

    def owners(self, group: str | None) -> list[tuple[str, str]]:
        """Return the nodes from a leaf to the root, each with its name behind the name of the tree."""
        return [("quota node", f"{self.name}/{node.name}") for node in self._path(group)]

    def all_limits(self) -> list[EffectiveLimit]:
        """Return the quotas of all nodes, parents first."""
        return [self._limit(node, node.quota, may_borrow=False) for node in self.nodes.values()]

    def order_nodes(self) -> list[OrderNode]:
        """Return the nodes with their quotas, parents first."""
        return [
            OrderNode(node.name, node.parent.name if node.parent else "", self.named(node.quota).amounts)
            for node in self.nodes.values()
        ]

    def _limit(self, node: TreeNode, most: Iterable[int], *, may_borrow: bool) -> EffectiveLimit:
        place, used = f"quota tree {self.name!r}", self.named(node.allocated())
        guaranteed = self.named(node.quota) if may_borrow else None
        return EffectiveLimit("quota node", node.name, "", self.name, place, self.named(most), 0, used, 0, guaranteed)

    def borrowers(self, group: str | None, usage: Resource, without: Collection[str]) -> Iterator[Borrower]:
        """Yield all leaves with consumers except that of a request.

        A node is guaranteed its quota. The usage of a node is that of all consumers whose group is in or below it,
        wherever they are held. So a consumer that is held above its group counts as usage of its group.

        Args:
            group: the leaf of the request.
            usage: the request.
            without: the ids of consumers that are not counted.
        """
        claimant = self._path(group)
        if not claimant:
            return
        members: defaultdict[TreeNode, list[str]] = defaultdict(list)
        used = Counter[TreeNode]()
        for consumer in self.consumers.values():
            if consumer.leaf is not None and consumer.id not in without:
                members[consumer.leaf].append(consumer.id)
                for node in consumer.leaf.path:
                    used[node] += consumer.packed
        for leaf in sorted(members.keys() - {claimant[0]}, key=lambda node: node.name):
            own = [node for node in leaf.path if node not in claimant]
            side = [node for node in claimant if node not in leaf.path]
            entitled = tuple(one for node in side for one in self._guarantees(node, used[node], usage.amounts))
            guarantees = tuple(one for node in own for one in self._guarantees(node, used[node], {}))
            yield Borrower("quota node", leaf.name, entitled, guarantees, tuple(members[leaf]))

    def _guarantees(self, node: TreeNode, used: int, more: Mapping[str, int]) -> Iterator[Guarantee]:
        for name, quota, amount in zip(self.resources, node.quota, self.unpack(used), strict=True):
            place = f"quota tree {self.name!r}"
            yield Guarantee("quota node", node.name, place, name, quota, quota, amount + more.get(name, 0))


def _charge(consumer: Consumer, node: TreeNode, times: int) -> None:
    packed = times * consumer.packed
    for above in node.path:
        above.free -= packed
