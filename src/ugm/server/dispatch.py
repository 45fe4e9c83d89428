"""Request dispatch: each request is parsed, answered in turn, and converted to a response.

The interpreter runs one thread at a time. A second thread that writes JSON would not make the server faster, but would
take more time from the scheduler in the same process. Therefore slow requests wait in queues, each of which is served
by one thread at a time. Identical requests in a queue are coalesced: they share one response. The response is created
after the last of them has arrived, so no client gets a state from before its request.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Hashable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Final, Generic, TypeAlias, TypeVar, final

from starlette.requests import Request
from starlette.responses import Response

from ugm.errors import ConfigError, OutageError, RequestError
from ugm.server.access import Role, Tokens
from ugm.server.audit import request_fields
from ugm.server.guard import has_body
from ugm.server.idempotency import IDEMPOTENCY_KEY, IdempotentAnswers
from ugm.server.pacing import WorkPacer
from ugm.server.payloads import ApiError, Payload, YunikornError, json_payload, require_found, yaml_payload
from ugm.server.representation import Representation, accepts_gzip, prepare
from ugm.server.requests import RequestBounds, parse_body, parse_path, parse_query
from ugm.server.responses import NO_STORE, error_response, internal_error
from ugm.server.route import AnyRoute, Route
from ugm.server.server_metrics import with_server_metrics
from ugm.server.state import RequestContext, ServedPartition, ServerState

__all__ = ["RequestCoalescer", "RequestDispatcher", "payload_response"]

_T = TypeVar("_T")
_Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]
_Connected: TypeAlias = Callable[[], Awaitable[bool]]

_LOGGER: Final = logging.getLogger(__name__)

#: The roles of clients in the audit log; reading is not logged.
_ACTORS: Final[Mapping[Role, str]] = {Role.OPERATE: "operator", Role.DECIDE: "scheduler"}
#: The part of the time that views may take continuously, including their transfer by the event loop, and the burst:
#: seconds of work that are not delayed after idle time. Next to a busy scheduler, about half of this time is processor
#: time.
_MOST_SHARE: Final = 0.3
_BURST_SECONDS: Final = 0.5
#: The largest part of the time of the event loop that counts for a view, as a multiple of the time of the view.
_MOST_LOOP_TIME: Final = 4


@final
class RequestCoalescer(Generic[_T]):
    """A queue of requests that are answered by one thread at a time; identical requests share a result.

    Args:
        most: the number of distinct requests that may wait.
        pacer: limits the time of the thread and of the event loop; None for no limit.
    """

    __slots__ = ("_loop_read", "_most", "_pacer", "_running", "_turn", "_waiting")

    def __init__(self, most: int, pacer: WorkPacer | None = None) -> None:
        self._most: Final = most
        self._pacer: Final = pacer
        self._turn: Final = asyncio.Semaphore(1)
        #: The processor time of the event loop after the last request.
        self._loop_read = 0.0
        #: The tasks that have not started, by the key of the request.
        self._waiting: Final[dict[Hashable, asyncio.Task[_T]]] = {}
        #: All unfinished tasks. The event loop holds only weak references to tasks.
        self._running: Final[set[asyncio.Task[_T]]] = set()

    @property
    def is_full(self) -> bool:
        """True if the queue accepts no further distinct requests."""
        return len(self._waiting) >= self._most

    async def run(self, key: Hashable, make: Callable[[], _T], is_disconnected: _Connected | None = None) -> _T:
        """Call a function in a thread when it is the turn of the request, and return its result.

        Args:
            key: requests with equal keys share a result.
            make: creates the result.
            is_disconnected: returns whether the client has disconnected; None if requests may share the result.

        Raises:
            ApiError: the queue is full, or the client has disconnected.
        """
        task = self._waiting.get(key)
        if task is None:
            if self.is_full:
                raise ApiError(503, "busy", "too many requests are waiting")
            task = self._waiting[key] = asyncio.create_task(self._make(key, make, is_disconnected))
            self._running.add(task)
            task.add_done_callback(self._finish)
        # A client that disconnects must not cancel the task of the other clients.
        return await asyncio.shield(task)

    async def _make(self, key: Hashable, make: Callable[[], _T], is_disconnected: _Connected | None) -> _T:
        async with self._turn:
            if self._pacer is not None and (delay := self._pacer.delay()):
                # Requests that arrive meanwhile share the result.
                await asyncio.sleep(delay)
            # Later requests must not share this result: it may be older than they are.
            del self._waiting[key]
            if is_disconnected is not None and await is_disconnected():
                raise ApiError(400, "client-gone", "the client closed the connection before its request was read")
            if self._pacer is None:
                return await asyncio.to_thread(make)
            result, elapsed, spent = await asyncio.to_thread(_timed, make)
            # Sending to many clients can take longer than creating what is sent. Other programs may share the loop.
            sending = min(self._loop_time(), _MOST_LOOP_TIME * spent)
            # Both take longer than their processor time while other threads and processes compete for the processor.
            # The longer duration counts, so that a scheduler keeps its part of what is left for this process.
            self._pacer.spend(elapsed * (1 + sending / spent) if spent else elapsed)
            return result

    def _loop_time(self) -> float:
        """Return the processor time of the event loop since the last call."""
        before, self._loop_read = self._loop_read, time.thread_time()
        return self._loop_read - before

    def _finish(self, task: asyncio.Task[_T]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            # Retrieve the exception, so that asyncio does not log it if every client has disconnected.
            task.exception()


def _timed(make: Callable[[], _T]) -> tuple[_T, float, float]:
    """Return the result of a function, the time that it took, and its processor time."""
    began, worked = time.perf_counter(), time.thread_time()
    return make(), time.perf_counter() - began, time.thread_time() - worked


@final
class RequestDispatcher:
    """Creates the endpoints of the routes of one server.

    Args:
        state: the objects that the endpoints use.
        tokens: the tokens of clients that may change something.
        bounds: the bounds of requests.
        clock: returns the time, in seconds since 1970.
    """

    __slots__ = (
        "_answers",
        "_bounds",
        "_clock",
        "_configs",
        "_decisions",
        "_latest",
        "_operations",
        "_state",
        "_tokens",
        "_views",
    )

    def __init__(
        self, state: ServerState, tokens: Tokens, bounds: RequestBounds, clock: Callable[[], float] = time.time
    ) -> None:
        self._clock: Final = clock
        self._answers: Final = IdempotentAnswers()
        self._state: Final = state
        self._tokens: Final = tokens
        self._bounds: Final = bounds
        #: The arrival of the latest of several coalesced requests, by their key.
        self._latest: Final[dict[Hashable, float]] = {}
        self._views: Final = RequestCoalescer[Representation](bounds.waiting, WorkPacer(_MOST_SHARE, _BURST_SECONDS))
        #: Decisions have a queue of their own, so that slow ones do not delay views.
        self._decisions: Final = RequestCoalescer[Payload](bounds.waiting)
        #: Operations wait for the journal or the service of the partition, which must not delay the answers to others.
        self._operations: Final = RequestCoalescer[Payload](bounds.waiting)
        #: Configurations take longest; a worker process reads them.
        self._configs: Final = RequestCoalescer[Payload](bounds.configurations)

    def server_endpoint(self, routes: Mapping[str, Route[ServerState]]) -> _Endpoint:
        """Return the endpoint for a path of the server, with the route of each method."""
        return self._endpoint(routes, lambda _context: self._state)

    def partition_endpoint(self, routes: Mapping[str, Route[ServedPartition]]) -> _Endpoint:
        """Return the endpoint for a path of a partition, with the route of each method."""
        return self._endpoint(routes, self._served)

    def _served(self, context: RequestContext) -> ServedPartition:
        return require_found("partition", context.path["partition"], self._state.partitions.get)

    def _endpoint(self, routes: Mapping[str, Route[_T]], find: Callable[[RequestContext], _T]) -> _Endpoint:
        async def endpoint(request: Request) -> Response:
            # The response to HEAD is that to GET; the server drops its body.
            route = routes["GET" if request.method == "HEAD" else request.method]
            context: RequestContext | None = None
            try:
                self._authenticate(route, request)
                with self._attempt(route, request) as start, _reporting_stop():
                    context = await self._context(route, request)
                    return await self._response(route, request, context, _starting(start, route, find))
            except ApiError as error:
                # An error with status 400 may also come from a body that has been read.
                is_unread = context is None and error.status != 400 and has_body(request.scope)  # noqa: PLR2004 - as above
                return error_response(_formatted(route, error), has_unread_body=is_unread)

        return endpoint

    def _authenticate(self, route: AnyRoute, request: Request) -> None:
        try:
            if route.role is not Role.READ:
                self._tokens.require(request, route.role)
        except ApiError as error:
            self._state.audit.write_failure(**request_fields(request.scope), outcome=error.code)
            raise

    def _attempt(self, route: AnyRoute, request: Request) -> AbstractContextManager[Callable[[], None]]:
        """Return a context that logs the rejection of a change, and a function to call when its operation starts."""
        role = _ACTORS.get(route.role)
        if role is None:
            return nullcontext(_do_nothing)
        return self._state.audit.attempt(**request_fields(request.scope), role=role)

    async def _context(self, route: AnyRoute, request: Request) -> RequestContext:
        client, arrived = request.client.host if request.client else "unknown", time.perf_counter()
        path, query = parse_path(request), parse_query(request, route)
        if route.role is not Role.READ and "partition" in path:
            # Checked here, because an operation writes its own line to the audit log only for a partition that exists.
            require_found("partition", path["partition"], self._state.partitions.get)
        if route.reads_config and self._configs.is_full:
            # Checked before the body is read, because the body is large.
            raise ApiError(503, "busy", "too many configurations are waiting")
        body, text = await parse_body(request, route, self._bounds)
        only_json = request.headers.get("accept", "") == "application/json"
        return RequestContext(path, query, body, text, arrived, client, only_json)

    async def _response(
        self, route: AnyRoute, request: Request, context: RequestContext, answer: Callable[[RequestContext], Payload]
    ) -> Response:
        def make() -> Payload:
            key = request.headers.get(IDEMPOTENCY_KEY)
            if key is None or route.role is Role.READ:
                return answer(context)
            return self._answers.run(key, request.url.path, context, lambda: answer(context))

        def represent(context: RequestContext = context) -> Representation:
            as_of = self._clock()
            return prepare(answer(context), as_of, compress=compress)

        compress = route.method == "GET" and accepts_gzip(request.headers)
        if route.is_quick:
            return represent().response(request.headers) if route.method == "GET" else payload_response(make())
        if route.reads_config:
            return payload_response(await self._configs.run(object(), make, lambda: _has_gone(request)))
        if route.role is Role.DECIDE:
            return payload_response(await self._operations.run(object(), make))
        if route.method != "GET":
            return payload_response(await self._decisions.run(object(), make))
        key = (route.name, request.url.path, request.url.query, context.accepts_only_json, compress)
        # Coalesced requests get a state from after the last of them has arrived.
        self._latest[key] = context.arrived
        found = await self._views.run(
            key, lambda: represent(context._replace(arrived=self._latest.pop(key, float("inf"))))
        )
        return found.response(request.headers)

    def metrics_endpoint(self, metrics: Callable[[], tuple[bytes, str]]) -> _Endpoint:
        """Return the endpoint for the metrics."""

        def make() -> Representation:
            as_of = self._clock()
            try:
                content, media_type = metrics()
            except OutageError as error:
                raise ApiError.of(error) from None
            content = with_server_metrics(content, media_type, self._state.configurations)
            return prepare(Payload(200, content, media_type), as_of, compress=False)

        async def endpoint(_request: Request) -> Response:
            try:
                return payload_response((await self._views.run("metrics", make)).payload)
            except ApiError as error:
                return error_response(error)

        return endpoint


def _do_nothing() -> None:
    """Do nothing when a query starts."""


@contextmanager
def _reporting_stop() -> Iterator[None]:
    """Convert the cancellation of a request to an error.

    Raises:
        ApiError: the request was cancelled.
    """
    try:
        yield
    except asyncio.CancelledError:
        raise ApiError(503, "busy", "the server is stopping") from None


async def _has_gone(request: Request) -> bool:
    """Return whether a client has disconnected, or closed its side of the connection, which usually means the same."""
    # `ugm.server.connections` sets it.
    return "ugm.half-closed" in request.scope or await request.is_disconnected()


def _starting(
    start: Callable[[], None], route: Route[_T], find: Callable[[RequestContext], _T]
) -> Callable[[RequestContext], Payload]:
    """Return a function that reports its start, and then answers a request; for its errors see `_payload`."""

    def answer(context: RequestContext) -> Payload:
        start()
        return _payload(route, context, find)

    return answer


def payload_response(payload: Payload) -> Response:
    """Return a payload as a response."""
    return Response(payload.content, payload.status, {**NO_STORE, "content-type": payload.media_type})


def _formatted(route: AnyRoute, error: ApiError) -> ApiError:
    """Return an error in the format of the responses of a route."""
    return YunikornError.from_error(error) if route.is_yunikorn else error


def _payload(route: Route[_T], context: RequestContext, find: Callable[[RequestContext], _T]) -> Payload:
    """Call the function of a route, and return its result as a payload.

    Raises:
        ApiError: the function raised any error.
    """
    try:
        result = route.answer(find(context), context)
    except ApiError:
        raise
    except (RequestError, ConfigError, OutageError) as error:
        raise ApiError.of(error) from None
    except Exception:
        _LOGGER.exception("%s %s failed", route.method, route.full_path)
        raise internal_error() from None
    if isinstance(result, Payload):
        return result
    return yaml_payload(str(result)) if route.returns_yaml else json_payload(result)
