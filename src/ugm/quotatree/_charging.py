"""A tree or a forest as a quota model uses it: charges and refunds that can be undone exactly.

A quota model must be able to undo a charge, and a refund as well, if another model objects. A deallocation is not the
inverse of an allocation, because it moves other consumers down. Therefore every charge and every refund is a
`ForestChange`, which can be undone as long as it is the last change of its trees.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from functools import partial
from typing import final

from ugm.errors import RequestError
from ugm.operation_lock import OwnedLock
from ugm.quotatree._forest import Forest, ForestChange
from ugm.quotatree._locking import locked
from ugm.quotatree._registry import Mode, Registry
from ugm.quotatree._tree import UndoLog
from ugm.quotatree.consumer import ConsumerInfo
from ugm.quotatree.rejection import Rejection
from ugm.quotatree.victims import no_victims

__all__ = ["Charging"]


@final
@dataclass(slots=True, eq=False)
class Charging:
    """The charges of one quota model.

    Args:
        registry: of the manager.
        name: of a tree or forest. Each operation looks it up, because it may be deleted or replaced.
        is_tree: whether the name is that of a tree.
    """

    registry: Registry
    name: str
    is_tree: bool
    _lock: OwnedLock = field(init=False)

    def __post_init__(self) -> None:
        self._lock = self.registry.lock

    def forest(self) -> Forest | None:
        """Return the tree or forest, if it exists."""
        return self.registry.find_tree(self.name) if self.is_tree else self.registry.find_forest(self.name)

    @locked
    def charge(self, info: ConsumerInfo, previous: ForestChange | None, *, fallback: bool) -> ForestChange:
        """Allocate a consumer without preemption, or else at its groups regardless of the quotas.

        Args:
            info: the consumer. The manager need not know it.
            previous: the previous change of the same quota model.
            fallback: whether the root holds the consumer if its group is gone, as after an update. If the root is gone
                as well, or the tree or forest, nothing is allocated.

        Raises:
            RequestError: the consumer is allocated already, there is no such tree or forest, or a group does not exist.
        """
        forest = self.forest()
        if forest is None and fallback:
            return _registered(_no_change(), previous)
        if forest is None:
            forest = self.registry.tree(self.name) if self.is_tree else self.registry.forest(self.name)
        forest.require_new(info)
        if self.registry.mode is Mode.NORMAL:
            outcome, change = forest.allocate(info, no_victims)
            if not isinstance(outcome, Rejection):
                return _registered(change, previous)
            change.undo()
        outcome, change = forest.force(info, fallback=fallback)
        if isinstance(outcome, Rejection):
            raise RequestError("claim", info.consumer_id, str(outcome))
        return _registered(change, previous)

    @locked
    def refund(self, consumer_id: str, previous: ForestChange | None) -> ForestChange:
        """Release a consumer, if it is allocated; *previous* as for `charge`."""
        forest = self.forest()
        return _registered(_no_change() if forest is None else forest.refund(consumer_id), previous)

    @locked
    def undo(self, change: ForestChange, previous: ForestChange | None) -> bool:
        """Undo a charge or a refund, order included, if it is the last change of its trees. Return whether it was.

        The *previous* change may be undone next.
        """
        is_last = change.is_last
        if is_last:
            change.undo(previous)
        return is_last

    @locked
    def holds(self, info: ConsumerInfo) -> bool:
        """Return whether a tree holds this very consumer, and not another one with the same id."""
        forest = self.forest()
        held = [managed.tree.consumers.get(info.consumer_id) for managed in forest.trees.values()] if forest else []
        return any(consumer is not None and consumer.info is info for consumer in held)

    @locked
    def withdraw(self, infos: Collection[ConsumerInfo]) -> None:
        """Release some consumers. An interrupted change may have left the trees in any state.

        The last arrival leaves first. Other consumers move down as in any deallocation.
        """
        forest = self.forest()
        if forest is None:
            return
        leaving = frozenset(infos)
        for managed in forest.trees.values():
            tree = managed.tree
            managed.last_change = None
            tree.recover(tree.log or UndoLog())
            held = [consumer for consumer in tree.consumers.values() if consumer.info in leaving]
            for consumer in sorted(held, key=lambda consumer: consumer.sequence, reverse=True):
                managed.begin().run(partial(tree.deallocate, consumer.id))
        for info in infos:
            if not any(info.consumer_id in managed.tree.consumers for managed in forest.trees.values()):
                forest.holders.pop(info.consumer_id, None)


def _no_change() -> ForestChange:
    return ForestChange(Forest(""), ())


def _registered(change: ForestChange, previous: ForestChange | None) -> ForestChange:
    """Return a change after registering it as the last one of its trees."""
    change.follows = previous is not None and previous.is_last
    change.set_last()
    return change
