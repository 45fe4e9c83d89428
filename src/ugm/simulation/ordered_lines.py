"""The job classes that wait for a limit, in the lines of an order; each line finds its first class that fits."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush, heapreplace, merge
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, Generic, Protocol, TypeVar, final

from ugm.identity import UserGroup
from ugm.simulation.first_fit import FirstFit
from ugm.simulation.job_order import JobOrder

__all__ = ["Candidate", "OrderedLines", "merged"]

_FIRST: Final = itemgetter(0)


class _Waiting(Protocol):
    """A job class."""

    @property
    def queue_path(self) -> str: ...
    @property
    def user(self) -> UserGroup: ...


Item = TypeVar("Item", bound=_Waiting)
T = TypeVar("T")

#: The key of a line, the position of its first item that fits, and the amount that the item needs.
Candidate = tuple[tuple[Any, ...], int, int]


def merged(sorted_lines: Sequence[Iterable[T]]) -> Iterable[T]:
    """Return all elements of some sorted lines in their order. Most calls have one line."""
    return sorted_lines[0] if len(sorted_lines) == 1 else merge(*sorted_lines)  # type: ignore[type-var]


@final
@dataclass(slots=True, eq=False)
class OrderedLines(Generic[Item]):
    """Waiting items by position; false if there are none.

    A search looks at the keys of all lines once, when it is opened. Each next item then takes time proportional to the
    logarithm of the number of lines and of their lengths. If it looked at all lines again, a round of retries that
    requests an item of every line would take time proportional to the square of their number.
    """

    order: JobOrder
    _lines: dict[str, FirstFit[Item]] = field(default_factory=dict)
    #: The line of each position. A test of it is faster than one of the object, which calls a function.
    places: dict[int, str] = field(default_factory=dict)
    _is_open: bool = False
    #: A heap of lines, each with its key and the position of its first item that fits, when they were last looked up.
    #: Both only grow during a search, so the first line stays first if they are unchanged. Position 0 is not looked up.
    _heap: list[tuple[tuple[Any, ...], int, str]] = field(default_factory=list)
    #: The position of each line in the heap; elements with other positions are outdated.
    _found: dict[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.places)

    def __contains__(self, position: int) -> bool:
        return position in self.places

    def add(self, position: int, amount: int, item: Item) -> None:
        """Add an item at an unoccupied position."""
        line = self.order.line(item.queue_path, item.user)
        self.places[position] = line
        if line not in self._lines:
            self._lines[line] = FirstFit()
        self._lines[line].add(position, amount, item)
        if self._is_open and position < self._found.get(line, math.inf):
            self._found[line] = position
            heappush(self._heap, (self.order.key(line), position, line))

    def open(self, free: int) -> bool:
        """Begin a search for items that need at most *free*, and return True; or return False if there are none.

        Until the search is closed, no key falls.
        """
        found = {line: 0 for line, waiting in self._lines.items() if waiting.smallest <= free}
        if not found:
            return False
        self._found = found
        self._heap = [(self.order.key(line), 0, line) for line in self._found]
        heapify(self._heap)
        self._is_open = True
        return True

    def close(self) -> None:
        """End the search."""
        self._is_open = False

    def first(self, free: int) -> Candidate | None:
        """Return the first item that needs at most *free*: in the line with the smallest key, the oldest.

        A search must be open.
        """
        heap, found_at = self._heap, self._found
        while heap:
            key, position, line = heap[0]
            if found_at.get(line) != position:
                heappop(heap)
                continue
            waiting = self._lines.get(line)
            found = None if waiting is None else waiting.first(free)
            if found is None:
                heappop(heap)
                del found_at[line]
                continue
            place = self.order.key(line), found[0], line
            if place[1] == position and place[0] == key:
                return key, *found
            found_at[line] = found[0]
            heapreplace(heap, place)
        return None

    def in_order(self) -> Iterator[tuple[tuple[Any, ...], int, Item]]:
        """Yield the keys, positions and items in their order; meanwhile nothing may be changed."""
        find_key = self.order.key
        keys = sorted([(find_key(line), waiting) for line, waiting in self._lines.items()], key=_FIRST)
        for key, lines in groupby(keys, key=_FIRST):
            # Positions are unique, so items are not compared.
            for position, item in merged([waiting.items() for _, waiting in lines]):
                yield key, position, item

    def key(self, position: int) -> tuple[Any, ...]:
        """Return the key of the line of a position now."""
        return self.order.key(self.places[position])

    def remove(self, position: int) -> Item:
        """Remove and return the item at a position."""
        line = self.places.pop(position)
        waiting = self._lines[line]
        item = waiting.remove(position)
        if not waiting:
            del self._lines[line]
        return item
