"""Forests: trees that grant a request together or not at all. A single tree is a forest with one tree.

Granting: a forest grants a request on every tree that the consumer names, or on none. The trees are asked in the order
in which they joined. A consumer that is preempted in one tree leaves all trees of the forest before the next tree is
asked, so that the next tree has that room as well.

Undo: a `ForestChange` has an undo log for each tree. If one tree rejects the request, the logs restore all of them,
order included. If an exception interrupts a change, the trees are rebuilt from their logs as they were before.

**One tree.** `ManagedTree` is a forest whose only member is itself. It needs no record of its consumers, because its
tree has one, and it plans by a search, because no other tree is affected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple, TypeAlias, TypeVar, final

from ugm.errors import RequestError
from ugm.identity import is_name
from ugm.quotatree._home_search import Search
from ugm.quotatree._node import Consumer
from ugm.quotatree._tree import QuotaTree, UndoLog
from ugm.quotatree.answers import AllocationPlan, AllocationResponse, Move, TreePlan, UpdateResponse
from ugm.quotatree.cache import TreeCache
from ugm.quotatree.consumer import ConsumerInfo, TreeRequest
from ugm.quotatree.rejection import Rejection
from ugm.quotatree.victims import VictimPolicy

__all__ = ["Forest", "ForestCandidate", "ForestChange", "ManagedTree"]

T = TypeVar("T")
ArgumentT = TypeVar("ArgumentT")

#: The response to a request and the change that it made.
Attempt: TypeAlias = "tuple[AllocationResponse, ForestChange]"

#: The last step of a change of a forest. It decides which changes can be undone.
LastStep: TypeAlias = "Callable[[ForestChange, AllocationResponse], None]"


@final
@dataclass(slots=True, eq=False)
class ForestChange:
    """A change to the trees of a forest that can be undone."""

    forest: Forest
    #: A log for each tree.
    logs: tuple[tuple[ManagedTree, UndoLog], ...]
    #: The previous entries of `Forest.holders` that the change replaced.
    holders: dict[str, tuple[str, ...] | None] = field(default_factory=dict)
    #: The consumer, if the change is a try.
    tried: str = ""

    @property
    def is_last(self) -> bool:
        """True if none of the trees has changed since."""
        for managed, _ in self.logs:  # noqa: SIM110 - a loop takes half the time of a generator
            if managed.last_change is not self:
                return False
        return True

    def set_last(self) -> None:
        """Register this as the last change of its trees."""
        for managed, _ in self.logs:
            managed.last_change = self

    def run(self, action: Callable[[], T]) -> T:
        """Make the change. If an exception interrupts it, nothing has changed.

        The last step of the action may be `undo_trees`.
        """
        last_changes = [managed.last_change for managed, _ in self.logs]
        try:
            for managed, log in self.logs:
                managed.tree.log = log
            result = action()
            for managed, _ in self.logs:
                managed.tree.log = None
        except BaseException:
            self.recover()
            for (managed, _), last_change in zip(self.logs, last_changes, strict=True):
                managed.last_change = last_change
            raise
        return result

    def plan(self, response: AllocationResponse) -> AllocationPlan:
        """Return the effect of the change, which led to a response, as a plan."""
        consumer_id, preempted, rejection = response
        if rejection is not None:
            return AllocationPlan(consumer_id, rejection=rejection)
        trees = [_tree_plan(managed, log, consumer_id) for managed, log in self.logs]
        return AllocationPlan(consumer_id, tuple(tree for tree in trees if tree.node or tree.moves), preempted)

    def undo_trees(self) -> None:
        """Restore the trees, order included."""
        for managed, log in self.logs:
            managed.tree.undo(log)
        self.logs = tuple((managed, UndoLog()) for managed, _ in self.logs)

    def undo(self, previous: ForestChange | None = None) -> None:
        """Restore the trees and the forest; *previous*, if any, is the last change then.

        Takes effect as a whole even if it is interrupted.
        """
        try:
            self.undo_trees()
            self._end_undo(previous)
        except BaseException:
            self.recover()
            self._end_undo(previous)
            raise

    def _end_undo(self, previous: ForestChange | None) -> None:
        self._restore_holders()
        for managed, _ in self.logs:
            if managed.last_change is self:
                managed.last_change = previous

    def recover(self) -> None:
        """Restore the trees and the forest from any state that an interrupted change has left."""
        for managed, log in self.logs:
            managed.tree.recover(log)
        self._restore_holders()

    def _restore_holders(self) -> None:
        holders = self.forest.holders
        for consumer_id, names in self.holders.items():
            if names is None:
                holders.pop(consumer_id, None)
            else:
                holders[consumer_id] = names


class ForestCandidate(NamedTuple):
    """A consumer on one tree, with the search for its home."""

    managed: ManagedTree
    #: The last change of the tree at the time of the search.
    last_change: ForestChange | None
    consumer: Consumer
    #: None if the group itself has room, or is not a leaf.
    search: Search | None

    @property
    def rejection(self) -> Rejection | None:
        """The reason why the tree cannot hold the consumer; None if it can."""
        tree, consumer, search = self.managed.tree, self.consumer, self.search
        if consumer.leaf is None:
            return tree.reject_group(consumer)
        return tree.reject(consumer, search) if search is not None and search.home is None else None


class Forest:
    """Trees that grant a request together or not at all."""

    #: The word for it in messages.
    kind = "forest"

    def __init__(self, name: str) -> None:
        self.name: Final = name
        #: By name, in the order in which they joined.
        self.trees: Final[dict[str, ManagedTree]] = {}
        #: For each consumer allocated on the forest the trees that it named.
        self.holders: Final[dict[str, tuple[str, ...]]] = {}

    # Queries

    def requests_of(self, info: ConsumerInfo) -> list[tuple[ManagedTree, TreeRequest]]:
        """Return the trees that a consumer names, with its request in each."""
        entries = info.on
        return [(managed, entries[name]) for name, managed in self.trees.items() if name in entries]

    def is_allocated(self, consumer_id: str) -> bool:
        """Return whether every tree on which a consumer was allocated holds it; without a record, every tree."""
        names = self.holders.get(consumer_id)
        if names is None:
            return bool(self.trees) and all(consumer_id in m.tree.consumers for m in self.trees.values())
        return all(consumer_id in self.trees[name].tree.consumers for name in names if name in self.trees)

    def holds(self, consumer_id: str) -> bool:
        """Return whether a consumer has a record, or any of the trees holds it."""
        return is_name(consumer_id) and (
            consumer_id in self.holders or any(consumer_id in m.tree.consumers for m in self.trees.values())
        )

    def require_new(self, info: ConsumerInfo) -> None:
        """Make sure that a consumer can be allocated.

        Raises:
            RequestError: the consumer is allocated on the forest, or on one of the trees that it names.
        """
        consumer_id = info.consumer_id
        is_allocated = consumer_id in self.holders and self.is_allocated(consumer_id)
        places = [f"{self.kind} {self.name!r}"] if is_allocated else []
        places += [f"tree {m.name!r}" for m, _ in self.requests_of(info) if consumer_id in m.tree.consumers]
        if places:
            raise RequestError(
                "consumer_id", consumer_id, f"the consumer is allocated on {places[0]} already", "state-conflict"
            )

    def plan(self, info: ConsumerInfo, without: Iterable[str], policy: VictimPolicy | None) -> AllocationPlan:
        """Return the effect of `allocate`, after some others have left: the request is granted and undone."""
        return self._plan(info, lambda: self._grant(info, without, policy))

    def plan_forced(self, info: ConsumerInfo) -> AllocationPlan:
        """Return the effect of `force` without its changes."""
        return self._plan(info, lambda: self._force(info, fallback=False))

    def _plan(self, info: ConsumerInfo, grant: Callable[[], AllocationResponse]) -> AllocationPlan:
        self.require_new(info)
        change = self.begin()

        def action() -> AllocationPlan:
            plan = change.plan(grant())
            change.undo_trees()
            return plan

        return change.run(action)

    # Changes

    def begin(self) -> ForestChange:
        """Return a change that has not been made yet."""
        return ForestChange(self, tuple((managed, UndoLog()) for managed in self.trees.values()))

    def forget_changes(self) -> None:
        """Allow no undo of earlier changes."""
        for managed in self.trees.values():
            managed.last_change = None

    def allocate(
        self, info: ConsumerInfo, policy: VictimPolicy | None = None, *, after: LastStep | None = None
    ) -> Attempt:
        """Allocate a consumer on all trees that it names, or on none.

        Args:
            info: the consumer.
            policy: chooses the victims instead of the policy of the trees.
            after: the last step of the change.

        Returns:
            The response and the change, which can be undone.
        """
        return self._all_or_none(info, lambda: self._grant(info, (), policy), after)

    def force(self, info: ConsumerInfo, *, fallback: bool = False, after: LastStep | None = None) -> Attempt:
        """Allocate a consumer at its groups regardless of the quotas, or on no tree.

        Args:
            info: the consumer.
            fallback: whether a tree without its group holds it at the root. Otherwise the request is rejected.
            after: the last step of the change.
        """
        return self._all_or_none(info, lambda: self._force(info, fallback=fallback), after)

    def _grant(self, info: ConsumerInfo, without: Iterable[str], policy: VictimPolicy | None) -> AllocationResponse:
        """Allocate a consumer after some others have left. A rejection leaves changes behind."""
        without = tuple(without)
        for managed in self.trees.values():
            managed.release(without)
        requests = [(managed, managed.tree.make_consumer(info, entry)) for managed, entry in self.requests_of(info)]
        for managed, consumer in requests:
            if consumer.leaf is None:
                return AllocationResponse(consumer.id, rejection=managed.tree.reject_group(consumer))
        preempted: dict[str, None] = {}
        for managed, consumer in requests:
            managed.release(preempted)
            response = managed.tree.allocate(consumer, policy)
            if not response:
                if managed.tree.options.requeue_rejected:
                    _roll_back((tree for tree, _ in requests), info.consumer_id, preempted)
                return response
            preempted.update(dict.fromkeys(response.preempted))
        for managed in self.trees.values():
            managed.release(preempted)
        return AllocationResponse(info.consumer_id, tuple(preempted))

    def _force(self, info: ConsumerInfo, *, fallback: bool) -> AllocationResponse:
        """Allocate a consumer at its groups. A rejection leaves changes behind."""
        for managed, entry in self.requests_of(info):
            response = managed.tree.force(managed.tree.make_consumer(info, entry), fallback=fallback)
            if not response:
                return response
        return AllocationResponse(info.consumer_id)

    def _all_or_none(
        self, info: ConsumerInfo, grant: Callable[[], AllocationResponse], after: LastStep | None
    ) -> Attempt:
        """Grant a request on all trees. If it is rejected, undo everything."""
        change = self.begin()

        def action() -> AllocationResponse:
            response = grant()
            if response:
                self._record(info, response.preempted, change)
            elif all(managed.tree.options.requeue_rejected and log.is_undone for managed, log in change.logs):
                for _, log in change.logs:
                    log.forget_preemptions()
            else:
                change.undo_trees()
            if after is not None:
                after(change, response)
            return response

        return change.run(action), change

    def _record(self, info: ConsumerInfo, preempted: Iterable[str], change: ForestChange) -> None:
        """Record that the forest holds a consumer and not its victims, and the previous records in the change."""
        change.holders.update((name, self.holders.get(name)) for name in (info.consumer_id, *preempted))
        self.holders[info.consumer_id] = tuple(managed.name for managed, _ in self.requests_of(info))
        for victim in preempted:
            self.holders.pop(victim, None)

    def undo_of_update(self) -> Callable[[], None]:
        """Return a function that undoes the next `update`, whether or not it was interrupted."""
        holders = dict(self.holders)
        trees = [
            (managed, managed.tree, managed.last_change, managed.cache._undo_of_edit())  # noqa: SLF001 - the lock is held
            for managed in self.trees.values()
        ]

        def undo() -> None:
            for managed, tree, last_change, restore_cache in trees:
                managed.tree, managed.last_change = tree, last_change
                restore_cache()
            self.holders.clear()
            self.holders.update(holders)

        return undo

    def update(self) -> UpdateResponse:
        """Replace each tree by the next version in its cache. A consumer that one of them cannot hold leaves all."""
        leaving: set[str] = set()
        responses = {}
        for managed in self.trees.values():
            cache, old = managed.cache, managed.tree
            tree, responses[managed.name] = cache._build(old.options)  # noqa: SLF001 - the lock is held
            leaving.update(tree.allocate_consumers_of(old, cache._take_renames()))  # noqa: SLF001 - as above
            managed.tree, managed.last_change = tree, None
        for consumer_id in sorted(leaving):
            self._release(consumer_id)
        return UpdateResponse(tuple(sorted(leaving)), responses)

    def _release(self, consumer_id: str) -> None:
        self.holders.pop(consumer_id, None)
        for managed in self.trees.values():
            managed.tree.deallocate(consumer_id)

    def refund(self, consumer_id: str, *, after: Callable[[ForestChange], None] | None = None) -> ForestChange:
        """Release a consumer on all trees, as a change that can be undone.

        Args:
            consumer_id: the consumer.
            after: the last step of the change.
        """
        change = self.begin()
        if consumer_id in self.holders:
            change.holders[consumer_id] = self.holders[consumer_id]

        def action() -> None:
            self._release(consumer_id)
            if after is not None:
                after(change)

        change.run(action)
        return change

    def candidates(self, info: ConsumerInfo, policy: VictimPolicy) -> tuple[list[ForestCandidate], bool]:
        """Return a consumer with the search for its home on each tree that it names; nothing changes.

        Returns:
            The consumer on each tree, and whether all trees can hold it.

        Raises:
            RequestError: the consumer cannot be allocated, as for `require_new`.
        """
        found, all_fit = [], True
        self.require_new(info)
        for managed, entry in self.requests_of(info):
            consumer = managed.tree.make_consumer(info, entry)
            search = None if consumer.leaf is None else managed.tree.search(consumer, policy)
            if consumer.leaf is None or (search is not None and search.home is None):
                all_fit = False
            found.append(ForestCandidate(managed, managed.last_change, consumer, search))
        return found, all_fit

    def execute(self, info: ConsumerInfo, candidates: Sequence[ForestCandidate]) -> ForestChange:
        """Allocate a consumer at the homes that were found, none of which preempts, as a change that can be undone."""
        change = self.begin()
        change.run(partial(self._execute, info, candidates, change))
        return change

    def _execute(self, info: ConsumerInfo, candidates: Iterable[ForestCandidate], change: ForestChange) -> None:
        for managed, _, consumer, search in candidates:
            managed.tree.execute(consumer, search)
        self._record(info, (), change)


@final
class ManagedTree(Forest):
    """A tree of a manager: a forest with one tree.

    Args:
        name: the name in the manager. The cache may give the tree another name.
        tree: the tree in force.
        cache: its next version.
    """

    kind = "tree"

    def __init__(self, name: str, tree: QuotaTree, cache: TreeCache) -> None:
        super().__init__(name)
        self.trees[name] = self
        self.tree = tree
        self.cache: Final = cache
        #: The last change, if it can be undone.
        self.last_change: ForestChange | None = None

    def release(self, consumer_ids: Iterable[str]) -> None:
        """Deallocate some consumers."""
        for consumer_id in consumer_ids:
            self.tree.deallocate(consumer_id)

    def change(self, action: Callable[[ArgumentT], T], argument: ArgumentT) -> T:
        """Make a change of the tree after which neither it nor an earlier one can be undone.

        If an exception interrupts it, nothing has changed.
        """
        tree, log, last_change = self.tree, UndoLog(), self.last_change
        try:
            tree.log = log
            self.last_change = None
            result = action(argument)
            tree.log = None
        except BaseException:
            tree.recover(log)
            self.last_change = last_change
            raise
        return result

    def request(self, info: ConsumerInfo) -> Consumer:
        """Return a new consumer for the tree.

        Raises:
            RequestError: the consumer does not name the tree, or is allocated on it.
        """
        consumer_id, tree = info.consumer_id, self.tree
        entry = info.entry(self.name)
        if entry is None:
            raise RequestError(
                "consumer_id", consumer_id, f"the consumer has no entry for tree {self.name!r}", "object-unknown"
            )
        if consumer_id in tree.consumers:
            raise RequestError(
                "consumer_id", consumer_id, f"the consumer is allocated on tree {self.name!r} already", "state-conflict"
            )
        return tree.make_consumer(info, entry)

    def require_new(self, info: ConsumerInfo) -> None:
        """Make sure that a consumer can be allocated on the tree, as `request` does."""
        self.request(info)

    def candidates(self, info: ConsumerInfo, policy: VictimPolicy) -> tuple[list[ForestCandidate], bool]:
        """Do the same on one tree."""
        consumer = self.request(info)
        search = None if consumer.leaf is None else self.tree.search(consumer, policy)
        fits = consumer.leaf is not None and (search is None or search.home is not None)
        return [ForestCandidate(self, self.last_change, consumer, search)], fits

    def execute(self, info: ConsumerInfo, candidates: Sequence[ForestCandidate]) -> ForestChange:  # noqa: ARG002 - in a forest
        """Do the same on one tree, which needs no record."""
        change, (_, _, consumer, search) = self.begin(), candidates[0]
        tree = self.tree
        try:
            tree.log = change.logs[0][1]
            tree.execute(consumer, search)
            tree.log = None
        except BaseException:
            change.recover()
            raise
        return change

    def begin(self) -> ForestChange:
        """Return a change that has not been made yet."""
        return ForestChange(self, ((self, UndoLog()),))

    def plan(self, info: ConsumerInfo, without: Iterable[str], policy: VictimPolicy | None) -> AllocationPlan:
        """Return the effect of `allocate`, after some others have left: only their departure has to be undone."""
        consumer, change = self.request(info), self.begin()

        def action() -> AllocationPlan:
            self.release(without)
            plan = self.tree.plan(consumer, policy)
            change.undo_trees()
            return plan

        return change.run(action)

    def _record(self, info: ConsumerInfo, preempted: Iterable[str], change: ForestChange) -> None:
        """Record nothing: the tree knows its consumers."""


def _tree_plan(managed: ManagedTree, log: UndoLog, consumer_id: str) -> TreePlan:
    """Return the effect of a logged change on one tree."""
    newcomer = managed.tree.consumers.get(consumer_id)
    moves = tuple(
        Move(consumer.id, before.name, consumer.node.name if consumer.node else None)
        for consumer, (before, _) in log.items()
        if before is not None and before is not consumer.node
    )
    return TreePlan(managed.name, newcomer.node.name if newcomer and newcomer.node else None, moves)


def _roll_back(trees: Iterable[ManagedTree], consumer_id: str, preempted: Iterable[str]) -> None:
    """Release a consumer and allocate its victims again, as in MCAD.

    The result may differ from the state before. It is kept only if nothing but the order differs.
    """
    for managed in trees:
        tree = managed.tree
        touched = {} if tree.log is None else {consumer.id: consumer for consumer in tree.log}
        tree.deallocate(consumer_id)
        for victim in preempted:
            if victim in touched and victim not in tree.consumers:
                tree.allocate(touched[victim])
