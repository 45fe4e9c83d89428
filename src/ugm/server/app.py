"""The server as an ASGI application, to be mounted in another one or to run alone.

Everything that a client sends is bounded and checked before it is used. What it asks is answered from copies that are
made in small pieces under the lock of the partition, and put together outside of it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from importlib.resources import files
from os import PathLike
from typing import Any, Final, TypeAlias

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount
from starlette.routing import Route as Path
from starlette.staticfiles import StaticFiles

from ugm import ConfigError, Partition, RequestError
from ugm.server.audit import AuditLog
from ugm.server.configurations import Configurations
from ugm.server.errors import ApiError, of_config, of_request
from ugm.server.guard import Guarded, Hosts, has_body
from ugm.server.history import History
from ugm.server.openapi import description
from ugm.server.request_coalescer import RequestCoalescer
from ugm.server.requests import RequestBounds, body_of, path_of, query_of, require_token
from ugm.server.responses import json_response, refusal, refused_by_routing, result_response, yaml_response
from ugm.server.routes import PREFIX, ROUTES, Route, is_yaml
from ugm.server.state import RequestContext, ServerState
from ugm.server.worker import Worker
from ugm.server.worker_jobs import Result

__all__ = ["create_app"]

_Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]

_LOGGER: Final = logging.getLogger(__name__)

#: A shorter token can be found by trying.
_SHORTEST_TOKEN: Final = 16


def create_app(  # noqa: PLR0913 - one for each option
    partitions: Mapping[str, Partition],
    *,
    history: Mapping[str, History] | None = None,
    token: str | None = None,
    read_only: bool = True,
    config_path: str | PathLike[str] | None = None,
    watch: float | None = None,
    extra_states: Mapping[str, Callable[[], Any]] | None = None,
    metrics: Callable[[], tuple[bytes, str]] | None = None,
    bounds: RequestBounds | None = None,
    allowed_hosts: Iterable[str] = (),
    clock: Callable[[], float] = time.time,
) -> Starlette:
    """Return an ASGI application that shows partitions, and where wanted changes their configuration.

    Args:
        partitions: by name, as in the configuration.
        history: of those partitions that somebody follows, the subscriber.
        token: what a client that changes something must know; at least 16 characters.
        read_only: whether nobody may change anything.
        config_path: the file that a reload reads.
        watch: every how many seconds to look whether the file has changed, and to reload it then; None for never. An
            application that is mounted in another one does not watch.
        extra_states: what else can be looked at: name to what returns it, ready for JSON or with a `to_dict`. Called in
            a thread, one at a time.
        metrics: what returns the text of the metrics and its media type, such as `ugm.server.metrics.exposition`; None
            for no metrics.
        bounds: how much a client may ask of the server.
        allowed_hosts: names under which clients may reach the server, each ``NAME`` or ``NAME:PORT``, besides loopback
            names and the address at which it listens. A request that names another host is refused.
        clock: what tells the time, in seconds since 1970.

    Raises:
        RequestError: an argument cannot be used.
    """
    _require(partitions, history or {}, token, read_only=read_only)
    hosts, audit, worker = Hosts(allowed_hosts), AuditLog(clock), Worker()
    configurations = Configurations(partitions, config_path, clock=clock, audit=audit, read=worker.read)
    site = ServerState(
        dict(partitions),
        dict(history or {}),
        configurations,
        dict(extra_states or {}),
        read_only=read_only,
        started=clock(),
        worker=worker,
    )
    bounds = bounds or RequestBounds()
    desk = _Desk(site, token, bounds, audit)
    routes = [
        Mount(PREFIX, routes=list(_paths(desk))),
        Path("/openapi.json", desk.describe),
        *([Path("/metrics", desk.metering(metrics))] if metrics else []),
        Path("/{path:path}", _page()),
    ]
    app = Starlette(
        routes=routes,
        exception_handlers={HTTPException: refused_by_routing},
        lifespan=_watching(configurations, watch, worker),
    )
    app.add_middleware(Guarded, hosts=hosts)
    app.state.configurations = configurations
    app.state.bounds = bounds
    app.state.worker = worker
    return app


def _require(
    partitions: Mapping[str, Partition], history: Mapping[str, History], token: str | None, *, read_only: bool
) -> None:
    if not read_only and not token:
        raise RequestError("token", token, "a server that can be changed needs a token")
    if token is not None and len(token) < _SHORTEST_TOKEN:
        # Without the token itself, which is a secret also when it is too short.
        reason = f"expected at least {_SHORTEST_TOKEN} characters"
        raise RequestError("token", f"{len(token)} characters", reason)
    for name in history:
        if name not in partitions:
            raise RequestError("history", name, "there is no such partition")


def _paths(desk: _Desk) -> Iterator[Path]:
    for path in dict.fromkeys(route.path for route in ROUTES):
        by_method = {route.method: desk.answering(route) for route in ROUTES if route.path == path}
        yield Path(_with_slashes(path), _by_method(by_method), methods=list(by_method))


def _with_slashes(path: str) -> str:
    """Let a name at the end of a path have slashes in it: there is nothing else that it could be confused with."""
    return path.removesuffix("}") + ":path}" if path.endswith(("{name}", "{queue_path}")) else path


def _by_method(answers: Mapping[str, _Endpoint]) -> _Endpoint:
    async def endpoint(request: Request) -> Response:
        # What is asked without wanting the answer is answered the same; the body is left out on the way.
        return await answers["GET" if request.method == "HEAD" else request.method](request)

    return endpoint


class _Desk:
    """Where requests come in, and answers go out."""

    __slots__ = ("_audit", "_bounds", "_latest", "_questions", "_readings", "_site", "_texts", "_token")

    def __init__(self, site: ServerState, token: str | None, bounds: RequestBounds, audit: AuditLog) -> None:
        self._site: Final = site
        self._token: Final = token
        self._bounds: Final = bounds
        self._audit: Final = audit
        #: What is read, to when it was asked for last.
        self._latest: Final[dict[Hashable, float]] = {}
        #: What is only read.
        self._readings: Final = RequestCoalescer[Response](bounds.waiting)
        #: Questions with a body; they may take long, so that whoever only reads does not wait for them.
        self._questions: Final = RequestCoalescer[Response](bounds.waiting)
        #: Configurations that clients send; they take longest, and are read in another process.
        self._texts: Final = RequestCoalescer[Response](bounds.configurations)

    def answering(self, route: Route) -> _Endpoint:
        """Return what answers the requests of a route."""

        async def endpoint(request: Request) -> Response:
            try:
                question = await self._question(route, request)
            except ApiError as error:
                # 400 is also the answer to a body that has been read.
                is_unread = error.status != 400 and has_body(request.scope)  # noqa: PLR2004 - as above
                return refusal(error, has_body=is_unread)
            try:
                return await self._answer(route, request, question)
            except ApiError as error:
                return refusal(error)
            except asyncio.CancelledError:
                return refusal(ApiError(503, "busy", "the server is stopping"))

        return endpoint

    async def _question(self, route: Route, request: Request) -> RequestContext:
        client, arrived = request.client.host if request.client else "unknown", time.perf_counter()
        if route.changes:
            self._authenticate(route, request, client)
        path, query = path_of(request), query_of(request, route)
        if route.reads_config and self._texts.is_full:
            # Before the body is read: it is large.
            raise ApiError(503, "busy", "too many configurations are waiting")
        return RequestContext(self._site, path, query, await body_of(request, route, self._bounds), arrived, client)

    def _authenticate(self, route: Route, request: Request, client: str) -> None:
        try:
            require_token(request, self._token, read_only=self._site.read_only)
        except ApiError as error:
            self._audit.write_failure(
                client=client, action=route.method, target=request.url.path[:200], outcome=error.code
            )
            raise

    async def _answer(self, route: Route, request: Request, question: RequestContext) -> Response:
        if route.is_quick:
            return _answered(route, question)
        if route.reads_config:
            return await self._texts.take(object(), lambda: _answered(route, question), request.is_disconnected)
        if route.method == "GET":
            key = (route.name, request.url.path, request.url.query)
            # Those who share an answer are told nothing from before the last of them has asked.
            self._latest[key] = question.arrived
            return await self._readings.take(
                key, lambda: _answered(route, question._replace(arrived=self._latest.pop(key, float("inf"))))
            )
        return await self._questions.take(object(), lambda: _answered(route, question))

    async def describe(self, request: Request) -> Response:
        """Return the description of the interface."""
        return json_response(description(str(request.scope.get("root_path", ""))))

    def metering(self, metrics: Callable[[], tuple[bytes, str]]) -> _Endpoint:
        """Return what answers requests for the metrics."""

        def make() -> Response:
            content, kind = metrics()
            return Response(content, headers={"content-type": kind, "cache-control": "no-store"})

        async def endpoint(_request: Request) -> Response:
            try:
                return await self._readings.take("metrics", make)
            except ApiError as error:
                return refusal(error)

        return endpoint


def _answered(route: Route, question: RequestContext) -> Response:
    """Return the answer to a question; never raises."""
    try:
        return _written(route, route.answer(question))
    except ApiError as error:
        return refusal(error)
    except RequestError as error:
        return refusal(of_request(error))
    except ConfigError as error:
        return refusal(of_config(error))
    except Exception:
        _LOGGER.exception("%s %s failed", route.method, route.path)
        return refusal(ApiError(500, "internal", "the server failed; its log says why"))


def _written(route: Route, answer: object) -> Response:
    if isinstance(answer, Result):
        return result_response(answer)
    return yaml_response(str(answer)) if is_yaml(route.result) else json_response(answer)


def _page() -> _Endpoint:
    """Return what serves the files of the page, and nothing outside of their folder."""
    folder = StaticFiles(directory=str(files("ugm.server") / "page"), html=True)

    async def endpoint(request: Request) -> Response:
        return await folder.get_response(folder.get_path(request.scope), request.scope)

    return endpoint


def _watching(configurations: Configurations, seconds: float | None, worker: Worker) -> Callable[[Starlette], Any]:
    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        worker.open()
        task = None if seconds is None else asyncio.create_task(_watch(configurations, seconds))
        yield
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        await asyncio.to_thread(worker.close)

    return lifespan


async def _watch(configurations: Configurations, seconds: float) -> None:
    while True:
        await asyncio.sleep(seconds)
        try:
            await asyncio.to_thread(configurations.reload_if_changed)
        except Exception:
            _LOGGER.exception("reloading the configuration failed")
