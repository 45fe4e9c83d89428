"""Kubernetes quantities: what is one, what is none, and what it comes to in base units."""

from __future__ import annotations

import pytest

from ugm import QuantityError
from ugm.kubernetes import parse_quantity

LARGEST = 2**63 - 1


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("0", 0),
        ("7", 7),
        ("007", 7),
        ("+7", 7),
        ("5.", 5),
        ("1.G", 10**9),
        ("2k", 2000),
        ("2M", 2 * 10**6),
        ("2G", 2 * 10**9),
        ("2T", 2 * 10**12),
        ("2P", 2 * 10**15),
        ("2E", 2 * 10**18),
        ("2Ki", 2**11),
        ("2Mi", 2**21),
        ("2Gi", 2**31),
        ("2Ti", 2**41),
        ("2Pi", 2**51),
        ("2Ei", 2**61),
        ("1e3", 1000),
        ("1E3", 1000),
        ("1.5e+3", 1500),
        ("2500e-2", 25),
        ("1e003", 1000),
        ("7000m", 7),
        ("7000000u", 7),
        ("7000000000n", 7),
        ("0.5Mi", 2**19),
        ("1.5Gi", 3 * 2**29),
        ("100.035k", 100_035),
    ],
)
def test_exact(text: str, amount: int) -> None:
    """Signs, fractions, suffixes and exponents mean what they mean to Kubernetes."""
    assert parse_quantity(text) == amount


@pytest.mark.parametrize(
    "text", ["1n", "1u", "1m", "100m", "999m", ".5", "0.5", "+.5", "1e-9", "1e-30", "0.9n", "1e-2147483647", ".0001Ki"]
)
def test_rounds_up(text: str) -> None:
    """Whoever asks for a part of a unit gets one: 100m of memory is a byte."""
    assert parse_quantity(text) == 1


@pytest.mark.parametrize(
    ("text", "amount"),
    [("100n", 1), ("1m", 1), ("1.5m", 2), ("250m", 250), ("0.1", 100), ("2", 2000), ("1k", 10**6), (".0005", 1)],
)
def test_cpu_in_thousandths(text: str, amount: int) -> None:
    """Cores are counted in thousandths: 100n is one of them."""
    assert parse_quantity(text, cpu=True) == amount


@pytest.mark.parametrize(("text", "amount"), [("-1", -1), ("-1500m", -2), ("-.1", -1), ("-0", 0), ("-2Ki", -2048)])
def test_negative(text: str, amount: int) -> None:
    """A negative quantity is one, and is rounded away from zero as Kubernetes does."""
    assert parse_quantity(text) == amount


@pytest.mark.parametrize("text", ["8Ei", "9Ei", "100Ei", "9223372036854775807Ki", "8191.9999999999999999999Pi"])
def test_binary_capped(text: str) -> None:
    """Kubernetes caps a quantity with a binary suffix at 64 bits."""
    assert parse_quantity(text) == LARGEST
    assert parse_quantity(f"-{text}") == -LARGEST


@pytest.mark.parametrize(
    ("number", "amount"),
    [(2, 2000), (0, 0), (-1, -1000), (0.5, 500), (0.1, 100), (1e-07, 1), (1e16, 10**19), (2.0, 2000), (-0.0, 0)],
)
def test_numbers(number: float, amount: int) -> None:
    """A number without quotes is taken as it was written, not as the nearest binary fraction."""
    assert parse_quantity(number, cpu=True) == amount


@pytest.mark.parametrize(
    "text",
    [
        *(" 1", "1 ", "1 Gi", " ", "1_000", "1,5", "1\n", "1.5.2", "+-1", "1-", "--1", "1+1", "1e3Ki", "1e1.5", "1e3m"),
        *(
            "1e+",
            "1E-",
            "0x10",
            "1e3e3",
            "1Gi2",
            "\u0661",
            "1\u0660",
            "\uff11",
            "\u00bd",
            "\u0661e3",
            "1\u212a",
            "\u22121",
        ),
    ],
)
def test_malformed(text: str) -> None:
    """A quantity is a number and at most one suffix, in ASCII and without blanks."""
    with pytest.raises(QuantityError) as caught:
        parse_quantity(text)

    assert str(caught.value) == f"{text!r} is not a quantity: expected a number and at most one suffix"


@pytest.mark.parametrize("value", [True, False, None, b"1", ["1"], {"cpu": 1}, 1j])
def test_other_types(value: object) -> None:
    """Booleans and everything else that is neither text nor number are refused."""
    with pytest.raises(QuantityError) as caught:
        parse_quantity(value)

    assert str(caught.value) == f"{type(value).__name__!r} is not a quantity: expected a text or a number"


@pytest.mark.parametrize("text", ["1e100", "1e2147483647", "0.1e102", "9" * 101, "1e1000000", f"1{'0' * 99}k"])
def test_too_large(text: str) -> None:
    """A number with more than a hundred digits before the point is refused without being computed."""
    with pytest.raises(QuantityError) as caught:
        parse_quantity(text)

    assert caught.value.args == (text, "more than 100 digits before the point")


def test_huge_integer() -> None:
    """An integer that Python refuses to write out is refused with an error that can be written out."""
    with pytest.raises(QuantityError) as caught:
        parse_quantity(10**5000)

    assert str(caught.value) == "'integer of 16610 bits' is not a quantity: more than 100 digits before the point"
