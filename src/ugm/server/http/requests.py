"""Requests and responses: parsing and validation of bounded input, results that clients can revalidate, and errors.

Every part of a request is validated against the annotations of its endpoint before the endpoint runs. The body is read
last, and only if the rest of the request is valid.
"""

from __future__ import annotations

import asyncio
import re
from hashlib import blake2b
from typing import Any, Final

import msgspec
from msgspec.inspect import EnumType, ListType, LiteralType, UnionType, type_info
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from ugm.server.http.payloads import ApiError, Payload
from ugm.server.interface.route import Route
from ugm.server.interface.schemas import completed

#: All smaller integers are exact in numbers with a point.
_LARGEST: Final = 2.0**53
#: The bytes of a configuration, and of a body in JSON.
_MOST_YAML_BYTES: Final = 1 << 20
_MOST_JSON_BYTES: Final = 1 << 18
#: The seconds in which a body must have arrived.
_BODY_SECONDS: Final = 10
#: The place in an error of msgspec.
_PLACE: Final = re.compile(r"(.*) - at `(?:key in )?\$\.?([^`]*)`", re.DOTALL)


def parse_parameters(request: Request, route: Route) -> dict[str, Any]:
    """Return the variable parts of the path and the parameters of the query, by name, with their defaults.

    Raises:
        ApiError: a part or parameter is unknown, missing, repeated or invalid.
    """
    fields = {one.name: one for one in msgspec.structs.fields(route.parameters)}
    values: dict[str, Any] = {name: str(part) for name, part in request.path_params.items() if name in fields}
    names = set(values)
    for name in request.query_params:
        if name not in fields or name in names:
            allowed = ", ".join(sorted(fields.keys() - names)) or "none"
            raise ApiError(400, "query-invalid", f"unknown query parameter {name[:100]!r} (allowed: {allowed})")
        texts = request.query_params.getlist(name)
        is_list = fields[name].default_factory is list
        if len(texts) > 1 and not is_list:
            raise ApiError(400, "query-invalid", f"{name}: expected once, found {len(texts)} times")
        values[name] = texts if is_list else texts[0]
    try:
        found = msgspec.convert(values, route.parameters, strict=False)
        if absent := [name for name in values if getattr(found, name) is None]:
            raise ApiError(400, "query-invalid", f"{absent[0]}: expected a value, found null")
        return {"query": found} if "query" in route.arguments else msgspec.structs.asdict(found)
    except msgspec.ValidationError as error:
        reason = _reason(error)
        if "Invalid enum value" in reason:
            place = reason.partition(":")[0].partition("[")[0]
            reason += f" (allowed: {', '.join(_choices(type_info(fields[place].type)))})"
        raise ApiError(400, "path-invalid" if reason.startswith(tuple(names)) else "query-invalid", reason) from None


def _choices(kind: Any) -> list[str]:  # noqa: ANN401 - a description of msgspec
    """Return the allowed values of a parameter, or of each item of a list."""
    match kind:
        case LiteralType(values):
            return [str(value) for value in values if value != ""]
        case EnumType(members):
            return [str(member.value) for member in members]
        case ListType():
            return _choices(kind.item_type)
        case UnionType(kinds):
            return [choice for one in kinds for choice in _choices(one)]
    return []


def _reason(error: Exception, root: str = "") -> str:
    """Return the message of an error of msgspec after its place, without regular expressions."""
    found = _PLACE.fullmatch(str(error))
    message, place = (str(error), "") if found is None else (found[1], found[2])
    if "matching regex" in message:
        message = "it is not a valid name or path"
    return f"{root}{'.' * bool(root and place)}{place}: {message}"


async def parse_body(request: Request, route: Route) -> tuple[dict[str, Any], bytes]:
    """Read the body, and return it as an argument, and its bytes.

    Raises:
        ApiError: the body is missing, too large, too slow or invalid.
    """
    if route.body is None and not route.reads_config:
        return {}, b""
    _require_media_type(request, route)
    content = await _read(request, _MOST_YAML_BYTES if route.reads_config else _MOST_JSON_BYTES)
    if not content:
        raise ApiError(400, "body-missing", "the request needs a body")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ApiError(400, "body-malformed", "the body is not UTF-8") from None
    return ({"text": text} if route.reads_config else {"body": _parse_json(text, route.body)}), content


def _require_media_type(request: Request, route: Route) -> None:
    media_type = "application/yaml" if route.reads_config else "application/json"
    # A page of another site can make a browser send plain text and forms, but not these types.
    found = request.headers.get("content-type", "").lower().partition(";")[0].strip()
    if found != media_type and not route.takes_any_type:
        raise ApiError(415, "media-type", f"expected Content-Type: {media_type}")


async def _read(request: Request, most: int) -> bytes:
    parts, size = [], 0
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            async for part in request.stream():
                size += len(part)
                if size > most:
                    raise ApiError(413, "body-too-large", f"the body is larger than {most} bytes")
                parts.append(part)
    except TimeoutError:
        raise ApiError(408, "body-too-slow", f"the body did not arrive within {_BODY_SECONDS} seconds") from None
    except ClientDisconnect:
        raise ApiError(400, "body-malformed", "the body ended early") from None
    return b"".join(parts)


def _parse_json(text: str, kind: Any) -> object:  # noqa: ANN401 - an annotation
    try:
        return msgspec.convert(_DECODER.decode(text), kind, dec_hook=completed)
    except msgspec.ValidationError as error:
        raise ApiError(400, "body-invalid", _reason(error, "body")) from None
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise ApiError(400, "body-malformed", f"the body is not valid JSON: {reason}") from None


def _number(text: str) -> int | float:
    """Convert a number with a point or an exponent; programs in some languages write integers as 1.0 or 1e3."""
    number = float(text)
    return int(number) if number.is_integer() and abs(number) < _LARGEST else number


_DECODER: Final = msgspec.json.Decoder(float_hook=_number)


# Responses

#: Every response shows the state of one moment, so clients must not cache it.
_NO_STORE: Final = {"cache-control": "no-store"}
#: Statuses of responses before the body of the request is read, after which the connection cannot be used again.
_UNREAD: Final = frozenset((401, 403, 408, 413, 415, 421))
#: Headers that the HTTP standard requires or recommends with a status.
_STATUS_HEADERS: Final = {401: {"www-authenticate": "Bearer"}, 503: {"retry-after": "1"}}


def payload_response(payload: Payload) -> Response:
    """Return a payload as a response."""
    return Response(payload.content, payload.status, {**_NO_STORE, "content-type": payload.media_type})


def view_response(payload: Payload, as_of: float, request: Request) -> Response:
    """Return a payload as the response to GET, without a body if the client has the same one already.

    Args:
        payload: the body.
        as_of: a time before its data were read, in seconds since 1970.
        request: the request.
    """
    etag = f'W/"{blake2b(payload.content, digest_size=12).hexdigest()}"'
    # The client must ask before it uses a copy.
    headers = {"cache-control": "private, no-cache", "etag": etag, "ugm-as-of": f"{as_of:.3f}"}
    if etag in (tag.strip() for tag in request.headers.get("if-none-match", "").split(",")):
        return Response(status_code=304, headers=headers)
    return Response(payload.content, payload.status, {**headers, "content-type": payload.media_type})


def error_response(error: ApiError, *, is_yunikorn: bool = False) -> Response:
    """Return an error as a response, possibly in the format of Apache YuniKorn."""
    payload = error.payload(is_yunikorn=is_yunikorn)
    closing = {"connection": "close"} if error.status in _UNREAD else {}
    headers = {**_NO_STORE, **_STATUS_HEADERS.get(error.status, {}), **closing}
    return Response(payload.content, payload.status, headers, payload.media_type)


async def routing_error_response(_request: Request, error: Exception) -> Response:
    """Convert an error of the routing, such as an unknown path, to the form of all other errors."""
    status = getattr(error, "status_code", 500)
    codes = {404: ("path-unknown", "there is no such path"), 405: ("method-unknown", "the path has no such method")}
    response = error_response(ApiError(status, *codes.get(status, ("refused", "the request is refused"))))
    response.headers.update(getattr(error, "headers", None) or {})
    return response
