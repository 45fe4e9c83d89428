"""A queue of waiting items that finds the first item whose amount fits, in logarithmic time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar, final

__all__ = ["FirstFit"]

Item = TypeVar("Item")

#: The number of leaves of a new tree, a power of two.
_LEAVES: Final = 1 << 10


@final
@dataclass(slots=True, eq=False)
class FirstFit(Generic[Item]):
    """Waiting items by position, each with the amount that it needs.

    The data structure is a binary tree over all positions, which contains only the paths to occupied positions. Node
    *n* has the children *2n* and *2n + 1*, and stores the smallest amount in its subtree. The time of each operation
    is proportional to the depth of the tree, which grows with the logarithm of the largest position.

    >>> queue: FirstFit[str] = FirstFit()
    >>> queue.add(1, 5, "large")
    >>> queue.add(2, 3, "small")
    >>> queue.first(4), queue.first(9), queue.first(1)
    ((2, 3), (1, 5), None)
    >>> queue.remove(2)
    'small'
    """

    #: By position.
    _items: dict[int, Item] = field(default_factory=dict)
    #: The smallest amount in the subtree of each node with items.
    _smallest: dict[int, int] = field(default_factory=dict)
    #: The number of leaves, a power of two; all positions are smaller.
    _leaves: int = _LEAVES

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, position: int) -> bool:
        return position in self._items

    def __getitem__(self, position: int) -> Item:
        return self._items[position]

    def items(self) -> Iterator[tuple[int, Item]]:
        """Yield all positions with their items, the smallest position first; meanwhile nothing may be changed."""
        smallest, leaves = self._smallest, self._leaves
        nodes = [1] if smallest else []
        while nodes:
            node = nodes.pop()
            # Down to the first position; the other subtrees follow later.
            while node < leaves:
                node *= 2
                if node not in smallest:
                    node += 1
                elif node + 1 in smallest:
                    nodes.append(node + 1)
            yield node - leaves, self._items[node - leaves]

    @property
    def smallest(self) -> float:
        """The smallest amount that any item needs; infinite if there are none."""
        return self._smallest.get(1, math.inf)

    def add(self, position: int, amount: int, item: Item) -> None:
        """Add an item at an unoccupied position."""
        while position >= self._leaves:
            self._double()
        self._items[position] = item
        node = position + self._leaves
        while node and amount < self._smallest.get(node, math.inf):
            self._smallest[node] = amount
            node >>= 1

    def _double(self) -> None:
        """Make room for twice as many positions: the current tree becomes the left subtree of a new root."""
        below = {node + (1 << node.bit_length() - 1): amount for node, amount in self._smallest.items()}
        if below:
            below[1] = self._smallest[1]
        self._smallest = below
        self._leaves *= 2

    def first(self, free: int) -> tuple[int, int] | None:
        """Return the first position whose item needs at most *free*, and the amount that it needs."""
        smallest = self._smallest
        if smallest.get(1, math.inf) > free:
            return None
        node = 1
        while node < self._leaves:
            node *= 2
            # A call of `get` at each level takes longer.
            if node not in smallest or smallest[node] > free:
                node += 1
        return node - self._leaves, smallest[node]

    def remove(self, position: int) -> Item:
        """Remove and return the item at a position."""
        node = position + self._leaves
        del self._smallest[node]
        while node > 1:
            below = [self._smallest[child] for child in (node, node ^ 1) if child in self._smallest]
            node >>= 1
            if not below:
                del self._smallest[node]
            elif self._smallest[node] == min(below):
                break
            else:
                self._smallest[node] = min(below)
        return self._items.pop(position)
