"""The face of quota trees and forests: one object, one lock, every operation of the original in Python's spelling.

In *maintenance* mode, in which a manager begins, requests are granted at their group whatever the quotas; in *normal*
mode the quotas hold. Trees are edited in their caches, and change when they are updated.

Every public operation holds the lock once, for all of its work. A call that raises has changed nothing, and a rejected
request has changed nothing either, order included.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import final

from ugm.errors import RequestError
from ugm.identity import is_name
from ugm.quotatree.answers import AllocationPlan, AllocationResponse, UpdateResponse, respond
from ugm.quotatree.charging import ChargingManager, require_held
from ugm.quotatree.consumer import ConsumerInfo
from ugm.quotatree.locking import unlocking
from ugm.quotatree.managed import Attempt, Forest
from ugm.quotatree.planning import forest_plan
from ugm.quotatree.rejection import Rejection, is_homeless
from ugm.quotatree.tree_manager import Mode, found
from ugm.quotatree.victims import VictimPolicy, first_found, nobody

__all__ = ["QuotaManager"]


@final
class QuotaManager(ChargingManager):
    """Quota trees, forests of them, and the consumers that ask them for resources.

    Args:
        policy: how victims are chosen: `first_found`, as the original does, or `fewest`.
        requeue_rejected: whether a rejected request puts the consumers at the end of their lists that it had moved on
            the way, or preempted on a forest, as in the original.
        check_unrequested: whether a resource that is not requested denies where it is over its quota, as in the
            original.
    """

    __slots__ = ("_forests",)

    _forests: dict[str, Forest]

    def __init__(
        self, *, policy: VictimPolicy = first_found, requeue_rejected: bool = False, check_unrequested: bool = False
    ) -> None:
        super().__init__(policy=policy, requeue_rejected=requeue_rejected, check_unrequested=check_unrequested)
        self._forests = {}

    @unlocking
    def get_forest_names(self) -> tuple[str, ...]:
        """Return the names of all forests, sorted."""
        with self._lock:
            return tuple(sorted(self._forests))

    @unlocking
    def get_forest_tree_names(self) -> dict[str, tuple[str, ...]]:
        """Return the names of the trees of every forest, sorted."""
        with self._lock:
            return {name: tuple(sorted(forest.trees)) for name, forest in sorted(self._forests.items())}

    @unlocking
    def add_forest(self, forest_name: str) -> None:
        """Add a forest without trees.

        Raises:
            RequestError: the name is empty or taken.
        """
        if not is_name(forest_name):
            raise RequestError("forest_name", forest_name, "a name is a text of 1 to 256 characters")
        with self._lock:
            if forest_name in self._forests:
                raise RequestError("forest_name", forest_name, "there is a forest of that name already")
            self._forests[forest_name] = Forest(forest_name)

    @unlocking
    def delete_forest(self, forest_name: str) -> None:
        """Remove a forest. Its trees stay, and what is allocated on them.

        Raises:
            RequestError: there is no such forest.
        """
        with self._lock:
            for managed in self._forest(forest_name).trees.values():
                managed.forest = None
            del self._forests[forest_name]

    def _forest(self, forest_name: str) -> Forest:
        forest = found(self._forests, forest_name)
        if forest is None:
            raise RequestError("forest_name", forest_name, "there is no such forest")
        return forest

    @unlocking
    def add_tree_to_forest(self, forest_name: str, tree_name: str) -> None:
        """Have a tree join a forest. Once more is harmless.

        Raises:
            RequestError: forest or tree are unknown, or the tree belongs to another forest.
        """
        with self._lock:
            forest, managed = self._forest(forest_name), self._managed(tree_name)
            if managed.forest not in (None, forest):
                raise RequestError("tree_name", tree_name, f"the tree belongs to forest {managed.forest.name!r}")
            managed.forest = forest
            forest.trees[tree_name] = managed

    @unlocking
    def delete_tree_from_forest(self, forest_name: str, tree_name: str) -> None:
        """Have a tree leave a forest. What is allocated on it stays.

        Raises:
            RequestError: the tree does not belong to the forest.
        """
        with self._lock:
            forest = found(self._forests, forest_name)
            if forest is None or found(forest.trees, tree_name) is None:
                raise RequestError("tree_name", tree_name, f"the tree does not belong to forest {forest_name!r}")
            forest.trees.pop(tree_name).forest = None

    @unlocking
    def allocate_forest(self, forest_name: str, consumer_id: str) -> AllocationResponse:
        """Allocate a consumer on all trees of a forest that it names, or on none.

        Raises:
            RequestError: forest or consumer are unknown, or the consumer is allocated on one of those trees.
        """
        with self._lock:
            forest, info = self._forest_request(forest_name, consumer_id)
            self._end_tries(forest)
            answer, _ = forest.allocate(info) if self._mode is Mode.NORMAL else forest.force(info)
            return respond(consumer_id, answer)

    def _forest_request(self, forest_name: str, consumer: str | ConsumerInfo) -> tuple[Forest, ConsumerInfo]:
        forest = self._forest(forest_name)
        info = consumer if isinstance(consumer, ConsumerInfo) else self._info(consumer)
        consumer_id = info.consumer_id
        if consumer_id in forest.holders and forest.is_allocated(consumer_id):
            raise RequestError(
                "consumer_id", consumer_id, f"the consumer is allocated on forest {forest_name!r} already"
            )
        for managed, _ in forest.named_by(info):
            if consumer_id in managed.tree.consumers:
                reason = f"the consumer is allocated on tree {managed.name!r} already"
                raise RequestError("consumer_id", consumer_id, reason)
        return forest, info

    def _end_tries(self, forest: Forest) -> None:
        for managed in forest.trees.values():
            managed.attempt = None

    @unlocking
    def adopt_forest(self, forest_name: str, consumer_id: str) -> AllocationResponse:
        """Allocate a consumer at its groups whatever the quotas, in any mode: it runs already, say after a restart.

        Raises:
            RequestError: as for `allocate_forest`.
        """
        with self._lock:
            forest, info = self._forest_request(forest_name, consumer_id)
            self._end_tries(forest)
            answer, _ = forest.force(info)
            return respond(consumer_id, answer)

    @unlocking
    def plan_allocate_forest(
        self,
        forest_name: str,
        consumer: str | ConsumerInfo,
        *,
        without: Iterable[str] = (),
        preempting: bool = True,
    ) -> AllocationPlan:
        """Return what `allocate_forest` would do now, without doing it.

        Args:
            forest_name: the forest.
            consumer: the id of a consumer, or one that need not be known.
            without: as if these had been deallocated before.
            preempting: whether anybody may be preempted for it.

        Raises:
            RequestError: as for `allocate_forest`.
        """
        with self._lock:
            forest, info = self._forest_request(forest_name, consumer)
            if self._mode is not Mode.NORMAL:
                return forest_plan(forest, info, lambda: forest.put(info))
            policy = None if preempting else nobody
            return forest_plan(forest, info, lambda: forest.grant(info, without, policy))

    @unlocking
    def deallocate_forest(self, forest_name: str, consumer_id: str) -> bool:
        """Give back what a consumer holds on the trees of a forest. Return whether it was allocated on the forest."""
        with self._lock:
            forest = found(self._forests, forest_name)
            if forest is None or not forest.holds(consumer_id):
                return False
            self._end_tries(forest)
            return forest.deallocate(consumer_id)

    @unlocking
    def is_allocated_forest(self, forest_name: str, consumer_id: str) -> bool:
        """Return whether a consumer is allocated on a forest: on every tree of it that the consumer names."""
        with self._lock:
            forest = found(self._forests, forest_name)
            return forest is not None and is_name(consumer_id) and forest.is_allocated(consumer_id)

    @unlocking
    def try_allocate_forest(self, forest_name: str, consumer_id: str) -> AllocationResponse:
        """Allocate a consumer on a forest so that `undo_allocate_forest` can take it back.

        If one of its groups is no leaf, nothing is tried, and nothing can be undone; the original answers so, too.
        In maintenance mode the request is granted like any other, and cannot be taken back.

        Raises:
            RequestError: as for `allocate_forest`.
        """
        with self._lock:
            forest, info = self._forest_request(forest_name, consumer_id)
            self._end_tries(forest)
            if self._mode is Mode.NORMAL:
                answer, attempt = forest.allocate(info)
                if not is_homeless(answer):
                    attempt.note()
            else:
                answer, _ = forest.force(info)
            return respond(consumer_id, answer)

    @unlocking
    def undo_allocate_forest(self, forest_name: str, consumer_id: str) -> None:
        """Take the last try on a forest back: everything is as it was before, order included.

        Raises:
            RequestError: forest or consumer are unknown, or the last change of a tree was not a try of the consumer.
        """
        with self._lock:
            forest = self._forest(forest_name)
            self._info(consumer_id)
            attempt = next((managed.attempt for managed in forest.trees.values()), None)
            if (
                attempt is None
                or attempt.forest is not forest
                or attempt.consumer_id != consumer_id
                or not attempt.is_last
            ):
                raise RequestError(
                    "consumer_id",
                    consumer_id,
                    f"the last change of forest {forest_name!r} was not a try of this consumer",
                )
            attempt.take_back()

    def trees_of(self, forest_name: str) -> tuple[str, ...] | None:
        """Return the names of the trees of a forest, in the order in which they joined; None if there is no forest."""
        forest = found(self._forests, forest_name)
        return None if forest is None else tuple(forest.trees)

    @unlocking
    def charge_forest(
        self, forest_name: str, info: ConsumerInfo, before: Attempt | None, *, anywhere: bool = False
    ) -> Attempt:
        """Do as `charge`, on all trees of a forest that the consumer names."""
        with self._lock:
            if anywhere and forest_name not in self._forests:
                return Attempt("", (), {}).noted_after(before)
            forest, _ = self._forest_request(forest_name, info)
            if self._mode is Mode.NORMAL:
                answer, attempt = forest.allocate(info, policy=nobody)
                if isinstance(answer, Rejection):
                    attempt.take_back()
            if self._mode is not Mode.NORMAL or isinstance(answer, Rejection):
                answer, attempt = forest.force(info, anywhere=anywhere)
            require_held(info, answer)
            return attempt.noted_after(before)

    @unlocking
    def refund_forest(self, forest_name: str, consumer_id: str, before: Attempt | None) -> Attempt:
        """Do as `refund`, on all trees of a forest."""
        with self._lock:
            forest = self._forests.get(forest_name)
            attempt = Attempt("", (), {}) if forest is None else forest.give_back(consumer_id)
            return attempt.noted_after(before)

    @unlocking
    def withdraw_forest(self, forest_name: str, infos: Collection[ConsumerInfo]) -> None:
        """Do as `withdraw`, on all trees of a forest."""
        with self._lock:
            forest = self._forests.get(forest_name)
            if forest is not None:
                self._withdraw(forest.trees.values(), frozenset(infos))
                for info in infos:
                    if not any(info.consumer_id in managed.tree.consumers for managed in forest.trees.values()):
                        forest.holders.pop(info.consumer_id, None)

    @unlocking
    def update_forest(self, forest_name: str) -> UpdateResponse:
        """Put the edits of the caches of a forest's trees in force.

        Who can be held on one of the trees no longer leaves all of them.

        Raises:
            RequestError: there is no such forest.
        """
        with self._lock:
            return self._update_forest(self._forest(forest_name))

    def _update_forest(self, forest: Forest) -> UpdateResponse:
        response = self._update(forest.trees.values())
        for consumer_id in response.unallocated:
            forest.deallocate(consumer_id)
        return response

    @unlocking
    def update_all(self) -> UpdateResponse:
        """Put the edits of all caches in force."""
        with self._lock:
            single = [managed for managed in self._trees.values() if managed.forest is None]
            done = [self._update(single), *(self._update_forest(forest) for forest in self._forests.values())]
        unallocated = {consumer_id for response in done for consumer_id in response.unallocated}
        trees = {name: tree for response in done for name, tree in response.trees.items()}
        return UpdateResponse(tuple(sorted(unallocated)), trees)
