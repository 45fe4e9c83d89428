"""Who is first in line and still fits: a line of waiting items, each of which needs some amount."""

from __future__ import annotations

import math
from typing import Final, Generic, TypeVar, final

__all__ = ["FirstFit"]

Item = TypeVar("Item")

#: Positions are below this. It is a power of two: the number of leaves of the tree.
_LEAVES: Final = 1 << 32


@final
class FirstFit(Generic[Item]):
    """Items at positions of a line, each with the amount that it needs.

    A binary tree over all positions, of which only the paths to occupied ones exist: node *n* has the children *2n* and
    *2n + 1*, and holds the least amount that is needed below it. Every operation takes time in the depth of the tree,
    however many items wait and however different their amounts are.

    >>> line: FirstFit[str] = FirstFit()
    >>> line.add(1, 5, "large")
    >>> line.add(2, 3, "small")
    >>> line.first(4), line.first(9), line.first(1)
    ((2, 3), (1, 5), None)
    >>> line.take(2)
    'small'
    """

    __slots__ = ("_items", "_least")

    #: Position to item.
    _items: dict[int, Item]
    #: Node to the least amount below it; no entry where nothing waits.
    _least: dict[int, int]

    def __init__(self) -> None:
        self._items = {}
        self._least = {}

    def __len__(self) -> int:
        return len(self._items)

    def add(self, position: int, amount: int, item: Item) -> None:
        """Let an item wait at a position that is free."""
        self._items[position] = item
        node = position + _LEAVES
        while node and amount < self._least.get(node, math.inf):
            self._least[node] = amount
            node >>= 1

    def first(self, room: int) -> tuple[int, int] | None:
        """Return the first position whose item needs no more than *room*, and what it needs."""
        least = self._least
        if least.get(1, math.inf) > room:
            return None
        node = 1
        while node < _LEAVES:
            node *= 2
            if least.get(node, math.inf) > room:
                node += 1
        return node - _LEAVES, least[node]

    def take(self, position: int) -> Item:
        """Remove and return the item at a position."""
        node = position + _LEAVES
        del self._least[node]
        while node > 1:
            below = [self._least[child] for child in (node, node ^ 1) if child in self._least]
            node >>= 1
            if not below:
                del self._least[node]
            elif self._least[node] == min(below):
                break
            else:
                self._least[node] = min(below)
        return self._items.pop(position)
