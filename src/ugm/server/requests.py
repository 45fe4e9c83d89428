"""Requests taken apart: the token, the query, and a body of bounded size that must arrive in time.

Everything is checked against the description before anything is answered. Nothing of a body is read before it is clear
that it will be used.
"""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final, NamedTuple, NoReturn

from starlette.requests import ClientDisconnect, Request

from ugm.server.errors import ApiError
from ugm.server.routes import Route, is_yaml, part_schema
from ugm.server.schema import Schema, wrong

__all__ = ["RequestBounds", "body_of", "path_of", "query_of", "require_token"]

#: Digits of a number that is read.
_LONGEST_NUMBER: Final = 20
_JSON_BYTES: Final = 1 << 18


class RequestBounds(NamedTuple):
    """How much a client may ask of the server."""

    #: Bytes of a configuration; JSON has a quarter of a megabyte.
    body: int = 1 << 20
    #: Seconds in which a body must have arrived.
    seconds: float = 10
    #: Requests that wait for a turn.
    waiting: int = 256
    #: Configurations that wait to be read. Each may take seconds.
    configurations: int = 8


def require_token(request: Request, token: str | None, *, read_only: bool) -> None:
    """Make sure that a client may change something.

    Raises:
        ApiError: it may not.
    """
    if read_only or token is None:
        raise ApiError(403, "read-only", "the server was started read-only")
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    # Compared in a time that does not tell how much of it is right.
    matches = hmac.compare_digest(given.strip().encode(), token.encode())
    if scheme.lower() != "bearer" or not matches:
        raise ApiError(401, "token-wrong", "the request needs the header Authorization: Bearer TOKEN")


def path_of(request: Request) -> dict[str, str]:
    """Return the parts of the path.

    Raises:
        ApiError: one of them is too long to be a name.
    """
    parts = {name: str(part) for name, part in request.path_params.items()}
    for name, part in parts.items():
        if found := wrong(part_schema(name), part, name):
            raise ApiError(400, "path-invalid", found)
    return parts


def query_of(request: Request, route: Route) -> dict[str, Any]:
    """Return the query parameters.

    Raises:
        ApiError: one of them is unknown, missing, there twice, or not as described.
    """
    for name in request.query_params:
        if name not in route.query:
            known = ", ".join(sorted(route.query)) or "none"
            raise ApiError(400, "query-invalid", f"{name[:100]!r} is not a query parameter here (allowed: {known})")
    found = {
        name: _asked(name, schema, request) for name, schema in route.query.items() if name in request.query_params
    }
    for name in sorted(route.required - found.keys()):
        raise ApiError(400, "query-invalid", f"{name}: missing")
    return found


def _asked(name: str, schema: Schema, request: Request) -> object:
    texts = request.query_params.getlist(name)
    if schema["type"] != "array" and len(texts) > 1:
        raise ApiError(400, "query-invalid", f"{name}: there twice")
    value: object = texts if schema["type"] == "array" else texts[0]
    if schema["type"] == "integer" and texts[0].isdecimal() and texts[0].isascii() and len(texts[0]) < _LONGEST_NUMBER:
        value = int(texts[0])
    if reason := wrong(schema, value, name):
        raise ApiError(400, "query-invalid", reason)
    return value


async def body_of(request: Request, route: Route, bounds: RequestBounds) -> Any:  # noqa: ANN401 - JSON
    """Return what the client sends, or None where nothing is expected.

    Raises:
        ApiError: it is too large, too slow, or not as described.
    """
    if route.body is None:
        return None
    is_json = not is_yaml(route.body)
    expected = "application/json" if is_json else "application/yaml"
    # A page of another site can make a browser send plain text and forms, but not these.
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != expected:
        raise ApiError(415, "media-type", f"expected Content-Type: {expected}")
    most = min(bounds.body, _JSON_BYTES) if is_json else bounds.body
    content = await _read(request, most, bounds.seconds)
    if not content:
        raise ApiError(400, "body-missing", "the request needs a body")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ApiError(400, "body-malformed", "the body is not UTF-8") from None
    return _checked(text, route.body) if is_json else text


async def _read(request: Request, most: int, seconds: float) -> bytes:
    told = request.headers.get("content-length", "")
    if told.isdecimal() and len(told) < _LONGEST_NUMBER and int(told) > most:
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


def _checked(text: str, schema: Schema) -> object:
    try:
        value = json.loads(text, parse_float=_number, parse_constant=_refuse_constant, object_pairs_hook=_without_twins)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise ApiError(400, "body-malformed", f"the body is no JSON: {reason}") from None
    if found := wrong(schema, value, "body"):
        raise ApiError(400, "body-invalid", found)
    return value


def _number(text: str) -> int | float:
    """Return a whole number as one, whatever way it is written, and exactly."""
    number = Decimal(text)
    if number.adjusted() < _LONGEST_NUMBER and number == number.to_integral_value():
        return int(number)
    return float(text)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


def _without_twins(pairs: list[tuple[str, object]]) -> Mapping[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name is there twice")
    return found
