"""The trees, forests and consumers of a manager, by name, under its lock."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import final

from ugm.errors import RequestError
from ugm.operation_lock import OwnedLock
from ugm.quotatree._forest import Forest, ManagedTree
from ugm.quotatree._tree import TreeOptions
from ugm.quotatree.answers import AllocationPlan
from ugm.quotatree.consumer import ConsumerInfo
from ugm.quotatree.victims import no_victims

__all__ = ["Mode", "Registry"]


class Mode(StrEnum):
    """The modes of a manager: quotas are enforced in normal mode only."""

    MAINTENANCE = "maintenance"
    NORMAL = "normal"


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

    def find_tree(self, name: object) -> ManagedTree | None:
        """Return a tree, if there is one of that name."""
        return self.trees.get(name) if isinstance(name, str) else None

    def find_forest(self, name: object) -> Forest | None:
        """Return a forest, if there is one of that name."""
        return self.forests.get(name) if isinstance(name, str) else None

    def tree(self, name: str) -> ManagedTree:
        """Return a tree.

        Raises:
            RequestError: there is no such tree.
        """
        try:
            return self.trees[name]
        except (KeyError, TypeError):
            raise RequestError("tree_name", name, "there is no such tree", "tree-unknown") from None

    def forest(self, name: str) -> Forest:
        """Return a forest.

        Raises:
            RequestError: there is no such forest.
        """
        forest = self.find_forest(name)
        if forest is None:
            raise RequestError("forest_name", name, "there is no such forest", "object-unknown")
        return forest

    def forest_of(self, managed: ManagedTree) -> Forest | None:
        """Return the forest that a tree has joined, if any. Takes time proportional to the number of forests."""
        return next((forest for forest in self.forests.values() if managed.name in forest.trees), None)

    def known_consumer(self, consumer_id: str) -> ConsumerInfo:
        """Return a registered consumer.

        Raises:
            RequestError: there is no such consumer.
        """
        try:
            return self.consumers[consumer_id]
        except (KeyError, TypeError):
            raise RequestError("consumer_id", consumer_id, "there is no such consumer", "object-unknown") from None

    def plan(
        self, forest: Forest, consumer: str | ConsumerInfo, without: Iterable[str], *, preempting: bool
    ) -> AllocationPlan:
        """Return the effect that an allocation on a forest would have.

        Args:
            forest: the tree or forest.
            consumer: the id of a consumer, or a consumer that need not be registered.
            without: consumers to treat as deallocated.
            preempting: whether the request may preempt others.

        Raises:
            RequestError: there is no such consumer, or it cannot be allocated.
        """
        info = consumer if isinstance(consumer, ConsumerInfo) else self.known_consumer(consumer)
        if self.mode is not Mode.NORMAL:
            return forest.plan_forced(info)
        return forest.plan(info, without, None if preempting else no_victims)
