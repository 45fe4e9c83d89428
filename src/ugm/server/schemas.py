"""JSON schemas: the building blocks of the schemas of requests and responses.

The OpenAPI description contains these schemas, and `ugm.server.requests` validates requests against them, so the
description and the behaviour of the server cannot differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from fractions import Fraction
from types import NoneType
from typing import Any, Final, TypeAlias, get_args, get_origin, get_type_hints

from ugm._json_values import JsonMapping
from ugm.identity import MAX_NAME
from ugm.partition.allocation import MAX_DURATION
from ugm.resources import MAX_QUANTITY, Resource

__all__ = [
    "AMOUNT",
    "AMOUNTS",
    "BOOLEAN",
    "COUNT",
    "DURATION",
    "EXACT_AMOUNT",
    "NAME",
    "NODES",
    "NUMBER",
    "QUANTITIES",
    "QUEUE",
    "SECONDS",
    "SUBMISSION",
    "TEXT",
    "TRAITS",
    "USER",
    "Schema",
    "attributes",
    "listing",
    "mapping",
    "optional",
    "record",
    "reference",
]

#: JSON Schema of 2020-12, as in OpenAPI 3.1.
Schema: TypeAlias = JsonMapping

#: The most characters of a queue path.
_LONGEST_PATH: Final = 4096
#: Quantities of at most 64 bits for all digits.
_QUANTITY: Final = (
    "([0-9]{1,18}|[0-9]{1,15}(k|Ki)|[0-9]{1,12}(M|Mi)|[0-9]{1,9}(G|Gi)|[0-9]{1,6}(T|Ti)|[0-9]{1,3}(P|Pi))"
)
_CORES: Final = "([0-9]{1,15}|[0-9]{1,18}m|[0-9]{1,12}k)"

TEXT: Final[Schema] = {"type": "string"}
DURATION: Final[Schema] = {"type": "integer", "minimum": 1, "maximum": MAX_DURATION}
#: Seconds since 1970.
SECONDS: Final[Schema] = {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1}
NAME: Final[Schema] = {"type": "string", "minLength": 1, "maxLength": MAX_NAME}
#: A user or a group; the wildcard is not one.
USER: Final[Schema] = {**NAME, "not": {"enum": ["*"]}}
QUEUE: Final[Schema] = {
    "type": "string",
    "pattern": rf"^[rR][oO][oO][tT](\.[^.\s\x85\x00-\x1f\x7f]{{1,{MAX_NAME}}})*$",
    "maxLength": _LONGEST_PATH,
    "description": f"the path of a queue, such as root.prod, each part of 1 to {MAX_NAME} characters without spaces",
}
#: A queue as a user requests it: a path, a name, or empty.
_REQUESTED_QUEUE: Final[Schema] = {"type": "string", "maxLength": _LONGEST_PATH}
#: The value of a tag.
_TAG: Final[Schema] = {"type": "string", "maxLength": MAX_NAME}
BOOLEAN: Final[Schema] = {"type": "boolean"}
NUMBER: Final[Schema] = {"type": "number"}
COUNT: Final[Schema] = {"type": "integer", "minimum": 0, "maximum": MAX_QUANTITY}

AMOUNT: Final[Schema] = {"type": "integer"}
#: An amount that is a fraction if weights are: a text such as ``7/2``.
EXACT_AMOUNT: Final[Schema] = {"anyOf": [AMOUNT, {"type": "string", "pattern": "^-?[0-9]+/[0-9]+$"}]}
#: Amounts in base units, as in all responses.
AMOUNTS: Final[Schema] = {"type": "object", "additionalProperties": AMOUNT}


def _or_count(pattern: str, examples: str) -> Schema:
    described = f"a whole number in the base unit, or a quantity such as {examples}"
    return {"anyOf": [COUNT, {"type": "string", "pattern": f"^{pattern}$", "description": described}]}


#: Amounts in requests: in base units, or as quantities like those of a configuration.
QUANTITIES: Final[Schema] = {
    "type": "object",
    "propertyNames": NAME,
    "properties": {"vcore": _or_count(_CORES, "2 or 500m")},
    "additionalProperties": _or_count(_QUANTITY, "8, 500M or 4Gi"),
    "maxProperties": 100,
}


#: The free amounts of each node.
NODES: Final[Schema] = {
    "type": "object",
    "propertyNames": NAME,
    "additionalProperties": QUANTITIES,
    "maxProperties": 10_000,
}


def reference(name: str) -> Schema:
    """Return a reference to a response schema."""
    return {"$ref": f"#/components/schemas/{name}"}


def optional(schema: Schema) -> Schema:
    """Return the schema of a value that may be null."""
    return {"anyOf": [schema, {"type": "null"}]}


def listing(items: Schema, **bounds: int) -> Schema:
    """Return the schema of a list."""
    return {"type": "array", "items": items, **bounds}


def mapping(values: Schema, **bounds: object) -> Schema:
    """Return the schema of an object with arbitrary names."""
    return {"type": "object", "additionalProperties": values, **bounds}


def record(optionals: Mapping[str, Schema] | None = None, /, **fields: Schema) -> Schema:
    """Return the schema of an object with fixed fields.

    Args:
        optionals: the optional fields.
        fields: the required fields.
    """
    return {
        "type": "object",
        "properties": {**fields, **(optionals or {})},
        "required": sorted(fields),
        "additionalProperties": False,
    }


#: The schemas of the basic types of attributes. A share is a fraction in Python, and a number in JSON.
_BASIC: Final[Mapping[object, Schema]] = {
    str: TEXT,
    int: COUNT,
    bool: BOOLEAN,
    Fraction: NUMBER,
    Resource: AMOUNTS,
}


def _schema_of(kind: Any) -> Schema:  # noqa: ANN401 - a type or a generic alias
    """Return the schema of the type of an attribute."""
    arguments = get_args(kind)
    if kind in _BASIC:
        return _BASIC[kind]
    if NoneType in arguments:
        return optional(_schema_of(arguments[0]))
    if arguments:
        return listing(_schema_of(arguments[0])) if get_origin(kind) is tuple else mapping(_schema_of(arguments[1]))
    if issubclass(kind, StrEnum):
        return {"type": "string", "enum": [member.value for member in kind]}
    return reference(kind.__name__)


def attributes(value: type, *omitted: str, **others: Schema) -> dict[str, Schema]:
    """Return the schemas of the fields that `to_dict` of a value returns.

    Args:
        value: the class; its annotations determine the schemas.
        omitted: attributes that are not fields.
        others: the fields with other schemas or names than their attributes, and fields without attributes.
    """
    return {name: _schema_of(kind) for name, kind in get_type_hints(value).items() if name not in omitted} | others


#: The optional fields of a submission, and of questions about one.
SUBMISSION: Final[Mapping[str, Schema]] = {
    "groups": listing(USER, maxItems=1000),
    "queue": _REQUESTED_QUEUE,
    "tags": mapping(_TAG, propertyNames=NAME, maxProperties=1000),
    "quota": QUANTITIES,
}

#: The optional properties of a request.
TRAITS: Final[Mapping[str, Schema]] = {
    "priority": {"type": "integer", "minimum": -(2**31), "maximum": 2**31 - 1},
    "preemptible": BOOLEAN,
}
