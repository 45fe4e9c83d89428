"""The server as an ASGI application, to be mounted in another one or to run alone.

Everything that a client sends is bounded and checked before it is used. What it asks is answered from copies that are
made in small pieces under the lock of the partition, and put together outside of it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
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
from ugm.server.configurations import Configurations
from ugm.server.errors import ApiError, of_config, of_request
from ugm.server.history import History
from ugm.server.openapi import description
from ugm.server.requests import Bounds, body_of, path_of, query_of, require_token
from ugm.server.responses import Guarded, json_response, refusal, refused_by_routing, yaml_response
from ugm.server.routes import PREFIX, ROUTES, Route, is_yaml
from ugm.server.site import Question, Site
from ugm.server.turns import Turns

__all__ = ["create_app"]

_Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]

_LOGGER: Final = logging.getLogger(__name__)


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
    bounds: Bounds | None = None,
    clock: Callable[[], float] = time.time,
) -> Starlette:
    """Return an ASGI application that shows partitions, and where wanted changes their configuration.

    Args:
        partitions: by name, as in the configuration.
        history: of those partitions that somebody follows, the subscriber.
        token: what a client that changes something must know.
        read_only: whether nobody may change anything.
        config_path: the file that a reload reads.
        watch: every how many seconds to look whether the file has changed, and to reload it then; None for never. An
            application that is mounted in another one does not watch.
        extra_states: what else can be looked at: name to what returns it, ready for JSON or with a `to_dict`. Called in
            a thread, one at a time.
        metrics: what returns the text of the metrics and its media type, such as `ugm.server.metrics.exposition`; None
            for no metrics.
        bounds: how much a client may ask of the server.
        clock: what tells the time, in seconds since 1970.

    Raises:
        RequestError: an argument cannot be used.
    """
    _require(partitions, history or {}, token, read_only=read_only)
    configurations = Configurations(partitions, config_path, clock=clock)
    site = Site(
        dict(partitions),
        dict(history or {}),
        configurations,
        dict(extra_states or {}),
        read_only=read_only,
        started=clock(),
    )
    desk = _Desk(site, token, bounds or Bounds())
    routes = [
        Mount(PREFIX, routes=list(_paths(desk))),
        Path("/openapi.json", desk.describe),
        *([Path("/metrics", desk.metering(metrics))] if metrics else []),
        Path("/{path:path}", _page()),
    ]
    app = Starlette(
        routes=routes,
        exception_handlers={HTTPException: refused_by_routing},
        lifespan=_watching(configurations, watch),
    )
    app.add_middleware(Guarded)
    app.state.configurations = configurations
    return app


def _require(
    partitions: Mapping[str, Partition], history: Mapping[str, History], token: str | None, *, read_only: bool
) -> None:
    if not read_only and not token:
        raise RequestError("token", token, "a server that can be changed needs a token")
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

    __slots__ = ("_bounds", "_questions", "_readings", "_site", "_token")

    def __init__(self, site: Site, token: str | None, bounds: Bounds) -> None:
        self._site: Final = site
        self._token: Final = token
        self._bounds: Final = bounds
        #: What is only read.
        self._readings: Final = Turns[Response](bounds.waiting)
        #: What a client has sent; it may take long, so that whoever only reads does not wait for it.
        self._questions: Final = Turns[Response](bounds.waiting)

    def answering(self, route: Route) -> _Endpoint:
        """Return what answers the requests of a route."""

        async def endpoint(request: Request) -> Response:
            try:
                return await self._answer(route, request)
            except ApiError as error:
                return refusal(error)

        return endpoint

    async def _answer(self, route: Route, request: Request) -> Response:
        if route.changes:
            require_token(request, self._token, read_only=self._site.read_only)
        path, query = path_of(request), query_of(request, route)
        question = Question(self._site, path, query, await body_of(request, route, self._bounds))
        if route.is_quick:
            return _answered(route, question)
        if route.method == "GET":
            key = (route.name, request.url.path, request.url.query)
            return await self._readings.take(key, lambda: _answered(route, question))
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


def _answered(route: Route, question: Question) -> Response:
    """Return the answer to a question; never raises."""
    try:
        told = route.answer(question)
        if is_yaml(route.result):
            return yaml_response(str(told))
        return json_response(told)
    except ApiError as error:
        return refusal(error)
    except RequestError as error:
        return refusal(of_request(error))
    except ConfigError as error:
        return refusal(of_config(error))
    except Exception:
        _LOGGER.exception("%s %s failed", route.method, route.path)
        return refusal(ApiError(500, "internal", "the server failed; its log says why"))


def _page() -> _Endpoint:
    """Return what serves the files of the page, and nothing outside of their folder."""
    folder = StaticFiles(directory=str(files("ugm.server") / "page"), html=True)

    async def endpoint(request: Request) -> Response:
        return await folder.get_response(folder.get_path(request.scope), request.scope)

    return endpoint


def _watching(configurations: Configurations, seconds: float | None) -> Callable[[Starlette], Any]:
    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        task = None if seconds is None else asyncio.create_task(_watch(configurations, seconds))
        yield
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    return lifespan


async def _watch(configurations: Configurations, seconds: float) -> None:
    while True:
        await asyncio.sleep(seconds)
        try:
            await asyncio.to_thread(configurations.reload_if_changed)
        except Exception:
            _LOGGER.exception("reloading the configuration failed")
