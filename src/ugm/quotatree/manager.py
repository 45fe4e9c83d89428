"""The manager of quota trees and forests: every operation of the quota manager of MCAD, with Python names.

A manager starts in *maintenance* mode, in which it grants requests at their group regardless of the quotas. In *normal*
mode it enforces the quotas. Trees are edited in their caches and change when they are updated.

A tree is a forest with one tree (`ugm.quotatree._forest`), so an operation on a tree and the same operation on a forest
run the same code.

Every operation holds one lock for all of its work. A call that raises changes nothing. Neither does a rejected request,
except for the order of consumers with `requeue_rejected`. An allocation, a deallocation or an undo that an exception
interrupts, for example Ctrl-C, has taken effect or changed nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, final

from ugm.arguments import require_instance, require_names
from ugm.configuration import QuotaTreeDocument
from ugm.engine_lock import OwnedLock, all_locked
from ugm.errors import InvariantError, RequestError
from ugm.identity import is_name, require_name
from ugm.quotatree._forest import Forest, ManagedTree, Mode, Registry
from ugm.quotatree._node import ConsumerInfo
from ugm.quotatree._tree import TreeOptions
from ugm.quotatree.answers import AllocationResponse, Reason, TreeView, UpdateResponse
from ugm.quotatree.documents import TreeCache, read_tree


@all_locked
@final
class QuotaManager:
    """Quota trees, forests of them, and the consumers that request resources.

    Args:
        requeue_rejected: whether a rejected request moves consumers to the end of their lists if its search had moved
            them, or on a forest preempted them, as in MCAD.
        check_unrequested: whether a request is rejected if a node is over quota for a resource that is not requested,
            as in MCAD.
    """

    def __init__(self, *, requeue_rejected: bool = False, check_unrequested: bool = False) -> None:
        self._registry: Final = Registry(TreeOptions(requeue_rejected, check_unrequested))
        self._lock: OwnedLock = self._registry.lock

    def __repr__(self) -> str:
        # Without the lock: a debugger may show the manager while another thread holds it.
        registry = self._registry
        counts = f"trees={len(registry.trees)} consumers={len(registry.consumers)}"
        return f"<{type(self).__name__} mode={registry.mode.value} {counts}>"

    # Modes

    def get_mode(self) -> Mode:
        """Return the mode."""
        return self._registry.mode

    def set_mode(self, mode: Mode | str) -> None:
        """Set the mode.

        Raises:
            RequestError: there is no such mode.
        """
        try:
            self._registry.mode = Mode(mode)
        except ValueError:
            raise RequestError("mode", mode, "expected 'maintenance' or 'normal'") from None

    # Consumers

    def add_consumer(self, info: ConsumerInfo) -> None:
        """Register a consumer.

        Raises:
            RequestError: a consumer with this id is registered.
        """
        require_instance("info", info, ConsumerInfo)
        if self._registry.consumers.setdefault(info.consumer_id, info) is not info:
            reason = "a consumer with this id is already registered"
            raise RequestError("consumer_id", info.consumer_id, reason, "id-in-use")

    def remove_consumer(self, consumer_id: str) -> None:
        """Remove a consumer from the registry. Its allocations remain until they are deallocated.

        Raises:
            RequestError: there is no such consumer.
        """
        self._registry.consumer(consumer_id)
        del self._registry.consumers[consumer_id]

    def get_all_consumer_ids(self) -> tuple[str, ...]:
        """Return the ids of the registered consumers, sorted."""
        return tuple(sorted(self._registry.consumers))

    # Trees and forests

    def add_tree_by_name(self, tree_name: str) -> str:
        """Add a tree without nodes, to be filled through its cache. Return its name.

        Raises:
            RequestError: the name is empty or taken.
        """
        return self._add_tree(QuotaTreeDocument(require_name("tree_name", tree_name)))

    def add_tree_from_string(self, text: str) -> str:
        """Add a tree from a document in JSON or YAML. Return its name.

        Raises:
            ConfigError: the document is malformed; lists every problem.
            RequestError: the name is empty or taken.
        """
        return self._add_tree(read_tree(text))

    def add_tree_from_struct(self, document: Mapping[str, object] | QuotaTreeDocument) -> str:
        """Add a tree from a parsed document, or from one of a configuration. Return its name.

        Raises:
            ConfigError: the document is malformed; lists every problem.
            RequestError: the name is empty or taken.
        """
        return self._add_tree(document if isinstance(document, QuotaTreeDocument) else read_tree(document))

    def _add_tree(self, document: QuotaTreeDocument) -> str:
        trees, name = self._registry.trees, require_name("tree_name", document.name)
        require_names("nodes", [node.name for node in document.nodes])
        if name in trees:
            raise RequestError("tree_name", name, "a tree of this name already exists", "id-in-use")
        cache = TreeCache(name, lock=self._lock)
        cache.merge(document)
        trees[name] = ManagedTree(name, cache.next_tree(self._registry.options)[0], cache)
        return name

    def delete_tree(self, tree_name: str) -> None:
        """Remove a tree from the manager and from its forest.

        Raises:
            RequestError: there is no such tree, or consumers are allocated on it.
        """
        if self._registry.tree(tree_name).tree.consumers:
            raise RequestError("tree_name", tree_name, "consumers are allocated on it", "not-empty")
        forest = self._registry.forest_of(tree_name)
        if forest is not None:
            del forest.trees[tree_name]
        del self._registry.trees[tree_name]

    def get_tree_names(self) -> tuple[str, ...]:
        """Return the names of all trees, sorted."""
        return tuple(sorted(self._registry.trees))

    def add_forest(self, forest_name: str) -> None:
        """Add a forest without trees.

        Raises:
            RequestError: the name is empty or taken.
        """
        require_name("forest_name", forest_name)
        if forest_name in self._registry.forests:
            raise RequestError("forest_name", forest_name, "a forest of this name already exists", "id-in-use")
        self._registry.forests[forest_name] = Forest(forest_name, {})

    def delete_forest(self, forest_name: str) -> None:
        """Remove a forest. Its trees and their allocations remain.

        Raises:
            RequestError: there is no such forest.
        """
        self._registry.forest(forest_name)
        del self._registry.forests[forest_name]

    def add_tree_to_forest(self, forest_name: str, tree_name: str) -> None:
        """Add a tree to a forest. Repeating the call has no effect.

        Raises:
            RequestError: there is no such forest or tree, or the tree belongs to another forest.
        """
        forest, managed = self._registry.forest(forest_name), self._registry.tree(tree_name)
        joined = self._registry.forest_of(tree_name)
        if joined is not None and joined is not forest:
            raise RequestError("tree_name", tree_name, f"the tree belongs to forest {joined.name!r}", "state-conflict")
        forest.trees[tree_name] = managed

    def delete_tree_from_forest(self, forest_name: str, tree_name: str) -> None:
        """Remove a tree from a forest. Its allocations remain.

        Raises:
            RequestError: the tree does not belong to the forest.
        """
        forest = self._registry.find_forest(forest_name)
        if forest is None or not is_name(tree_name) or tree_name not in forest.trees:
            reason = f"the tree does not belong to forest {forest_name!r}"
            raise RequestError("tree_name", tree_name, reason, "state-conflict")
        del forest.trees[tree_name]

    def get_forest_names(self) -> tuple[str, ...]:
        """Return the names of all forests, sorted."""
        return tuple(sorted(self._registry.forests))

    def get_forest_tree_names(self) -> dict[str, tuple[str, ...]]:
        """Return the names of the trees of every forest, sorted."""
        return {name: tuple(sorted(forest.trees)) for name, forest in sorted(self._registry.forests.items())}

    # Allocation

    def allocate(self, tree_name: str, consumer_id: str) -> AllocationResponse:
        """Allocate a consumer on a tree.

        Raises:
            RequestError: there is no such tree or consumer, or the consumer does not name the tree or is allocated on
                it.
        """
        return self._allocate(self._registry.tree(tree_name).alone, consumer_id)

    def allocate_forest(self, forest_name: str, consumer_id: str) -> AllocationResponse:
        """Allocate a consumer on all trees of a forest that it names, or on none.

        Raises:
            RequestError: there is no such forest or consumer, or the consumer is allocated on one of those trees.
        """
        return self._allocate(self._registry.forest(forest_name), consumer_id)

    def _allocate(self, forest: Forest, consumer_id: str) -> AllocationResponse:
        info = self._registry.consumer(consumer_id)
        return (forest.allocate(info) if self._registry.mode is Mode.NORMAL else forest.force(info))[0]

    def deallocate(self, tree_name: str, consumer_id: str) -> bool:
        """Release a consumer on a tree. Return whether it was allocated there."""
        return _deallocate(self._registry.find_tree(tree_name), consumer_id)

    def deallocate_forest(self, forest_name: str, consumer_id: str) -> bool:
        """Release a consumer on the trees of a forest. Return whether it was allocated on the forest."""
        return _deallocate(self._registry.find_forest(forest_name), consumer_id)

    def is_allocated(self, tree_name: str, consumer_id: str) -> bool:
        """Return whether a consumer is allocated on a tree."""
        return _is_allocated(self._registry.find_tree(tree_name), consumer_id)

    def is_allocated_forest(self, forest_name: str, consumer_id: str) -> bool:
        """Return whether a consumer is allocated on a forest: on every tree of it that the consumer names."""
        return _is_allocated(self._registry.find_forest(forest_name), consumer_id)

    # Try and undo

    def try_allocate(self, tree_name: str, consumer_id: str) -> AllocationResponse:
        """Allocate a consumer on a tree so that `undo_allocate` can undo it.

        If the group of the consumer is not a leaf of the tree, the request is rejected and there is nothing to undo.

        Raises:
            RequestError: as for `allocate`, or the mode is not normal.
        """
        forest, mode = self._registry.tree(tree_name).alone, self._registry.mode
        forest.require_new(self._registry.consumer(consumer_id))
        if mode is not Mode.NORMAL:
            raise RequestError("mode", str(mode), "a try is possible in normal mode only", "state-conflict")
        return self._try(forest, consumer_id)

    def try_allocate_forest(self, forest_name: str, consumer_id: str) -> AllocationResponse:
        """Allocate a consumer on a forest so that `undo_allocate_forest` can undo it.

        If one of its groups is not a leaf, the request is rejected and there is nothing to undo, as in MCAD. In
        maintenance mode the request is granted like any other, and cannot be undone.

        Raises:
            RequestError: as for `allocate_forest`.
        """
        return self._try(self._registry.forest(forest_name), consumer_id)

    def _try(self, forest: Forest, consumer_id: str) -> AllocationResponse:
        info = self._registry.consumer(consumer_id)
        if self._registry.mode is not Mode.NORMAL:
            return forest.force(info)[0]
        response, change = forest.allocate(info)
        if response.rejection is None or response.rejection.reason is Reason.NO_ROOM:
            forest.tried = consumer_id, change
        return response

    def undo_allocate(self, tree_name: str, consumer_id: str) -> None:
        """Undo the last try on a tree: everything is as before, order included.

        Raises:
            RequestError: there is no such tree or consumer, or the last change of the tree was not a try of the
                consumer.
        """
        self._undo(self._registry.tree(tree_name).alone, consumer_id)

    def undo_allocate_forest(self, forest_name: str, consumer_id: str) -> None:
        """Undo the last try on a forest: everything is as before, order included.

        Raises:
            RequestError: there is no such forest or consumer, or the last change of a tree was not a try of the
                consumer.
        """
        self._undo(self._registry.forest(forest_name), consumer_id)

    def _undo(self, forest: Forest, consumer_id: str) -> None:
        self._registry.consumer(consumer_id)
        tried = forest.tried
        if tried is None or tried[0] != consumer_id or not tried[1].is_last_of(forest):
            last = f"the last change of {forest.kind} {forest.name!r}"
            raise RequestError("consumer_id", consumer_id, f"{last} was not a try of this consumer", "state-conflict")
        tried[1].undo()
        forest.tried = None

    # Updates

    def get_tree_cache(self, tree_name: str) -> TreeCache:
        """Return the cache in which a tree is edited.

        Raises:
            RequestError: there is no such tree.
        """
        return self._registry.tree(tree_name).cache

    def update_tree(self, tree_name: str) -> UpdateResponse:
        """Apply the edits in the cache of a tree.

        Raises:
            RequestError: there is no such tree.
        """
        return self._registry.tree(tree_name).alone.update()

    def update_forest(self, forest_name: str) -> UpdateResponse:
        """Apply the edits in the caches of the trees of a forest.

        A consumer that one of the trees can no longer hold leaves all of them.

        Raises:
            RequestError: there is no such forest.
        """
        return self._registry.forest(forest_name).update()

    def update_all(self) -> UpdateResponse:
        """Apply the edits in all caches."""
        registry = self._registry
        alone = [managed.alone for name, managed in registry.trees.items() if registry.forest_of(name) is None]
        responses = [forest.update() for forest in (*alone, *registry.forests.values())]
        unallocated = {consumer_id for response in responses for consumer_id in response.unallocated}
        trees = {name: tree for response in responses for name, tree in response.trees.items()}
        return UpdateResponse(tuple(sorted(unallocated)), trees)

    # Queries

    def view(self, tree_name: str) -> TreeView:
        """Return the current state of a tree, with its nodes and consumers.

        Raises:
            RequestError: there is no such tree.
        """
        return self._registry.tree(tree_name).tree.view()

    def verify(self) -> None:
        """Compare all counters and lists with the consumers.

        Raises:
            InvariantError: with a message for each violated invariant.
        """
        found = [message for managed in self._registry.trees.values() for message in managed.tree.violations()]
        if found:
            raise InvariantError(tuple(found))


def _deallocate(forest: Forest | None, consumer_id: str) -> bool:
    info = None if forest is None or not is_name(consumer_id) else forest.held(consumer_id)
    if forest is None or info is None:
        return False
    was_allocated = forest.holds(info)
    forest.refund(consumer_id)
    return was_allocated


def _is_allocated(forest: Forest | None, consumer_id: str) -> bool:
    return forest is not None and is_name(consumer_id) and forest.is_allocated(consumer_id)
