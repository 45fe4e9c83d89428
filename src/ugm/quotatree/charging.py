"""What quota models do with a manager: charge and refund consumers one by one, and take the last of it back exactly.

A quota model has to undo a charge exactly, and a refund too, when other models object. Giving back is not the inverse
of allocating, because it lets others come down; so every change comes with the notes of it.
"""

from __future__ import annotations

from ugm.errors import RequestError
from ugm.quotatree.consumer import ConsumerInfo
from ugm.quotatree.managed import Attempt, noted
from ugm.quotatree.rejection import Rejection
from ugm.quotatree.tree_manager import Mode, TreeManager
from ugm.quotatree.victims import nobody

__all__ = ["ChargingManager", "require_held"]


class ChargingManager(TreeManager):
    """A manager of trees, as quota models use it."""

    __slots__ = ()

    def charge(self, tree_name: str, info: ConsumerInfo, before: Attempt | None) -> Attempt:
        """Allocate a consumer, where nobody has to leave for it, or else at its group. It need not be known.

        Args:
            tree_name: the tree.
            info: the consumer.
            before: the change that the same quota model made before.

        Raises:
            RequestError: the consumer is allocated there, there is no such tree, or the group is not in it.
        """
        with self._lock:
            managed, consumer = self._asking(tree_name, info)
            tree = managed.tree
            with noted((managed,)) as trials:
                fits = self._mode is Mode.NORMAL and not isinstance(tree.allocate(consumer, nobody), Rejection)
                answer = () if fits else tree.force(consumer)
            require_held(info, answer)
            return Attempt("", trials, {}).noted_after(before)

    def refund(self, tree_name: str, consumer_id: str, before: Attempt | None) -> Attempt:
        """Give back what a consumer holds, if it holds anything; the arguments are those of `charge`."""
        with self._lock:
            managed = self._trees.get(tree_name)
            with noted(() if managed is None else (managed,)) as trials:
                for held, _ in trials:
                    held.tree.deallocate(consumer_id)
            return Attempt("", trials, {}).noted_after(before)

    def take_back(self, attempt: Attempt, before: Attempt | None) -> bool:
        """Undo a charge or a refund, order included, and say whether it was the last change to its trees.

        The change *before* it may be undone next.
        """
        with self._lock:
            is_last = attempt.is_last
            if is_last:
                attempt.take_back(before)
            return is_last


def require_held(info: ConsumerInfo, answer: tuple[str, ...] | Rejection) -> None:
    """Make sure that a consumer was allocated.

    Raises:
        RequestError: its group is not there.
    """
    if isinstance(answer, Rejection):
        raise RequestError("claim", info.consumer_id, str(answer))
