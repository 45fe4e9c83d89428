"""Choose the number of examples of property tests.

The number of examples that hypothesis draws depends on its profile. A full run draws `ALL` examples for a property. By
default a run draws fewer, so that it stays short. A test with settings of its own takes its number through `examples`,
and so shrinks in the same proportion.
"""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import settings

__all__ = ["ALL", "FEW", "examples", "seeds"]

#: How many examples of a property a full run draws.
ALL: Final = 40

#: How many of them are drawn by default.
FEW: Final = 5


def examples(count: int) -> int:
    """Return how many examples the profile in force draws where a full run draws *count*."""
    return max(1, count * min(settings().max_examples, ALL) // ALL)


def seeds(few: int, count: int) -> list[Any]:
    """Return *count* seeds of random scenes as parameters of a test. All but the first *few* are ``ci``."""
    return [pytest.param(seed, marks=() if seed < few else pytest.mark.ci) for seed in range(count)]
