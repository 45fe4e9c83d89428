"""Fields of manifests with their quantities, and the error that names the place of a wrong field.

Manifests come from outside, so every field is checked when it is read. A place is written as in error messages of
Kubernetes: ``spec.containers[1].resources.requests.memory``, or ``requests[nvidia.com/gpu]`` for a name with other
characters than letters, digits, ``_`` and ``-``. As in Kubernetes, a field that is null or empty is absent. Fields that
are not read are not checked.

A quantity is an optional sign, a number with an optional fraction, and at most one suffix: ``n u m k M G T P E``,
``Ki Mi Gi Ti Pi Ei``, or an exponent such as ``e3`` or ``E-3``. The syntax of queue configurations, which
`ugm.resources` reads, is different: it allows blanks, but no fractions, signs or exponents.

Rounding follows Kubernetes (source: Kubernetes, ``apimachinery/pkg/api/resource``): a quantity has a resolution of one
nano and is rounded away from zero, and a quantity with a binary suffix is capped at 2^63 - 1 without an error. The
result is then rounded away from zero to the base unit, so that a request above 0 is never lost. All arithmetic is
exact.

There are two differences. Kubernetes reads a sign, a point or a suffix without any digit as 0; here it is an error, as
in the pattern with which Kubernetes describes quantities. And extremely long numbers (a text of more than 600
characters, a value of more than 100 digits before the point, an exponent of more than 10 digits) are errors, because
computing them takes too long.
"""

from __future__ import annotations

import json
import re
import reprlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from decimal import MAX_EMAX, MIN_EMIN, ROUND_UP, Context, Decimal
from functools import reduce
from typing import Final, NamedTuple, TypeAlias

from ugm.errors import QuantityError, RequestError, UgmError, printable
from ugm.identity import MAX_NAME, ROOT, canonical_path
from ugm.resources import MAX_QUANTITY, MAX_RESOURCE_NAME, VCORE, Resource

#: The name of ``vcore`` in Kubernetes.
CPU: Final = "cpu"

#: The names of fields, and the positions in lists, that lead to a value.
Path: TypeAlias = tuple[str | int, ...]

_PLAIN: Final = re.compile(r"[A-Za-z0-9_-]{1,256}")

#: Shortens values: with YAML aliases, a small manifest may have a very large representation.
_SHORT: Final = reprlib.Repr()
_SHORT.maxstring = 200
_SHORT.maxlevel = 2


class ManifestError(UgmError, ValueError):
    """A value in a manifest is not valid.

    Attributes:
        path: the names of fields, and the positions in lists, that lead to the value.
        value: the value found there; None if there is none.
        reason: the problem, as the end of a sentence.
    """

    code = "manifest-invalid"

    def __init__(self, path: Path, value: object, reason: str) -> None:
        super().__init__(path, value, reason)
        self.path: Final = path
        self.value: Final = value
        self.reason: Final = reason

    @property
    def place(self) -> str:
        """The place in the manifest.

        >>> ManifestError(("metadata", "labels", "yunikorn.apache.org/queue"), "", "").place
        'metadata.labels[yunikorn.apache.org/queue]'
        """
        parts = (
            f".{part}" if isinstance(part, str) and _PLAIN.fullmatch(part) else f"[{str(part)[:MAX_NAME]}]"
            for part in self.path
        )
        return "".join(parts).removeprefix(".")

    def __str__(self) -> str:
        # The place may contain a key with a lone surrogate, which cannot be encoded.
        return printable(f"{self.place} {_SHORT.repr(self.value)}: {self.reason}")


class Fields(NamedTuple):
    """A mapping in a manifest, whose fields are checked when they are read."""

    values: Mapping[str, object]
    #: The path of the mapping in the manifest.
    path: Path = ()

    def error(self, name: str, reason: str) -> ManifestError:
        """Return the error of a field."""
        return ManifestError((*self.path, name), self.values.get(name), reason)

    def mapping(self, name: str) -> Fields:
        """Return the mapping in a field; empty if the field is absent.

        Raises:
            ManifestError: the value is not a mapping.
        """
        value = self.values.get(name)
        if value is not None and not isinstance(value, Mapping):
            raise self.error(name, "expected a mapping")
        return Fields(value or {}, (*self.path, name))

    def at(self, path: Iterable[str]) -> Fields:
        """Return the mapping at a path of fields; empty if one of them is absent.

        Raises:
            ManifestError: a value on the path is not a mapping.

        >>> Fields({"spec": {"template": {"kind": "Pod"}}}).at(["spec", "template"])
        Fields(values={'kind': 'Pod'}, path=('spec', 'template'))
        """
        return reduce(Fields.mapping, path, self)

    def mappings(self, name: str) -> list[Fields]:
        """Return the list of mappings in a field; empty if the field is absent.

        Raises:
            ManifestError: the value is not a list of mappings.
        """
        value = self.values.get(name)
        if value is not None and not isinstance(value, list | tuple):
            raise self.error(name, "expected a list")
        elements = [Fields(element, (*self.path, name, at)) for at, element in enumerate(value or ())]
        for element in elements:
            if not isinstance(element.values, Mapping):
                raise ManifestError(element.path, element.values, "expected a mapping")
        return elements

    def text(self, name: str) -> str | None:
        """Return the text in a field; None if the field is absent.

        Raises:
            ManifestError: the value is not a text, for example a number without quotes.
        """
        value = self.values.get(name)
        if value is not None and not isinstance(value, str):
            raise self.error(name, "expected a text")
        return value or None

    def name(self, name: str) -> str | None:
        """Return the name in a field; None if the field is absent.

        Raises:
            ManifestError: the value is not a text of at most 256 characters.
        """
        found = self.text(name)
        if found is not None and len(found) > MAX_NAME:
            raise self.error(name, f"expected a name of 1 to {MAX_NAME} characters")
        return found

    def queue(self, name: str) -> str | None:
        """Return the queue in a field, as written, with or without ``root.`` before it; None if the field is absent.

        Raises:
            ManifestError: the value is not a valid queue name.
        """
        queue = self.text(name)
        if queue is None:
            return None
        qualified = queue.lower() == ROOT or queue.lower().startswith(f"{ROOT}.")
        try:
            canonical_path(queue if qualified else f"{ROOT}.{queue}")
        except RequestError:
            raise self.error(name, "expected queue names separated by single dots") from None
        return queue

    def json(self, name: str) -> object:
        """Return a field; if it is a text in JSON, the value of the text, with numbers as texts."""
        value = self.values.get(name)
        with suppress(ValueError, RecursionError):
            if isinstance(value, str):
                return json.loads(value, parse_int=str, parse_float=str, parse_constant=str)
        return value

    def amounts(self) -> Resource:
        """Return the quantities of all fields in base units; ``cpu`` becomes ``vcore``, other names stay as they are.

        Raises:
            ManifestError: a value is not a quantity, is negative, or exceeds a signed 64-bit integer, which Kubernetes
                uses for amounts.
        """
        for name in self.values:
            if type(name) is not str or not 0 < len(name) <= MAX_RESOURCE_NAME:
                raise self.error(name, "expected a resource name of 1 to 256 characters")
            if name == VCORE:
                raise self.error(name, f"unknown resource in Kubernetes; expected {CPU!r}")
        return Resource({VCORE if name == CPU else name: self.quantity(name, cpu=name == CPU) for name in self.values})

    def quantity(self, name: str, *, cpu: bool) -> int:
        """Return the quantity in a field in base units; see `parse_quantity`.

        Raises:
            ManifestError: as for `amounts`.
        """
        try:
            amount = parse_quantity(self.values[name], cpu=cpu)
        except QuantityError as error:
            raise self.error(name, error.reason) from error
        if amount < 0:
            raise self.error(name, "expected a quantity of at least 0")
        if amount > MAX_QUANTITY:
            raise self.error(name, f"expected an amount of at most {MAX_QUANTITY}")
        return amount


def read_manifest(manifest: Mapping[str, object], kind: str) -> Fields:
    """Return the fields of a manifest; one without a kind is accepted.

    The elements of a list that Kubernetes returns have no kind.

    Raises:
        ManifestError: the manifest is not a mapping, or has another kind.
    """
    if not isinstance(manifest, Mapping):
        raise ManifestError(("manifest",), manifest, "expected a mapping")
    if manifest.get("kind") not in (None, kind):
        raise ManifestError(("kind",), manifest["kind"], f"expected {kind!r}")
    return Fields(manifest)


def read_object(manifest: Mapping[str, object], kind: str) -> tuple[str, Fields]:
    """Return the name and the metadata of an object that must have a name.

    Raises:
        ManifestError: the manifest has another kind or no name.
    """
    metadata = read_manifest(manifest, kind).mapping("metadata")
    name = metadata.name("name")
    if name is None:
        raise ManifestError((*metadata.path, "name"), None, "expected a name")
    return name, metadata


_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}

#: The resolution of a quantity in Kubernetes.
_NANO: Final = Decimal("1e-9")
#: The value to which Kubernetes caps quantities with a binary suffix.
_BINARY_CAP: Final = Decimal(2**63 - 1)

#: A bound on the time of `int`, which is quadratic in the length of a text, and on what it accepts.
_MAX_LENGTH: Final = 600
#: Digits before the point; a signed 64-bit integer has 19.
_MAX_DIGITS: Final = 100
#: Rounds away from zero. Products of numbers within `_MAX_LENGTH` are exact.
_CONTEXT: Final = Context(prec=2 * _MAX_LENGTH, rounding=ROUND_UP, Emin=MIN_EMIN, Emax=MAX_EMAX)

_QUANTITY: Final = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(?:[eE]([+-]?[0-9]{1,10})|([A-Za-z]*))")


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
    if suffix not in _DECIMAL and suffix not in _BINARY:
        raise QuantityError(text, f"unknown suffix {suffix!r}")
    value = Decimal(f"{number}e{exponent or _DECIMAL.get(suffix, 0)}")
    if value and value.adjusted() >= _MAX_DIGITS:
        raise QuantityError(text, f"more than {_MAX_DIGITS} digits before the point")
    value = _CONTEXT.quantize(_CONTEXT.multiply(value, Decimal(2 ** _BINARY.get(suffix, 0))), _NANO)
    if suffix in _BINARY:
        value = max(min(value, _BINARY_CAP), -_BINARY_CAP)
    return int(_CONTEXT.quantize(value.scaleb(3 if cpu else 0, _CONTEXT), Decimal(1)))


def _text(quantity: object) -> str:
    """Return a quantity as it is written in a manifest."""
    if isinstance(quantity, bool) or not isinstance(quantity, str | int | float):
        raise QuantityError(type(quantity).__name__, "expected a text or a number")
    text = quantity if isinstance(quantity, str) else repr(quantity)
    if len(text) > _MAX_LENGTH:
        raise QuantityError(f"{text[:20]}...", f"more than {_MAX_LENGTH} characters")
    return text
