"""Those who are held above a node and would come down into it, in their order, found by what fits.

A consumer that its group had no room for is held at a node above, and comes down one level when there is room for it.
Who comes first is who arrived first, among those that fit. Room only shrinks while they come down, one after the
other, so the earliest that fits, again and again from where the last was found, is what one pass over all would take.

A tree of minima finds it: over every eight seats, every eight such blocks and so on, the least amount of each resource
that is requested there. Where one resource decides, a search takes time in the logarithm of the number of those who
wait. Where two do, it may look in vain into blocks in which one consumer is small in this and another in that.

Who leaves is not missed at once: the minima of its block may be too small until a search looks into the block in vain,
once for each who has left. On recorded streams the lists took 6 to 17 % less so, as many a block is never looked into
again, or loses several before it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, final

from ugm.quotatree.consumer import Consumer

__all__ = ["Waiting"]

#: More than any room, as requests and quotas fit 64 bits. An int: comparing an int with a float takes twice the time.
_EMPTY: Final = 1 << 256


@final
class Waiting:
    """Consumers by arrival, with the first that fits a given room at hand.

    Args:
        width: the number of resources, at least one.
    """

    __slots__ = ("_base", "_end", "_minima", "_seats", "_stale", "count")

    #: By arrival; None where somebody has left. A power of eight.
    _seats: list[Consumer | None]
    #: The first seat behind all that are taken.
    _end: int
    #: By place in the minima, those above the seats: 1 where somebody has left a block of seats since its minima were
    #: taken, so that they may be too small. All others are what is the least below them.
    _stale: bytearray
    #: For each resource the minima: the root at 0, the blocks of i at 8i + 1 to 8i + 8, the seats from `_base` on. What
    #: is not requested stands as `-_EMPTY`, so it fits where there is less than no room; an empty seat as `_EMPTY`.
    #: Blocks are of eight, because looking along siblings is cheaper than going up and down.
    _minima: list[list[int]]
    _base: int
    count: int

    def __init__(self, width: int) -> None:
        self._minima = [[] for _ in range(width)]
        self._seat(())

    def _seat(self, consumers: Iterable[Consumer]) -> None:
        """Seat consumers anew, with at least as many seats behind them as they take."""
        seated: list[Consumer | None] = list(consumers)
        self.count = self._end = len(seated)
        size = 8
        while size < 2 * len(seated):
            size *= 8
        base = self._base = (size - 1) // 7
        self._seats = seated + [None] * (size - len(seated))
        self._stale = bytearray(base)
        for minima in self._minima:
            minima[:] = [_EMPTY] * (base + size)
        for slot, consumer in enumerate(self):
            consumer.slot = slot
            for minima in self._minima:
                minima[base + slot] = -_EMPTY
            for index, amount in consumer.amounts:
                self._minima[index][base + slot] = amount
        for minima in self._minima:
            # What is behind the last block with somebody in it is empty already.
            for at in range((base + len(seated)) >> 3, -1, -1):
                minima[at] = min(minima[8 * at + 1 : 8 * at + 9], default=_EMPTY)

    def __iter__(self) -> Iterator[Consumer]:
        return (consumer for consumer in self._seats if consumer is not None)

    def append(self, consumer: Consumer) -> None:
        """Seat a consumer behind all others."""
        if self._end == len(self._seats):
            self._seat(self)
        slot = consumer.slot = self._end
        self._end = slot + 1
        self.count += 1
        self._seats[slot] = consumer
        amounts: Sequence[tuple[int, int]] = consumer.amounts
        if len(amounts) < len(self._minima):
            asked: dict[int, int] = dict(amounts)
            amounts = [(index, asked.get(index, -_EMPTY)) for index in range(len(self._minima))]
        seat = self._base + slot
        for index, amount in amounts:
            minima = self._minima[index]
            at = seat
            # Above the first block with somebody as small nothing changes.
            while minima[at] > amount:
                minima[at] = amount
                if not at:
                    break
                at = (at - 1) >> 3

    def remove(self, consumer: Consumer) -> None:
        """Let a consumer go."""
        slot = consumer.slot
        self._seats[slot] = None
        self.count -= 1
        if slot == self._end - 1:
            self._end = slot if self.count else 0
        seat = self._base + slot
        for minima in self._minima:
            minima[seat] = _EMPTY
        self._stale[(seat - 1) >> 3] = 1

    def rebuild(self) -> None:
        """Seat everybody by arrival, after somebody has come back to an earlier place."""
        self._seat(sorted(self, key=lambda consumer: consumer.sequence))

    def first_that_fits(self, room: Sequence[int], start: int = 0) -> Consumer | None:
        """Return the earliest consumer, from seat *start* on, whose request fits *room*."""
        if start >= self._end or self._nobody_fits(room):
            return None
        # Two resources, the usual number, are compared without a loop: on recorded streams an operation took 2 to 6 %
        # less on two of three, and on the third nothing that could be measured.
        minima, most = self._minima[0], room[0]
        minima_1, most_1 = (self._minima[1], room[1]) if len(room) > 1 else (minima, most)
        further = self._minima[2:]
        others = list(zip(further, room[2:], strict=True)) if further else ()
        base = self._base
        at = base + start if start else 1
        while True:
            for at in range(at, ((at - 1) | 7) + 2):  # noqa: B020 - go on from where the loop stops
                if minima[at] <= most and minima_1[at] <= most_1:
                    for more, bound in others:
                        if more[at] > bound:
                            break
                    else:
                        break
            else:
                at = self._behind(at)
                if not at:
                    return None
                continue
            if at >= base:
                return self._seats[at - base]
            at = 8 * at + 1

    def _nobody_fits(self, room: Sequence[int]) -> bool:
        """Return whether the root knows that nobody fits: so most searches in vain end."""
        for minima, most in zip(self._minima, room, strict=True):  # noqa: SIM110 - `any` takes twice the time
            if minima[0] > most:
                return True
        return False

    def _behind(self, at: int) -> int:
        """Return what is behind the block of *at* in which nobody was found, or behind that above it; 0 if nothing."""
        at = (at - 1) >> 3
        if self._stale[at]:
            self._tighten(at)
        while at and not at & 7:
            at = (at - 1) >> 3
        return at + 1 if at else 0

    def _tighten(self, block: int) -> None:
        """Take the minima of a block of seats anew, and those above that change with them."""
        self._stale[block] = 0
        for minima in self._minima:
            at = block
            gone = minima[at]
            least = min(minima[8 * at + 1 : 8 * at + 9])
            while least != gone:
                minima[at] = least
                if not at:
                    break
                at = (at - 1) >> 3
                # Another block is smaller: above it nothing changes.
                if minima[at] != gone:
                    break
                least = min(minima[8 * at + 1 : 8 * at + 9])

    def findings(self) -> Iterator[str]:
        """Yield what is not as it has to be."""
        for slot, consumer in enumerate(self._seats):
            asked: dict[int, int] = dict(consumer.amounts) if consumer else {}
            due = [asked.get(index, -_EMPTY) if consumer else _EMPTY for index in range(len(self._minima))]
            if [minima[self._base + slot] for minima in self._minima] != due or (consumer and consumer.slot != slot):
                yield f"seat {slot} is not that of whoever sits there"
        for minima in self._minima:
            for at, stale in enumerate(self._stale):
                least = min(minima[8 * at + 1 : 8 * at + 9])
                if minima[at] > least or (minima[at] < least and not stale):
                    yield "a minimum is not that of what is below it"
                    break
