"""Blocks of requests with their minima: a search tree for the requests that fit a free amount.

Requests fill the lanes of blocks in order of arrival. Level 0 holds the requests. Each lane of level 1 summarizes one
block of level 0 by its minimum, resource by resource, and so on up to a level with a single block. A search passes by
every block whose minimum does not fit.

The search is fruitless where the minima of a block come from different requests, or are out of date. They are out of
date in two cases: the last block of a level is still being filled and is summarized as an empty request, and a removed
request keeps its influence until fruitless visits cause a new minimum.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Generic, Protocol, TypeVar, final

from ugm.quotatree._packed.amounts import Packing
from ugm.quotatree._packed.lanes import LaneLayout, layout_for

__all__ = ["Blocks", "QueuedRequest"]

#: A minimum is recomputed, which takes as long as a few visits of the block, after this many changes of the block. A
#: visit that finds nothing counts as `_FRUITLESS` changes, so that the search does not repeat it forever.
_STALE: Final = 16
_FRUITLESS: Final = 2


class QueuedRequest(Protocol):
    """A request in a queue."""

    #: The packed amounts, and the signs of the requested resources.
    packed: int
    mask: int
    #: The order of arrival.
    sequence: int
    #: The position in `Blocks`, which sets it.
    slot: int


R = TypeVar("R", bound=QueuedRequest)


@final
class Blocks(Generic[R]):
    """Requests by arrival, searchable by what fits a free amount.

    Args:
        packing: the positions of the resources of the tree.
        requests: the first requests, in order of arrival.
    """

    __slots__ = ("_changes", "_layout", "_levels", "_packing", "_slots", "count")

    #: The number of requests.
    count: int
    _packing: Packing
    _layout: LaneLayout
    #: By arrival; None where a request was removed, whose lane is vacant.
    _slots: list[R | None]
    #: The blocks of each level.
    _levels: list[list[int]]
    #: For each block of each level the changes since its minimum was computed, and more after fruitless visits.
    _changes: list[list[int]]

    def __init__(self, packing: Packing, requests: Iterable[R]) -> None:
        self._packing = packing
        self._rebuild(list(requests))

    def _rebuild(self, requests: Sequence[R]) -> None:
        """Fill new blocks, without gaps and as wide as the requests need."""
        self._layout = layout_for(self._packing, (request.packed for request in requests))
        self._slots = []
        self._levels = [[self._layout.vacant_block]]
        self._changes = [[0]]
        self.count = 0
        for request in requests:
            self.append(request)

    def __iter__(self) -> Iterator[R]:
        return (request for request in self._slots if request is not None)

    def append(self, request: R) -> None:
        """Add a request behind all others."""
        layout, amount = self._layout, request.packed
        slot = len(self._slots)
        if slot and not slot % layout.count:
            slot = self._open_block()
            layout = self._layout
        if amount & layout.irregular and not layout.can_hold(amount):
            self._rebuild([*self, request])
            return
        request.slot = slot
        self._slots.append(request)
        self.count += 1
        self._levels[0][-1] -= layout.gap(amount, request.mask) << layout.places[slot % layout.count]

    def _open_block(self) -> int:
        """Open a block behind the last one, which is full, and return the next slot."""
        if 3 * self.count < len(self._slots):
            self._rebuild(list(self))
        slot = len(self._slots)
        if slot and not slot % self._layout.count:
            self._add_block(0)
        return slot

    def _add_block(self, level: int) -> None:
        """Add a block to a level."""
        levels, layout = self._levels, self._layout
        number = len(levels[level])
        levels[level].append(layout.vacant_block)
        self._changes[level].append(0)
        if number == 1:
            levels.append([layout.vacant_block])
            self._changes.append([0])
        self._summarize(level, number - 1)
        if not number % layout.count:
            self._add_block(level + 1)
        levels[level + 1][-1] -= layout.vacant << layout.places[number % layout.count]

    def _summarize(self, level: int, number: int) -> None:
        """Write the minimum of a block to the level above."""
        layout = self._layout
        above, at, place = self._levels[level + 1], number // layout.count, layout.places[number % layout.count]
        gap = layout.vacant - layout.minimum(self._levels[level][number])
        above[at] = (above[at] | layout.vacant << place) - (gap << place)
        self._changes[level][number] = 0
        self._changes[level + 1][at] += 1

    def remove(self, request: R) -> None:
        """Remove a request."""
        slot, layout = request.slot, self._layout
        number = slot // layout.count
        self._slots[slot] = None
        self._levels[0][number] |= layout.vacants[slot % layout.count]
        self._changes[0][number] += 1
        self.count -= 1

    def fitting(self, free: int) -> list[R]:
        """Return the requests that fit, each after those before it were charged, in order."""
        found: list[R] = []
        layout, levels = self._layout, self._levels
        spread = layout.spread(free)
        fit = layout.fitting(spread, levels[-1][0])
        if fit:
            search = self._search_level if len(levels) > 1 else self._search_requests
            search(len(levels) - 1, 0, fit, free, spread, found)
        return found

    def _search_level(
        self, level: int, number: int, fit: int, free: int, spread: int, found: list[R]
    ) -> tuple[int, int]:
        """Search the blocks that a block of minima summarizes.

        Args:
            level: the level of the block; at least 1.
            number: the number of the block in its level.
            fit: the result of `LaneLayout.fitting` for it.
            free: the free amount.
            spread: the free amount, repeated in all lanes.
            found: the requests found so far; the function adds to it.

        Returns:
            The remaining free amount, and the same in all lanes.
        """
        layout, blocks, changes = self._layout, self._levels[level - 1], self._changes[level - 1]
        search = self._search_requests if level == 1 else self._search_level
        start = number * layout.count
        while fit:
            first = fit & -fit
            at = start + first.bit_length() // layout.width
            fit_below = layout.fitting(spread, blocks[at])
            if fit_below:
                left, spread = search(level - 1, at, fit_below, free, spread, found)
                if left is not free:
                    free = left
                    # Only later blocks: a negative request may have freed something, but earlier blocks were searched
                    # already.
                    fit = layout.fitting(spread, self._levels[level][number]) & -(first << 1)
                    continue
            fit ^= first
            if changes[at]:
                if changes[at] >= _STALE and at + 1 < len(blocks):
                    self._summarize(level - 1, at)
                else:
                    changes[at] += _FRUITLESS
        return free, spread

    def _search_requests(
        self, level: int, number: int, fit: int, free: int, spread: int, found: list[R]
    ) -> tuple[int, int]:
        """Search a block of requests in the same way; its level is 0."""
        layout, block = self._layout, self._levels[level][number]
        while fit:
            first = fit & -fit
            request = self._slots[number * layout.count + first.bit_length() // layout.width]
            if request is not None and free - request.packed & request.mask == request.mask:
                found.append(request)
                free -= request.packed
                spread = layout.spread(free)
                fit = layout.fitting(spread, block) & -(first << 1)
            else:
                fit ^= first
        return free, spread

    def violations(self) -> Iterator[str]:
        """Yield a message for each violated invariant."""
        layout, levels = self._layout, self._levels
        if self.count != len(list(self)):
            yield f"counts {self.count} requests instead of {len(list(self))}"
        for slot in range(len(levels[0]) * layout.count):
            request = self._slots[slot] if slot < len(self._slots) else None
            gap = 0 if request is None else layout.gap(request.packed, request.mask)
            if layout.key_at(levels[0][slot // layout.count], slot % layout.count) != layout.vacant - gap:
                yield f"has a lane {slot} that does not hold the request in its slot"
            if request is not None and request.slot != slot:
                yield f"has a request in slot {slot} that refers to slot {request.slot}"
        for level, blocks in enumerate(levels[:-1]):
            for number, block in enumerate(blocks):
                summary = layout.key_at(levels[level + 1][number // layout.count], number % layout.count)
                minimum = layout.minimum(block) if number + 1 < len(blocks) else 0
                if summary != minimum and not (self._changes[level][number] and layout.is_at_most(summary, minimum)):
                    yield f"summarizes block {number} of level {level} by {summary} instead of {minimum}"
