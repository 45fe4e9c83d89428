"""Choose the number of examples of property tests.

The number of examples that hypothesis draws depends on its profile. The profile ``ci`` draws `MANY` examples for a
property, the default one `FEW`, and ``deep`` thousands. A test with settings of its own takes its number through
`examples`, and so grows or shrinks in the same proportion.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pytest
from hypothesis import settings

#: How many examples of a property the profile ``ci`` draws.
MANY: Final = 20

#: How many are drawn by default.
FEW: Final = 4

#: To how many examples of a property the numbers of `examples` belong.
_USUAL: Final = 40


def examples(count: int) -> int:
    """Return how many examples the profile in force draws where a profile of 40 examples draws *count*."""
    return max(1, count * settings().max_examples // _USUAL)


def seeds(few: int, many: int, most: int) -> list[Any]:
    """Return seeds of random scenes as parameters of a test: *few* by default, *many* as ``ci``, *most* as ``deep``."""
    return [
        *range(few),
        *(pytest.param(seed, marks=pytest.mark.ci) for seed in range(few, many)),
        *(pytest.param(seed, marks=pytest.mark.deep) for seed in range(many, most)),
    ]


def pairs(rows: Sequence[object], columns: Sequence[object]) -> list[Any]:
    """Return all pairs as parameters of a test. All but those with the first row or the first column are ``ci``."""
    return [
        pytest.param(row, column, marks=pytest.mark.ci if row is not rows[0] and column is not columns[0] else ())
        for row in rows
        for column in columns
    ]
