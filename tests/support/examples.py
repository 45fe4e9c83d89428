"""Choose the number of examples of property tests.

The number of examples that hypothesis draws depends on its profile. A full run draws `ALL` examples for a property. By
default a run draws fewer, so that it stays short. A test with settings of its own takes its number through `examples`,
and so shrinks in the same proportion.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import pytest
from hypothesis import settings

__all__ = ["ALL", "FEW", "examples", "graded", "pairs", "seeds"]

#: How many examples of a property a full run draws.
ALL: Final = 40

#: How many of them are drawn by default.
FEW: Final = 4


def examples(count: int) -> int:
    """Return how many examples the profile in force draws where a full run draws *count*."""
    return max(1, count * settings().max_examples // ALL)


def seeds(few: int, count: int) -> list[Any]:
    """Return *count* seeds of random scenes as parameters of a test. All but the first *few* are ``ci``."""
    return [pytest.param(seed, marks=() if seed < few else pytest.mark.ci) for seed in range(count)]


def graded(some: Iterable[tuple[object, ...]], few: int, every: Iterable[tuple[object, ...]], many: int) -> list[Any]:
    """Return parameters of a test: *some* cases at a grade that is quick, and *every* case at a thorough one as ``ci``.

    The grade is the last parameter.
    """
    return [
        *(pytest.param(*case, few) for case in some),
        *(pytest.param(*case, many, marks=pytest.mark.ci) for case in every),
    ]


def pairs(rows: Sequence[object], columns: Sequence[object]) -> list[Any]:
    """Return all pairs as parameters of a test. All but those with the first row or the first column are ``ci``."""
    return [
        pytest.param(row, column, marks=pytest.mark.ci if row is not rows[0] and column is not columns[0] else ())
        for row in rows
        for column in columns
    ]
