"""The amounts of all resources of a tree side by side in one integer, so that one operation does for all of them.

Each resource has a field of 128 bits. An amount fits 64 bits with its sign, so the sum of as many as can be held fits
a field. Packed amounts are added and subtracted like the integers that they are. A *room* is what is left of a quota,
with the highest bit of every field added: in the difference of a room and a request that bit is gone exactly where
less than nothing would be left.

    room - request & asked == asked       the request fits: nothing is lacking where something is asked for
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias, final

__all__ = ["FIELD", "Amounts", "Packing"]

#: What is requested: the position of a resource in the tree, and how much of it. Only what is listed can deny.
Amounts: TypeAlias = tuple[tuple[int, int], ...]

#: The bits of a field.
FIELD: Final = 128

_SIGN: Final = 1 << (FIELD - 1)
_MASK: Final = (1 << FIELD) - 1


@final
class Packing:
    """How the amounts of one tree are packed.

    Args:
        resources: the names, in order.
    """

    __slots__ = ("_fields", "_many", "_one", "resources", "signs")

    resources: tuple[str, ...]
    #: The highest bits of all fields.
    signs: int
    #: For each resource its name, the place of its field, and the highest bit of it.
    _fields: tuple[tuple[str, int, int], ...]
    #: One request, and more of them than can be, so that a room is never negative as a whole.
    _one: int
    _many: int

    def __init__(self, resources: tuple[str, ...]) -> None:
        self.resources = resources
        self._fields = tuple((name, FIELD * at, _SIGN << FIELD * at) for at, name in enumerate(resources))
        self.signs = sum(sign for _, _, sign in self._fields)
        self._one = 1 << FIELD * len(resources)
        self._many = self._one << 40

    def room(self, quota: Sequence[int]) -> int:
        """Return the room that there is where nothing is charged."""
        return self._many + self.signs + sum(amount << FIELD * at for at, amount in enumerate(quota))

    def left(self, room: int) -> tuple[int, ...]:
        """Return what a room holds, by position."""
        return tuple([(room >> place & _MASK) - _SIGN for _, place, _ in self._fields])

    def request(self, amounts: Mapping[str, int]) -> tuple[int, int, int]:
        """Return a request; what the tree does not count is left out.

        Args:
            amounts: by name.

        Returns:
            What is asked for; the highest bit of each field in which something is; and the most that is free when it is
            given back, which is the request without what is negative. Above all fields they have a one, so that a sum
            of them is that of nobody only if it is 0.
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

    def bits(self, union: int) -> int:
        """Return how many bits the largest of some amounts has, given all of them joined by "or"."""
        # What is negative counts as the largest there can be.
        return min(64, max([(union >> place & _MASK).bit_length() for _, place, _ in self._fields]))

    def amounts(self, packed: int, asked: int) -> Amounts:
        """Return what a request asks for."""
        listed = enumerate(self.left(packed + self.signs))
        return tuple((at, amount) for at, amount in listed if asked >> FIELD * at & _SIGN)
