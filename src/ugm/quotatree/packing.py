"""The amounts of all resources of a tree side by side in one integer, so that one operation does for all of them.

Each resource has a field of 128 bits. Quotas and amounts take less than 64 bits and a sign, so the sum of up to 2^62 of
them takes less than 127. Packed requests are added and subtracted like the integers that they are; a negative amount
borrows from the field above, and gives back when it is taken out.

A *room* is what is left of a quota, with the highest bit, the *sign*, of every field added. So all its fields are from
0 to 2^128 - 1, whatever is left, and none borrows from the next. In the difference of a room and a request the sign is
gone exactly where less than nothing would be left:

    room - request & asked == asked       the request fits: nothing is lacking where something is asked for
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias, final

__all__ = ["FIELD", "MASK", "SIGN", "Amounts", "Packing"]

#: What is requested: the position of a resource in the tree, and how much of it. Only what is listed can deny.
Amounts: TypeAlias = tuple[tuple[int, int], ...]

#: The bits of a field, the highest of them, and all of them.
FIELD: Final = 128
SIGN: Final = 1 << (FIELD - 1)
MASK: Final = (1 << FIELD) - 1


@final
class Packing:
    """How the amounts of one tree are packed.

    Args:
        resources: the names, in order; at least one where anything is held.
    """

    __slots__ = ("_fields", "_one", "resources", "signs")

    resources: tuple[str, ...]
    #: The signs of all fields.
    signs: int
    #: For each resource its name, the place of its field, and its sign.
    _fields: tuple[tuple[str, int, int], ...]
    #: One request, counted above all fields.
    _one: int

    def __init__(self, resources: tuple[str, ...]) -> None:
        self.resources = resources
        self._fields = tuple((name, FIELD * at, SIGN << FIELD * at) for at, name in enumerate(resources))
        self.signs = sum(sign for _, _, sign in self._fields)
        self._one = 1 << FIELD * len(resources)

    def room(self, quota: Sequence[int]) -> int:
        """Return the room that there is where nothing is charged."""
        return self.signs + sum(amount << FIELD * at for at, amount in enumerate(quota))

    def left(self, room: int) -> tuple[int, ...]:
        """Return what a room holds, by position."""
        return tuple([(room >> place & MASK) - SIGN for _, place, _ in self._fields])

    def request(self, amounts: Mapping[str, int]) -> tuple[int, int, int]:
        """Return a request; what the tree does not count is left out.

        Args:
            amounts: by name.

        Returns:
            What is asked for; the signs of the fields in which something is; and the most that there may be room for
            when it is given back, which is the request without what is negative. The first and the last count one
            request above all fields, so that a sum of them is 0 only if it is that of nobody.
        """
        packed = self._one
        asked = owed = 0
        for name, place, sign in self._fields:
            amount = amounts.get(name)
            if amount:
                asked += sign
                packed += amount << place
                if amount < 0:
                    owed += amount << place
        return packed, asked, packed - owed if owed else packed

    def summed(self, total: int) -> tuple[tuple[int, ...], int]:
        """Return what a sum of requests without negative amounts is, by position, and how many they are."""
        return self.left(total + self.signs), total // self._one

    def bits(self, union: int) -> int:
        """Return how many bits the largest of some amounts has, given all of their requests joined by "or".

        What is negative counts as 64 bits.
        """
        return min(64, max([(union >> place & MASK).bit_length() for _, place, _ in self._fields]))

    def amounts(self, packed: int, asked: int) -> Amounts:
        """Return what a request asks for."""
        listed = enumerate(self.left(packed + self.signs))
        return tuple((at, amount) for at, amount in listed if asked >> FIELD * at & SIGN)
