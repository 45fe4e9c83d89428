"""Ratios and shares of resources, compared exactly.

Source: Apache YuniKorn, package ``resources``, where they are floats.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import lru_cache
from math import inf
from typing import Final, TypeAlias, final

_Amounts: TypeAlias = Mapping[str, int]

#: The shares of an application, the largest first, each with its nearest float.
Shares: TypeAlias = "tuple[tuple[float, Ratio], ...]"

_NONE: Final[_Amounts] = {}


@final
class Ratio:
    """A fraction that is not reduced, and its nearest float.

    Two different floats order two ratios, because Python rounds a quotient correctly. Only equal floats need the
    integers. So a key of a sort contains `nearest` and then the ratio.
    """

    __slots__ = ("denominator", "nearest", "numerator")

    def __init__(self, numerator: int, denominator: int = 1) -> None:
        self.numerator: Final = numerator
        #: Positive.
        self.denominator: Final = denominator
        self.nearest: Final = _nearest(numerator, denominator)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Ratio):
            return NotImplemented
        return self.numerator * other.denominator == other.numerator * self.denominator

    def __lt__(self, other: Ratio) -> bool:
        return self.numerator * other.denominator < other.numerator * self.denominator

    def __hash__(self) -> int:
        return hash(self.fraction)

    @property
    def fraction(self) -> Fraction:
        """The reduced fraction."""
        return Fraction(self.numerator, self.denominator)

    @classmethod
    def used(cls, used: _Amounts, guaranteed: _Amounts, fair_maximum: _Amounts) -> Ratio:
        """Return the ratio of a queue: the largest part that it uses of its guarantee, or else of its fair maximum.

        A resource that neither names does not count. Where nothing is available, any usage counts as all of it.

        >>> Ratio.used({"vcore": 100, "memory": 5}, {"vcore": 400}, {"memory": 10}).fraction
        Fraction(1, 2)
        """
        largest = ZERO_RATIO
        for name, amount in used.items():
            available = guaranteed.get(name)
            if available is None:
                available = fair_maximum.get(name)
            if amount > 0 and available is not None:
                ratio = _ratio(amount, available) if available > 0 else _ALL
                largest = max(largest, ratio)
        return largest


@lru_cache(maxsize=1 << 12)
def _ratio(numerator: int, denominator: int) -> Ratio:
    """Return a ratio; mostly one object for equal ratios, because keys compare identical objects fast."""
    return Ratio(numerator, denominator)


def _nearest(numerator: int, denominator: int) -> float:
    try:
        return numerator / denominator
    except OverflowError:
        return inf if numerator > 0 else -inf


#: The ratio of a queue that uses nothing.
ZERO_RATIO: Final = Ratio(0)
_ALL: Final = Ratio(1)


def fair_maximum(maxima: Iterable[_Amounts | None]) -> dict[str, int]:
    """Return the maximum that the ratio of a queue refers to.

    That of the root is its maximum without zeros. Each queue below replaces the amounts that it sets itself.

    Args:
        maxima: the maximum of each queue on the path, the root first; None for one without a maximum.

    >>> fair_maximum([{"vcore": 10, "gpu": 0}, None, {"gpu": 2}])
    {'vcore': 10, 'gpu': 2}
    """
    found: dict[str, int] = {}
    for depth, maximum in enumerate(maxima):
        found |= {name: amount for name, amount in (maximum or _NONE).items() if depth or amount}
    return found


def shares(used: _Amounts, guaranteed: _Amounts, fair_maximum: _Amounts) -> Shares:
    """Return the shares of an application in its queue, the largest first, without zeros.

    The denominator is the guarantee of the queue, or else its fair maximum. Resources without either do not count.
    """
    found = []
    for name, amount in used.items():
        available = guaranteed.get(name, 0)
        if available <= 0:
            available = fair_maximum.get(name, 0)
        if available > 0 and amount:
            ratio = Ratio(amount, available)
            found.append((ratio.nearest, ratio))
    return tuple(sorted(found, reverse=True))
