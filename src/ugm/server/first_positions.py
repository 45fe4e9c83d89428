"""The position of each user's first pending request, for the metrics of a partition.

Positions come from the scheduling order, which takes time proportional to the pending requests. So scrapes share an
order for a while, and there are no positions while more than `MOST_PENDING` requests are pending.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Final, final

from ugm.partition import AbstractPartition
from ugm.server.cooperative import cooperatively
from ugm.server.shared_result import SharedResult

__all__ = ["MOST_PENDING", "FirstPositions"]

#: The largest number of pending requests whose order a scrape computes, in less than half a second.
MOST_PENDING: Final = 5000


@final
class FirstPositions:
    """The positions of the first pending requests of users.

    Args:
        partition: the partition.
        clock: returns a time in seconds, to limit how often an order is computed.
    """

    __slots__ = ("_partition", "_shared")

    def __init__(self, partition: AbstractPartition, clock: Callable[[], float] = perf_counter) -> None:
        self._partition: Final = partition
        self._shared: Final = SharedResult[Mapping[str, int]](clock)

    def read(self, pending: int) -> Mapping[str, int]:
        """Return the position of each user's first pending request, from 1; empty if too many are pending.

        Args:
            pending: the number of pending requests.
        """
        return self._shared.read(self._compute) if 0 < pending <= MOST_PENDING else {}

    def _compute(self) -> Mapping[str, int]:
        found: dict[str, int] = {}
        for position, turn in enumerate(cooperatively(self._partition.order(explained=False)), 1):
            found.setdefault(turn.user, position)
        return found
