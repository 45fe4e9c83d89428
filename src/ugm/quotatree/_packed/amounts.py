"""The amounts of all resources of a tree, packed into one integer.

Each resource has a field of 128 bits. Quotas and amounts take less than 64 bits and a sign, so the sum of up to 2^62 of
them takes less than 127. Packed requests are added and subtracted like plain integers. A negative amount borrows from
the next field, and subtracting it gives that back.

A *free amount* is the part of a quota that is not charged, plus the highest bit, the *sign*, of every field. All its
fields are from 0 to 2^128 - 1 then, even if the node is over its quota, and none borrows from the next. If a request is
subtracted, the sign disappears exactly in the fields that would drop below 0:

    free - request & mask == mask       the request fits; the mask has the signs of the requested resources
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias, final

__all__ = ["FIELD", "MASK", "SIGN", "Amounts", "Packing"]

#: A request: the positions of resources in the tree and their amounts. A resource that is not listed never denies.
Amounts: TypeAlias = tuple[tuple[int, int], ...]

#: The number of bits of a field, the highest bit, and all bits.
FIELD: Final = 128
SIGN: Final = 1 << (FIELD - 1)
MASK: Final = (1 << FIELD) - 1


@final
class Packing:
    """The positions of the resources of one tree in packed amounts.

    Args:
        resources: the names, in order; at least one if the tree holds anything.
    """

    def __init__(self, resources: tuple[str, ...]) -> None:
        self.resources: Final = resources
        #: For each resource the name, the position of its field, and its sign.
        self._fields: Final = tuple((name, FIELD * at, SIGN << FIELD * at) for at, name in enumerate(resources))
        #: The signs of all fields.
        self.signs: Final = sum(sign for _, _, sign in self._fields)
        #: A count of one request, above all fields.
        self._one: Final = 1 << FIELD * len(resources)

    def pack_free(self, quota: Sequence[int]) -> int:
        """Return the free amount of a quota to which nothing is charged."""
        return self.signs + sum(amount << FIELD * at for at, amount in enumerate(quota))

    def unpack_free(self, free: int) -> tuple[int, ...]:
        """Return a free amount by position of the resource."""
        return tuple([(free >> place & MASK) - SIGN for _, place, _ in self._fields])

    def pack_request(self, amounts: Mapping[str, int]) -> tuple[int, int, int]:
        """Pack a request. Resources that the tree does not count are left out.

        Args:
            amounts: the amounts by name.

        Returns:
            The packed amounts, the signs of the requested resources, and the amounts without the negative ones, which
            are an upper bound of what a release frees. The first and the last also count one request above all fields,
            so that a sum of several is 0 only if there are no requests.
        """
        packed = self._one
        mask = negative = 0
        for name, place, sign in self._fields:
            amount = amounts.get(name)
            if amount:
                mask += sign
                packed += amount << place
                if amount < 0:
                    negative += amount << place
        return packed, mask, packed - negative if negative else packed

    def unpack_request(self, packed: int, mask: int) -> Amounts:
        """Return the requested amounts."""
        listed = enumerate(self.unpack_free(packed + self.signs))
        return tuple((at, amount) for at, amount in listed if mask >> FIELD * at & SIGN)

    def unpack_total(self, total: int) -> tuple[tuple[int, ...], int]:
        """Return a sum of requests without negative amounts, by position, and the number of the requests."""
        return self.unpack_free(total + self.signs), total // self._one

    def bits(self, union: int) -> int:
        """Return the number of bits of the largest of some amounts, given the bitwise "or" of their requests.

        Negative amounts count as 64 bits.
        """
        return min(64, max([(union >> place & MASK).bit_length() for _, place, _ in self._fields]))
