"""Kubernetes quantities: what is one, what is none, and what it comes to in base units."""

from __future__ import annotations

import pytest

from ugm import QuantityError
from ugm.kubernetes import parse_quantity


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("007", 7),
        ("+7", 7),
        ("1.G", 10**9),
        ("2k", 2000),
        ("2M", 2 * 10**6),
        ("2T", 2 * 10**12),
        ("2P", 2 * 10**15),
        ("2E", 2 * 10**18),
        ("2Ki", 2**11),
        ("2Ti", 2**41),
        ("2Pi", 2**51),
        ("2Ei", 2**61),
        ("1E3", 1000),
        ("1.5e+3", 1500),
        ("2500e-2", 25),
        ("7000m", 7),
        ("7000000u", 7),
        ("7000000000n", 7),
        ("0.5Mi", 2**19),
        ("1.5Gi", 3 * 2**29),
    ],
)
def test_exact(text: str, amount: int) -> None:
    """Signs, fractions, suffixes and exponents mean what they mean to Kubernetes."""
    assert parse_quantity(text) == amount


@pytest.mark.parametrize(
    ("number", "amount"),
    [(2, 2000), (0, 0), (-1, -1000), (0.5, 500), (0.1, 100), (1e-07, 1), (1e16, 10**19), (2.0, 2000), (-0.0, 0)],
)
def test_numbers(number: float, amount: int) -> None:
    """A number without quotes is taken as it was written, not as the nearest binary fraction."""
    assert parse_quantity(number, cpu=True) == amount


@pytest.mark.parametrize("text", ["1e100", "1e2147483647", "0.1e102", "9" * 101, "1e1000000", f"1{'0' * 99}k"])
def test_too_large(text: str) -> None:
    """A number with more than a hundred digits before the point is refused without being computed."""
    with pytest.raises(QuantityError) as caught:
        parse_quantity(text)

    assert caught.value.args == (text, "more than 100 digits before the point")
