"""The fields of configuration values: checks when a value is built, and descriptions for readers and writers.

The annotation of a field says everything: how its value is checked here, which reader `ugm.config` uses for it in a
file, and how a store keeps it. So one line is enough to read, check and keep a new setting.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, fields
from fractions import Fraction
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeVar, cast, get_args, get_origin, get_type_hints

from ugm._json_values import Json, JsonMapping
from ugm.arguments import require_count, require_resource
from ugm.errors import RequestError
from ugm.identity import is_text
from ugm.resources import MAX_QUANTITY, Resource, format_amount

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_WHITE_SPACE: Final = re.compile(r"\s")
#: A decimal number, or a fraction. Its length is bounded, so that no text takes long to convert.
_FRACTION: Final = re.compile(r"[0-9]{1,18}(?:\.[0-9]{1,18}|/(?!0+$)[0-9]{1,18})?")
_V = TypeVar("_V", bound="ConfigValue")
_KNOWN: Final[dict[type[ConfigValue], tuple[FieldShape, ...]]] = {}
#: Writes resource vectors in base units.
_PLAIN: Final[Mapping[type, Callable[[Any], object]]] = {Resource: dict}


class ConfigValue:
    """Base class of the values: checks and normalises every field by its annotation.

    Raises:
        RequestError: a field has a value of another type, or an amount or count is out of range.
    """

    __slots__ = ()

    def __post_init__(self) -> None:
        for shape in field_shapes(type(self)):
            given = getattr(self, shape.name)
            # Most fields have their default, which needs no check.
            if given is not shape.default and (checked := shape.check(given)) is not given:
                object.__setattr__(self, shape.name, checked)


class FieldShape(NamedTuple):
    """One field of a value, as its annotation describes it."""

    name: str
    #: Its key in a file.
    yaml_name: str
    #: The type of the field, or of each item of a list: a class of values, or an annotation in `_CHECKS`.
    kind: object
    is_list: bool
    #: True if the field may be None.
    is_optional: bool
    #: None if each value has a default of its own.
    default: object
    #: Brings a checked value into its normal form; None if it has only one.
    normal: Callable[[object], object] | None
    #: Whether amounts may be negative, because a later check refuses them.
    is_signed: bool

    @property
    def nested(self) -> type[ConfigValue] | None:
        """The class of the value, or of each item of a list; None for texts, numbers and mappings."""
        return self.kind if isinstance(self.kind, type) and issubclass(self.kind, ConfigValue) else None

    def check(self, value: object) -> object:
        """Return a value in its normal form.

        Raises:
            RequestError: the value has another type, or is out of range.
        """
        if value is None and self.is_optional:
            return None
        if not self.is_list:
            checked = self._check_item(value)
            return checked if self.normal is None else self.normal(checked)
        if isinstance(value, str) or not isinstance(value, Iterable):
            raise RequestError(self.name, value, "expected a sequence")
        return tuple(map(self._check_item, value))

    def read(self, data: Json) -> object:
        """Return the value of the field from plain data."""
        if data is None:
            return None
        return tuple(map(self._read_item, data)) if self.is_list else self._read_item(data)

    def _read_item(self, data: Json) -> object:
        if self.nested is not None:
            return from_data(self.nested, data)
        if self.kind == Mapping[str, Fraction]:
            return {name: parse_fraction(text) for name, text in data.items()}
        return Resource(data) if self.kind is Resource else data

    def _check_item(self, value: object) -> object:
        if self.nested is not None:
            expected, is_right = self.nested.__name__, type(value) is self.nested
        elif get_origin(self.kind) is Literal:
            expected, is_right = " or ".join(map(repr, get_args(self.kind))), value in get_args(self.kind)
        elif self.is_signed:
            expected, is_right = "a Resource", type(value) is Resource
        else:
            return _CHECKS[self.kind](self.name, value)
        if not is_right:
            raise RequestError(self.name, value, f"expected {expected}")
        return value


def field_shapes(kind: type[ConfigValue]) -> tuple[FieldShape, ...]:
    """Return the fields of a class of values, in order."""
    if kind not in _KNOWN:
        hints = get_type_hints(kind)
        # A field without a name in a file is not a part of the value.
        described = [
            each for each in fields(cast("type[DataclassInstance]", kind)) if each.metadata.get("yaml", "") is not None
        ]
        _KNOWN[kind] = tuple(_shape(each, hints[each.name]) for each in described)
    return _KNOWN[kind]


def _shape(described: Field[object], annotation: object) -> FieldShape:
    options = get_args(annotation) if isinstance(annotation, UnionType) else (annotation,)
    kind = next(option for option in options if option is not NoneType)
    is_list = get_origin(kind) is tuple
    return FieldShape(
        described.name,
        described.metadata.get("yaml", described.name.replace("_", "")),
        get_args(kind)[0] if is_list else kind,
        is_list,
        NoneType in options,
        None if described.default is MISSING else described.default,
        described.metadata.get("normal"),
        described.metadata.get("signed", False),
    )


def _changed_fields(value: ConfigValue) -> Iterator[tuple[FieldShape, object]]:
    """Yield the fields of a value that differ from their defaults."""
    default = type(value)()
    for shape in field_shapes(type(value)):
        given = getattr(value, shape.name)
        if given != getattr(default, shape.name):
            yield shape, given


def to_data(value: object, writers: Mapping[type, Callable[[Any], object]] = _PLAIN) -> object:
    """Return a value as mappings, lists and scalars, with the keys of a file and without the defaults.

    Args:
        value: a value, or the value of a field.
        writers: functions that write the values of some classes in another form; that of resource vectors is required.
    """
    writer = writers.get(type(value))
    if writer is not None:
        return writer(value)
    if isinstance(value, ConfigValue):
        return {shape.yaml_name: to_data(given, writers) for shape, given in _changed_fields(value)}
    if isinstance(value, tuple):
        return [to_data(item, writers) for item in value]
    if isinstance(value, Mapping):
        return {
            name: str(item) if isinstance(item, Fraction) else to_data(item, writers) for name, item in value.items()
        }
    return value


def setting_texts(value: ConfigValue, *left_out: str) -> dict[str, str]:
    """Return the settings that differ from their defaults as texts by their YAML names, each amount separately."""
    texts: dict[str, str] = {}
    for shape, setting in _changed_fields(value):
        name, data = shape.yaml_name, to_data(setting)
        if name in left_out:
            continue
        if shape.kind in (Resource, Mapping[str, int]) and isinstance(data, dict):
            texts |= {f"{name} {each}": format_amount(each, amount) for each, amount in data.items()}
        else:
            texts[name] = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    return texts


def from_data(kind: type[_V], data: JsonMapping) -> _V:
    """Return the value of a class that `to_data` has written, with amounts in base units.

    Raises:
        RequestError: a field has a value of another type.
    """
    shapes = {shape.yaml_name: shape for shape in field_shapes(kind)}
    return kind(**{shapes[name].name: shapes[name].read(given) for name, given in data.items()})


def _check_text(field_name: str, value: object) -> str:
    if not isinstance(value, str):
        raise RequestError(field_name, value, "expected a text")
    return value if type(value) is str else str(value)


def _check_boolean(field_name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise RequestError(field_name, value, "expected True or False")
    return value


def _check_resource(field_name: str, value: object) -> Resource:
    resource = require_resource(field_name, value)
    for name, amount in resource.amounts.items():
        if amount > MAX_QUANTITY:
            raise RequestError(field_name, value, f"the amount of {name} is above {MAX_QUANTITY}")
        if _WHITE_SPACE.search(name):
            raise RequestError(field_name, value, f"the resource name {name!r} contains white space")
    return resource


def _check_texts(field_name: str, value: object) -> Mapping[str, str]:
    if not isinstance(value, Mapping) or not all(map(is_text, (*value, *value.values()))):
        raise RequestError(field_name, value, "expected a mapping of texts")
    return value


def _check_weights(field_name: str, value: object) -> Mapping[str, float]:
    if not isinstance(value, Mapping) or not all(map(is_text, value)) or not all(map(_is_number, value.values())):
        raise RequestError(field_name, value, "expected a mapping of finite numbers")
    # Equal configurations must have one stored form, so 1 becomes 1.0.
    return {name: float(number) for name, number in value.items()}


def _is_number(value: object) -> bool:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def parse_fraction(text: object) -> Fraction:
    """Return the number of a text: a decimal number or a fraction, not negative.

    Raises:
        ValueError: the text is not such a number.

    >>> parse_fraction("0.25") == parse_fraction("1/4")
    True
    """
    if not isinstance(text, str) or not _FRACTION.fullmatch(text):
        raise ValueError("expected a decimal number or a fraction, such as 0.25 or 1/4")
    return Fraction(text)


def _check_fractions(field_name: str, value: object) -> Mapping[str, Fraction]:
    if not isinstance(value, Mapping) or not all(map(is_text, value)):
        raise RequestError(field_name, value, "expected a mapping of fractions")
    if not all(type(number) in (int, Fraction) and number >= 0 for number in value.values()):
        raise RequestError(field_name, value, "expected an int or Fraction >= 0 for each name")
    return {name: Fraction(number) for name, number in value.items()}


def _check_lists(field_name: str, value: object) -> Mapping[str, tuple[str, ...]]:
    if not isinstance(value, Mapping) or not all(map(is_text, value)):
        raise RequestError(field_name, value, "expected a mapping of lists of texts")
    lists = {name: tuple(items) if isinstance(items, list | tuple) else () for name, items in value.items()}
    if not all(items and all(map(is_text, items)) for items in lists.values()):
        raise RequestError(field_name, value, "expected a list of at least one text for each name")
    return lists


def _check_quotas(field_name: str, value: object) -> Mapping[str, int]:
    if not isinstance(value, Mapping) or not all(map(is_text, value)) or not all(map(_is_amount, value.values())):
        raise RequestError(field_name, value, "expected a mapping of integers that fit 64 bits")
    return value


def _is_amount(value: object) -> bool:
    return type(value) is int and -MAX_QUANTITY - 1 <= value <= MAX_QUANTITY


_CHECKS: Final[Mapping[object, Callable[[str, object], object]]] = {
    str: _check_text,
    int: require_count,
    bool: _check_boolean,
    Resource: _check_resource,
    Mapping[str, str]: _check_texts,
    Mapping[str, float]: _check_weights,
    Mapping[str, Fraction]: _check_fractions,
    Mapping[str, int]: _check_quotas,
    Mapping[str, tuple[str, ...]]: _check_lists,
}
