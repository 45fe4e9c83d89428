"""Answers on their way out: JSON, refusals, and what every browser has to respect."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Final, final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ugm.errors import number_text
from ugm.server.errors import ApiError

__all__ = ["Guarded", "json_response", "refusal", "refused_by_routing", "yaml_response"]

#: Nothing but what the server itself serves; nothing of it inline, so that a name with markup stays a name.
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_HEADERS: Final = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_encode: Final = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode
#: Python writes numbers of 640 digits, whatever its settings.
_MOST_WRITTEN: Final = 10**600
#: How much of a refused body is thrown away, and for how many seconds, so that the client gets to read the refusal.
_MOST_WASTE: Final = 1 << 28
_PATIENCE: Final = 5.0


def json_response(value: object, status: int = 200) -> Response:
    """Return an answer in JSON, in ASCII: no text can be anything else in another encoding."""
    return Response(_written(value), status, media_type="application/json", headers={"cache-control": "no-store"})


def _written(value: object) -> str:
    try:
        return _encode(value)
    except ValueError:  # a number has more digits than Python writes
        return _encode(_writable(value))


def _writable(value: object) -> object:
    """Return the value with every whole number that Python does not write as a text."""
    if isinstance(value, dict):
        return {key: _writable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_writable(item) for item in value]
    return number_text(value) if type(value) is int and abs(value) > _MOST_WRITTEN else value


def yaml_response(text: str) -> Response:
    """Return an answer in YAML."""
    return Response(text, media_type="application/yaml", headers={"cache-control": "no-store"})


def refusal(error: ApiError) -> Response:
    """Return an error as an answer."""
    response = json_response(error.to_dict(), error.status)
    if error.status == 401:  # noqa: PLR2004 - the status that asks for a token
        response.headers["www-authenticate"] = "Bearer"
    if error.status == 503:  # noqa: PLR2004 - the status of being busy
        response.headers["retry-after"] = "1"
    return _Parting(response) if error.status in {408, 413} else response


class _Parting(Response):
    """An answer to a request whose body is not wanted.

    It is sent while the body may still be coming. Closing the connection at once would make the client's system throw
    the answer away before the client has read it; so what comes is thrown away for a while.
    """

    def __init__(self, response: Response) -> None:
        super().__init__(response.body, response.status_code, dict(response.headers))
        self.headers["connection"] = "close"

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer, and throw away what comes."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": True})
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                await _throw_away(receive)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _throw_away(receive: Receive) -> None:
    wasted = 0
    while wasted < _MOST_WASTE:
        message = await receive()
        wasted += len(message.get("body", b""))
        if message["type"] != "http.request" or not message.get("more_body", False):
            return


async def refused_by_routing(_request: Request, error: Exception) -> Response:
    """Tell what the routing refuses in the same words as everything else."""
    status = getattr(error, "status_code", 500)
    codes = {404: ("path-unknown", "there is no such path"), 405: ("method-unknown", "the path has no such method")}
    response = refusal(ApiError(status, *codes.get(status, ("refused", "the request is refused"))))
    response.headers.update(getattr(error, "headers", None) or {})
    return response


@final
class Guarded:
    """An application whose answers all have the headers that a browser has to respect."""

    def __init__(self, app: ASGIApp) -> None:
        self._app: Final = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_HEADERS]
            await send(message)

        await self._app(scope, receive, guarded if scope["type"] == "http" else send)
