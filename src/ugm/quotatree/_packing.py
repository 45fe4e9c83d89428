"""The amounts of all resources of a tree, packed into one integer.

Each resource has a field of 128 bits. Packed requests are added and subtracted like plain integers. A negative amount
borrows from the next field, and subtracting it gives that back.

A *free amount* is the part of a quota that is not charged, plus the highest bit, the *sign*, of every field. So no
field borrows from the next, even if the node is over its quota. If a request is subtracted, the sign disappears exactly
in the fields that would drop below 0:

    free - request & mask == mask       the request fits; the mask has the signs of the requested resources
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias, final

__all__ = ["Packing", "Size"]

#: The number of bits of a field, the highest bit, and all bits.
_FIELD: Final = 128
_SIGN: Final = 1 << (_FIELD - 1)
_MASK: Final = (1 << _FIELD) - 1
#: Larger amounts count as this one, which no quota allows. The sum of a hundred of them fits a field.
_MOST: Final = 1 << 120


#: A lower bound that many requests share: the largest powers of two that are not above the amounts, and the mask.
Size: TypeAlias = tuple[int, int]


@final
class Packing:
    """The positions of the resources of one tree in packed amounts.

    Args:
        resources: the names, in order.
    """

    def __init__(self, resources: tuple[str, ...]) -> None:
        #: For each resource the name, the position of its field, and its sign.
        self._fields: Final = tuple((name, _FIELD * at, _SIGN << _FIELD * at) for at, name in enumerate(resources))
        #: The signs of all fields.
        self.signs: Final = sum(sign for _, _, sign in self._fields)

    def pack_free(self, quota: Sequence[int]) -> int:
        """Return the free amount of a quota to which nothing is charged."""
        return self.signs + sum(amount << _FIELD * at for at, amount in enumerate(quota))

    def unpack_free(self, free: int) -> tuple[int, ...]:
        """Return a free amount by position of the resource."""
        return tuple([(free >> place & _MASK) - _SIGN for _, place, _ in self._fields])

    def pack_request(self, amounts: Mapping[str, int]) -> tuple[int, int, int, Size]:
        """Pack a request. Resources that the tree does not count are left out.

        Returns:
            The packed request, the signs of the requested resources, the request without negative amounts, which is an
            upper bound of what a release frees, and its size.
        """
        packed = mask = negative = size = 0
        for name, place, sign in self._fields:
            amount = amounts.get(name)
            if amount:
                mask += sign
                if amount > 0:
                    packed += min(amount, _MOST) << place
                    size += 1 << place + min(amount, _MOST).bit_length() - 1
                else:
                    negative += amount << place
        return packed + negative, mask, packed, (size + negative, mask)
