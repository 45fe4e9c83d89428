"""Values that the module `json` reads and writes: their types, and the rows of ugm as such values.

The types are as loose as `json` itself: a precise recursive type would not accept most lists and dicts, because lists
of a narrower type are not lists of a wider one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from fractions import Fraction
from typing import Any, TypeAlias

from ugm.errors import number_text
from ugm.identity import UserGroup

#: None, a bool, a number, a text, a list of such values, or a dict of them with texts as keys.
Json: TypeAlias = Any

#: A dict of such values.
JsonObject: TypeAlias = dict[str, Any]

#: The same, to read only.
JsonMapping: TypeAlias = Mapping[str, Any]


class Row:
    """A frozen dataclass that is an object in JSON, with the names of its attributes."""

    __slots__ = ()

    def to_dict(self) -> JsonObject:
        """Return the value for JSON, with the names of its attributes."""
        return attributes(self, self.__slots__)


def attributes(value: object, names: Iterable[str]) -> JsonObject:
    """Return some attributes of a row for JSON."""
    return {name: to_json(getattr(value, name)) for name in names}


def to_json(value: Any) -> Json:  # noqa: ANN401 - a field of any row
    """Return a value for JSON: an object with the fields of a row, a fraction as a text.

    >>> from ugm.resources import Resource
    >>> to_json((Fraction(1, 2), Resource(gpu=1), UserGroup("sue")))
    ['1/2', {'gpu': 1}, {'name': 'sue', 'groups': []}]
    """
    if isinstance(value, Enum):
        return value.value
    if value is None or isinstance(value, str | int | float):
        return value
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if isinstance(value, Fraction):
        return number_text(value)
    if isinstance(value, Mapping):
        return {name: to_json(one) for name, one in value.items()}
    names = _field_names(value)
    return [to_json(one) for one in value] if names is None else attributes(value, names)


def _field_names(row: object) -> Iterable[str] | None:
    """Return the names of the fields of a user, a dataclass, a named tuple or a struct of msgspec; None for others."""
    if isinstance(row, UserGroup):
        return ("name", "groups")
    if is_dataclass(row):
        return [field.name for field in fields(row)]
    names: Iterable[str] | None = getattr(row, "_fields", getattr(row, "__struct_fields__", None))
    return names
