"""The job classes that wait for a limit, in the lines of an order; each line finds its first class that fits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import merge
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, Generic, Protocol, TypeVar, final

from ugm.identity import UserGroup
from ugm.simulation.first_fit import FirstFit
from ugm.simulation.job_order import JobOrder

__all__ = ["Candidate", "OrderedLines"]

_FIRST: Final = itemgetter(0)


class _Waiting(Protocol):
    """A job class."""

    @property
    def queue_path(self) -> str: ...
    @property
    def user(self) -> UserGroup: ...


Item = TypeVar("Item", bound=_Waiting)

#: The key of a line, the position of its first item that fits, and the amount that the item needs.
Candidate = tuple[tuple[Any, ...], int, int]


@final
@dataclass(slots=True, eq=False)
class OrderedLines(Generic[Item]):
    """Waiting items by position; false if there are none.

    The time of a search is proportional to the number of lines, and the logarithm of their lengths.
    """

    order: JobOrder
    _lines: dict[str, FirstFit[Item]] = field(default_factory=dict)
    #: The line of each position.
    _places: dict[int, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, position: int) -> bool:
        return position in self._places

    def add(self, position: int, amount: int, item: Item) -> None:
        """Add an item at an unoccupied position."""
        line = self.order.line(item.queue_path, item.user)
        self._places[position] = line
        if line not in self._lines:
            self._lines[line] = FirstFit()
        self._lines[line].add(position, amount, item)

    def first(self, free: int) -> Candidate | None:
        """Return the first item that needs at most *free*: in the line with the smallest key, the oldest."""
        best: tuple[Any, ...] | None = None
        lines: list[FirstFit[Item]] = []
        for line, waiting in self._lines.items():
            if waiting.smallest <= free:
                key = self.order.key(line)
                if best is None or key < best:
                    best, lines = key, [waiting]
                elif key == best:
                    lines.append(waiting)
        # The items of a line are only searched if its key is the smallest.
        fitting = [found for waiting in lines if (found := waiting.first(free)) is not None]
        return (best, *min(fitting)) if best is not None and fitting else None

    def in_order(self) -> Iterator[tuple[tuple[Any, ...], int, Item]]:
        """Yield the keys, positions and items in their order; meanwhile nothing may be changed."""
        keys = sorted(((self.order.key(line), waiting) for line, waiting in self._lines.items()), key=_FIRST)
        for key, lines in groupby(keys, key=_FIRST):
            # Positions are unique, so items are not compared.
            for position, item in merge(*(waiting.items() for _, waiting in lines)):
                yield key, position, item

    def key(self, position: int) -> tuple[Any, ...]:
        """Return the key of the line of a position now."""
        return self.order.key(self._places[position])

    def remove(self, position: int) -> Item:
        """Remove and return the item at a position."""
        line = self._places.pop(position)
        waiting = self._lines[line]
        item = waiting.remove(position)
        if not waiting:
            del self._lines[line]
        return item
