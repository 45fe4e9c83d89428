"""The quantity syntax of Kubernetes, parsed exactly.

A quantity is an optional sign, a number with an optional fraction, and at most one suffix: ``n u m k M G T P E``,
``Ki Mi Gi Ti Pi Ei``, or an exponent such as ``e3`` or ``E-3``. The syntax of queue configurations, which
`ugm.resources` reads, is different: it allows blanks, but no fractions, signs or exponents.

Rounding follows Kubernetes (source: Kubernetes, ``apimachinery/pkg/api/resource``): a quantity has a resolution of one
nano and is rounded away from zero, and a quantity with a binary suffix is capped at 2^63 - 1 without an error. The
result is then rounded away from zero to the base unit, so that a request above 0 is never lost. All arithmetic is
exact.

There are two differences. Kubernetes reads a sign, a point or a suffix without any digit as 0; here it is an error, as
in the pattern with which Kubernetes describes quantities. And extremely long numbers (a text of more than 600
characters, a value of more than 100 digits before the point) are errors, because computing them takes too long.
"""

from __future__ import annotations

import re
from decimal import MAX_EMAX, MIN_EMIN, ROUND_UP, Context, Decimal
from typing import Final

from ugm.errors import QuantityError

__all__ = ["parse_quantity"]

_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}

#: The resolution of a quantity in Kubernetes.
_NANO: Final = Decimal("1e-9")
#: The value to which Kubernetes caps quantities with a binary suffix.
_BINARY_CAP: Final = Decimal(2**63 - 1)
#: Kubernetes stores an exponent in 32 bits.
_MAX_EXPONENT: Final = 2**31 - 1

#: A bound on the time of `int`, which is quadratic in the length of a text, and on what it accepts.
_MAX_LENGTH: Final = 600
#: Digits before the point; a signed 64-bit integer has 19.
_MAX_DIGITS: Final = 100
_TOO_LARGE: Final = f"more than {_MAX_DIGITS} digits before the point"
#: Rounds away from zero. Products of numbers within `_MAX_LENGTH` are exact.
_CONTEXT: Final = Context(prec=2 * _MAX_LENGTH, rounding=ROUND_UP, Emin=MIN_EMIN, Emax=MAX_EMAX)

_QUANTITY: Final = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(?:[eE]([+-]?[0-9]+)|([A-Za-z]*))")


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
    number, exponent, suffix = found.groups(default="")
    if abs(int(exponent or 0)) > _MAX_EXPONENT:
        raise QuantityError(text, "the exponent has more than 32 bits")
    if suffix not in _DECIMAL and suffix not in _BINARY:
        raise QuantityError(text, f"unknown suffix {suffix!r}")
    value = Decimal(f"{number}e{exponent or _DECIMAL.get(suffix, 0)}")
    if value and value.adjusted() >= _MAX_DIGITS:
        raise QuantityError(text, _TOO_LARGE)
    value = _CONTEXT.quantize(_CONTEXT.multiply(value, Decimal(2 ** _BINARY.get(suffix, 0))), _NANO)
    if suffix in _BINARY:
        value = max(min(value, _BINARY_CAP), -_BINARY_CAP)
    return int(_CONTEXT.quantize(value.scaleb(3 if cpu else 0, _CONTEXT), Decimal(1)))


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
