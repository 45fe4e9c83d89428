"""Lanes: up to 64 requests in one long integer, so that all of them are compared with a free amount at once.

The integer is a *block*, and each request is one *lane* of it. A lane holds the *key* of the request, with a field for
each resource. If a block is subtracted from the key of a free amount, repeated in all lanes, the highest bit of a field
stays set where the amount fits. For 64 requests this takes only a few times as long as for one.

Fields are as wide as the requests in the block need. Free amounts have any size, so in a key they are clamped to the
range of the field. Clamping keeps the order, and a request is never wider than its lane, so no request that fits is
missed. If a free amount is below the range, a lane may report a request that does not fit; the caller compares each
candidate exactly.

A field of a key holds

- the amount plus 2^bits, from 1 to 2^(bits + 1) - 1;
- 0 if the resource is not requested, which fits any free amount;
- 2^(bits + 2) - 1 in a vacant lane, which fits none.

The bit above is set in the free amount and not in the requests, so that no field borrows from the next.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final, final

from ugm.quotatree._packed.amounts import FIELD, MASK, SIGN, Packing

__all__ = ["LaneLayout", "layout_for"]

#: The number of fields in a block, and the smallest number of lanes. With two resources, half as many fields took up to
#: 9 % longer, and twice as many up to 2 %.
_FIELDS: Final = 128
_LANES: Final = 8


@final
class LaneLayout:
    """The positions of lanes and fields in a block, for requests of some width.

    Args:
        count: the number of resources.
        bits: the width of the largest amount, without the sign; at most 64.
    """

    def __init__(self, count: int, bits: int) -> None:
        resources = range(count)
        #: The signs of all fields of packed amounts.
        self._packed_signs: Final = sum(SIGN << FIELD * at for at in resources)
        #: The first number that is too wide for a field.
        self._limit: Final = 1 << bits
        width = bits + 3
        #: The position of the highest bit of a field.
        self._sign: Final = width - 1
        #: For each resource the position of its field in packed amounts and in a key.
        self._fields: Final = tuple((FIELD * at, width * at) for at in resources)
        #: The distances from the first field to the others.
        self._others: Final = tuple(width * at for at in resources[1:])
        #: For each resource the shift from packed amounts to a key, and the mask after it.
        self._shifts: Final = tuple((packed - key, (self._limit - 1) << key) for packed, key in self._fields)
        #: The number of lanes, a power of two.
        self.count: Final = max(_LANES, _FIELDS >> (max(2, count) - 1).bit_length())
        #: The number of bits of a lane: one more than the fields have, so that the highest bit of the first field is
        #: never the highest bit of the lane.
        self.width: Final = width * count + 1
        #: The position of each lane.
        self.places: Final = tuple(self.width * lane for lane in range(self.count))
        #: A 1 in each lane; the signs of the first field and of all fields in each lane.
        self._ones: Final = sum(1 << place for place in self.places)
        self._first_signs: Final = self._ones << self._sign
        self._signs: Final = sum(self._first_signs << key for _, key in self._fields)
        #: The key of a vacant lane, the same in each lane, and a block of vacant lanes.
        self.vacant: Final = sum(((1 << self._sign) - 1) << key for _, key in self._fields)
        self.vacants: Final = tuple(self.vacant << place for place in self.places)
        self.vacant_block: Final = self._ones * self.vacant
        #: A packed request with none of these bits has no negative and no large amount. Its fields need shifts only.
        self.irregular: Final = sum((MASK + 1 - self._limit) << packed for packed, _ in self._fields)
        raised = sum(self._limit << key for _, key in self._fields)
        #: The distance of the key of a regular, empty request from that of a vacant lane.
        self._regular_gap: Final = self.vacant - raised
        #: Added to a regular free amount in all lanes.
        self._raised: Final = self._signs + self._ones * raised
        halves = [self.width << power for power in reversed(range(self.count.bit_length() - 1))]
        #: For each halving of a block: the distance of the upper half, the mask of the lower half, and its signs.
        self._folds: Final = tuple((half, (1 << half) - 1, self._signs & ((1 << half) - 1)) for half in halves)

    def can_hold(self, amount: int) -> bool:
        """Return whether a packed request is narrow enough for a lane."""
        raised = amount + self._packed_signs
        return all(abs((raised >> packed & MASK) - SIGN) < self._limit for packed, _ in self._fields)

    def gap(self, amount: int, mask: int) -> int:
        """Return the difference between the key of a vacant lane and the key of a request."""
        if not amount & self.irregular and mask == self._packed_signs:
            gap = self._regular_gap
            for shift, bits in self._shifts:
                gap -= amount >> shift & bits
            return gap
        key = self._key(amount + self._packed_signs)
        for in_packed, in_key in self._fields:
            if not mask & SIGN << in_packed:
                key &= ~((2 * self._limit - 1) << in_key)
        return self.vacant - key

    def _key(self, free: int) -> int:
        """Return the key of a free amount, or of a request to which the sign of every field was added."""
        key, limit = 0, self._limit
        for in_packed, in_key in self._fields:
            number = (free >> in_packed & MASK) - (SIGN - limit)
            key += max(1, min(number, 2 * limit - 1)) << in_key
        return key

    def spread(self, free: int) -> int:
        """Return a free amount, repeated in all lanes and ready for `fitting`."""
        if free & self.irregular != self._packed_signs:
            return self._key(free) * self._ones + self._signs
        key = 0
        for shift, bits in self._shifts:
            key += free >> shift & bits
        return key * self._ones + self._raised

    def fitting(self, spread: int, block: int) -> int:
        """Return a mask of the lanes whose request may fit: the highest bit of the first field of each."""
        fits = spread - block
        fit = fits & self._first_signs
        for other in self._others:
            fit &= fits >> other
            if not fit:
                break
        return fit

    def key_at(self, block: int, lane: int) -> int:
        """Return the key in a lane."""
        return block >> self.places[lane] & self.vacant

    def is_at_most(self, key: int, other: int) -> bool:
        """Return whether a key is at most another one in every field."""
        signs = self._signs & ((1 << self.width) - 1)
        return (other | signs) - key & signs == signs

    def minimum(self, block: int) -> int:
        """Return the key that holds in each field the minimum of all lanes."""
        sign = self._sign
        for half, mask, signs in self._folds:
            upper = block >> half
            block &= mask
            # The signs of the fields in which the lower half is not greater, then all bits of these fields.
            lower_signs = (upper | signs) - block & signs
            block = upper ^ (block ^ upper) & (lower_signs << 1) - (lower_signs >> sign)
        return block


def layout_for(packing: Packing, amounts: Iterable[int]) -> LaneLayout:
    """Return a layout that is wide enough for some packed requests."""
    union = 0
    for amount in amounts:
        union |= amount
    # Rounded up to four bits, so that a block seldom has to be widened. With 0 bits no negative amount would exist.
    return _layout(len(packing.resources), min(64, max(1, packing.bits(union)) + 3 & ~3))


@lru_cache(maxsize=256)
def _layout(count: int, bits: int) -> LaneLayout:
    return LaneLayout(count, bits)
