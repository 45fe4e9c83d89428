"""The part of JSON Schema that the interface is described in, and the check of what a client sends against it.

What the description says and what the server accepts are one thing: the same schema is served and checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from ugm.identity import MAX_NAME
from ugm.resources import MAX_QUANTITY

__all__ = [
    "AMOUNTS",
    "BOOLEAN",
    "COUNT",
    "NAME",
    "NUMBER",
    "QUANTITIES",
    "QUEUE",
    "REQUESTED_QUEUE",
    "TAG",
    "TEXT",
    "USER",
    "Schema",
    "listing",
    "mapping",
    "optional",
    "record",
    "reference",
    "wrong",
]

#: JSON Schema of 2020-12, as in OpenAPI 3.1.
Schema: TypeAlias = Mapping[str, Any]

#: The most characters of a path.
_LONGEST_PATH: Final = 4096
#: The most characters of a value that an error shows.
_SHOWN: Final = 60
#: Digits and suffixes that cannot leave 64 bits, whatever the digits are.
_QUANTITY: Final = (
    "([0-9]{1,18}|[0-9]{1,15}(k|Ki)|[0-9]{1,12}(M|Mi)|[0-9]{1,9}(G|Gi)|[0-9]{1,6}(T|Ti)|[0-9]{1,3}(P|Pi))"
)
_CORES: Final = "([0-9]{1,15}|[0-9]{1,18}m|[0-9]{1,12}k)"

TEXT: Final[Schema] = {"type": "string"}
NAME: Final[Schema] = {"type": "string", "minLength": 1, "maxLength": MAX_NAME}
#: Whoever is a user or a group; the wildcard is nobody.
USER: Final[Schema] = {**NAME, "not": {"enum": ["*"]}}
QUEUE: Final[Schema] = {
    "type": "string",
    "pattern": rf"^[rR][oO][oO][tT](\.[^.\s\x85\x00-\x1f\x7f]{{1,{MAX_NAME}}})*$",
    "maxLength": _LONGEST_PATH,
    "description": f"the path of a queue, such as root.prod, each part of 1 to {MAX_NAME} characters without spaces",
}
#: A queue as a user asks for it: a path, a name, or nothing.
REQUESTED_QUEUE: Final[Schema] = {"type": "string", "maxLength": _LONGEST_PATH}
#: The value of a tag.
TAG: Final[Schema] = {"type": "string", "maxLength": MAX_NAME}
BOOLEAN: Final[Schema] = {"type": "boolean"}
NUMBER: Final[Schema] = {"type": "number"}
COUNT: Final[Schema] = {"type": "integer", "minimum": 0, "maximum": MAX_QUANTITY}

_AMOUNT: Final[Schema] = {"type": "integer"}
#: Amounts in base units, as the server tells them.
AMOUNTS: Final[Schema] = {"type": "object", "additionalProperties": _AMOUNT}


def _or_count(pattern: str, examples: str) -> Schema:
    described = f"a whole number in the base unit, or a quantity such as {examples}"
    return {"anyOf": [COUNT, {"type": "string", "pattern": f"^{pattern}$", "description": described}]}


#: Amounts as a client may tell them: in base units, or as quantities of a configuration.
QUANTITIES: Final[Schema] = {
    "type": "object",
    "propertyNames": NAME,
    "properties": {"vcore": _or_count(_CORES, "2 or 500m")},
    "additionalProperties": _or_count(_QUANTITY, "8, 500M or 4Gi"),
    "maxProperties": 100,
}


def reference(name: str) -> Schema:
    """Return the schema of a shape by its name."""
    return {"$ref": f"#/components/schemas/{name}"}


def optional(schema: Schema) -> Schema:
    """Return the schema of something that may be null."""
    return {"anyOf": [schema, {"type": "null"}]}


def listing(items: Schema, **bounds: int) -> Schema:
    """Return the schema of a list."""
    return {"type": "array", "items": items, **bounds}


def mapping(values: Schema, **bounds: Any) -> Schema:  # noqa: ANN401 - keywords of JSON Schema
    """Return the schema of a mapping from any names."""
    return {"type": "object", "additionalProperties": values, **bounds}


def record(optionals: Mapping[str, Schema] | None = None, /, **fields: Schema) -> Schema:
    """Return the schema of an object with certain fields and no others.

    Args:
        optionals: the fields that may be missing.
        fields: those that may not.
    """
    return {
        "type": "object",
        "properties": {**fields, **(optionals or {})},
        "required": sorted(fields),
        "additionalProperties": False,
    }


def wrong(schema: Schema, value: object, place: str) -> str | None:
    """Return what is wrong with a value, with the place in it; None if nothing is.

    Knows what the schemas of requests are made of, and nothing else.

    >>> wrong(listing(NAME), ["ana", 7], "groups")
    'groups[1]: expected a string'
    """
    return next(_wrong(schema, value, place), None)


#: The Python types of the JSON types. A bool is no integer here, although it is one in Python.
_TYPES: Final[Mapping[str, type]] = {
    "string": str,
    "integer": int,
    "boolean": bool,
    "object": dict,
    "array": list,
    "null": type(None),
}


def _wrong(schema: Schema, value: object, place: str) -> Iterator[str]:
    if "anyOf" in schema:
        if all(wrong(choice, value, place) for choice in schema["anyOf"]):
            yield from _wrong(_meant(schema["anyOf"], value), value, place)
        return
    kind = schema["type"]
    if type(value) is not _TYPES[kind]:
        yield f"{place}: expected {'an' if kind[0] in 'aio' else 'a'} {kind}"
    elif isinstance(value, str):
        yield from _wrong_text(schema, value, place)
    elif isinstance(value, int):
        yield from _wrong_number(schema, value, place)
    elif isinstance(value, list):
        yield from _wrong_list(schema, value, place)
    elif isinstance(value, dict):
        yield from _wrong_object(schema, value, place)


def _meant(choices: Sequence[Schema], value: object) -> Schema:
    """Return which of several schemas a value that fits none was meant for."""
    for choice in choices:
        if type(value) is _TYPES[choice["type"]] and (
            not isinstance(value, dict) or value.keys() >= set(choice["required"])
        ):
            return choice
    return choices[0]


def _wrong_text(schema: Schema, value: str, place: str) -> Iterator[str]:
    if "enum" in schema and value not in schema["enum"]:
        yield f"{place}: expected one of {', '.join(schema['enum'])}"
    if value in schema.get("not", {}).get("enum", ()):
        yield f"{place}: {value[:_SHOWN]!r} is a wildcard, not a name"
    if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)):
        yield f"{place}: expected {schema.get('minLength', 0)} to {schema['maxLength']} characters"
    if "pattern" in schema and not re.fullmatch(schema["pattern"].strip("^$"), value):
        yield f"{place}: {value[:_SHOWN]!r} is not {schema['description']}"


def _wrong_number(schema: Schema, value: int, place: str) -> Iterator[str]:
    if not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        yield f"{place}: expected a number from {schema.get('minimum')} to {schema.get('maximum')}"


def _wrong_list(schema: Schema, value: list[object], place: str) -> Iterator[str]:
    if len(value) > schema.get("maxItems", len(value)):
        yield f"{place}: expected at most {schema['maxItems']} elements"
    for at, item in enumerate(value):
        yield from _wrong(schema["items"], item, f"{place}[{at}]")


def _wrong_object(schema: Schema, value: dict[str, object], place: str) -> Iterator[str]:
    if len(value) > schema.get("maxProperties", len(value)):
        yield f"{place}: expected at most {schema['maxProperties']} fields"
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{place}: the field {name!r} is missing"
    known, others = schema.get("properties", {}), schema["additionalProperties"]
    for name, item in value.items():
        if "propertyNames" in schema:
            yield from _wrong(schema["propertyNames"], name, f"{place}, a name")
        if name in known:
            yield from _wrong(known[name], item, f"{place}.{name}")
        elif others is False:
            yield f"{place}: there is no field {name!r}; known here: {', '.join(sorted(known))}"
        else:
            yield from _wrong(others, item, f"{place}.{name}")
