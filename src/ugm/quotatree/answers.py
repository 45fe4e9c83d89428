"""The results of a quota manager: responses and updates, all of them values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ugm.quotatree.rejection import Rejection

__all__ = ["AllocationResponse", "TreeCreateResponse", "UpdateResponse"]


class AllocationResponse(NamedTuple):
    """The response to an allocation; true if it was granted."""

    consumer_id: str
    #: The preempted consumers, in order of preemption. They are no longer allocated.
    preempted: tuple[str, ...] = ()
    #: None if the request was granted.
    rejection: Rejection | None = None

    def __bool__(self) -> bool:
        return self.rejection is None

    @property
    def allocated(self) -> bool:
        """True if the consumer is allocated now."""
        return self.rejection is None

    def __str__(self) -> str:
        if self.rejection is not None:
            return str(self.rejection)
        return f"{self.consumer_id!r} allocated" + _preempting(self.preempted)


class TreeCreateResponse(NamedTuple):
    """The result of building a tree from its cache."""

    tree_name: str
    #: Empty if there is none.
    root: str
    #: The nodes of the cache that are not in the tree, sorted.
    dangling: tuple[str, ...]

    @property
    def is_clean(self) -> bool:
        """True if there is a root and every node is in the tree."""
        return bool(self.root) and not self.dangling


class UpdateResponse(NamedTuple):
    """The result of an update."""

    #: The consumers that are no longer allocated, sorted.
    unallocated: tuple[str, ...]
    #: By the name of the tree in the manager.
    trees: Mapping[str, TreeCreateResponse]


def _preempting(consumer_ids: tuple[str, ...]) -> str:
    return f", preempting {', '.join(map(repr, consumer_ids))}" if consumer_ids else ""
