"""Kubernetes quantities: what is one, what is none, and what it comes to in base units."""

from __future__ import annotations

import pytest

from ugm.kubernetes import parse_quantity


@pytest.mark.parametrize(
    ("number", "amount"),
    [(2, 2000), (0, 0), (-1, -1000), (0.5, 500), (0.1, 100), (1e-07, 1), (1e16, 10**19), (2.0, 2000), (-0.0, 0)],
)
def test_numbers(number: float, amount: int) -> None:
    """A number without quotes is taken as it was written, not as the nearest binary fraction."""
    assert parse_quantity(number, cpu=True) == amount
