"""Why a tree rejected a request: where, what was missing, what kept it from borrowing, and why nobody could make room.

The numbers are noted as they were when the request was rejected; the text is written when somebody reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from ugm.decision import Violation
from ugm.quotatree.consumer import Consumer
from ugm.quotatree.packing import Amounts
from ugm.resources import format_amount

__all__ = ["Reason", "Rejection", "Room", "SoftQuotaViolation", "is_homeless", "no_room"]


class SoftQuotaViolation(Violation):
    """More than a soft quota: the request may be held above the node once there is room, so waiting can help."""

    __slots__ = ()

    @property
    def can_wait(self) -> bool:
        """Whether waiting can help."""
        return True


class Reason(StrEnum):
    """Why a request cannot be granted."""

    NO_ROOM = "no room"
    UNKNOWN_GROUP = "unknown group"
    NOT_A_LEAF = "not a leaf"
    NO_GROUP = "no group"


class Room(NamedTuple):
    """What was left at a node when a request was rejected."""

    node: str
    #: Whether nothing is borrowed above it, the root apart.
    is_hard: bool
    #: By the position of the resource, as `left`.
    quota: tuple[int, ...]
    left: tuple[int, ...]


class Rejection(NamedTuple):
    """A request that a tree rejected."""

    tree_name: str
    consumer_id: str
    group: str
    reason: Reason
    #: Every node from the group up to the last that was visited.
    rooms: tuple[Room, ...] = ()
    #: The nodes above those, up to the root.
    above: tuple[Room, ...] = ()
    resources: tuple[str, ...] = ()
    amounts: Amounts = ()
    priority: int = 0
    #: What would still be missing at the last node, by the position of the resource, if all who may be preempted went;
    #: None if the request may preempt nobody.
    lacking: Amounts | None = None

    @property
    def violations(self) -> tuple[Violation, ...]:
        """Every quota in the way, from the group upward.

        If waiting can never help only because of quotas above the last node that was visited, these follow.
        """
        found = tuple(
            self._violation(level, at, amount)
            for level, room in enumerate(self.rooms)
            for at, amount in self.amounts
            if room.left[at] < amount
        )
        if not all(violation.can_wait for violation in found):
            return found
        return found + tuple(
            self._violation(level, at, amount)
            for level, room in enumerate(self.above, len(self.rooms))
            for at, amount in self.amounts
            if room.quota[at] < amount and not self._may_borrow(level)
        )

    def _violation(self, level: int, at: int, amount: int) -> Violation:
        room = (self.rooms + self.above)[level]
        quota, used = room.quota[at], room.quota[at] - room.left[at]
        kind = SoftQuotaViolation if amount > quota and self._may_borrow(level) else Violation
        return kind("quota node", room.node, "", "", self.resources[at], quota, used, amount)

    def _may_borrow(self, level: int) -> bool:
        """Return whether a request that a node can never hold may be held above it, if everybody else has left.

        It may not if the node or one that is visited before is hard, and nothing is above the root.
        """
        path = self.rooms + self.above
        return level + 1 < len(path) and not any(room.is_hard for room in path[: level + 1])

    @property
    def blocked_by(self) -> str:
        """The hard node that kept the request from borrowing above; empty if none did."""
        return next((room.node for room in self.rooms if room.is_hard), "")

    @property
    def victims(self) -> str:
        """Why preemption did not help, as a sentence; empty if the request was not looked into."""
        if self.reason is not Reason.NO_ROOM:
            return ""
        if self.lacking is None:
            return f"priority {self.priority} preempts nobody for room"
        last = self.rooms[-1].node
        if not self.lacking:
            return f"with all who may be preempted gone, {last!r} has room, but not the way to it"
        amounts = ", ".join(f"{format_amount(name, n)} {name}" for name, n in self._named(self.lacking))
        return f"with all who may be preempted gone, {amounts} would still be missing at {last!r}"

    def _named(self, amounts: Sequence[tuple[int, int]]) -> list[tuple[str, int]]:
        return [(self.resources[index], amount) for index, amount in amounts]

    def to_dict(self) -> dict[str, Any]:
        """Return the rejection for JSON."""
        return {
            "tree_name": self.tree_name,
            "consumer_id": self.consumer_id,
            "group": self.group,
            "reason": str(self.reason),
            "violations": [violation.to_dict() for violation in self.violations],
            "blocked_by": self.blocked_by,
            "victims": self.victims,
        }

    def __str__(self) -> str:
        lines = [f"{self.consumer_id!r} rejected in group {self.group!r} of tree {self.tree_name!r}: {self.reason}"]
        lines += [f"  {violation}" for violation in self.violations]
        if self.blocked_by:
            lines.append(f"  {self.blocked_by!r} is hard: nothing is borrowed above it")
        if self.victims:
            lines.append(f"  {self.victims}")
        return "\n".join(lines)


def is_homeless(answer: object) -> bool:
    """Return whether an answer is the rejection of a consumer whose group is no leaf of the tree."""
    return isinstance(answer, Rejection) and answer.reason is not Reason.NO_ROOM


def no_room(
    tree_name: str, consumer: Consumer, resources: tuple[str, ...], reached: int, lacking: Amounts | None
) -> Rejection:
    """Return the rejection of a request whose search has given up."""
    leaf = consumer.leaf
    rooms = tuple(
        Room(node.name, node.hard and node.parent is not None, node.quota, node.left())
        for node in (leaf.path if leaf else ())
    )
    return Rejection(
        tree_name,
        consumer.id,
        consumer.entry.group,
        Reason.NO_ROOM,
        rooms[: reached + 1],
        rooms[reached + 1 :],
        resources,
        consumer.amounts,
        consumer.rank.priority,
        lacking,
    )
