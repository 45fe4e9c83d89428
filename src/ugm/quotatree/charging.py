"""What quota models do with a manager: charge and refund consumers one by one, and take the last of it back exactly.

A quota model has to undo a charge exactly, and a refund too, when other models object. Giving back is not the inverse
of allocating, because it lets others come down; so every change comes with the notes of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from ugm.errors import RequestError
from ugm.quotatree.consumer import Consumer, ConsumerInfo
from ugm.quotatree.locking import unlocking
from ugm.quotatree.managed import Attempt, ManagedTree, Trials, noting
from ugm.quotatree.rejection import Rejection
from ugm.quotatree.tree import QuotaTree, Trial
from ugm.quotatree.tree_manager import Mode, TreeManager, found
from ugm.quotatree.victims import nobody

__all__ = ["ChargingManager", "require_held"]


class ChargingManager(TreeManager):
    """A manager of trees, as quota models use it."""

    __slots__ = ()

    def has_tree(self, tree_name: str) -> bool:
        """Return whether there is a tree of that name."""
        return found(self._trees, tree_name) is not None

    def charge(self, tree_name: str, info: ConsumerInfo, before: Attempt | None, *, anywhere: bool = False) -> Attempt:
        """Allocate a consumer, where nobody has to leave for it, or else at its group. It need not be known.

        Args:
            tree_name: the tree.
            info: the consumer.
            before: the change that the same quota model made before.
            anywhere: whether the root takes the consumer if its group is no longer in the tree, as in an update; if
                there is no root or no such tree any more, it is held nowhere.

        Raises:
            RequestError: the consumer is allocated there, there is no such tree, or the group is not in it.
        """
        try:
            with self._lock:
                if anywhere and tree_name not in self._trees:
                    return Attempt("", (), {}).noted_after(before)
                managed, consumer = self._asking(tree_name, info)
                answer, trials = noting((managed,), lambda _: self._charge(managed.tree, consumer, anywhere=anywhere))
                require_held(info, answer)
                return Attempt("", trials, {}).noted_after(before)
        except BaseException:
            self._lock.let_go()
            raise

    def _charge(self, tree: QuotaTree, consumer: Consumer, *, anywhere: bool) -> tuple[str, ...] | Rejection:
        if self._mode is Mode.NORMAL and not isinstance(tree.allocate(consumer, nobody), Rejection):
            return ()
        return tree.force(consumer, anywhere=anywhere)

    def refund(self, tree_name: str, consumer_id: str, before: Attempt | None) -> Attempt:
        """Give back what a consumer holds, if it holds anything; the arguments are those of `charge`."""
        try:
            with self._lock:
                managed = self._trees.get(tree_name)
                if managed is None:
                    return Attempt("", (), {}).noted_after(before)
                _, trials = noting((managed,), lambda _: managed.tree.deallocate(consumer_id))
                return Attempt("", trials, {}).noted_after(before)
        except BaseException:
            self._lock.let_go()
            raise

    def take_back(self, attempt: Attempt, before: Attempt | None) -> bool:
        """Undo a charge or a refund, order included, and say whether it was the last change to its trees.

        The change *before* it may be undone next.
        """
        try:
            with self._lock:
                is_last = attempt.is_last
                if is_last:
                    attempt.take_back(before)
                return is_last
        except BaseException:
            self._lock.let_go()
            raise

    @unlocking
    def holds(self, tree_names: Iterable[str], info: ConsumerInfo) -> bool:
        """Return whether a consumer is held on any of some trees: this one, and not another of the same id."""
        with self._lock:
            trees = [managed.tree for managed in map(self._trees.get, tree_names) if managed is not None]
            held = [tree.consumers.get(info.consumer_id) for tree in trees]
            return any(consumer is not None and consumer.info is info for consumer in held)

    @unlocking
    def withdraw(self, tree_names: Iterable[str], infos: Iterable[ConsumerInfo]) -> None:
        """Give back what some consumers hold on some trees, whatever state an interrupted change has left these in.

        The consumers that came last go first, and others come down as in any deallocation.
        """
        with self._lock:
            self._withdraw([self._trees[name] for name in tree_names if name in self._trees], frozenset(infos))

    def _withdraw(self, trees: Iterable[ManagedTree], infos: frozenset[ConsumerInfo]) -> None:
        for managed in trees:
            managed.attempt = None
            managed.tree.recover(managed.tree.trial or Trial())
            leaving = [consumer for consumer in managed.tree.consumers.values() if consumer.info in infos]
            for consumer in sorted(leaving, key=lambda consumer: consumer.sequence, reverse=True):
                noting((managed,), partial(_deallocate, consumer.id))


def _deallocate(consumer_id: str, trials: Trials) -> None:
    for managed, _ in trials:
        managed.tree.deallocate(consumer_id)


def require_held(info: ConsumerInfo, answer: tuple[str, ...] | Rejection) -> None:
    """Make sure that a consumer was allocated.

    Raises:
        RequestError: its group is not there.
    """
    if isinstance(answer, Rejection):
        raise RequestError("claim", info.consumer_id, str(answer))
