"""What a quota manager answers: responses, plans, and what an update did.

All of them are values. Why a request was rejected is noted in numbers and put into words when somebody reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ugm.quotatree.rejection import Rejection

__all__ = [
    "AllocationPlan",
    "AllocationResponse",
    "Move",
    "TreeCreateResponse",
    "TreePlan",
    "UpdateResponse",
    "respond",
]


class AllocationResponse(NamedTuple):
    """The answer to a request to allocate: true when it is granted."""

    consumer_id: str
    #: Who was preempted for it, in the order in which they went. They are no longer allocated.
    preempted: tuple[str, ...] = ()
    #: Why it was rejected; None if it was not.
    rejection: Rejection | None = None

    def __bool__(self) -> bool:
        return self.rejection is None

    @property
    def allocated(self) -> bool:
        """Whether the consumer is allocated now."""
        return self.rejection is None

    def __str__(self) -> str:
        if self.rejection is not None:
            return str(self.rejection)
        return f"{self.consumer_id!r} allocated" + _preempting(self.preempted)


def respond(consumer_id: str, answer: tuple[str, ...] | Rejection) -> AllocationResponse:
    """Return the response that an answer makes."""
    if isinstance(answer, Rejection):
        return AllocationResponse(consumer_id, (), answer)
    return AllocationResponse(consumer_id, answer)


class Move(NamedTuple):
    """A consumer that would be moved by a plan."""

    consumer_id: str
    source: str
    #: None if it would be preempted.
    target: str | None


class TreePlan(NamedTuple):
    """What a plan does in one tree."""

    tree_name: str
    #: Where the consumer would be held; None if the tree is concerned by victims alone.
    node: str | None
    #: Who would be held elsewhere, by id.
    moves: tuple[Move, ...]


class AllocationPlan(NamedTuple):
    """What a request to allocate would do: true when it would be granted."""

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
    """What came of building a tree from its cache."""

    tree_name: str
    #: Empty if there is none.
    root: str
    #: The nodes of the cache that are not in the tree, sorted.
    dangling: tuple[str, ...]

    @property
    def is_clean(self) -> bool:
        """Whether there is a root and every node is in the tree."""
        return bool(self.root) and not self.dangling


class UpdateResponse(NamedTuple):
    """What an update did."""

    #: Who is no longer allocated, sorted.
    unallocated: tuple[str, ...]
    #: By the name of the tree in the manager.
    trees: Mapping[str, TreeCreateResponse]

    def to_dict(self) -> dict[str, Any]:
        """Return the response for JSON."""
        trees = {
            name: {**tree._asdict(), "dangling": list(tree.dangling), "is_clean": tree.is_clean}
            for name, tree in self.trees.items()
        }
        return {"unallocated": list(self.unallocated), "trees": trees}


def _preempting(consumer_ids: tuple[str, ...]) -> str:
    return f", preempting {', '.join(map(repr, consumer_ids))}" if consumer_ids else ""
