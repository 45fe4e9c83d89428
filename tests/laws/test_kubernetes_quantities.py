"""Laws of Kubernetes quantities: the grammar decides what is one, and rational arithmetic what it comes to."""

from __future__ import annotations

import re
from contextlib import suppress
from fractions import Fraction
from math import ceil
from typing import Final

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from support.examples import examples
from ugm.errors import QuantityError
from ugm.kubernetes import parse_quantity

DIGITS: Final = frozenset("0123456789")
SUFFIXES: Final = {
    **{suffix: Fraction(1000) ** power for power, suffix in enumerate(["n", "u", "m", "", "k", *"MGTPE"], start=-3)},
    **{f"{letter}i": Fraction(1024) ** power for power, letter in enumerate("KMGTPE", start=1)},
}
LARGEST: Final = 2**63 - 1
TOO_LARGE: Final = 10**100
LONG_EXPONENT: Final = re.compile("[eE][+-]?[0-9]{5}")

whole = st.text("0123456789", min_size=1, max_size=25)
signs = st.sampled_from(["", "+", "-"])
numbers = st.one_of(whole, whole.map("{}.".format), whole.map(".{}".format), st.tuples(whole, whole).map(".".join))
exponents = st.builds("{}{}{}".format, st.sampled_from("eE"), signs, st.integers(0, 40))
suffixes = st.one_of(st.sampled_from(sorted(SUFFIXES)), exponents)
quantities = st.builds("{}{}{}".format, signs, numbers, suffixes)
#: Texts of the same signs, most of which are no quantities.
scraps = st.text("0123456789.+-eEinumkKMGTPxN_ \n\u0661", max_size=8)


def digits_only(text: str) -> bool:
    """Tell whether there are digits, and nothing else."""
    return bool(text) and set(text) <= DIGITS


def magnitude(text: str) -> Fraction | None:
    """Read a quantity without its sign, by the grammar, one production after the other; None if it is none."""
    for suffix in sorted(SUFFIXES, key=len, reverse=True):
        if text.endswith(suffix) and (value := number(text[: len(text) - len(suffix)])) is not None:
            exact = value * SUFFIXES[suffix]
            return min(exact, Fraction(LARGEST)) if suffix.endswith("i") else exact
    front, e, exponent = text.replace("E", "e", 1).partition("e")
    value = number(front)
    if e and value is not None and digits_only(exponent[exponent[:1] in ("+", "-") :]):
        return value * Fraction(10) ** int(exponent)
    return None


def number(text: str) -> Fraction | None:
    """Read digits with at most one point among, before or after them."""
    front, _, back = text.partition(".")
    return Fraction(int(front + back), 10 ** len(back)) if digits_only(front + back) else None


def oracle(text: str, unit: int) -> int | None:
    """Return the amount in thousandths (1000) or whole units (1), or None for what is no quantity."""
    exact = magnitude(text[text[:1] in ("+", "-") :])
    if exact is None:
        return None
    amount = ceil(ceil(exact * 10**9) * Fraction(unit, 10**9))
    return -amount if text[0] == "-" else amount


@given(quantities, st.booleans())
def test_value(text: str, cpu: bool) -> None:  # noqa: FBT001 - drawn, not chosen by a caller
    """Every text of the grammar is read, and its amount is the exact one rounded away from zero."""
    assert parse_quantity(text, cpu=cpu) == oracle(text, 1000 if cpu else 1)


@given(st.one_of(scraps, st.builds("{}{}".format, quantities, scraps), st.text(max_size=8)))
def test_language(text: str) -> None:
    """A text is read if and only if the grammar has it; anything else ends in the one typed error."""
    # Longer exponents are the business of the last law: this oracle computes them.
    assume(LONG_EXPONENT.search(text) is None)
    expected = oracle(text, 1)
    try:
        found = parse_quantity(text)
    except QuantityError:
        found = None

    assert found == (None if expected is not None and abs(expected) >= TOO_LARGE else expected)


@given(st.builds("1{}{}".format, st.sampled_from(["e", "E", "e+", "e-", "."]), st.text("0123456789", min_size=1)))
@settings(max_examples=examples(50))
def test_any_exponent_ends_quickly(text: str) -> None:
    """Exponents of any length end in an amount or in the typed error, and are never computed."""
    with suppress(QuantityError):
        assert parse_quantity(text) < TOO_LARGE


@pytest.mark.parametrize(
    ("number", "amount"),
    [(2, 2000), (0, 0), (-1, -1000), (0.5, 500), (0.1, 100), (1e-07, 1), (1e16, 10**19), (2.0, 2000), (-0.0, 0)],
)
def test_numbers(number: float, amount: int) -> None:
    """A number without quotes is taken as it was written, not as the nearest binary fraction."""
    assert parse_quantity(number, cpu=True) == amount
