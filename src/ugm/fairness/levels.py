"""Levels of Fair Tree: how much of its share a competitor has left, as exact fractions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from functools import cmp_to_key
from math import inf
from operator import itemgetter
from typing import Final, NamedTuple, TypeAlias, TypeVar

__all__ = ["INFINITE", "Level", "Quotient", "groups_of_equals"]

T = TypeVar("T")

#: The level of a competitor without usage. It is greater than every fraction, and compares exactly with them.
INFINITE: Final = inf

_NEAREST: Final = itemgetter(0)

#: A fraction, or `INFINITE`; never another float.
Level: TypeAlias = Fraction | float


class Quotient(NamedTuple):
    """A level as a quotient that is not reduced, because reducing takes most of the time of a ranking."""

    #: Not negative.
    numerator: int
    #: Positive; 0 for an infinite level.
    denominator: int

    def level(self) -> Level:
        """Return the level."""
        return Fraction(*self) if self.denominator else INFINITE

    def nearest(self) -> float:
        """Return the nearest float.

        Python rounds the quotient of two integers correctly, so the floats of two levels are never in the wrong order:
        different floats decide, and equal ones leave the decision to the integers.
        """
        try:
            return self.numerator / self.denominator
        except (OverflowError, ZeroDivisionError):
            return inf


def groups_of_equals(items: Iterable[tuple[Quotient, T]]) -> Iterator[list[T]]:
    """Yield items with equal levels as groups, the highest level first."""
    sortable = sorted(((level.nearest(), level, item) for level, item in items), key=_NEAREST, reverse=True)
    start = 0
    while start < len(sortable):
        end, nearest = start + 1, sortable[start][0]
        while end < len(sortable) and sortable[end][0] == nearest:
            end += 1
        if end == start + 1:
            yield [sortable[start][2]]
        else:
            yield from _exact_groups([(level, item) for _, level, item in sortable[start:end]])
        start = end


def _exact_groups(items: list[tuple[Quotient, T]]) -> Iterator[list[T]]:
    """Yield the groups of items whose levels have the same float."""
    first = items[0][0]
    if all(_difference(level, first) == 0 for level, _ in items):
        yield [item for _, item in items]
        return
    order: Callable[[tuple[Quotient, T]], object] = cmp_to_key(lambda a, b: _difference(a[0], b[0]))
    group: list[T] = []
    before = first
    for level, item in sorted(items, key=order, reverse=True):  # type: ignore[arg-type] # its keys can be compared
        if group and _difference(level, before):
            yield group
            group = []
        group.append(item)
        before = level
    yield group


def _difference(one: Quotient, other: Quotient) -> int:
    """Return a number with the sign of the difference of two levels."""
    return one[0] * other[1] - other[0] * one[1]
