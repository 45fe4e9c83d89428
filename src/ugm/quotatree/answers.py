"""The results of a quota manager: responses, plans and updates, all of them values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ugm.quotatree.rejection import Rejection

__all__ = ["AllocationPlan", "AllocationResponse", "Move", "TreeCreateResponse", "TreePlan", "UpdateResponse"]


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


class Move(NamedTuple):
    """The move of a consumer in a plan."""

    consumer_id: str
    source: str
    #: None if the consumer would be preempted.
    target: str | None


class TreePlan(NamedTuple):
    """The effect of a plan on one tree."""

    tree_name: str
    #: The node that would hold the consumer; None if the tree would only lose victims.
    node: str | None
    #: The consumers that would move to another node or leave the tree.
    moves: tuple[Move, ...]


class AllocationPlan(NamedTuple):
    """The effect that an allocation would have; true if it would be granted."""

    consumer_id: str
    trees: tuple[TreePlan, ...] = ()
    preempted: tuple[str, ...] = ()
    rejection: Rejection | None = None

    def __bool__(self) -> bool:
        return self.rejection is None

    def __str__(self) -> str:
        if self.rejection is not None:
            return str(self.rejection)
        lines = [f"{self.consumer_id!r} would be allocated" + _preempting(self.preempted)]
        for tree in self.trees:
            if tree.node is not None:
                lines.append(f"  tree {tree.tree_name!r}: at {tree.node!r}")
            lines += [
                f"  tree {tree.tree_name!r}: {move.consumer_id!r} from {move.source!r} to {move.target!r}"
                for move in tree.moves
                if move.target is not None
            ]
        return "\n".join(lines)


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

    def to_dict(self) -> dict[str, object]:
        """Return the response for JSON."""
        trees = {
            name: {**tree._asdict(), "dangling": list(tree.dangling), "is_clean": tree.is_clean}
            for name, tree in self.trees.items()
        }
        return {"unallocated": list(self.unallocated), "trees": trees}


def _preempting(consumer_ids: tuple[str, ...]) -> str:
    return f", preempting {', '.join(map(repr, consumer_ids))}" if consumer_ids else ""
