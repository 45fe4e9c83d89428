"""What a quota manager does with consumers and single trees; forests come on top in `ugm.quotatree.manager`.

Every public operation holds the lock once, for all of its work.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from threading import RLock
from typing import Any, Final, TypeVar

from ugm.errors import InvariantError, RequestError
from ugm.identity import is_name
from ugm.quotatree import audit
from ugm.quotatree.answers import AllocationPlan, AllocationResponse, UpdateResponse, respond
from ugm.quotatree.cache import Blueprint, TreeCache
from ugm.quotatree.consumer import Consumer, ConsumerInfo
from ugm.quotatree.documents import TreeDocument, tree_from_struct, tree_from_text
from ugm.quotatree.locking import OwnedLock, release_owned, unlocking
from ugm.quotatree.managed import Attempt, ManagedTree, noting
from ugm.quotatree.planning import forced_plan, tree_plan
from ugm.quotatree.rejection import Rejection, is_homeless
from ugm.quotatree.tree import QuotaTree
from ugm.quotatree.update import move_consumers
from ugm.quotatree.victims import VictimPolicy, first_found, nobody
from ugm.quotatree.view import TreeView, view_of

__all__ = ["Mode", "TreeManager", "found"]

T = TypeVar("T")


class Mode(StrEnum):
    """Whether quotas hold."""

    MAINTENANCE = "maintenance"
    NORMAL = "normal"


class TreeManager:
    """Quota trees, and the consumers that ask them for resources.

    Args:
        policy: how victims are chosen: `first_found`, as the original does, or `fewest`.
        requeue_rejected: as for `ugm.quotatree.tree.QuotaTree`.
        check_unrequested: likewise.
    """

    __slots__ = ("_check_unrequested", "_infos", "_lock", "_mode", "_policy", "_requeue_rejected", "_trees")

    _lock: OwnedLock
    _mode: Mode
    _infos: dict[str, ConsumerInfo]
    _trees: dict[str, ManagedTree]

    def __init__(
        self, *, policy: VictimPolicy = first_found, requeue_rejected: bool = False, check_unrequested: bool = False
    ) -> None:
        self._policy: Final = policy
        self._requeue_rejected: Final = requeue_rejected
        self._check_unrequested: Final = check_unrequested
        self._lock: OwnedLock = RLock()
        self._mode = Mode.MAINTENANCE
        self._infos = {}
        self._trees = {}

    def __repr__(self) -> str:
        # Without the lock: a debugger may ask while another thread holds it.
        counts = f"trees={len(self._trees)} consumers={len(self._infos)}"
        return f"<{type(self).__name__} mode={self._mode.value} {counts}>"

    # Management

    def get_mode(self) -> Mode:
        """Return the mode."""
        return self._mode

    @unlocking
    def set_mode(self, mode: Mode | str) -> None:
        """Set the mode.

        Raises:
            RequestError: there is no such mode.
        """
        try:
            chosen = Mode(mode)
        except ValueError:
            raise RequestError("mode", mode, "expected 'maintenance' or 'normal'") from None
        with self._lock:
            self._mode = chosen

    @unlocking
    def get_tree_names(self) -> tuple[str, ...]:
        """Return the names of all trees, sorted."""
        with self._lock:
            return tuple(sorted(self._trees))

    # Consumers

    def add_consumer(self, info: ConsumerInfo) -> None:
        """Make a consumer known.

        Raises:
            RequestError: a consumer of that id is known.
        """
        if not isinstance(info, ConsumerInfo):
            raise RequestError("info", info, "expected a ConsumerInfo")
        try:
            with self._lock:
                known = info.consumer_id in self._infos
                if not known:
                    self._infos[info.consumer_id] = info
        except BaseException:
            release_owned(self._lock)
            raise
        if known:
            raise RequestError("consumer_id", info.consumer_id, "a consumer of that id is known already")

    @unlocking
    def remove_consumer(self, consumer_id: str) -> None:
        """Forget a consumer. What it holds it keeps until it is deallocated.

        Raises:
            RequestError: there is no such consumer.
        """
        with self._lock:
            self._info(consumer_id).preempted_by = None
            del self._infos[consumer_id]

    @unlocking
    def get_all_consumer_ids(self) -> tuple[str, ...]:
        """Return the ids of the known consumers, sorted."""
        with self._lock:
            return tuple(sorted(self._infos))

    def _info(self, consumer_id: str) -> ConsumerInfo:
        try:
            return self._infos[consumer_id]
        except (KeyError, TypeError):
            raise RequestError("consumer_id", consumer_id, "there is no such consumer") from None

    # Trees

    def add_tree_by_name(self, tree_name: str) -> str:
        """Add a tree without nodes, to be filled through its cache. Return its name.

        Raises:
            RequestError: the name is empty or taken.
        """
        return self._add_tree(TreeDocument(tree_name, (), {}))

    def add_tree_from_string(self, text: str) -> str:
        """Add a tree from a document in JSON or YAML. Return its name.

        Raises:
            ConfigError: the document is malformed; with everything that is wrong.
            RequestError: the name is empty or taken.
        """
        return self._add_tree(tree_from_text(text))

    def add_tree_from_struct(self, document: Mapping[str, Any]) -> str:
        """Add a tree from a document that has been parsed. Return its name.

        Raises:
            ConfigError: the document is malformed; with everything that is wrong.
            RequestError: the name is empty or taken.
        """
        return self._add_tree(tree_from_struct(document))

    @unlocking
    def _add_tree(self, document: TreeDocument) -> str:
        name = document.name
        if not is_name(name):
            raise RequestError("tree_name", name, "a name is a text of 1 to 256 characters")
        cache = TreeCache(name, lock=self._lock)
        cache.merge(document)
        with self._lock:
            if name in self._trees:
                raise RequestError("tree_name", name, "there is a tree of that name already")
            self._trees[name] = ManagedTree(name, self._tree(cache.build()), cache)
        return name

    def _tree(self, blueprint: Blueprint) -> QuotaTree:
        name, resources, root, _ = blueprint
        return QuotaTree(
            name,
            resources,
            root,
            policy=self._policy,
            requeue_rejected=self._requeue_rejected,
            check_unrequested=self._check_unrequested,
        )

    @unlocking
    def delete_tree(self, tree_name: str) -> None:
        """Remove a tree, from its forest, too.

        Raises:
            RequestError: there is no such tree, or somebody is allocated on it.
        """
        with self._lock:
            managed = self._managed(tree_name)
            if managed.tree.consumers:
                raise RequestError("tree_name", tree_name, "consumers are allocated on it")
            if managed.forest is not None:
                del managed.forest.trees[tree_name]
            del self._trees[tree_name]

    def _managed(self, tree_name: str) -> ManagedTree:
        try:
            return self._trees[tree_name]
        except (KeyError, TypeError):
            raise RequestError("tree_name", tree_name, "there is no such tree") from None

    # Allocation on a tree

    def allocate(self, tree_name: str, consumer_id: str) -> AllocationResponse:
        """Allocate a consumer on a tree.

        Raises:
            RequestError: tree or consumer are unknown, or the consumer does not name the tree, or is allocated there.
        """
        try:
            with self._lock:
                managed, consumer = self._asking(tree_name, consumer_id)
                managed.attempt = None
                return respond(consumer_id, self._allocate(managed.tree, consumer))
        except BaseException:
            release_owned(self._lock)
            raise

    def _asking(self, tree_name: str, consumer: str | ConsumerInfo) -> tuple[ManagedTree, Consumer]:
        """Return who asks, as the tree is to hold it."""
        managed = self._managed(tree_name)
        info = consumer if isinstance(consumer, ConsumerInfo) else self._info(consumer)
        consumer_id, tree = info.consumer_id, managed.tree
        entry = info.entry(tree_name)
        if entry is None:
            raise RequestError("consumer_id", consumer_id, f"the consumer has no entry for tree {tree_name!r}")
        if consumer_id in tree.consumers:
            raise RequestError("consumer_id", consumer_id, f"the consumer is allocated on tree {tree_name!r} already")
        return managed, tree.consumer(info, entry)

    def _allocate(self, tree: QuotaTree, consumer: Consumer) -> tuple[str, ...] | Rejection:
        return tree.allocate(consumer) if self._mode is Mode.NORMAL else tree.force(consumer)

    @unlocking
    def adopt(self, tree_name: str, consumer_id: str) -> AllocationResponse:
        """Allocate a consumer at its group whatever the quotas, in any mode: it runs already, say after a restart.

        Raises:
            RequestError: as for `allocate`.
        """
        with self._lock:
            managed, consumer = self._asking(tree_name, consumer_id)
            managed.attempt = None
            return respond(consumer_id, managed.tree.force(consumer))

    def plan_allocate(
        self,
        tree_name: str,
        consumer: str | ConsumerInfo,
        *,
        without: Iterable[str] = (),
        preempting: bool = True,
    ) -> AllocationPlan:
        """Return what `allocate` would do now, without doing it.

        Args:
            tree_name: the tree.
            consumer: the id of a consumer, or one that need not be known.
            without: as if these had been deallocated before.
            preempting: whether anybody may be preempted for it.

        Raises:
            RequestError: as for `allocate`.
        """
        try:
            with self._lock:
                managed, asking = self._asking(tree_name, consumer)
                if self._mode is not Mode.NORMAL:
                    return forced_plan(managed, asking)
                return tree_plan(managed, asking, without, None if preempting else nobody)
        except BaseException:
            release_owned(self._lock)
            raise

    def deallocate(self, tree_name: str, consumer_id: str) -> bool:
        """Give back what a consumer holds on a tree. Return whether it held something there."""
        try:
            with self._lock:
                managed = found(self._trees, tree_name)
                if managed is None or not is_name(consumer_id) or not managed.tree.deallocate(consumer_id):
                    return False
                managed.attempt = None
                return True
        except BaseException:
            release_owned(self._lock)
            raise

    @unlocking
    def is_allocated(self, tree_name: str, consumer_id: str) -> bool:
        """Return whether a consumer is allocated on a tree."""
        with self._lock:
            managed = found(self._trees, tree_name)
            return managed is not None and found(managed.tree.consumers, consumer_id) is not None

    @unlocking
    def try_allocate(self, tree_name: str, consumer_id: str) -> AllocationResponse:
        """Allocate a consumer on a tree so that `undo_allocate` can take it back.

        If the group of the consumer is no leaf of the tree, nothing is tried, and nothing can be undone.

        Raises:
            RequestError: as for `allocate`, or the mode is not normal.
        """
        with self._lock:
            managed, consumer = self._asking(tree_name, consumer_id)
            if self._mode is not Mode.NORMAL:
                raise RequestError("mode", str(self._mode), "a try is possible in normal mode only")
            answer, trials = noting((managed,), lambda _: self._allocate(managed.tree, consumer))
            # Where the group is no leaf, nothing was tried that could be undone.
            managed.attempt = None if is_homeless(answer) else Attempt(consumer_id, trials, {})
            return respond(consumer_id, answer)

    @unlocking
    def undo_allocate(self, tree_name: str, consumer_id: str) -> None:
        """Take the last try back: everything is as it was before, order included.

        Raises:
            RequestError: tree or consumer are unknown, or the last change of the tree was not a try of the consumer.
        """
        with self._lock:
            attempt = self._managed(tree_name).attempt
            self._info(consumer_id)
            if attempt is None or attempt.forest is not None or attempt.consumer_id != consumer_id:
                raise RequestError(
                    "consumer_id", consumer_id, f"the last change of tree {tree_name!r} was not a try of this consumer"
                )
            attempt.take_back()

    # Updates of trees

    @unlocking
    def get_tree_cache(self, tree_name: str) -> TreeCache:
        """Return the cache in which a tree is edited.

        Raises:
            RequestError: there is no such tree.
        """
        with self._lock:
            return self._managed(tree_name).cache

    @unlocking
    def update_tree(self, tree_name: str) -> UpdateResponse:
        """Put the edits of a tree's cache in force.

        Raises:
            RequestError: there is no such tree.
        """
        with self._lock:
            return self._update([self._managed(tree_name)])

    def _update(self, trees: Iterable[ManagedTree]) -> UpdateResponse:
        unallocated: set[str] = set()
        responses = {}
        for managed in trees:
            blueprint = managed.cache.build()
            tree = self._tree(blueprint)
            unallocated.update(move_consumers(managed.tree, tree, managed.cache.settle_names()))
            managed.tree = tree
            managed.attempt = None
            responses[managed.name] = blueprint.response
        return UpdateResponse(tuple(sorted(unallocated)), responses)

    # Looking on

    @unlocking
    def view(self, tree_name: str) -> TreeView:
        """Return a tree as it is, with its nodes and consumers.

        Raises:
            RequestError: there is no such tree.
        """
        with self._lock:
            return view_of(self._managed(tree_name).tree)

    @unlocking
    def verify(self) -> None:
        """Compare all counters and lists with what the consumers hold.

        Raises:
            InvariantError: with a sentence for each difference.
        """
        with self._lock:
            findings = [told for managed in self._trees.values() for told in audit.findings(managed.tree)]
        if findings:
            raise InvariantError(tuple(findings))


def found(known: Mapping[str, T], name: object) -> T | None:
    """Return what a name stands for; nothing if it is no name, not even one that can be looked up."""
    return known.get(name) if isinstance(name, str) else None
