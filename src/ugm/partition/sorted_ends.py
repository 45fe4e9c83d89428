"""The promised ends of all allocations, sorted exactly, for the plans of reservations.

A reservation starts when enough has been released. The walk over the ends stops there, so it is short even with many
allocations. After a change, only the changed allocations are read again. Overdue allocations are found with
`ugm.partition.promised_ends` instead, whose upkeep costs less and which is not sorted.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, final

from ugm.partition.application import LedgerEntry
from ugm.partition.state import PartitionState

__all__ = ["AllocationEnd", "SortedEnds"]


class AllocationEnd(NamedTuple):
    """The promise that an allocation is released, and what this frees."""

    #: In seconds since 1970.
    at: int
    allocation_id: str
    #: The queue of its application.
    queue_path: str
    amounts: Mapping[str, int]


@final
class SortedEnds:
    """The promised ends of the allocations of a state; the caller holds the lock.

    Invariant after `fill` and `follow`: one element for each allocation that is not pending and promises an end.
    """

    __slots__ = ("_by_id", "_state", "sorted")

    #: The earliest first.
    sorted: list[AllocationEnd]

    def __init__(self, state: PartitionState) -> None:
        self._state: Final = state
        self._by_id: dict[str, AllocationEnd] = {}
        self.sorted = []

    def fill(self) -> None:
        """Read all allocations."""
        found = (self._end_of(name) for name in self._state.ledger.owners)
        self.sorted = sorted(end for end in found if end is not None)
        self._by_id = {end.allocation_id: end for end in self.sorted}

    def follow(self, allocation_ids: Iterable[str]) -> None:
        """Read some allocations again."""
        for name in allocation_ids:
            known, end = self._by_id.get(name), self._end_of(name)
            if known == end:
                continue
            if known is not None:
                del self._by_id[name]
                del self.sorted[bisect_left(self.sorted, known)]
            if end is not None:
                self._by_id[name] = end
                insort(self.sorted, end)

    def _end_of(self, allocation_id: str) -> AllocationEnd | None:
        """Return the promised end of an allocation; None if it is pending, does not exist or promises nothing."""
        application = self._state.ledger.owners.get(allocation_id)
        # What promises an end is stored as an entry.
        entry = None if application is None else application.allocations.get(allocation_id)
        if application is None or type(entry) is not LedgerEntry or entry.traits.until is None:
            return None
        return AllocationEnd(entry.traits.until, allocation_id, application.queue.queue_path, entry.usage.amounts)
