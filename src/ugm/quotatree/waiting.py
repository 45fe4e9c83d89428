"""Those who are held above a node and would come down into it, in their order, found by what fits.

A consumer that its group had no room for is held at a node above, and comes down one level when there is room for it.
Who comes first is who arrived first, among those that fit. Room only shrinks while they come down, one after the
other, so the earliest that fits, again and again from where the last was found, is what one pass over all would take.

A tree of minima finds it: over every pair, every pair of pairs and so on, the least amount of each resource that is
requested there. Where one resource decides, a search takes time in the logarithm of the number of those who wait.
Where two do, it may look in vain at stretches in which one consumer is small in this and another in that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import inf
from typing import Final, final

from ugm.quotatree.consumer import Consumer

__all__ = ["Waiting"]

_SMALLEST: Final = 4


@final
class Waiting:
    """Consumers by arrival, with the first that fits a given room at hand.

    Args:
        width: the number of resources.
    """

    __slots__ = ("_end", "_minima", "_seats", "_width", "count")

    _width: int
    #: By arrival; None where somebody has left. As many as fit the tree of minima.
    _seats: list[Consumer | None]
    #: The first seat that nobody has had.
    _end: int
    #: For each resource the minima, root first, children of i at 2i and 2i+1, the seats in the second half. What is not
    #: requested stands as minus infinity, so that it fits where there is less than no room; an empty seat as infinity.
    _minima: list[list[float]]
    count: int

    def __init__(self, width: int) -> None:
        self._width = width
        self.count = 0
        self._build(())

    def _build(self, consumers: Iterable[Consumer]) -> None:
        seated = list(consumers)
        size = _SMALLEST
        while size < 2 * len(seated):
            size *= 2
        self._seats = [*seated, *([None] * (size - len(seated)))]
        self._end = len(seated)
        self._minima = [[inf] * (2 * size) for _ in range(self._width)]
        for slot, consumer in enumerate(seated):
            consumer.slot = slot
            for minima in self._minima:
                minima[size + slot] = -inf
            for index, amount in consumer.amounts:
                self._minima[index][size + slot] = amount
        for minima in self._minima:
            for at in range(size - 1, 0, -1):
                minima[at] = min(minima[2 * at], minima[2 * at + 1])

    def __iter__(self) -> Iterator[Consumer]:
        return (consumer for consumer in self._seats if consumer is not None)

    def append(self, consumer: Consumer) -> None:
        """Seat a consumer behind all others."""
        size = len(self._seats)
        if self._end == size:
            self._build(self)
            size = len(self._seats)
        slot = consumer.slot = self._end
        self._end = slot + 1
        self.count += 1
        self._seats[slot] = consumer
        asked = dict(consumer.amounts)
        for index, minima in enumerate(self._minima):
            amount = asked.get(index, -inf)
            at = size + slot
            # Above the first that is as small already nothing changes.
            while at and minima[at] > amount:
                minima[at] = amount
                at >>= 1

    def remove(self, consumer: Consumer) -> None:
        """Let a consumer go."""
        slot = consumer.slot
        seats = self._seats
        seats[slot] = None
        self.count -= 1
        for minima in self._minima:
            at = len(seats) + slot
            gone = minima[at]
            least = minima[at] = inf
            while at > 1:
                sibling = minima[at ^ 1]
                if sibling < least:
                    least = sibling
                at >>= 1
                if minima[at] != gone or least == gone:
                    break
                minima[at] = least

    def rebuild(self, consumers: Iterable[Consumer]) -> None:
        """Seat exactly these, in their order of arrival."""
        self._build(sorted(consumers, key=lambda consumer: consumer.sequence))
        self.count = self._end

    def first_that_fits(self, room: Sequence[int], start: int = 0) -> Consumer | None:
        """Return the earliest consumer, from seat *start* on, whose request fits *room*."""
        size = len(self._seats)
        if start >= self._end:
            return None
        at = size + start if start else 1
        columns = list(zip(self._minima, room, strict=True))
        while at:
            for minima, most in columns:
                if minima[at] > most:
                    break
            else:
                if at >= size:
                    return self._seats[at - size]
                at *= 2
                continue
            # Nobody here fits: on to what lies to the right.
            while at & 1:
                at >>= 1
            at += at > 0
        return None

    def findings(self) -> Iterator[str]:
        """Yield what is not as it has to be."""
        size = len(self._seats)
        for slot, consumer in enumerate(self._seats):
            asked = dict(consumer.amounts) if consumer else {}
            least = [asked.get(index, -inf) if consumer else inf for index in range(self._width)]
            if [minima[size + slot] for minima in self._minima] != least or (consumer and consumer.slot != slot):
                yield f"seat {slot} is not that of whoever sits there"
        for minima in self._minima:
            if any(minima[at] != min(minima[2 * at], minima[2 * at + 1]) for at in range(1, size)):
                yield "a minimum is not that of what is below it"
