"""The types of the fields of requests: msgspec validates requests with them, and derives the description from them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar

from msgspec import Meta, Struct

from ugm._json_values import JsonMapping
from ugm.identity import MAX_NAME
from ugm.partition.rows import MAX_DURATION
from ugm.resources import MAX_QUANTITY, Resource, parse_quantity

__all__ = [
    "Confirmation",
    "Duration",
    "Groups",
    "ListQuery",
    "Name",
    "Nodes",
    "Number",
    "Offset",
    "PageSize",
    "Priority",
    "QueuePath",
    "RequestedQueue",
    "Seconds",
    "Tags",
    "Text",
    "User",
    "completed",
    "described",
]

#: The most characters of a queue path.
_LONGEST_PATH: Final = 4096
_PATH: Final = rf"^[rR][oO][oO][tT](\.[^.\s\x85\x00-\x1f\x7f]{{1,{MAX_NAME}}})*$"

Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=MAX_NAME)]
#: A user or a group. The wildcard is not one, which `UserGroup` checks.
User: TypeAlias = Annotated[str, Meta(min_length=1, max_length=MAX_NAME, extra_json_schema={"not": {"enum": ["*"]}})]
#: The groups of a user.
Groups: TypeAlias = Annotated[list[User], Meta(max_length=1000)]
QueuePath: TypeAlias = Annotated[str, Meta(pattern=_PATH, max_length=_LONGEST_PATH, title="Queue path")]
#: A queue as a user requests it: a path, a name, or empty.
RequestedQueue: TypeAlias = Annotated[str, Meta(max_length=_LONGEST_PATH)]
Text: TypeAlias = Annotated[str, Meta(max_length=MAX_NAME)]
Tags: TypeAlias = Annotated[dict[Name, Text], Meta(max_length=1000)]
Duration: TypeAlias = Annotated[int, Meta(ge=1, le=MAX_DURATION)]
#: Seconds since 1970.
Seconds: TypeAlias = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Priority: TypeAlias = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
#: The free amounts of each node.
Nodes: TypeAlias = Annotated[dict[Name, Resource], Meta(max_length=10_000)]
#: The size of a page, and the number of rows before it.
PageSize: TypeAlias = Annotated[int, Meta(ge=1, le=1000)]
Offset: TypeAlias = Annotated[int, Meta(ge=0, le=10**9)]
Number: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Confirmation: TypeAlias = Literal["false", "true"]

_T = TypeVar("_T")


class ListQuery(Struct, forbid_unknown_fields=True):
    """The search and the page of the query of a list."""

    search: Text = ""
    offset: Offset = 0
    limit: PageSize = 100

    def matches(self, name: str) -> bool:
        """Return whether a name contains the searched text, in any case."""
        return self.search.lower() in name.lower()

    def page(self, rows: Sequence[_T]) -> list[_T]:
        """Return the rows of the page."""
        return list(rows[self.offset : self.offset + self.limit])


#: Quantities of at most 64 bits for all digits, as in a configuration.
_QUANTITY: Final = (
    "([0-9]{1,18}|[0-9]{1,15}(k|Ki)|[0-9]{1,12}(M|Mi)|[0-9]{1,9}(G|Gi)|[0-9]{1,6}(T|Ti)|[0-9]{1,3}(P|Pi))"
)
_CORES: Final = "([0-9]{1,15}|[0-9]{1,18}m|[0-9]{1,12}k)"
_MOST_RESOURCES: Final = 100


def _amount(pattern: str, examples: str) -> JsonMapping:
    number = {"type": "integer", "minimum": 0, "maximum": MAX_QUANTITY}
    text = f"a whole number in the base unit, or a quantity such as {examples}"
    return {"anyOf": [number, {"type": "string", "pattern": f"^{pattern}$", "description": text}]}


#: Amounts in base units, or as quantities like those of a configuration.
_RESOURCE: Final[JsonMapping] = {
    "type": "object",
    "propertyNames": {"type": "string", "minLength": 1, "maxLength": MAX_NAME},
    "properties": {"vcore": _amount(_CORES, "2 or 500m")},
    "additionalProperties": _amount(_QUANTITY, "8, 500M or 4Gi"),
    "maxProperties": _MOST_RESOURCES,
}


def described(kind: type) -> dict[str, Any]:
    """Return the schema of a type of requests that msgspec does not know: only a `Resource`."""
    if kind is not Resource:
        raise NotImplementedError
    return dict(_RESOURCE)


def completed(kind: type, value: object) -> object:
    """Return the value of a type that msgspec does not know."""
    if kind is not Resource:
        raise NotImplementedError
    if not isinstance(value, Mapping) or len(value) > _MOST_RESOURCES:
        raise ValueError(f"expected an object of at most {_MOST_RESOURCES} amounts")
    return Resource({_resource_name(name): _parsed(name, amount) for name, amount in value.items()})


def _resource_name(name: str) -> str:
    if not 0 < len(name) <= MAX_NAME:
        raise ValueError(f"expected a name of 1 to {MAX_NAME} characters")
    return name


def _parsed(name: str, amount: object) -> int:
    is_vcore = name == "vcore"
    if type(amount) is int and 0 <= amount <= MAX_QUANTITY:
        return amount
    if isinstance(amount, str) and re.fullmatch(_CORES if is_vcore else _QUANTITY, amount):
        return parse_quantity(amount, vcore=is_vcore)
    expected = "2 or 500m" if is_vcore else "8, 500M or 4Gi"
    raise ValueError(f"{name[:60]!r}: expected a whole number in the base unit, or a quantity such as {expected}")
