"""Queues as JSON, encoded once for all clients.

The problem: thousands of queues are sent to many clients many times, although few of them change between two responses.

The idea: each queue is encoded when it changes, alone and together with the queues below it. Responses and messages
join the encoded parts.

Invariant: a row is reused only if the queue, the queues below it, and their pending allocations are the same objects in
both snapshots.

The cost: one look-up for each child of a changed queue, and the encoding of the changed queues.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, final

from ugm.partition import PartitionSnapshot, UsageSum
from ugm.queues import QueueState
from ugm.server.cooperative import cooperatively
from ugm.server.payloads import json_payload

__all__ = ["QueueRow", "QueueRows", "extended", "pending_fields"]


@final
class QueueRow:
    """One queue as JSON.

    Attributes:
        state: the queue.
        pending: its pending allocations; None for none.
        applications: the number of applications in and below it.
        alone: the queue without those below it.
        tree: the queue with those below it.
    """

    __slots__ = ("alone", "applications", "pending", "state", "tree")

    applications: int
    tree: bytes

    def __init__(self, state: QueueState, pending: UsageSum | None, children: list[QueueRow]) -> None:
        self.state: Final = state
        self.pending: Final = pending
        self.applications = len(state.applications) + sum(child.applications for child in children)
        fields = replace(state, children=()).to_dict()
        del fields["children"]
        fields.update(pending_fields(pending), applications=self.applications)
        self.alone: Final = json_payload(fields).content
        self.tree = extended(self.alone, b'{"children":[' + b",".join(child.tree for child in children) + b"]}")


@final
class QueueRows:
    """The newest rows of a partition; one thread at a time."""

    __slots__ = ("_rows",)

    def __init__(self) -> None:
        self._rows: dict[str, QueueRow] = {}

    def of(self, snapshot: PartitionSnapshot) -> dict[str, QueueRow]:
        """Return the rows of all queues of a snapshot by path, the parents after their children."""
        root = snapshot.queue()
        if root is not None:
            self._row(root, snapshot)
        if len(self._rows) > len(snapshot.queue_paths):
            paths = frozenset(snapshot.queue_paths)
            self._rows = {path: row for path, row in self._rows.items() if path in paths}
        return dict(self._rows)

    def _row(self, state: QueueState, snapshot: PartitionSnapshot) -> QueueRow:
        known, pending = self._rows.get(state.queue_path), snapshot.pending_in_queues.get(state.queue_path)
        if known is None or known.state is not state or known.pending is not pending:
            children = [self._row(child, snapshot) for child in cooperatively(state.children)]
            known = self._rows[state.queue_path] = QueueRow(state, pending, children)
        return known


def pending_fields(pending: UsageSum | None) -> dict[str, object]:
    """Return the fields for pending allocations."""
    return {
        "pending": dict(sorted(pending.amounts.items())) if pending else {},
        "pending_allocations": pending.item_count if pending else 0,
    }


def extended(one: bytes, other: bytes) -> bytes:
    """Return a JSON object with the fields of two objects, which are not empty and have no common fields."""
    return one[:-1] + b"," + other[1:]
