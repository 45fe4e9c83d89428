"""Exact integer resource vectors, and the quantity syntax of queue configurations.

Amounts are integers in base units: ``vcore`` in thousandths of a core, ``memory`` in bytes, every other resource in
units. Amounts are integers without an upper bound, so sums are exact.

The meaning of a missing name depends on the use: in a usage it means 0, in a limit it means *unlimited*. An explicit 0
in a limit allows none of the resource, so a `Resource` keeps zeros.
"""

from __future__ import annotations

import re
import sys
from collections.abc import ItemsView, Iterable, Iterator, Mapping
from operator import index
from typing import TYPE_CHECKING, Any, Final, Self, final

from ugm.errors import QuantityError, RequestError, number_text

if TYPE_CHECKING:
    from fractions import Fraction  # takes as long to import as the rest of this module

#: The only resource that is counted in thousandths and allows the suffix ``m``.
VCORE: Final = "vcore"

#: The resource that is counted in bytes.
MEMORY: Final = "memory"

#: The maximum length of the name of a resource, in characters.
MAX_RESOURCE_NAME: Final = 256

#: In seconds.
_HOUR: Final = 3600
#: Configuration quantities must fit a signed 64-bit integer; sums of usage need not.
MAX_QUANTITY: Final = 2**63 - 1

_DECIMAL: Final = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18}
_BINARY: Final = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}
_MULTIPLIERS: Final = _DECIMAL | _BINARY

#: Unicode white space. `str.strip` without an argument would also remove the separators U+001C to U+001F.
_BLANKS: Final = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
#: A quantity of another syntax, for suggestions.
_LOOSE: Final = re.compile(r"([0-9][0-9,_]*(?:\.[0-9]+)?)[\t\n\f\r ]*([A-Za-z]*)", re.ASCII)
_LONGEST_LOOSE: Final = 30
_NEGATIVE: Final = re.compile(rf"[{_BLANKS}]*-[0-9.]")
_QUANTITY: Final = re.compile(r"([0-9]+)[\t\n\f\r ]*([A-Za-z]*)", re.ASCII)


@final
class Resource(Mapping[str, int]):
    """An immutable vector of named amounts, in base units.

    The base unit of ``vcore`` is one thousandth of a core, that of ``memory`` one byte, and that of any other resource
    one unit. So ``Resource(vcore=4)`` is 4 thousandths of a core. `parse` reads quantities with units instead:

    >>> Resource.parse(vcore="4", memory="2Gi", gpu="1")
    Resource(gpu=1, memory=2147483648, vcore=4000)

    Build a vector once and reuse it: the engine caches derived values in the vector.

    Args:
        amounts: amounts by name, for names that are not Python identifiers.
        named: amounts as keyword arguments.

    Raises:
        RequestError: *amounts* is not a mapping, a name is not a text of 1 to 256 characters, or an amount is not an
            integer. An `int` and integers of other libraries, such as numpy, are stored as `int`; a `bool` or a `float`
            is not accepted.

    >>> Resource(vcore=500, memory=2**30)
    Resource(memory=1073741824, vcore=500)
    >>> Resource({"nvidia.com/gpu": 2})["nvidia.com/gpu"]
    2

    A zero is kept, because it differs from a missing name if the vector is a limit:

    >>> Resource(vcore=0) == Resource()
    False

    Vectors are added, subtracted, and multiplied by an `int`:

    >>> 2 * Resource(vcore=500) + Resource(memory=7)
    Resource(memory=7, vcore=1000)
    """

    __slots__ = ("amounts", "compiled")

    #: Sorted by name, so that all derived values have one order. Never changed after construction.
    amounts: Mapping[str, int]
    #: A cache of `ugm.counters`; not a part of the value.
    compiled: tuple[object, Any]

    def __init__(self, amounts: Mapping[str, int] | None = None, /, **named: int) -> None:
        try:
            given = named if amounts is None else {**amounts, **named}
        except TypeError:
            raise _mapping_error(amounts) from None
        for name, amount in given.items():
            if type(name) is not str or not name or len(name) > MAX_RESOURCE_NAME:
                raise RequestError("resource", name, "a resource name is a text of 1 to 256 characters")
            if type(amount) is not int:
                given[name] = _exact_amount(name, amount)
        self.amounts = dict(sorted(given.items()))
        self.compiled = (None, ())

    @classmethod
    def parse(cls, quantities: Mapping[str, str] | None = None, /, **named: str) -> Self:
        """Parse a vector in the syntax of queue configurations.

        Raises:
            QuantityError: one of the texts is not a quantity.
            RequestError: the names or the mapping are invalid.

        >>> Resource.parse(vcore="2", memory="4Gi")
        Resource(memory=4294967296, vcore=2000)
        """
        if quantities is not None and not isinstance(quantities, Mapping):
            raise _mapping_error(quantities)
        given = {**(quantities or {}), **named}
        return cls({name: parse_quantity(text, vcore=name == VCORE) for name, text in given.items()})

    def __getitem__(self, name: str) -> int:
        return self.amounts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.amounts)

    def __len__(self) -> int:
        return len(self.amounts)

    def items(self) -> ItemsView[str, int]:
        """Return the pairs of a name and an amount, sorted by name."""
        return self.amounts.items()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Resource):
            return self.amounts == other.amounts
        return NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self.amounts.items()))

    def __add__(self, other: Resource) -> Resource:
        total = {**self.amounts}
        try:
            for name, amount in other.amounts.items():
                total[name] = total.get(name, 0) + amount
        except AttributeError:
            return NotImplemented
        return Resource(total)

    def __sub__(self, other: Resource) -> Resource:
        rest = {**self.amounts}
        try:
            for name, amount in other.amounts.items():
                rest[name] = rest.get(name, 0) - amount
        except AttributeError:
            return NotImplemented
        return Resource(rest)

    def __mul__(self, count: int) -> Resource:
        if type(count) is not int:
            return NotImplemented
        return Resource({name: amount * count for name, amount in self.amounts.items()})

    __rmul__ = __mul__

    def __repr__(self) -> str:
        texts = {name: number_text(amount) for name, amount in self.amounts.items()}
        if all(map(str.isidentifier, texts)):
            return f"Resource({', '.join(f'{name}={text}' for name, text in texts.items())})"
        return f"Resource({{{', '.join(f'{name!r}: {text}' for name, text in texts.items())}}})"

    def __str__(self) -> str:
        return ", ".join(f"{name} {format_amount(name, amount)}" for name, amount in self.amounts.items()) or "nothing"

    def __reduce__(self) -> tuple[type[Resource], tuple[dict[str, int]]]:
        return Resource, (dict(self.amounts),)

    def fits_in(self, limit: Resource | None, *, closed: bool = False) -> bool:
        """Return whether the usage is within a limit: a headroom, a maximum, or the resources of a node.

        A resource with the amount 0 always fits.

        Args:
            limit: the limit. A resource that it does not name is unlimited; None limits nothing.
            closed: if true, resources missing from the limit are not allowed, as on a node.

        Raises:
            RequestError: the limit is of another type.

        >>> (3 * Resource(vcore=1000)).fits_in(Resource(vcore=4000))
        True
        >>> gpus = Resource(vcore=1000, gpu=1)
        >>> gpus.fits_in(Resource(vcore=4000)), gpus.fits_in(Resource(vcore=4000), closed=True)
        (True, False)
        """
        most: Mapping[str, int] = Resource() if limit is None else limit
        if type(most) is not Resource and not isinstance(most, Mapping):
            raise RequestError("limit", limit, "expected a Resource, or None")
        return all(amount <= most.get(name, 0 if closed else amount) for name, amount in self.amounts.items() if amount)

    def without_zeros(self) -> Resource:
        """Return the vector without zeros, as usage is displayed.

        >>> Resource(vcore=0, memory=5).without_zeros()
        Resource(memory=5)
        """
        return Resource({name: amount for name, amount in self.amounts.items() if amount})


def _exact_amount(name: str, amount: object) -> int:
    """Return an integer of another type as an `int`."""
    try:
        if not isinstance(amount, bool):
            return int(index(amount))  # type: ignore[arg-type] # an object that is no integer raises
    except TypeError:
        pass
    raise RequestError(name, amount, "an amount is an int, in base units")


def _mapping_error(amounts: object) -> RequestError:
    return RequestError("amounts", amounts, "expected a mapping from names to amounts, for example a dict")


def is_resource_name(name: str) -> bool:
    """Return whether a text can be the name of a resource in a configuration."""
    return 0 < len(name) <= MAX_RESOURCE_NAME and not any(map(str.isspace, name))


def sum_of(vectors: Iterable[Mapping[str, int]]) -> Resource:
    """Return the sum of several vectors, without zeros.

    >>> sum_of([Resource(vcore=2, memory=5), {"memory": -5}])
    Resource(vcore=2)
    """
    total: dict[str, int] = {}
    for vector in vectors:
        for name, amount in vector.items():
            total[name] = total.get(name, 0) + amount
    return Resource(total).without_zeros()


def smallest_amounts(amounts: Iterable[tuple[str, int]]) -> Resource | None:
    """Return the smallest amount of each resource, for example of several maxima; None without amounts.

    >>> smallest_amounts([("memory", 4), ("vcore", 1), ("memory", 3)])
    Resource(memory=3, vcore=1)
    """
    smallest: dict[str, int] = {}
    for name, amount in amounts:
        smallest[name] = min(amount, smallest.get(name, amount))
    return Resource(smallest) if smallest else None


def optional_dict(amounts: Mapping[str, int] | None) -> dict[str, int] | None:
    """Return amounts for JSON; None for None."""
    return None if amounts is None else dict(amounts)


def as_float(number: Fraction | int) -> float:
    """Return the nearest float; for a number beyond the range of floats, the largest float of its sign.

    >>> as_float(10**400) > 10**300
    True
    """
    try:
        return float(number)
    except OverflowError:
        return sys.float_info.max if number > 0 else -sys.float_info.max


def parse_quantity(text: str, *, vcore: bool = False) -> int:
    """Parse one quantity of a queue configuration.

    A quantity has digits, optional white space, and optionally one of the suffixes ``k M G T P E Ki Mi Gi Ti Pi Ei``.
    With *vcore*, the suffix ``m`` is allowed as well, and a number without it counts whole cores.

    Args:
        text: the text of the quantity.
        vcore: if true, the quantity is an amount of ``vcore``.

    Returns:
        The amount in base units.

    Raises:
        QuantityError: the text has another form, or the amount does not fit a signed 64-bit integer.

    >>> parse_quantity("2 Gi")
    2147483648
    >>> parse_quantity("2", vcore=True), parse_quantity("250m", vcore=True)
    (2000, 250)
    """
    if not isinstance(text, str):
        raise QuantityError(repr(text), f"expected a text such as '4Gi', found {type(text).__name__}")
    found = _QUANTITY.fullmatch(text.strip(_BLANKS))
    if found is None:
        reason = "must not be negative" if _NEGATIVE.match(text) else "expected digits and at most one suffix"
        raise QuantityError(text, reason + _suggestion(text, vcore=vcore))
    digits, suffix = found.groups()
    if vcore and suffix == "m":
        multiplier = 1
    elif suffix in _MULTIPLIERS:
        multiplier = _MULTIPLIERS[suffix] * (1000 if vcore else 1)
    else:
        known = " ".join(["m"] * vcore + list(filter(None, _MULTIPLIERS)))
        raise QuantityError(text, f"unknown suffix {suffix!r}{_suggestion(text, vcore=vcore)} (known: {known})")
    amount = bounded_int(digits, MAX_QUANTITY) * multiplier
    if amount > MAX_QUANTITY:
        raise QuantityError(text, f"too large (allowed: up to {MAX_QUANTITY} base units)")
    return amount


def _suggestion(text: str, *, vcore: bool) -> str:
    """Return the end of a message with the nearest valid quantities; empty if there are none."""
    from fractions import Fraction  # noqa: PLC0415 - see above

    found = _LOOSE.fullmatch(text.strip(_BLANKS)[:_LONGEST_LOOSE])
    if found is None:
        return ""
    number, suffix = found[1].replace(",", "").replace("_", ""), found[2]
    whole, _, part = number.partition(".")
    multipliers: dict[str, Fraction | int] = {"m": Fraction(1, 1000), **_MULTIPLIERS} if vcore else {**_MULTIPLIERS}
    texts = []
    for known in [suffix] if suffix in multipliers else multipliers:
        amount = Fraction(int(whole + part), 10 ** len(part)) * multipliers[known] * (1000 if vcore else 1)
        if amount.denominator == 1 and amount <= MAX_QUANTITY and _is_meant(suffix.lower(), known):
            exact = format_amount(VCORE if vcore else MEMORY, amount.numerator)
            texts.append(exact if part else f"{int(number)}{known}")
    return f"; write {' or '.join(texts)}" if texts else ""


def _is_meant(suffix: str, known: str) -> bool:
    """Return whether a suffix such as ``gb`` or ``gib`` probably stands for a known one."""
    letters = suffix.removesuffix("ytes").removesuffix("yte").removesuffix("b")
    return letters == known.lower() or (letters == known.lower().removesuffix("i") and bool(letters))


def bounded_int(digits: str, maximum: int) -> int:
    """Parse decimal digits; return a number above the maximum for any larger number.

    Numbers with more digits than the maximum are not converted, because `int` takes time quadratic in their length.

    >>> bounded_int("007", 10), bounded_int("9" * 1_000_000, 10)
    (7, 11)
    """
    significant = digits.lstrip("0") or "0"
    return int(significant) if len(significant) <= len(str(maximum)) else maximum + 1


def format_amount(name: str, amount: int) -> str:
    """Format an amount in the shortest form of the configuration syntax; exact unless it has hundreds of digits.

    >>> format_amount("memory", 3 * 2**30), format_amount("vcore", 2500), format_amount("vcore", 2000)
    ('3Gi', '2500m', '2')
    """
    if name == VCORE:
        return f"{number_text(amount)}m" if amount % 1000 else number_text(amount // 1000)
    if name != MEMORY:
        return number_text(amount)
    for suffix, multiplier in sorted(_MULTIPLIERS.items(), key=lambda item: -item[1]):
        if amount and not amount % multiplier:
            return f"{number_text(amount // multiplier)}{suffix}"
    return number_text(amount)


def brief_amount(name: str | None, amount: Fraction | int) -> str:
    """Format an amount for people, rounded: cores, bytes with a suffix, or a count.

    >>> brief_amount("vcore", 2500), brief_amount("memory", 3 * 2**29 + 1), brief_amount(None, 1200)
    ('2.5', '1.5Gi', '1,200')
    """
    if name == VCORE:
        return _decimals(amount, 1000, 3)
    if name != MEMORY:
        return _decimals(amount, 1, 2) if amount.denominator != 1 else _grouped(int(amount))
    suffix, unit = next(
        ((suffix, unit) for suffix, unit in reversed(_BINARY.items()) if unit <= amount or unit <= -amount), ("", 1)
    )
    return _decimals(amount, unit, 2) + suffix


def usage_texts(name: str, *amounts: Fraction | int) -> tuple[list[str], str]:
    """Format amounts times seconds for people, rounded, in hours if one of them is at least a unit for an hour.

    Returns:
        A text for each amount, and their common unit.

    >>> usage_texts("vcore", 5_400_000, 36_000_000), usage_texts("gpu", 10, 3600)
    ((['1.5', '10'], 'vcore-hours'), (['<0.01', '1'], 'gpu-hours'))
    """
    from fractions import Fraction  # noqa: PLC0415 - see above

    hour = _HOUR * (1000 if name == VCORE else 1)
    is_long = any(amount >= hour or -amount >= hour for amount in amounts)
    texts = [brief_amount(name, Fraction(amount) / (_HOUR if is_long else 1)) for amount in amounts]
    shown = ["<0.01" if text in ("0", "-0") and amount else text for text, amount in zip(texts, amounts, strict=True)]
    return shown, f"{name}-{'hours' if is_long else 'seconds'}"


def _grouped(number: int) -> str:
    return f"{number:,}" if abs(number) <= MAX_QUANTITY else number_text(number)


def _decimals(amount: Fraction | int, unit: int, most: int) -> str:
    from fractions import Fraction  # noqa: PLC0415 - see above

    return f"{as_float(Fraction(amount) / unit):,.{most}f}".rstrip("0").rstrip(".")
