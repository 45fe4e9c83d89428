"""The promised ends of allocations, for the search for overdue ones.

The problem: a program looks for overdue allocations every few seconds, among a million. A search through all of them
would hold the lock for a long time, and an exact index such as `ugm.partition.sorted_ends` would cost every release.

The idea: a heap of ends and ids that only grows. An item is *stale* if the allocation has been released, or has another
end by now; a reader skips it. A new heap without stale items replaces the old one when most items may be stale.

Invariant: every allocation that is not pending and has a promised end is in the heap with that end.

The cost: an addition takes logarithmic time, and a search takes time proportional to the items that have come due. The
heap has at most about twice as many items as there were allocations with an end when it was last replaced.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappush
from typing import Final, final

__all__ = ["PromisedEnds"]

#: A heap of this size is never replaced.
_SMALL: Final = 64


@final
class PromisedEnds:
    """The promised ends of the allocations of a ledger.

    Args:
        end: returns the promised end of an allocation; None if it has none, is pending or does not exist.
    """

    __slots__ = ("_end", "_heap", "_most")

    #: Pairs of an end and an allocation id.
    _heap: list[tuple[int, str]]
    #: The size at which the heap is replaced.
    _most: int

    def __init__(self, end: Callable[[str], int | None]) -> None:
        self._end: Final = end
        self._heap = []
        self._most = _SMALL

    def add(self, end: int, allocation_id: str) -> None:
        """Add the end of an allocation."""
        if len(self._heap) >= self._most:
            self._drop_stale()
        heappush(self._heap, (end, allocation_id))

    def _drop_stale(self) -> None:
        kept = [item for item in set(self._heap) if self._end(item[1]) == item[0]]
        heapify(kept)
        self._heap, self._most = kept, max(_SMALL, 2 * len(kept))

    def until(self, now: int) -> list[str]:
        """Return the allocations whose end is not later than *now*, sorted by end and id."""
        return [allocation_id for end, allocation_id in sorted(set(self._due(now))) if self._end(allocation_id) == end]

    def _due(self, now: int) -> list[tuple[int, str]]:
        """Return the items of the heap that are not later than *now*, in any order."""
        heap, found, open_positions = self._heap, [], [0]
        while open_positions:
            position = open_positions.pop()
            if position < len(heap) and heap[position][0] <= now:
                found.append(heap[position])
                open_positions += (2 * position + 1, 2 * position + 2)
        return found
