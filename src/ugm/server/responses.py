"""Starlette responses for errors."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ugm.server.payloads import ApiError

__all__ = ["NO_STORE", "error_response", "internal_error", "routing_error_response"]

#: Every response shows the state of one moment, so clients must not cache it.
NO_STORE: Final = {"cache-control": "no-store"}

#: Limits for discarding the body of a refused request.
_MOST_DISCARDED_BYTES: Final = 1 << 28
_MOST_DISCARD_SECONDS: Final = 5.0

#: Headers that the HTTP standard requires or recommends with a status.
_STATUS_HEADERS: Final = {401: {"www-authenticate": "Bearer"}, 503: {"retry-after": "1"}}


def internal_error() -> ApiError:
    """Return the error for an exception that the server does not expect. Log the exception before."""
    return ApiError(500, "internal", "the server failed; its log has the details")


def error_response(error: ApiError, *, has_unread_body: bool = False) -> Response:
    """Return an error as a response.

    Args:
        error: the error.
        has_unread_body: whether the client is sending a body that the server does not read.
    """
    payload = error.payload()
    headers = {**NO_STORE, **_STATUS_HEADERS.get(error.status, {})}
    kind = _DrainingResponse if has_unread_body else Response
    return kind(payload.content, payload.status, headers, payload.media_type)


class _DrainingResponse(Response):
    """A response to a request whose body is not read.

    The client may still be sending the body. If the server closed the connection at once, the operating system of the
    client would discard the response before the client reads it. Therefore the server discards incoming data for a
    while before it closes the connection.
    """

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response, and discard the rest of the request."""
        self.headers["connection"] = "close"
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": True})
        with suppress(TimeoutError):
            async with asyncio.timeout(_MOST_DISCARD_SECONDS):
                await _discard(receive)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _discard(receive: Receive) -> None:
    discarded = 0
    while discarded < _MOST_DISCARDED_BYTES:
        message = await receive()
        discarded += len(message.get("body", b""))
        if message["type"] != "http.request" or not message.get("more_body", False):
            return


async def routing_error_response(_request: Request, error: Exception) -> Response:
    """Convert an error of the routing, such as an unknown path, to the form of all other errors."""
    status = getattr(error, "status_code", 500)
    codes = {404: ("path-unknown", "there is no such path"), 405: ("method-unknown", "the path has no such method")}
    response = error_response(ApiError(status, *codes.get(status, ("refused", "the request is refused"))))
    response.headers.update(getattr(error, "headers", None) or {})
    return response
