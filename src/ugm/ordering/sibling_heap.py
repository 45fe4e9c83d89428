"""A heap with keys that change, for the children or applications of one queue in `ugm.ordering.request_order`.

A change of a key adds an entry. Outdated entries stay until they come to the top, so a change takes time proportional
to the logarithm of the number of siblings.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any, Generic, Protocol, TypeAlias, TypeVar, final

#: A key of a sort. Keys of siblings have the same length, and elements that can be compared.
HeapKey: TypeAlias = tuple[Any, ...]


class _Item(Protocol):
    """A child queue or an application, as one of several siblings."""

    key: HeapKey | None
    priority: int
    submitted: int


_ItemT = TypeVar("_ItemT", bound=_Item)


class HeapItem:
    """The base of everything in a heap: entries with equal keys belong to the same item."""

    __slots__ = ()

    def __lt__(self, other: object) -> bool:
        return False


@final
class Siblings(Generic[_ItemT]):
    """The children or the applications of a queue that have pending requests.

    Entries of outdated values stay in the heaps until they reach the top.
    """

    def __init__(self) -> None:
        self._by_key: list[tuple[HeapKey, _ItemT]] = []
        self._by_priority: list[tuple[int, _ItemT]] = []
        self._by_submission: list[tuple[int, _ItemT]] = []

    def best(self) -> _ItemT | None:
        """Return the first one; None if there is none."""
        heap = self._by_key
        while heap:
            key, item = heap[0]
            if item.key is key:
                return item
            heappop(heap)
        return None

    def runner_up(self) -> _ItemT | None:
        """Return the second one; None if there is none."""
        if self.best() is None:
            return None
        entry = heappop(self._by_key)
        found = self.best()
        heappush(self._by_key, entry)
        return found

    def priority(self) -> int | None:
        """Return the highest priority; None if there is none."""
        heap = self._by_priority
        while heap:
            negative, item = heap[0]
            if item.key is not None and item.priority == -negative:
                return item.priority
            heappop(heap)
        return None

    def submitted(self) -> int | None:
        """Return the earliest submission; None if there is none."""
        heap = self._by_submission
        while heap:
            at, item = heap[0]
            if item.key is not None and item.submitted == at:
                return at
            heappop(heap)
        return None

    def remove(self, item: _ItemT) -> None:
        """Remove an item, because nothing is pending there."""
        item.key = None

    def update(self, item: _ItemT, key: HeapKey, priority: int, submitted: int) -> None:
        """Change the keys of an item."""
        is_new = item.key is None
        if is_new or item.key != key:
            item.key = key
            heappush(self._by_key, (key, item))
        if is_new or item.priority != priority:
            item.priority = priority
            heappush(self._by_priority, (-priority, item))
        if is_new or item.submitted != submitted:
            item.submitted = submitted
            heappush(self._by_submission, (submitted, item))
