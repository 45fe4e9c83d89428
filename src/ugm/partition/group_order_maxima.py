"""The maxima of queues, for an order that descends through the groups of a quota model instead of the queues."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, final

from ugm.identity import ancestors
from ugm.partition.order_copy import OrderCopy

__all__ = ["GroupOrderMaxima"]


@final
class GroupOrderMaxima:
    """The maxima of all queues, and their usage, which grows with every granted request.

    Args:
        copied: the partition, with the usage of its queues.
    """

    __slots__ = ("_maxima", "_queues", "_used")

    def __init__(self, copied: OrderCopy) -> None:
        self._used: Final = copied.usage_by_queue()
        self._maxima: Final = {one.path: one.maximum for one in copied.queues}
        #: The queues of each application, from its own upward.
        self._queues: Final = {
            one.application.application_id: tuple(ancestors(one.application.queue.queue_path))
            for one in copied.applications
        }

    def blocking_queue(self, application_id: str, usage: Mapping[str, int]) -> str:
        """Return the first queue upward whose maximum a further usage would exceed; empty if it fits."""
        return next((path for path in self._queues[application_id] if self._exceeds(path, usage)), "")

    def _exceeds(self, path: str, usage: Mapping[str, int]) -> bool:
        maximum, used = self._maxima[path], self._used[path]
        return any(
            amount and name in maximum and used.get(name, 0) + amount > maximum[name] for name, amount in usage.items()
        )

    def grant(self, application_id: str, usage: Mapping[str, int]) -> None:
        """Add the usage of a granted request to the queues of its application."""
        for path in self._queues[application_id]:
            used = self._used[path]
            for name, amount in usage.items():
                used[name] = used.get(name, 0) + amount
