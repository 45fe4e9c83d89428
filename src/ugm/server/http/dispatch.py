"""Request dispatch: each request is parsed, answered in a thread, and converted to a response."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from hashlib import sha256
from typing import Any, Final, TypeAlias, cast, final

from starlette.requests import Request
from starlette.responses import Response

from ugm.errors import ConfigError, OutageError, RequestError
from ugm.partition.interface.operations import Role
from ugm.server.http.access import Tokens
from ugm.server.http.audit import AuditLog
from ugm.server.http.idempotency import IDEMPOTENCY_KEY, IdempotentAnswers
from ugm.server.http.payloads import ApiError, Payload, internal_error, json_payload, require_found
from ugm.server.http.requests import RequestBounds, parse_body, parse_parameters
from ugm.server.http.responses import error_response, payload_response, view_response
from ugm.server.interface.route import Call, Route
from ugm.server.interface.state import ServerState

__all__ = ["RequestDispatcher"]

_Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]

_LOGGER: Final = logging.getLogger(__name__)


def _require_free(places: asyncio.Semaphore) -> None:
    """Require that a place is free for a request that is answered or waits.

    Raises:
        ApiError: all places are taken.
    """
    if places.locked():
        raise ApiError(503, "busy", "too many requests are waiting")


@final
class RequestDispatcher:
    """Creates the endpoints of the routes of one server.

    Args:
        state: the objects that the endpoints use.
        tokens: the tokens of clients that may change something.
        audit: records the changes that are rejected.
        bounds: the bounds of requests.
        clock: returns the time, in seconds since 1970.
    """

    __slots__ = ("_answers", "_audit", "_bounds", "_clock", "_configs", "_places", "_state", "_tokens")

    def __init__(
        self,
        state: ServerState,
        tokens: Tokens,
        audit: AuditLog,
        bounds: RequestBounds,
        clock: Callable[[], float],
    ) -> None:
        self._clock: Final = clock
        self._answers: Final = IdempotentAnswers()
        self._state: Final = state
        self._tokens: Final = tokens
        self._audit: Final = audit
        self._bounds: Final = bounds
        #: The places of requests. They are taken in the event loop, without waiting.
        self._places: Final = asyncio.Semaphore(bounds.waiting)
        #: Configurations take longest to read.
        self._configs: Final = asyncio.Semaphore(bounds.configurations)

    def endpoint(self, routes: Mapping[str, Route]) -> _Endpoint:
        """Return the endpoint for a path, with the route of each method."""

        async def endpoint(request: Request) -> Response:
            # The response to HEAD is that to GET; the server drops its body.
            route = routes["GET" if request.method == "HEAD" else request.method]
            client = request.client.host if request.client else "unknown"
            only_json = request.headers.get("accept", "") == "application/json"
            call = Call(self._audit, route.role, client, accepts_only_json=only_json)
            try:
                self._authenticate(route, request, call)
                return await self._response(route, request, call)
            except ApiError as error:
                if route.role is not Role.VIEWER and not call.is_audited:
                    self._audit.write_rejection(request.scope, route.role.name.lower(), error.code)
                return error_response(error, is_yunikorn=route.is_yunikorn)

        return endpoint

    def _authenticate(self, route: Route, request: Request, call: Call) -> None:
        try:
            if route.role is not Role.VIEWER:
                self._tokens.require(request, route.role)
        except ApiError as error:
            self._audit.write_failure(request.scope, error.code)
            call.is_audited = True
            raise

    async def _response(self, route: Route, request: Request, call: Call) -> Response:
        arguments, target = parse_parameters(request, route), cast("object", self._state)
        places = self._configs if route.reads_config else self._places
        # Before the body is read, which may be large and slow.
        _require_free(places)
        if "partition" in request.path_params:
            target = require_found("partition", request.path_params["partition"], self._state.partitions.get)
        body, content = await parse_body(request, route, self._bounds)
        as_of = self._clock()

        def answer() -> Payload:
            return _payload(route, target, call, {**arguments, **body})

        key = request.headers.get(IDEMPOTENCY_KEY)
        _require_free(places)
        async with places:
            if key is not None and route.role is not Role.VIEWER:
                digest = sha256(f"{request.url.path}?{request.url.query}\n".encode() + content).digest()
                payload = await asyncio.to_thread(self._answers.run, key, digest, answer)
            else:
                payload = await asyncio.to_thread(answer)
        return view_response(payload, as_of, request) if route.method == "GET" else payload_response(payload)


def _payload(route: Route, target: object, call: Call, arguments: Mapping[str, Any]) -> Payload:
    """Call the function of a route, and return its result as a payload.

    Raises:
        ApiError: the function raised any error.
    """
    try:
        result = route.answer(target, **({"call": call} if route.needs_call else {}), **arguments)
    except ApiError:
        raise
    except (RequestError, ConfigError, OutageError) as error:
        raise ApiError.of(error) from None
    except Exception:
        _LOGGER.exception("%s %s failed", route.method, route.full_path)
        raise internal_error() from None
    return result if isinstance(result, Payload) else json_payload(result)
