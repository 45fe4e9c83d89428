"""The rank correlation of two values over several subjects."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from math import sqrt

__all__ = ["rank_correlation"]


def rank_correlation(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Return the rank correlation (Spearman) of pairs of values, from -1 to 1; None if it is not defined.

    >>> rank_correlation([(1, 10), (2, 30), (3, 90)]), rank_correlation([(1, 3), (2, 3)])
    (1.0, None)
    """
    first, second = ([pair[side] for pair in pairs] for side in (0, 1))
    one, other = _ranks(first), _ranks(second)
    # The mean of all ranks, which are numbered from 1.
    middle = (len(pairs) + 1) / 2
    together = sum((a - middle) * (b - middle) for a, b in zip(one, other, strict=True))
    spread = sqrt(sum((a - middle) ** 2 for a in one) * sum((b - middle) ** 2 for b in other))
    return together / spread if spread else None


def _ranks(values: Sequence[float]) -> list[float]:
    """Return the ranks of values; equal values have the mean of their ranks."""
    found = [0.0] * len(values)
    before = 0
    for _, group in groupby(sorted(range(len(values)), key=values.__getitem__), key=values.__getitem__):
        equal = list(group)
        for position in equal:
            found[position] = before + (len(equal) + 1) / 2
        before += len(equal)
    return found
