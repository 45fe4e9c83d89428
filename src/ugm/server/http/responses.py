"""Starlette responses: results that clients can revalidate, and errors."""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from ugm.server.http.payloads import ApiError, Payload

__all__ = ["error_response", "payload_response", "routing_error_response", "view_response"]

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
