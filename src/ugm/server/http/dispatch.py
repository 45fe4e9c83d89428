"""Request dispatch: each request is parsed, answered in a thread, and converted to a response.

The problem of repetitions: a client or proxy sends a change again because its answer was lost. If the repetition
arrives late, after the allocation was released, it would be charged again, and never released.

The idea: a client names each change with a key of its own, in the header ``Idempotency-Key``. The first request with a
key is executed, and its answer is stored. A repetition gets the stored answer. Answers about outages are not stored,
because the change may have to be repeated.

Invariant: changes with a key are executed one at a time, so a repetition never overtakes the first request. The cost is
bounded: the oldest answers are forgotten, and they are lost when the server stops.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from threading import Lock
from typing import Any, Final, cast, final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from ugm.errors import UgmError
from ugm.partition.interface.operation_kinds import Role
from ugm.server.http.access import Tokens
from ugm.server.http.audit import AuditLog
from ugm.server.http.payloads import ApiError, Payload, internal_error, json_payload, require_found
from ugm.server.http.requests import error_response, parse_body, parse_parameters, payload_response, view_response
from ugm.server.interface.route import IDEMPOTENCY_KEY, Call, Route, ServerState

#: The number of stored answers; the oldest are forgotten.
_MOST_ANSWERS: Final = 10_000
_LONGEST_KEY: Final = 256
#: Answers with this status and higher ones are not stored.
_FAILED: Final = 500


@final
class IdempotentAnswers:
    """The newest answers of one server by idempotency key."""

    def __init__(self) -> None:
        #: Held while a change with a key is executed.
        self._lock: Final = Lock()
        #: A hash of the request, and its answer or error; the oldest first.
        self._answers: Final[dict[str, tuple[bytes, Payload | ApiError]]] = {}

    def run(self, key: str, digest: bytes, answer: Callable[[], Payload]) -> Payload:
        """Return the stored answer to a request, or answer it and store that.

        Args:
            key: the key of the request.
            digest: a hash of the path, the query and the body.
            answer: answers the request.

        Raises:
            ApiError: the answer is an error; or the key is invalid, or belongs to another request.
        """
        if not 0 < len(key) <= _LONGEST_KEY:
            raise ApiError(400, "idempotency-key-invalid", f"a key has 1 to {_LONGEST_KEY} characters")
        with self._lock:
            if key not in self._answers:
                try:
                    given: Payload | ApiError = answer()
                except ApiError as error:
                    if error.status >= _FAILED:
                        raise
                    given = error
                self._answers[key] = digest, given
                if len(self._answers) > _MOST_ANSWERS:
                    del self._answers[next(iter(self._answers))]
            known, result = self._answers[key]
        if known != digest:
            raise ApiError(422, "idempotency-key-reused", "another request had this key; use a new key")
        if isinstance(result, ApiError):
            raise result
        return result


#: Proxies must not collect the messages of a stream.
_STREAM_HEADERS: Final = {"cache-control": "no-store", "x-accel-buffering": "no"}

_LOGGER: Final = logging.getLogger(__name__)


@final
@dataclass(eq=False)
class RequestDispatcher:
    """Creates the endpoints of the routes of one server."""

    #: The objects that the endpoints use.
    state: ServerState
    #: The tokens of clients that may change something.
    tokens: Tokens
    #: Records the changes that are rejected.
    audit: AuditLog
    #: Returns the time, in seconds since 1970.
    clock: Callable[[], float]

    def __post_init__(self) -> None:
        self._answers = IdempotentAnswers()

    def endpoint(self, routes: Mapping[str, Route]) -> Callable[[Request], Awaitable[Response]]:
        """Return the endpoint for a path, with the route of each method."""

        async def endpoint(request: Request) -> Response:
            # The response to HEAD is that to GET; the server drops its body.
            route = routes["GET" if request.method == "HEAD" else request.method]
            client = request.client.host if request.client else "unknown"
            only_json = request.headers.get("accept", "") == "application/json"
            call = Call(self.audit, route.role, client, accepts_only_json=only_json)
            role = "anonymous"
            try:
                if route.role is not Role.VIEWER:
                    self.tokens.require(request, route.role)
                    role = route.role.name.lower()
                return await self._response(route, request, call)
            except ApiError as error:
                if route.role is not Role.VIEWER and not call.is_audited:
                    self.audit.write_rejection(request.scope, role, error.code)
                return error_response(error, is_yunikorn=route.is_yunikorn)

        return endpoint

    async def _response(self, route: Route, request: Request, call: Call) -> Response:
        arguments, target = parse_parameters(request, route), cast("object", self.state)
        if "partition" in request.path_params:
            target = require_found("partition", request.path_params["partition"], self.state.partitions.get)
        body, content = await parse_body(request, route)
        as_of = self.clock()

        def answer() -> Any:  # noqa: ANN401 - a payload, or the messages of a stream
            return _payload(route, target, call, {**arguments, **body})

        key = request.headers.get(IDEMPOTENCY_KEY)
        if key is not None and route.role is not Role.VIEWER:
            digest = sha256(f"{request.url.path}?{request.url.query}\n".encode() + content).digest()
            payload: Any = await asyncio.to_thread(self._answers.run, key, digest, answer)
        else:
            payload = await asyncio.to_thread(answer)
        if isinstance(payload, AsyncIterator):
            # The response to HEAD has no body, so it must end at once, without occupying a stream.
            messages = payload if request.method == "GET" else iter(())
            return StreamingResponse(messages, 200, _STREAM_HEADERS, route.media_types[0])
        return view_response(payload, as_of, request) if route.method == "GET" else payload_response(payload)


def _payload(route: Route, target: object, call: Call, arguments: Mapping[str, Any]) -> Payload | AsyncIterator[bytes]:
    """Call the function of a route, and return its result as a payload, or the messages of a stream.

    Raises:
        ApiError: the function raised any error.
    """
    try:
        result = route.answer(target, **({"call": call} if "call" in route.arguments else {}), **arguments)
    except ApiError:
        raise
    except UgmError as error:
        raise ApiError.of(error) from None
    except Exception:
        _LOGGER.exception("%s %s failed", route.method, route.full_path)
        raise internal_error() from None
    return result if isinstance(result, Payload | AsyncIterator) else json_payload(result)
