"""The interface of the packed queue: requests by arrival, searchable by what fits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Final, Generic, TypeVar, final

from ugm.quotatree._packed.amounts import Packing
from ugm.quotatree._packed.blocks import Blocks, QueuedRequest

__all__ = ["PackedQueue"]

R = TypeVar("R", bound=QueuedRequest)

#: A queue uses blocks from the first length on, until it is shorter than the second.
_BLOCKS_FROM: Final = 32
_BLOCKS_UNTIL: Final = 8


@final
class PackedQueue(Generic[R]):
    """A queue of requests in order of arrival.

    Args:
        packing: the positions of the resources of the tree.
    """

    __slots__ = ("_blocks", "_few", "_packing", "contents")

    #: The requests; false if there are none. To be read only.
    contents: Iterable[R]
    _packing: Packing
    #: The requests by arrival, unless they are in blocks.
    _few: dict[R, None]
    _blocks: Blocks[R] | None

    def __init__(self, packing: Packing) -> None:
        self._packing = packing
        self.clear()

    def __iter__(self) -> Iterator[R]:
        return iter(self.contents)

    def clear(self) -> None:
        """Remove all requests."""
        self._store({})

    def _store(self, requests: dict[R, None]) -> None:
        """Replace the contents."""
        if len(requests) < _BLOCKS_FROM:
            self._few = self.contents = requests
            self._blocks = None
        else:
            self._few = {}
            self._blocks = self.contents = Blocks(self._packing, requests)

    def append(self, request: R) -> None:
        """Add a request behind all others."""
        if self._blocks is not None:
            self._blocks.append(request)
            return
        few = self._few
        few[request] = None
        if len(few) >= _BLOCKS_FROM:
            self._store(few)

    def remove(self, request: R) -> None:
        """Remove a request."""
        if self._blocks is None:
            del self._few[request]
        else:
            self._blocks.remove(request)
            if self._blocks.count < _BLOCKS_UNTIL:
                self._store(dict.fromkeys(self._blocks))

    def sort(self) -> None:
        """Restore the order of arrival after a request has returned to an earlier place."""
        self._store(dict.fromkeys(sorted(self, key=attrgetter("sequence"))))

    def fitting(self, free: int) -> list[R]:
        """Return the requests that fit a free amount, each after those before it were charged, in order."""
        if self._blocks is not None:
            return self._blocks.fitting(free)
        found = []
        for request in self._few:
            mask = request.mask
            if free - request.packed & mask == mask:
                found.append(request)
                free -= request.packed
        return found

    def violations(self) -> Iterator[str]:
        """Yield a message for each violated invariant."""
        if self._blocks is not None:
            yield from self._blocks.violations()
