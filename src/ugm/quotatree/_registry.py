"""The trees, forests and consumers of a manager, by name, under its lock."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import final

from ugm.errors import RequestError
from ugm.operation_lock import OwnedLock
from ugm.quotatree._forest import Forest, ManagedTree
from ugm.quotatree._tree import TreeOptions
from ugm.quotatree.consumer import ConsumerInfo

__all__ = ["Mode", "Registry"]


class Mode(StrEnum):
    """The modes of a manager: quotas are enforced in normal mode only."""

    MAINTENANCE = "maintenance"
    NORMAL = "normal"


@final
@dataclass(slots=True, eq=False)
class Registry:
    """The state of a manager. The methods that find something return None for any unknown name, even an unhashable."""

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
            raise RequestError("tree_name", name, "there is no such tree") from None

    def forest(self, name: str) -> Forest:
        """Return a forest.

        Raises:
            RequestError: there is no such forest.
        """
        forest = self.find_forest(name)
        if forest is None:
            raise RequestError("forest_name", name, "there is no such forest")
        return forest

    def consumer(self, consumer: str | ConsumerInfo) -> ConsumerInfo:
        """Return a consumer, by its id or as it is.

        Raises:
            RequestError: there is no such consumer.
        """
        if isinstance(consumer, ConsumerInfo):
            return consumer
        try:
            return self.consumers[consumer]
        except (KeyError, TypeError):
            raise RequestError("consumer_id", consumer, "there is no such consumer") from None
