"""Requests side by side in one long integer, so that all of them are compared with a room at once.

The integer has 64 *lanes*, and each holds the *key* of a request: what it asks for, with a field for each resource.
Subtracted from the key of a room that is repeated in all lanes, they leave the highest bit of a field exactly where
what is asked for fits. That takes hardly longer than to look at one request.

Fields are as wide as the requests need that are compared, so that integers are short. The key of a room that is larger
than all of them is that of the largest there can be.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, final

from ugm.quotatree.packing import FIELD, Packing

__all__ = ["LANES", "Lanes", "Layouts"]

#: How many requests stand side by side.
LANES: Final = 64

_SIGN: Final = 1 << (FIELD - 1)
_MASK: Final = (1 << FIELD) - 1


@final
class Lanes:
    """How requests of some width stand side by side.

    A number of bits, raised by half their range so that none is negative, is a field; 0 is less than any number, and
    twice their range more than any. One bit more is for comparing.

    Args:
        packing: of the tree.
        bits: what is asked for of each resource takes no more, apart from the sign.
    """

    __slots__ = (
        "_beyond",
        "_fields",
        "_folds",
        "_highest",
        "_last",
        "_offset",
        "_ones",
        "_packing",
        "_raised",
        "_signs",
        "asked",
        "empty",
        "ends",
        "nobodies",
        "nobody",
        "others",
        "outside",
        "places",
        "shifts",
        "usual_gap",
        "width",
    )

    _packing: Packing
    #: The bits of a lane, and where each begins.
    width: int
    places: tuple[int, ...]
    #: The key that fits no room, in the first lane, in each, and in all.
    nobody: int
    nobodies: tuple[int, ...]
    empty: int
    #: The highest bit of the first field of each lane, and how far it is to the other fields.
    ends: int
    others: tuple[int, ...]
    #: The usual request and the usual room are neither negative nor too wide: they have none of the bits *outside*. All
    #: that has to be done is to move their fields together. The usual request asks for everything.
    outside: int
    asked: int
    shifts: tuple[tuple[int, int], ...]
    usual_gap: int

    def __init__(self, packing: Packing, bits: int) -> None:
        self._packing = packing
        beyond = self._beyond = 1 << bits
        field = bits + 3
        last = self._last = field - 1
        at = range(len(packing.resources))
        # The place of a resource in what is packed, and in a lane.
        self._fields = tuple((FIELD * index, field * index) for index in at)
        self.others = tuple(field * index for index in at[1:])
        # One bit more, so that the highest bit of the first field is always below that of the lane.
        self.width = field * len(at) + 1
        self.places = tuple(self.width * lane for lane in range(LANES))
        self._ones = sum(1 << place for place in self.places)
        self.ends = self._ones << last
        self._signs = sum(self.ends << place for _, place in self._fields)
        self.nobody = sum(((1 << last) - 1) << place for _, place in self._fields)
        self.nobodies = tuple(self.nobody << place for place in self.places)
        self.empty = self._ones * self.nobody
        self._offset = _SIGN - beyond
        self._highest = 2 * beyond - 1
        self.asked = packing.signs
        self.shifts = tuple((place - lane, (beyond - 1) << lane) for place, lane in self._fields)
        self.outside = sum((_MASK + 1 - beyond) << place for place, _ in self._fields)
        raised = sum(beyond << place for _, place in self._fields)
        self.usual_gap = self.nobody - raised
        self._raised = self._signs + self._ones * raised
        self._folds = tuple(
            (self.width * half, (1 << self.width * half) - 1, self._signs & ((1 << self.width * half) - 1))
            for half in (1 << power for power in reversed(range(LANES.bit_length() - 1)))
        )

    def are_made_for(self, amount: int) -> bool:
        """Return whether a request is not too wide."""
        packing = self._packing
        return all(abs(asked) < self._beyond for asked in packing.left(amount + packing.signs))

    def gap(self, amount: int, asked: int) -> int:
        """Return how far the key of a request is from that of nobody.

        What is not asked for fits where there is less than nothing, too.
        """
        key = self._key(amount + self._packing.signs)
        for field, place in self._fields:
            if not asked & _SIGN << field:
                key &= ~(self._highest << place)
        return self.nobody - key

    def _key(self, room: int) -> int:
        """Return the key of a room, or of a request to which the highest bit of every field was added."""
        key = 0
        for field, place in self._fields:
            number = (room >> field & _MASK) - self._offset
            key += max(1, min(number, self._highest)) << place
        return key

    def spread(self, room: int) -> int:
        """Return a room repeated in all lanes, ready to be compared."""
        if room & self.outside != self.asked:
            return self._key(room) * self._ones + self._signs
        key = 0
        for shift, mask in self.shifts:
            key += room >> shift & mask
        return key * self._ones + self._raised

    def fitting(self, spread: int, lanes: int) -> int:
        """Return the highest bit of the first field of each lane that fits."""
        fits = spread - lanes
        fit = fits & self.ends
        for place in self.others:
            fit &= fits >> place
        return fit

    def at(self, lanes: int, lane: int) -> int:
        """Return the key in a lane."""
        return lanes >> self.places[lane] & self.nobody

    def are_ordered(self, one: int, other: int) -> bool:
        """Return whether the first of two keys is not the greater in any field."""
        ends = self._signs & ((1 << self.width) - 1)
        return (other | ends) - one & ends == ends

    def least(self, lanes: int) -> int:
        """Return the key of the least in each field."""
        last = self._last
        for shift, mask, signs in self._folds:
            other = lanes >> shift
            lanes &= mask
            # The highest bits of the fields in which the lower half is not the greater, and then all bits of these.
            lesser = (other | signs) - lanes & signs
            lanes = other ^ (lanes ^ other) & (lesser << 1) - (lesser >> last)
        return lanes


@final
class Layouts:
    """The lanes of one tree, of every width that has been needed."""

    __slots__ = ("_lanes", "packing")

    packing: Packing
    _lanes: dict[int, Lanes]

    def __init__(self, packing: Packing) -> None:
        self.packing = packing
        self._lanes = {}

    def of(self, amounts: Iterable[int]) -> Lanes:
        """Return lanes that are made for some packed requests."""
        union = 0
        for amount in amounts:
            union |= amount
        # Four bits at a time, so that they seldom have to be wider.
        bits = min(64, self.packing.bits(union) + 3 & ~3)
        lanes = self._lanes.get(bits)
        if lanes is None:
            lanes = self._lanes[bits] = Lanes(self.packing, bits)
        return lanes
