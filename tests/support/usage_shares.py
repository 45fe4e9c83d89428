"""Shares of usages and their comparison, for tables of Apache YuniKorn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from math import inf
from typing import TypeAlias

from ugm.fairness import Level

__all__ = ["compare_shares", "compare_usage", "fairness_ratio", "share_list"]

_Amounts: TypeAlias = Mapping[str, int]


def share_list(used: _Amounts | None, total: _Amounts | None) -> list[Fraction]:
    """Return the shares of a usage in ascending order.

    The share of a resource that the total does not have is the amount itself.

    >>> share_list({"vcore": 5, "gpu": 2}, {"vcore": 10})
    [Fraction(1, 2), Fraction(2, 1)]
    """
    totals = total or {}
    return sorted(
        Fraction(amount, totals.get(name, 0) or 1) if amount else Fraction(0) for name, amount in (used or {}).items()
    )


def compare_shares(left: Sequence[Level], right: Sequence[Level]) -> int:
    """Return -1, 0 or 1 as the first of two ascending lists of shares is smaller, equal or greater.

    They are compared from the largest share down; a missing share counts as 0.

    >>> compare_shares([Fraction(0), Fraction(1)], [Fraction(1)])
    0
    """
    length = max(len(left), len(right))
    for position in range(1, length + 1):
        one = left[-position] if position <= len(left) else 0
        other = right[-position] if position <= len(right) else 0
        if one != other:
            return 1 if one > other else -1
    return 0


def compare_usage(
    left: _Amounts | None, right: _Amounts | None, total: _Amounts | None, only: Iterable[str] | None = None
) -> int:
    """Return -1, 0 or 1 as the first of two usages has smaller, equal or greater shares.

    Args:
        left: the first usage.
        right: the second usage.
        total: the denominators.
        only: the resources that count; None for all.
    """
    if only is not None:
        names = set(only)
        left, right = ({name: used[name] for name in used if name in names} for used in (left or {}, right or {}))
    return compare_shares(share_list(left, total), share_list(right, total))


def fairness_ratio(left: _Amounts | None, right: _Amounts | None, total: _Amounts | None) -> Level:
    """Return the largest share of the first usage divided by that of the second.

    If both are 0, the ratio is 1. If only the second is 0, the ratio is infinite with the sign of the first.
    """
    one, other = (max(share_list(used, total), default=Fraction(0)) for used in (left, right))
    if other:
        return one / other
    return Fraction(1) if not one else inf if one > 0 else -inf
