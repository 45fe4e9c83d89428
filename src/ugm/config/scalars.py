"""The schema of the scalars in a configuration: texts, counts, booleans, weights and quantities.

The loader keeps every scalar as a text; the annotation of the field in `ugm.configuration` determines its type. So
``010`` is ten in a count, ``yes`` is a name in a list of users, and no value becomes a float by accident.

A number or a boolean in quotes is a text, which is an error in a field of numbers or booleans, as in the YAML library
of Apache YuniKorn.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Annotated, Any, Final, TypeVar, get_args

from pydantic import PlainValidator, TypeAdapter, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from ugm._config_fields import parse_fraction
from ugm._documents.builder import Quoted
from ugm.configuration import (
    AcceptedNames,
    BudgetCarry,
    BudgetModeName,
    BudgetPeriod,
    BudgetUnit,
    GroupSourceKind,
    VictimChoice,
)
from ugm.errors import QuantityError, quote
from ugm.resources import VCORE, Resource, bounded_int, is_resource_name, parse_quantity

__all__ = ["MAX_COUNT", "SCALARS", "kind_of"]

#: The largest count of applications in a configuration.
MAX_COUNT: Final = 2**63 - 1

_TRUE: Final = frozenset({"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON", "y", "Y"})
_FALSE: Final = frozenset({"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF", "n", "N"})
_DIGITS: Final = re.compile(r"[0-9]+")
_DECIMAL: Final = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_T = TypeVar("_T")


def kind_of(value: object) -> str:
    """Describe a value for a message."""
    match value:
        case None:
            return "null"
        case Mapping():
            return "a mapping"
        case list() | tuple():
            return "a list"
        case Quoted():
            return f"the text {quote(value)} in quotes"
        case str():
            return quote(value)
        case _:
            return repr(value)


def _wrong_type(expected: str, value: object) -> PydanticCustomError:
    """Return the error for a value of another kind than the schema expects."""
    return PydanticCustomError(
        "wrong-type", "expected {expected}, found {found}", {"expected": expected, "found": kind_of(value)}
    )


def _to_text(value: object) -> str:
    """Read a text; every scalar is a text."""
    if isinstance(value, str):
        return str(value)
    raise _wrong_type("a text", value)


def _to_count(value: object) -> int:
    """Read a count of applications: decimal digits, at most `MAX_COUNT`."""
    if type(value) is not str or not _DIGITS.fullmatch(value):
        raise PydanticCustomError(
            "count-invalid", "expected a count in decimal digits, found {found}", {"found": kind_of(value)}
        )
    count = bounded_int(value, MAX_COUNT)
    if count > MAX_COUNT:
        raise PydanticCustomError("count-too-large", f"the count is too large (allowed: up to {MAX_COUNT})")
    return count


def _to_boolean(value: object) -> bool:
    """Read one of the words of YAML 1.1 for true and false."""
    if type(value) is str and value in _TRUE:
        return True
    if type(value) is str and value in _FALSE:
        return False
    raise PydanticCustomError("boolean-invalid", "expected true or false, found {found}", {"found": kind_of(value)})


def _to_choice(*allowed: str) -> Callable[[object], str]:
    """Return a reader that accepts only some words."""
    words = ", ".join(map(repr, allowed[:-1])) + f" or {allowed[-1]!r}"

    def read(value: object) -> str:
        if isinstance(value, str) and value in allowed:
            return str(value)
        details = {"words": words, "found": kind_of(value)}
        raise PydanticCustomError("choice-invalid", "expected {words}, found {found}", details)

    return read


def _to_texts(value: object) -> dict[str, str]:
    """Read a mapping of texts, for example properties; null means the empty text."""
    return _convert(value, lambda _, text: "" if text is None else _to_text(text))


def _to_resource(value: object) -> Resource:
    """Read a mapping of quantities."""
    return Resource(_convert(value, _to_amount))


def _require_resource_name(name: str) -> None:
    if not is_resource_name(name):
        message = "{name} is not a valid resource name (allowed: 1 to 256 characters without white space)"
        raise PydanticCustomError("resource-name-invalid", message, {"name": quote(name)})


def _to_amount(name: str, value: object) -> int:
    _require_resource_name(name)
    if value is None:
        raise PydanticCustomError("quantity-invalid", "expected a quantity, found null")
    text = _to_text(value)
    try:
        return parse_quantity(text, vcore=name == VCORE)
    except QuantityError as error:
        message = "{text} is not a quantity: {reason}"
        raise PydanticCustomError("quantity-invalid", message, {"text": quote(text), "reason": error.reason}) from None


def _to_weights(value: object) -> dict[str, float]:
    """Read a mapping of weights, which are decimal numbers; a rule checks that they are not negative."""
    return _convert(value, _to_weight)


def _to_weight(_: str, value: object) -> float:
    weight = float(value) if type(value) is str and _DECIMAL.fullmatch(value) else math.nan
    if not math.isfinite(weight):
        raise PydanticCustomError(
            "weight-invalid", "expected a decimal number, found {found}", {"found": kind_of(value)}
        )
    return weight


def _to_fractions(value: object) -> dict[str, Fraction]:
    """Read a mapping of exact weights of resources: decimal numbers and fractions."""
    return _convert(value, _to_fraction)


def _to_fraction(name: str, value: object) -> Fraction:
    _require_resource_name(name)
    try:
        return parse_fraction(value)
    except ValueError as error:
        details = {"reason": str(error), "found": kind_of(value)}
        raise PydanticCustomError("weight-invalid", "{reason}, found {found}", details) from None


def _convert(value: object, convert: Callable[[str, object], _T]) -> dict[str, _T]:
    """Convert every value of a mapping; report each invalid value under its own key."""
    if not isinstance(value, Mapping):
        raise _wrong_type("a mapping", value)
    converted: dict[str, _T] = {}
    errors: list[InitErrorDetails] = []
    for name, item in value.items():
        try:
            converted[str(name)] = convert(name, item)
        except PydanticCustomError as error:
            errors.append(InitErrorDetails(type=error, loc=(str(name),), input=item))
    if errors:
        raise ValidationError.from_exception_data("mapping", errors)
    return converted


#: The annotations whose values are words.
_CHOICES: Final = (
    AcceptedNames,
    BudgetCarry,
    BudgetModeName,
    BudgetPeriod,
    BudgetUnit,
    GroupSourceKind,
    VictimChoice,
)
_READERS: Final[Mapping[object, Callable[[object], object]]] = {
    str: _to_text,
    int: _to_count,
    bool: _to_boolean,
    **{choice: _to_choice(*get_args(choice)) for choice in _CHOICES},
    Resource: _to_resource,
    Mapping[str, str]: _to_texts,
    Mapping[str, float]: _to_weights,
    Mapping[str, Fraction]: _to_fractions,
}

#: The pydantic validators of scalars, and of mappings of scalars, by the annotation of the field.
SCALARS: Final[Mapping[object, TypeAdapter[Any]]] = {
    kind: TypeAdapter(Annotated[Any, PlainValidator(read)]) for kind, read in _READERS.items()
}
