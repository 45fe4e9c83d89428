"""The quantity syntax of Kubernetes, parsed exactly.

A quantity is an optional sign, a number with an optional fraction, and at most one suffix: ``n u m k M G T P E``,
``Ki Mi Gi Ti Pi Ei``, or an exponent such as ``e3`` or ``E-3``. The syntax of queue configurations, which
`ugm.resources` reads, is different: it allows blanks, but no fractions, signs or exponents.

Rounding follows Kubernetes (source: Kubernetes, ``apimachinery/pkg/api/resource``): a quantity has a resolution of one
nano and is rounded away from zero, and a quantity with a binary suffix is capped at 2^63 - 1 without an error. The
result is then rounded away from zero to the base unit, so that a request above 0 is never lost. All arithmetic uses
integers.

There are two differences. Kubernetes reads a sign, a point or a suffix without any digit as 0; here it is an error, as
in the pattern with which Kubernetes describes quantities. And extremely long numbers (a text of more than 1,000
characters, a value of more than 100 digits before the point) are errors, because computing them takes too long.
"""

from __future__ import annotations

import re
from typing import Final

from ugm.errors import QuantityError

__all__ = ["parse_quantity"]

#: Powers of ten.
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
#: Powers of two.
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}

#: The resolution of a quantity in Kubernetes, as a negative power of ten.
_NANO: Final = 9
#: The value to which Kubernetes caps quantities with a binary suffix.
_BINARY_CAP: Final = (2**63 - 1) * 10**_NANO
#: Kubernetes stores an exponent in 32 bits.
_MAX_EXPONENT: Final = 2**31 - 1

#: A bound on the time of `int`, which is quadratic in the length of a text.
_MAX_LENGTH: Final = 1000
#: Digits before the point; a signed 64-bit integer has 19.
_MAX_DIGITS: Final = 100
_TOO_LARGE: Final = f"more than {_MAX_DIGITS} digits before the point"
#: Divided by this power of ten or a larger one, every number within `_MAX_LENGTH` is below one nano.
_VANISHING: Final = _MAX_LENGTH + 100

_QUANTITY: Final = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eE][+-]?[0-9]+|[A-Za-z]*)")


def parse_quantity(quantity: object, *, cpu: bool = False) -> int:
    """Read one quantity of a manifest.

    Args:
        quantity: a text, or a number as in YAML and JSON. A float is read as its shortest decimal text, which is the
            text of the manifest.
        cpu: if true, the base unit is one thousandth; otherwise it is one.

    Returns:
        The amount in base units, rounded away from zero. It may be negative, and larger than 64 bits.

    Raises:
        QuantityError: the value is not a quantity, or is too large.

    >>> parse_quantity("1.5Gi"), parse_quantity("100m"), parse_quantity("1e3")
    (1610612736, 1, 1000)
    >>> parse_quantity(0.5, cpu=True), parse_quantity("100n", cpu=True), parse_quantity("-1500u", cpu=True)
    (500, 1, -2)
    """
    text = _text(quantity)
    found = _QUANTITY.fullmatch(text)
    if found is None:
        raise QuantityError(text, "expected a number and at most one suffix")
    sign, whole, fraction, suffix = found.groups(default="")
    if not whole and not fraction:
        raise QuantityError(text, "expected a number with at least one digit")
    nanos = _nanos(text, whole + fraction, len(fraction), suffix)
    amount = _divide_up(nanos, _NANO - 3 if cpu else _NANO)
    return -amount if sign == "-" else amount


def _text(quantity: object) -> str:
    """Return a quantity as it is written in a manifest."""
    if isinstance(quantity, bool) or not isinstance(quantity, str | int | float):
        raise QuantityError(type(quantity).__name__, "expected a text or a number")
    # Python raises an error of its own when it converts a very long integer to text.
    if isinstance(quantity, int) and quantity.bit_length() > 4 * _MAX_DIGITS:
        raise QuantityError(f"integer of {quantity.bit_length()} bits", _TOO_LARGE)
    text = quantity if isinstance(quantity, str) else repr(quantity)
    if len(text) > _MAX_LENGTH:
        raise QuantityError(f"{text[:20]}...", f"more than {_MAX_LENGTH} characters")
    return text


def _nanos(text: str, digits: str, places: int, suffix: str) -> int:
    """Return the value of *digits*, with the point before the last *places*, in nanos."""
    twos, tens = _powers(text, suffix)
    tens -= places
    number = _number(digits)
    if number and len(digits.lstrip("0")) + tens > _MAX_DIGITS:
        raise QuantityError(text, _TOO_LARGE)
    tens += _NANO
    # A zero may have any exponent, from which no power must be computed.
    shifted = (number << twos) * 10 ** max(tens, 0) if number else 0
    nanos = _divide_up(shifted, min(-tens, _VANISHING))
    return min(nanos, _BINARY_CAP) if twos else nanos


def _powers(text: str, suffix: str) -> tuple[int, int]:
    """Return the powers of two and of ten that a suffix stands for."""
    if suffix in _DECIMAL:
        return 0, _DECIMAL[suffix]
    if suffix in _BINARY:
        return _BINARY[suffix], 0
    if not suffix[-1].isdigit():
        raise QuantityError(text, f"unknown suffix {suffix!r}")
    exponent = _number(suffix[1:].lstrip("+-"))
    if exponent > _MAX_EXPONENT:
        raise QuantityError(text, "the exponent has more than 32 bits")
    return 0, -exponent if suffix[1] == "-" else exponent


def _number(digits: str) -> int:
    """Convert digits, of which a setting of Python may allow no more than 640 at once."""
    half = _MAX_LENGTH // 2
    rest = digits[half:]
    unit: int = 10 ** len(rest)
    return int(digits[:half]) * unit + int(rest or "0")


def _divide_up(number: int, tens: int) -> int:
    """Divide a number that is not negative by a power of ten, and round up."""
    divisor: int = 10 ** max(tens, 0)
    return -(-number // divisor)
