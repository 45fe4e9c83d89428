"""Forests: trees that grant a request together or not at all. A single tree is a forest with one tree.

Granting: a forest grants a request on every tree that the consumer names, or on none. The trees are asked in the order
in which they joined. A consumer that is preempted in one tree leaves all trees of the forest before the next tree is
asked, so that the next tree has that room as well.

Undo: an `UndoableChange` has the previous places of all consumers that it has touched. If one tree rejects the request,
all trees are restored, order included. If an exception interrupts a change, the trees are rebuilt as they were before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypeAlias, TypeVar, final

from ugm.engine_lock import OwnedLock
from ugm.errors import RequestError
from ugm.quotatree._node import Consumer, ConsumerInfo, TreeRequest
from ugm.quotatree._tree import Places, QuotaTree, TreeOptions
from ugm.quotatree.answers import AllocationResponse, Rejection, UpdateResponse
from ugm.quotatree.documents import TreeCache

ResponseT = TypeVar("ResponseT", bound=AllocationResponse | None)

#: A consumer in each of several trees.
_Consumers: TypeAlias = list[tuple[QuotaTree, Consumer]]


class Mode(StrEnum):
    """The modes of a manager: quotas are enforced in normal mode only."""

    MAINTENANCE = "maintenance"
    NORMAL = "normal"


@final
class ManagedTree:
    """A tree of a manager.

    Args:
        name: the name in the manager. The cache may give the tree another name.
        tree: the tree in force.
        cache: its next version.
    """

    def __init__(self, name: str, tree: QuotaTree, cache: TreeCache) -> None:
        self.name: Final = name
        self.tree = tree
        self.cache: Final = cache
        #: The tree as a forest.
        self.alone: Final = Forest(name, {name: self}, kind="tree")


@final
class UndoableChange:
    """A change to the trees of a forest, which can be undone as long as it is the last one."""

    def __init__(self, forest: Forest) -> None:
        #: The trees with their versions before the change.
        self._before: Final = [(managed.tree, managed.tree.version) for managed in forest.trees.values()]
        self._version: Final = object()
        #: For each tree the previous places of the consumers that the change has touched.
        self._logs: list[Places] = []

    def is_last_of(self, forest: Forest) -> bool:
        """Return whether none of the trees of a forest has changed since."""
        trees = [managed.tree for managed in forest.trees.values()]
        return trees == [tree for tree, _ in self._before] and all(tree.version is self._version for tree in trees)

    @property
    def _moves_nothing(self) -> bool:
        """True if every consumer is at its previous node, possibly at another position of the order."""
        return all(one.node is node for tree, _ in self._before for one, (node, _) in tree.log.items())

    def run(self, action: Callable[[], ResponseT]) -> ResponseT:
        """Make the change; if its request is rejected, undo everything but a change of the order.

        If an exception interrupts it, nothing has changed.
        """
        try:
            response = action()
            if response is not None and response.rejection is not None and not self._moves_nothing:
                for tree, _ in self._before:
                    tree.undo()
        except BaseException:
            self._recover()
            raise
        for tree, _ in self._before:
            self._logs.append(tree.log)
            tree.log, tree.version = {}, self._version
        return response

    def _recover(self) -> None:
        for tree, _ in self._before:
            tree.recover()

    def undo(self) -> None:
        """Restore the trees, order included."""
        for (tree, version), log in zip(self._before, self._logs, strict=True):
            tree.log, tree.version = log, version
        try:
            for tree, _ in self._before:
                tree.undo()
        except BaseException:
            self._recover()
            raise


class Forest:
    """Trees that grant a request together or not at all.

    Args:
        name: its name.
        trees: its trees by name, in the order in which they joined.
        kind: the word for it in messages.
    """

    def __init__(self, name: str, trees: dict[str, ManagedTree], *, kind: str = "forest") -> None:
        self.name: Final = name
        self.trees: Final = trees
        self.kind: Final = kind
        #: The last try that can be undone, with its consumer.
        self.tried: tuple[str, UndoableChange] | None = None

    # Queries

    def requests_of(self, info: ConsumerInfo) -> list[tuple[ManagedTree, TreeRequest]]:
        """Return the trees that a consumer names, with its request in each."""
        entries = info.on
        return [(managed, entries[name]) for name, managed in self.trees.items() if name in entries]

    def held(self, consumer_id: str) -> ConsumerInfo | None:
        """Return a consumer that one of the trees holds; None if none does."""
        for managed in self.trees.values():
            consumer = managed.tree.consumers.get(consumer_id)
            if consumer is not None:
                return consumer.info
        return None

    def is_allocated(self, consumer_id: str) -> bool:
        """Return whether every tree that a consumer names holds it, and at least one does."""
        info = self.held(consumer_id)
        return info is not None and self.holds(info)

    def holds(self, info: ConsumerInfo) -> bool:
        """Return whether every tree that a consumer names holds it."""
        return all(info.consumer_id in managed.tree.consumers for managed, _ in self.requests_of(info))

    def require_new(self, info: ConsumerInfo) -> list[tuple[ManagedTree, TreeRequest]]:
        """Return the requests of a consumer after making sure that it can be allocated.

        Raises:
            RequestError: one of the trees holds it, or it does not name the single tree.
        """
        requests, consumer_id = self.requests_of(info), info.consumer_id
        if not requests and self.kind == "tree":
            reason = f"the consumer has no entry for tree {self.name!r}"
            raise RequestError("consumer_id", consumer_id, reason, "object-unknown")
        for managed, _ in requests:
            if consumer_id in managed.tree.consumers:
                reason = f"the consumer is allocated on tree {managed.name!r} already"
                raise RequestError("consumer_id", consumer_id, reason, "state-conflict")
        return requests

    def _consumers(self, info: ConsumerInfo) -> _Consumers:
        """Return the consumers of the requests of `require_new`."""
        return [(managed.tree, managed.tree.make_consumer(info, entry)) for managed, entry in self.require_new(info)]

    def judge(self, info: ConsumerInfo) -> list[Rejection]:
        """Return the rejection of every tree that cannot hold a consumer without preemption.

        Raises:
            RequestError: as for `require_new`.
        """
        found = [tree.judge(consumer) for tree, consumer in self._consumers(info)]
        return [rejection for rejection in found if rejection is not None]

    def plan(self, info: ConsumerInfo, without: Iterable[str], *, preempting: bool) -> AllocationResponse:
        """Return the response of `allocate` after some others have left: the change is made and undone.

        Raises:
            RequestError: as for `require_new`.
        """
        consumers, change = self._consumers(info), UndoableChange(self)

        def action() -> AllocationResponse:
            for consumer_id in without:
                self._release(consumer_id)
            return self._grant(info, consumers, preempting=preempting)

        response = change.run(action)
        change.undo()
        return response

    # Changes

    def allocate(self, info: ConsumerInfo, *, preempting: bool = True) -> tuple[AllocationResponse, UndoableChange]:
        """Allocate a consumer on all trees that it names, or on none.

        Args:
            info: the consumer.
            preempting: whether others may leave the trees for it.

        Returns:
            The response and the change, which can be undone.

        Raises:
            RequestError: as for `require_new`.
        """
        consumers, change = self._consumers(info), UndoableChange(self)
        return change.run(lambda: self._grant(info, consumers, preempting=preempting)), change

    def force(self, info: ConsumerInfo, *, fallback: bool = False) -> tuple[AllocationResponse, UndoableChange]:
        """Allocate a consumer at its groups regardless of the quotas, or on no tree.

        Args:
            info: the consumer.
            fallback: whether a tree without its group holds it at the root. Otherwise the request is rejected.

        Raises:
            RequestError: as for `require_new`.
        """
        consumers, change = self._consumers(info), UndoableChange(self)

        def action() -> AllocationResponse:
            for tree, consumer in consumers:
                rejection = tree.force(consumer, fallback=fallback)
                if rejection is not None:
                    return AllocationResponse(info.consumer_id, rejection=rejection)
            return AllocationResponse(info.consumer_id)

        return change.run(action), change

    def _grant(self, info: ConsumerInfo, consumers: _Consumers, *, preempting: bool) -> AllocationResponse:
        """Allocate a consumer. A rejection leaves changes behind."""
        for tree, consumer in consumers:
            if consumer.leaf is None:
                return AllocationResponse(info.consumer_id, rejection=tree.reject_group(consumer))
        preempted: dict[str, None] = {}
        for tree, consumer in consumers:
            for victim in preempted:
                tree.deallocate(victim)
            response = tree.allocate(consumer, preempting=preempting)
            if response.rejection is not None:
                if tree.options.requeue_rejected:
                    for each, _ in consumers:
                        each.put_back(info.consumer_id, preempted)
                return response
            if response.preempted:
                preempted.update(dict.fromkeys(response.preempted))
        for victim in preempted:
            self._release(victim)
        return AllocationResponse(info.consumer_id, tuple(preempted))

    def refund(self, consumer_id: str) -> UndoableChange:
        """Release a consumer on all trees, as a change that can be undone."""
        change = UndoableChange(self)
        change.run(lambda: self._release(consumer_id))
        return change

    def _release(self, consumer_id: str) -> None:
        for managed in self.trees.values():
            managed.tree.deallocate(consumer_id)

    def update(self) -> UpdateResponse:
        """Replace each tree by the next version in its cache. A consumer that one of them cannot hold leaves all."""
        leaving: set[str] = set()
        responses = {}
        for managed in self.trees.values():
            tree, responses[managed.name], renamed = managed.cache.next_tree(managed.tree.options)
            leaving.update(tree.allocate_consumers_of(managed.tree, renamed))
            managed.tree, tree.log = tree, {}
        for consumer_id in sorted(leaving):
            self.refund(consumer_id)
        return UpdateResponse(tuple(sorted(leaving)), responses)


@final
@dataclass(slots=True, eq=False)
class Registry:
    """The state of a manager. The `find_` methods return None for an unknown name, even if it is not hashable."""

    options: TreeOptions
    mode: Mode = Mode.MAINTENANCE
    lock: OwnedLock = field(default_factory=OwnedLock)
    consumers: dict[str, ConsumerInfo] = field(default_factory=dict)
    trees: dict[str, ManagedTree] = field(default_factory=dict)
    forests: dict[str, Forest] = field(default_factory=dict)

    def find_tree(self, name: object) -> Forest | None:
        """Return a tree as a forest, if there is one of that name."""
        return self.trees[name].alone if isinstance(name, str) and name in self.trees else None

    def find_forest(self, name: object) -> Forest | None:
        """Return a forest, if there is one of that name."""
        return self.forests.get(name) if isinstance(name, str) else None

    def tree(self, name: object) -> ManagedTree:
        """Return a tree.

        Raises:
            RequestError: there is no such tree.
        """
        if not isinstance(name, str) or name not in self.trees:
            raise RequestError("tree_name", name, "there is no such tree", "tree-unknown")
        return self.trees[name]

    def forest(self, name: str) -> Forest:
        """Return a forest.

        Raises:
            RequestError: there is no such forest.
        """
        forest = self.find_forest(name)
        if forest is None:
            raise RequestError("forest_name", name, "there is no such forest", "object-unknown")
        return forest

    def forest_of(self, tree_name: str) -> Forest | None:
        """Return the forest that a tree has joined, if any."""
        return next((forest for forest in self.forests.values() if tree_name in forest.trees), None)

    def consumer(self, consumer_id: object) -> ConsumerInfo:
        """Return a registered consumer.

        Raises:
            RequestError: there is no such consumer.
        """
        if not isinstance(consumer_id, str) or consumer_id not in self.consumers:
            raise RequestError("consumer_id", consumer_id, "there is no such consumer", "object-unknown")
        return self.consumers[consumer_id]
