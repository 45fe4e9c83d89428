"""Request parsing and validation: the path, the query, and a body of bounded size.

Every part of a request is validated against the schemas of its route before the endpoint runs. The body is read last,
and only if the rest of the request is valid.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Final, NamedTuple, NoReturn, cast

from starlette.requests import ClientDisconnect, Request

from ugm.errors import cut
from ugm.server.payloads import ApiError
from ugm.server.route import AnyRoute
from ugm.server.route_table import PATH_SCHEMAS
from ugm.server.schemas import NAME, Schema
from ugm.server.state import Query, RequestBody

__all__ = ["RequestBounds", "parse_body", "parse_path", "parse_query", "schema_error"]

#: Digits of the longest number that is converted.
_MOST_DIGITS: Final = 20
_MOST_JSON_BYTES: Final = 1 << 18
_CHARSETS: Final = frozenset(("utf-8", "utf8", "us-ascii"))
#: The values of `Content-Encoding` of a body that is sent unchanged.
_CODINGS: Final = frozenset(("identity", ""))
#: The most characters of a value that an error message quotes.
_MOST_QUOTED: Final = 60


class RequestBounds(NamedTuple):
    """Bounds of the requests of all clients."""

    #: Bytes of a configuration. A JSON body may have a quarter of a megabyte.
    body: int = 1 << 20
    #: Seconds in which a body must have arrived.
    seconds: float = 10
    #: Requests that may wait in each queue.
    waiting: int = 256
    #: Configurations that may wait to be read. Each may take seconds.
    configurations: int = 8


def parse_path(request: Request) -> dict[str, str]:
    """Return the variable parts of the path.

    Raises:
        ApiError: a part is not a valid name or queue path.
    """
    parts = {name: str(part) for name, part in request.path_params.items()}
    for name, part in parts.items():
        if reason := schema_error(PATH_SCHEMAS.get(name, NAME), part, name):
            raise ApiError(400, "path-invalid", reason)
    return parts


def parse_query(request: Request, route: AnyRoute) -> Query:
    """Return the query parameters.

    Raises:
        ApiError: a parameter is unknown, missing, repeated or invalid.
    """
    for name in request.query_params:
        if name not in route.query:
            allowed = ", ".join(sorted(route.query)) or "none"
            raise ApiError(400, "query-invalid", f"unknown query parameter {name[:100]!r} (allowed: {allowed})")
    found = {
        name: _parameter(name, schema, request) for name, schema in route.query.items() if name in request.query_params
    }
    for name in sorted(route.required - found.keys()):
        raise ApiError(400, "query-invalid", f"{name}: missing")
    return cast("Query", found)


def _parameter(name: str, schema: Schema, request: Request) -> object:
    texts = request.query_params.getlist(name)
    if schema["type"] != "array" and len(texts) > 1:
        raise ApiError(400, "query-invalid", f"{name}: expected once, found {len(texts)} times")
    value: object = texts if schema["type"] == "array" else texts[0]
    if schema["type"] == "integer" and texts[0].isdecimal() and texts[0].isascii() and len(texts[0]) < _MOST_DIGITS:
        value = int(texts[0])
    if reason := schema_error(schema, value, name):
        raise ApiError(400, "query-invalid", reason)
    return value


async def parse_body(request: Request, route: AnyRoute, bounds: RequestBounds) -> tuple[RequestBody, str]:
    """Read the body, and return it as parsed JSON and as text; the one that the route does not use is empty.

    Raises:
        ApiError: the body is missing, too large, too slow or invalid.
    """
    if route.body is None:
        return {}, ""
    _require_media_type(request, route)
    most = bounds.body if route.reads_config else min(bounds.body, _MOST_JSON_BYTES)
    content = await _read(request, most, bounds.seconds)
    if not content:
        raise ApiError(400, "body-missing", "the request needs a body")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ApiError(400, "body-malformed", "the body is not UTF-8") from None
    return ({}, text) if route.reads_config else (_parse_json(text, route.body), "")


def _require_media_type(request: Request, route: AnyRoute) -> None:
    media_type = "application/yaml" if route.reads_config else "application/json"
    # A page of another site can make a browser send plain text and forms, but not these types.
    found_type, *parameters = request.headers.get("content-type", "").lower().split(";")
    if found_type.strip() != media_type and not route.takes_any_type:
        raise ApiError(415, "media-type", f"expected Content-Type: {media_type}")
    named = (parameter.partition("=") for parameter in parameters)
    charsets = {text.strip(' \t"') for name, _, text in named if name.strip() == "charset"}
    if not _CHARSETS.issuperset(charsets):
        raise ApiError(415, "media-type", "expected the charset utf-8, which is the default")
    codings = {coding.strip() for text in request.headers.getlist("content-encoding") for coding in text.split(",")}
    if not _CODINGS.issuperset(map(str.lower, codings)):
        raise ApiError(415, "media-type", "expected no Content-Encoding")


async def _read(request: Request, most: int, seconds: float) -> bytes:
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and len(announced) < _MOST_DIGITS and int(announced) > most:
        _refuse_size(most)
    try:
        async with asyncio.timeout(seconds):
            return await _collect(request, most)
    except TimeoutError:
        raise ApiError(408, "body-too-slow", f"the body did not arrive within {seconds:g} seconds") from None
    except ClientDisconnect:
        raise ApiError(400, "body-malformed", "the body ended early") from None


async def _collect(request: Request, most: int) -> bytes:
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > most:
            _refuse_size(most)
        parts.append(part)
    return b"".join(parts)


def _refuse_size(most: int) -> NoReturn:
    raise ApiError(413, "body-too-large", f"the body is larger than {most} bytes")


def _parse_json(text: str, schema: Schema) -> RequestBody:
    try:
        value = json.loads(text, parse_float=_number, parse_constant=_refuse_constant, object_pairs_hook=_object)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise ApiError(400, "body-malformed", f"the body is not valid JSON: {reason}") from None
    if found := schema_error(schema, value, "body"):
        raise ApiError(400, "body-invalid", found)
    return cast("RequestBody", value)


def _number(text: str) -> int | float:
    """Convert a number with a point or an exponent; an integer in that form, such as 1e3, becomes an exact int."""
    try:
        number = Decimal(text)
    except InvalidOperation:  # not a ValueError, which `_parse_json` expects
        raise ValueError(f"the exponent of {cut(text)} is too large or too small") from None
    if not number or (number.adjusted() < _MOST_DIGITS and number == number.to_integral_value()):
        return int(number)
    return float(text)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number in JSON")


def _object(pairs: list[tuple[str, object]]) -> Mapping[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name occurs twice in an object")
    return found


#: The Python types of the JSON types. In JSON a boolean is not an integer, unlike in Python.
_TYPES: Final[Mapping[str, type]] = {
    "string": str,
    "integer": int,
    "boolean": bool,
    "object": dict,
    "array": list,
    "null": type(None),
}


def schema_error(schema: Schema, value: object, place: str) -> str | None:
    """Validate a value, and return the first violation with its place in the value; None if the value is valid.

    Only the keywords that request schemas use are implemented.

    >>> from ugm.server.schemas import NAME, listing
    >>> schema_error(listing(NAME), ["ana", 7], "groups")
    'groups[1]: expected a string'
    """
    return next(_violations(schema, value, place), None)


def _violations(schema: Schema, value: object, place: str) -> Iterator[str]:
    if "anyOf" in schema:
        if all(schema_error(choice, value, place) for choice in schema["anyOf"]):
            yield from _choice_violations(schema["anyOf"], value, place)
        return
    kind = schema["type"]
    if type(value) is not _TYPES[kind]:
        yield f"{place}: expected {'an' if kind[0] in 'aio' else 'a'} {kind}"
    elif isinstance(value, str):
        yield from _text_violations(schema, value, place)
    elif isinstance(value, int):
        yield from _number_violations(schema, value, place)
    elif isinstance(value, list):
        yield from _list_violations(schema, value, place)
    elif isinstance(value, dict):
        yield from _object_violations(schema, value, place)


def _choice_violations(choices: Sequence[Schema], value: object, place: str) -> Iterator[str]:
    """Yield the violations of the alternative that an invalid value was probably meant for."""
    operations = [name for choice in choices for name in _operations(choice)]
    if operations and isinstance(value, dict) and value.get("operation") not in operations:
        yield f"{place}.operation: expected one of {', '.join(operations)}"
    else:
        intended = (choice for choice in choices if _is_intended(choice, value))
        yield from _violations(next(intended, choices[0]), value, place)


def _operations(choice: Schema) -> Sequence[str]:
    """Return the operations that an alternative describes; only those of a batch describe any."""
    names: Sequence[str] = choice.get("properties", {}).get("operation", {}).get("enum", ())
    return names


def _is_intended(choice: Schema, value: object) -> bool:
    """Return whether an alternative has the operation of a value, or else its type and its fields."""
    if type(value) is not _TYPES[choice["type"]]:
        return False
    if not isinstance(value, dict):
        return True
    operations = _operations(choice)
    return value["operation"] in operations if operations else value.keys() >= set(choice["required"])


def _text_violations(schema: Schema, value: str, place: str) -> Iterator[str]:
    if "enum" in schema and value not in schema["enum"]:
        yield f"{place}: expected one of {', '.join(schema['enum'])}"
    if value in schema.get("not", {}).get("enum", ()):
        yield f"{place}: {value[:_MOST_QUOTED]!r} is a wildcard, not a name"
    if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)):
        yield f"{place}: expected {schema.get('minLength', 0)} to {schema['maxLength']} characters, found {len(value)}"
    if "pattern" in schema and not re.fullmatch(schema["pattern"].strip("^$"), value):
        yield f"{place}: {value[:_MOST_QUOTED]!r} is not {schema['description']}"


def _number_violations(schema: Schema, value: int, place: str) -> Iterator[str]:
    if not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        yield f"{place}: expected a number from {schema.get('minimum')} to {schema.get('maximum')}"


def _list_violations(schema: Schema, value: list[object], place: str) -> Iterator[str]:
    if len(value) < schema.get("minItems", 0):
        yield f"{place}: expected at least {schema['minItems']} elements, found {len(value)}"
    if len(value) > schema.get("maxItems", len(value)):
        yield f"{place}: expected at most {schema['maxItems']} elements, found {len(value)}"
    for index, item in enumerate(value):
        yield from _violations(schema["items"], item, f"{place}[{index}]")


def _object_violations(schema: Schema, value: dict[str, object], place: str) -> Iterator[str]:
    if len(value) > schema.get("maxProperties", len(value)):
        yield f"{place}: expected at most {schema['maxProperties']} fields, found {len(value)}"
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{place}: the field {name!r} is missing"
    known, others = schema.get("properties", {}), schema["additionalProperties"]
    for name, item in value.items():
        if "propertyNames" in schema:
            yield from _violations(schema["propertyNames"], name, f"{place}, a name")
        if name in known:
            yield from _violations(known[name], item, f"{place}.{name}")
        elif others is False:
            yield f"{place}: unknown field {name!r} (allowed: {', '.join(sorted(known))})"
        else:
            yield from _violations(others, item, f"{place}.{name}")
