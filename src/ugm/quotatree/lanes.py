"""Requests side by side in one long integer, so that all of them are compared with a room at once.

The integer, a *row*, has up to 64 *lanes*, and each holds the *key* of a request: what it asks for, with a field for
each resource. Subtracted from the key of a room that is repeated in all lanes, they leave the highest bit of a field
set wherever what is asked for fits. For 64 requests that takes a few times as long as looking at one.

Fields are as wide as the requests in the row need, so that integers are short. Rooms have any size; in a key they are
brought to the nearest number that a field can hold. That keeps the order, and a request is never wider than its lane,
so nobody who fits is missed. Where a room is below all numbers somebody may be told who does not fit: whoever is found
is compared exactly.

A field of a key holds the number plus 2^bits, from 1 to 2^(bits + 1) - 1; 0 where nothing is asked for, which fits any
room; and 2^(bits + 2) - 1 in a lane that is vacant, which fits none. The bit above is for comparing: it is set in the
room and not in the requests, so that no field borrows from the next.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, final

from ugm.quotatree.packing import FIELD, MASK, SIGN, Packing

__all__ = ["Lanes", "Layouts"]

#: So many fields stand side by side, but at least so many requests. Where there are two resources, half and twice as
#: many took up to 9 and 2 % longer.
_FIELDS: Final = 128
_LANES: Final = 8


@final
class Lanes:
    """How requests of some width stand side by side.

    Args:
        packing: of the tree.
        bits: what is asked for of each resource takes no more, apart from the sign; at most 64.
    """

    __slots__ = (
        "_all_signs",
        "_beyond",
        "_fields",
        "_first_signs",
        "_folds",
        "_largest",
        "_offset",
        "_ones",
        "_others",
        "_packing",
        "_raised",
        "_shifts",
        "_sign",
        "_signs",
        "_usual_gap",
        "count",
        "places",
        "unusual",
        "vacant",
        "vacant_row",
        "vacants",
        "width",
    )

    _packing: Packing
    #: How many lanes there are, a power of two.
    count: int
    #: The bits of a lane, and where each begins.
    width: int
    places: tuple[int, ...]
    #: The key of a vacant lane, that in each lane, and a row of them.
    vacant: int
    vacants: tuple[int, ...]
    vacant_row: int
    #: What is packed and has none of these bits is usual: neither negative nor too wide, so that its fields only have
    #: to be moved together.
    unusual: int

    def __init__(self, packing: Packing, bits: int) -> None:
        self._packing = packing
        beyond = self._beyond = 1 << bits
        field = bits + 3
        sign = self._sign = field - 1
        resources = range(len(packing.resources))
        count = self.count = max(_LANES, _FIELDS >> (max(2, len(resources)) - 1).bit_length())
        # Where the field of a resource begins in what is packed, and where in a key.
        self._fields = tuple((FIELD * at, field * at) for at in resources)
        # How far it is from the highest bit of the first field to those of the others.
        self._others = tuple(field * at for at in resources[1:])
        # One bit more, so that the highest bit of the first field is never the highest of the lane.
        self.width = field * len(resources) + 1
        self.places = tuple(self.width * lane for lane in range(count))
        self._ones = sum(1 << place for place in self.places)
        self._first_signs = self._ones << sign
        self._signs = sum(self._first_signs << in_key for _, in_key in self._fields)
        self.vacant = sum(((1 << sign) - 1) << in_key for _, in_key in self._fields)
        self.vacants = tuple(self.vacant << place for place in self.places)
        self.vacant_row = self._ones * self.vacant
        self._offset = SIGN - beyond
        self._largest = 2 * beyond - 1
        self._all_signs = packing.signs
        # By how many bits fields are moved, and with what mask.
        self._shifts = tuple((in_packed - in_key, (beyond - 1) << in_key) for in_packed, in_key in self._fields)
        self.unusual = sum((MASK + 1 - beyond) << in_packed for in_packed, _ in self._fields)
        raised = sum(beyond << in_key for _, in_key in self._fields)
        # How far the key of a usual request for nothing would be from that of a vacant lane.
        self._usual_gap = self.vacant - raised
        self._raised = self._signs + self._ones * raised
        # To halve the lanes again and again: how far the upper half is away, the bits of the lower, and its signs.
        halves = [self.width << power for power in reversed(range(count.bit_length() - 1))]
        self._folds = tuple((half, (1 << half) - 1, self._signs & ((1 << half) - 1)) for half in halves)

    def are_made_for(self, amount: int) -> bool:
        """Return whether a request is not too wide."""
        packing = self._packing
        return all(abs(asked) < self._beyond for asked in packing.left(amount + packing.signs))

    def gap(self, amount: int, asked: int) -> int:
        """Return how far the key of a request is from that of a vacant lane: what it takes to put it there."""
        if not amount & self.unusual and asked == self._all_signs:
            gap = self._usual_gap
            for shift, mask in self._shifts:
                gap -= amount >> shift & mask
            return gap
        key = self._key(amount + self._all_signs)
        for in_packed, in_key in self._fields:
            if not asked & SIGN << in_packed:
                key &= ~(self._largest << in_key)
        return self.vacant - key

    def _key(self, room: int) -> int:
        """Return the key of a room, or of a request to which the highest bit of every field was added."""
        key = 0
        for in_packed, in_key in self._fields:
            number = (room >> in_packed & MASK) - self._offset
            key += max(1, min(number, self._largest)) << in_key
        return key

    def spread(self, room: int) -> int:
        """Return a room repeated in all lanes, ready to be compared."""
        if room & self.unusual != self._all_signs:
            return self._key(room) * self._ones + self._signs
        key = 0
        for shift, mask in self._shifts:
            key += room >> shift & mask
        return key * self._ones + self._raised

    def fitting(self, spread: int, row: int) -> int:
        """Return the highest bit of the first field of each lane whose request may fit."""
        fits = spread - row
        fit = fits & self._first_signs
        for other in self._others:
            fit &= fits >> other
            if not fit:
                break
        return fit

    def at(self, row: int, lane: int) -> int:
        """Return the key in a lane."""
        return row >> self.places[lane] & self.vacant

    def are_ordered(self, one: int, other: int) -> bool:
        """Return whether the first of two keys is not the greater in any field."""
        signs = self._signs & ((1 << self.width) - 1)
        return (other | signs) - one & signs == signs

    def least(self, row: int) -> int:
        """Return the key that has in each field the least of all lanes."""
        sign = self._sign
        for half, mask, signs in self._folds:
            upper = row >> half
            row &= mask
            # The highest bits of the fields in which the lower half is not the greater, and then all bits of these.
            lower_signs = (upper | signs) - row & signs
            row = upper ^ (row ^ upper) & (lower_signs << 1) - (lower_signs >> sign)
        return row


@final
class Layouts:
    """The lanes of one tree, of every width that has been needed."""

    __slots__ = ("_lanes", "packing")

    packing: Packing
    #: By bits.
    _lanes: dict[int, Lanes]

    def __init__(self, packing: Packing) -> None:
        self.packing = packing
        self._lanes = {}

    def of(self, amounts: Iterable[int]) -> Lanes:
        """Return lanes that are made for some packed requests."""
        union = 0
        for amount in amounts:
            union |= amount
        # Four bits at a time, so that they seldom have to be wider; with none, nothing would be less than nothing.
        bits = min(64, max(1, self.packing.bits(union)) + 3 & ~3)
        lanes = self._lanes.get(bits)
        if lanes is None:
            lanes = self._lanes[bits] = Lanes(self.packing, bits)
        return lanes
