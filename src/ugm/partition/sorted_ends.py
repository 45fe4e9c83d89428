"""The promised ends of all live allocations, in their order.

A reservation starts when enough has been released. The walk over the ends stops there, so it is short even with many
allocations. After a change, only the changed allocations are read again.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from typing import Final, NamedTuple, final

from ugm.partition.allocation import AllocationState
from ugm.partition.state import PartitionState

__all__ = ["AllocationEnd", "SortedEnds"]

_PENDING: Final = AllocationState.PENDING


class AllocationEnd(NamedTuple):
    """The promise that an allocation is released."""

    #: In seconds since 1970.
    at: int
    allocation_id: str


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
        found = (
            AllocationEnd(at, name) for name in self._state.ledger.owners if (at := self._end_of(name)) is not None
        )
        self.sorted = sorted(found)
        self._by_id = {end.allocation_id: end for end in self.sorted}

    def follow(self, allocation_ids: Iterable[str]) -> None:
        """Read some allocations again."""
        for name in allocation_ids:
            known, at = self._by_id.get(name), self._end_of(name)
            if (None if known is None else known.at) == at:
                continue
            if known is not None:
                del self._by_id[name]
                del self.sorted[bisect_left(self.sorted, known)]
            if at is not None:
                end = self._by_id[name] = AllocationEnd(at, name)
                insort(self.sorted, end)

    def _end_of(self, allocation_id: str) -> int | None:
        """Return the promised end of an allocation; None if it is pending, does not exist or promises nothing."""
        entry = self._state.ledger.get(allocation_id)
        return None if entry is None or entry.traits.state is _PENDING else entry.traits.promise
