"""The server as an ASGI application, which can be mounted in another application or run alone.

All input from clients is bounded and validated before it is used. Large views are created from copies of the state, so
that a scheduler never waits long for the server.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from importlib.resources import files
from math import inf
from os import PathLike
from typing import TYPE_CHECKING, Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount
from starlette.routing import Route as Path
from starlette.staticfiles import StaticFiles

from ugm.errors import OutageError, RequestError, UgmError
from ugm.partition import AbstractPartition, ThresholdWatch
from ugm.server._yunikorn import endpoints
from ugm.server.configurations import Configurations
from ugm.server.history import History
from ugm.server.http import live
from ugm.server.http.access import OriginGuard, Tokens, failure_response, require_hosts
from ugm.server.http.audit import AuditLog
from ugm.server.http.dispatch import RequestDispatcher
from ugm.server.http.payloads import ApiError, Payload, json_payload
from ugm.server.http.requests import error_response, payload_response, routing_error_response
from ugm.server.interface import operations
from ugm.server.interface.route import PREFIX, YUNIKORN_PREFIX, Route, ServedPartition, ServerState
from ugm.server.interface.schemas import description
from ugm.server.metrics.table import descriptions
from ugm.server.views import decisions, models, objects, server, usage, utilization, waiting
from ugm.server.views.usage import earlier_changes
from ugm.store.reader import StoreLocation

if TYPE_CHECKING:
    from ugm.service.protocol.status import ServiceStatus

_LOGGER: Final = logging.getLogger(__name__)

#: The numbers of running applications that are kept, an hour of them, and the seconds between two of them.
_COUNTS: Final = 60
_COUNT_SECONDS: Final = 60.0
#: The usual seconds between two calls of periodic work.
_CHECK_SECONDS: Final = 5.0
#: Shorter bodies are not compressed, because they fit into one packet.
_LEAST_COMPRESSED: Final = 1024

#: All routes.
ROUTES: Final[tuple[Route, ...]] = tuple(
    route
    for module in (endpoints, objects, utilization, usage, waiting, models, decisions, operations, server, live)
    for route in module.ROUTES.found
)


def create_app(  # noqa: PLR0913 - one for each option
    partitions: Mapping[str, AbstractPartition],
    *,
    history: Mapping[str, History] | None = None,
    services: Mapping[str, Callable[[], ServiceStatus]] | None = None,
    stores: Mapping[str, StoreLocation] | None = None,
    thresholds: Mapping[str, ThresholdWatch] | None = None,
    token: str | None = None,
    decide_token: str | None = None,
    read_only: bool = True,
    config_path: str | PathLike[str] | None = None,
    is_file_shared: bool = False,
    watch: float | None = None,
    metrics: Callable[[], tuple[bytes, str]] | None = None,
    allowed_hosts: Iterable[str] = (),
    clock: Callable[[], float] = time.time,
) -> Starlette:
    """Return an ASGI application that shows partitions, and optionally changes them and their configuration.

    Args:
        partitions: the partitions by name, as in the configuration.
        history: the histories by name of the partition that they follow.
        services: functions that return the status of a service, such as `ugm.service.Service.status`, by name of its
            partition.
        stores: the locations of the stores by name of their partition, for the usage over time. With a store
            or a service, the server reports whether the configuration file differs from the stored configuration.
        thresholds: the watches of thresholds by name of their partition, which the server updates; those of other
            partitions are created. Pass the same ones to `PartitionCollector`.
        token: the token of operators, who may replace the configuration, change budgets, and carry out preemption
            plans; at least 16 characters.
        decide_token: the token of clients that may submit applications, and obtain and release allocations; at least
            16 characters. Without it, no client may.
        read_only: whether operations of operators are refused, even with the token.
        config_path: the configuration file, for reloads.
        is_file_shared: whether the file may contain further partitions, which other servers serve.
        watch: the interval in seconds at which the server checks the file for changes, and reloads it; None to disable.
            An application that is mounted in another one does not watch the file.
        metrics: a function that returns the metrics as text and their media type, such as
            `ugm.server.metrics.collector.exposition`; None for no metrics.
        allowed_hosts: names under which clients may reach the server, at any port, in addition to loopback names and
            the address at which it listens. Requests for other hosts are refused.
        clock: returns the time, in seconds since 1970.

    Raises:
        RequestError: an argument is invalid.
    """
    watches = {name: ThresholdWatch(partition) for name, partition in partitions.items()} | dict(thresholds or {})
    history, services, stores = history or {}, services or {}, stores or {}
    given = {"history": history, "services": services, "stores": stores, "thresholds": watches}
    for argument, name in ((argument, name) for argument, names in given.items() for name in names):
        if name not in partitions:
            raise RequestError(argument, name, "there is no such partition", "partition-unknown")
    tokens, allowed = Tokens(token, decide_token, read_only=read_only), require_hosts(allowed_hosts)
    audit = AuditLog(clock)
    configurations = Configurations(partitions, config_path, clock=clock, audit=audit, is_file_shared=is_file_shared)
    feeds = {name: live.LiveFeed(partition, clock) for name, partition in partitions.items()}
    served = {
        name: ServedPartition(
            *(name, partition, clock, watches[name], history.get(name), services.get(name), stores.get(name)),
            stream=feeds[name].stream,
        )
        for name, partition in partitions.items()
    }
    counts = deque[tuple[float, int]](maxlen=_COUNTS)
    state = ServerState(served, configurations, read_only, clock(), counts)
    work: list[tuple[float, Callable[[], object]]] = [(_COUNT_SECONDS, state.count_applications)]
    work += [(_CHECK_SECONDS, partial(models.log_crossings, name, one)) for name, one in watches.items()]
    # Once.
    work += [(inf, partial(_load_earlier, one, configurations)) for one in served.values()]
    work.append((_CHECK_SECONDS, configurations.notice_changes))
    if stores or services:
        work.append((_CHECK_SECONDS, configurations.compare))
    if watch is not None:
        work.append((watch, lambda: configurations.reload_if_changed()))  # noqa: PLW0108 - tests replace it

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(_repeat(*one)) for one in work]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    dispatcher = RequestDispatcher(state, tokens, audit, clock)
    app = Starlette(
        routes=_paths(dispatcher, _metrics_endpoint(metrics, configurations)),
        exception_handlers={HTTPException: routing_error_response, Exception: failure_response},
        lifespan=lifespan,
    )
    app.add_middleware(GZipMiddleware, minimum_size=_LEAST_COMPRESSED, compresslevel=1)
    app.add_middleware(OriginGuard, allowed=allowed, audit=audit)
    app.state.configurations = configurations
    app.state.feeds = list(feeds.values())
    app.state.server = state
    app.state.thresholds = watches
    return app


# Paths


def _paths(
    dispatcher: RequestDispatcher, metrics: Callable[[Request], Awaitable[Response]] | None
) -> list[Mount | Path]:
    return [
        *([Path(f"{YUNIKORN_PREFIX}/metrics", metrics), Path("/metrics", metrics)] if metrics else []),
        *(Mount(prefix, routes=list(_paths_below(prefix, dispatcher))) for prefix in (PREFIX, YUNIKORN_PREFIX)),
        Path("/openapi.json", _describe),
        Mount("/", _PageFiles(directory=str(files("ugm.server") / "page"), html=True)),
    ]


def _paths_below(prefix: str, dispatcher: RequestDispatcher) -> Iterator[Path]:
    below = [route for route in ROUTES if route.prefix == prefix]
    for path in dict.fromkeys(route.path for route in below):
        by_method = {route.method: route for route in below if route.path == path}
        # A name at the end of a path may contain slashes, where that is not ambiguous.
        pattern = path.removesuffix("}") + ":path}" if path.endswith(("{name}", "{queue_path}")) else path
        yield Path(pattern, dispatcher.endpoint(by_method), methods=list(by_method))


class _PageFiles(StaticFiles):
    """The files of the web page. Browsers revalidate them, so a new version of the package is visible at once."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:  # noqa: ANN401 - passed on
        response = super().file_response(*args, **kwargs)
        response.headers["cache-control"] = "no-cache"
        return response


async def _describe(request: Request) -> Response:
    """Return the OpenAPI description."""
    mounted_at = str(request.scope.get("root_path", ""))
    return payload_response(json_payload(description(mounted_at, ROUTES)))


# Metrics


def _metrics_endpoint(
    metrics: Callable[[], tuple[bytes, str]] | None, configurations: Configurations
) -> Callable[[Request], Awaitable[Response]] | None:
    """Return the endpoint of the metrics of the program, with those of the server if the format is text."""
    if metrics is None:
        return None

    async def endpoint(_request: Request) -> Response:
        try:
            content, media_type = await asyncio.to_thread(metrics)
        except OutageError as error:
            return error_response(ApiError.of(error))
        if media_type.startswith("text/plain"):
            content = content.rstrip(b"\n") + b"\n" + "".join(_server_metrics(configurations)).encode()
        return payload_response(Payload(200, content, media_type))

    return endpoint


def _server_metrics(configurations: Configurations) -> Iterator[str]:
    """Yield the metrics of the server itself in the text format of Prometheus."""
    table, changes = descriptions(), "ugm_configuration_changes"
    yield f"# HELP {changes}_total {table[changes].sentence}\n# TYPE {changes}_total counter\n"
    for (source, result), count in configurations.counts.items():
        yield f'{changes}_total{{source="{source}",result="{result}"}} {count}\n'
    for name, found in (("refused", configurations.refused), ("unapplied", configurations.unapplied)):
        full = f"ugm_configuration_{name}"
        yield f"# HELP {full} {table[full].sentence}\n# TYPE {full} gauge\n{full} {int(bool(found))}\n"


# Periodic work


async def _repeat(interval: float, function: Callable[[], object]) -> None:
    """Call a function in a thread again and again, until the task is cancelled."""
    has_failed = False
    while True:
        try:
            await asyncio.to_thread(function)
            has_failed = False
        except Exception as error:
            # For example, the leader of a service cannot be reached. Only the first of several failures is logged.
            if not has_failed:
                _LOGGER.warning("periodic work failed: %s", error, exc_info=not isinstance(error, UgmError))
            has_failed = True
        await asyncio.sleep(interval)


def _load_earlier(served: ServedPartition, configurations: Configurations) -> None:
    """Read what the store of a partition tells about the time before the server started."""
    if served.store is not None:
        times, changed = earlier_changes(served.store)
        configurations.add_earlier(served.name, changed)
        if served.history is not None:
            served.history.add_earlier(times)
