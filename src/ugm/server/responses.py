"""Answers on their way out: JSON, YAML and refusals."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ugm.server.errors import ApiError
from ugm.server.json_text import json_text
from ugm.server.worker_jobs import Result

__all__ = ["json_response", "refusal", "refused_by_routing", "result_response", "yaml_response"]

#: How much of a refused body is thrown away, and for how many seconds, so that the client gets to read the refusal.
_MOST_WASTE: Final = 1 << 28
_PATIENCE: Final = 5.0


def json_response(value: object, status: int = 200) -> Response:
    """Return an answer in JSON, in ASCII: no text can be anything else in another encoding."""
    return Response(json_text(value), status, media_type="application/json", headers={"cache-control": "no-store"})


def yaml_response(text: str) -> Response:
    """Return an answer in YAML."""
    return Response(text, media_type="application/yaml", headers={"cache-control": "no-store"})


def refusal(error: ApiError, *, has_body: bool = False) -> Response:
    """Return an error as an answer.

    Args:
        error: the error.
        has_body: whether the client is sending a body that nobody reads.
    """
    response = json_response(error.to_dict(), error.status)
    if error.status == 401:  # noqa: PLR2004 - the status that asks for a token
        response.headers["www-authenticate"] = "Bearer"
    if error.status == 503:  # noqa: PLR2004 - the status of being busy
        response.headers["retry-after"] = "1"
    return _Parting(response) if has_body else response


def result_response(result: Result) -> Response:
    """Return an answer that another process has made."""
    headers = {"cache-control": "no-store"}
    return Response(result.content, result.status, media_type="application/json", headers=headers)


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
