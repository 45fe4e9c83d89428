"""The server as an ASGI application, which can be mounted in another application or run alone.

All input from clients is bounded and validated before it is used. Views are created from copies of the state. A copy is
made in small steps under the lock of the partition, so a scheduler never waits long for the server.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from os import PathLike
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount
from starlette.routing import Route as Path

from ugm import RequestError
from ugm.journal.locations import LogLocation
from ugm.partition import AbstractPartition, ThresholdWatch
from ugm.server.access import Tokens
from ugm.server.audit import AuditLog
from ugm.server.background import SAMPLE_SECONDS, PeriodicWork, running, sampling
from ugm.server.configurations import Configurations
from ugm.server.dispatch import RequestDispatcher, payload_response
from ugm.server.guard import Hosts, OriginGuard, failure_response
from ugm.server.history import History
from ugm.server.openapi import description
from ugm.server.page_files import PageFiles
from ugm.server.payloads import json_payload
from ugm.server.refused_changes import RefusedChanges
from ugm.server.requests import RequestBounds
from ugm.server.responses import routing_error_response
from ugm.server.route import PREFIX, STREAM_PATH, YUNIKORN_PREFIX, Route
from ugm.server.route_table import PARTITION_ROUTES, SERVER_ROUTES
from ugm.server.state import ServedPartition, ServerState
from ugm.server.streams import EventStreams
from ugm.server.threshold_endpoints import watching
from ugm.server.usage_history import UsageHistory
from ugm.server.worker import Worker

if TYPE_CHECKING:
    # At run time it needs the extra of services.
    from ugm.service.status import ServiceStatus

__all__ = ["create_app"]

_T = TypeVar("_T")
_R = TypeVar("_R", Mount, Path)
_Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]

_LOGGER: Final = logging.getLogger(__name__)


def create_app(  # noqa: PLR0913 - one for each option
    partitions: Mapping[str, AbstractPartition],
    *,
    history: Mapping[str, History] | None = None,
    services: Mapping[str, Callable[[], ServiceStatus]] | None = None,
    journals: Mapping[str, LogLocation] | None = None,
    thresholds: Mapping[str, ThresholdWatch] | None = None,
    token: str | None = None,
    decide_token: str | None = None,
    read_only: bool = True,
    config_path: str | PathLike[str] | None = None,
    is_file_shared: bool = False,
    watch: float | None = None,
    extra_states: Mapping[str, Callable[[], object]] | None = None,
    metrics: Callable[[], tuple[bytes, str]] | None = None,
    bounds: RequestBounds | None = None,
    allowed_hosts: Iterable[str] = (),
    clock: Callable[[], float] = time.time,
) -> Starlette:
    """Return an ASGI application that shows partitions, and optionally changes them and their configuration.

    Args:
        partitions: the partitions by name, as in the configuration.
        history: the histories by name of the partition that they follow.
        services: functions that return the status of a service, such as `ugm.service.Service.status`, by name of its
            partition.
        journals: the locations of the journals by name of their partition, for the usage before the server starts. With
            a journal, the server reports whether the configuration file differs from the stored configuration.
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
        extra_states: functions that return further state, ready for JSON or with a `to_dict`; by name. They are called
            in a thread, one at a time.
        metrics: a function that returns the metrics as text and their media type, such as
            `ugm.server.metrics.exposition`; None for no metrics.
        bounds: the bounds of requests.
        allowed_hosts: names under which clients may reach the server, each ``NAME`` or ``NAME:PORT``, in addition to
            loopback names and the address at which it listens. Requests for other hosts are refused.
        clock: returns the time, in seconds since 1970.

    Raises:
        RequestError: an argument is invalid.
    """
    histories, statuses = dict(history or {}), dict(services or {})
    tokens = Tokens(token, decide_token, read_only=read_only)
    _require_known("history", histories, partitions)
    _require_known("services", statuses, partitions)
    sources = dict(journals or {})
    _require_known("journals", sources, partitions)
    watches = {name: ThresholdWatch(partition) for name, partition in partitions.items()} | dict(thresholds or {})
    _require_known("thresholds", watches, partitions)
    hosts, audit, worker = Hosts(allowed_hosts), AuditLog(clock), Worker()
    configurations = Configurations(
        partitions, config_path, clock=clock, audit=audit, read=worker.read, is_file_shared=is_file_shared
    )
    usage = {name: UsageHistory(one, histories.get(name), clock=clock) for name, one in partitions.items()}
    served = {
        name: ServedPartition(name, partition, histories.get(name), statuses.get(name), usage[name], watches[name])
        for name, partition in partitions.items()
    }
    work = [*sampling(usage, sources, configurations), *watching(watches)]
    if config_path is not None and sources:
        work.append(PeriodicWork(SAMPLE_SECONDS, configurations.compare))
    if watch is not None:
        work.append(PeriodicWork(watch, lambda: configurations.reload_if_changed()))  # noqa: PLW0108 - tests replace it
    state = ServerState(served, configurations, dict(extra_states or {}), read_only, clock(), worker, audit)
    bounds = bounds or RequestBounds()
    app = Starlette(
        routes=_routes(RequestDispatcher(state, tokens, bounds, clock), metrics, EventStreams(served, clock)),
        exception_handlers={HTTPException: routing_error_response, Exception: failure_response},
        lifespan=_lifespan(work, worker, configurations),
    )
    app.add_middleware(OriginGuard, hosts=hosts, write_refusal=RefusedChanges(audit).write)
    app.state.configurations = configurations
    app.state.bounds = bounds
    app.state.worker = worker
    app.state.usage_histories = usage
    app.state.thresholds = watches
    return app


def _require_known(argument: str, given: Iterable[str], partitions: Mapping[str, AbstractPartition]) -> None:
    for name in given:
        if name not in partitions:
            raise RequestError(argument, name, "there is no such partition", "partition-unknown")


def _routes(
    dispatcher: RequestDispatcher, metrics: Callable[[], tuple[bytes, str]] | None, streams: EventStreams
) -> list[Mount | Path]:
    return [
        # Before the mounted paths, because these are no routes of `ugm.server.route_table`.
        Path(STREAM_PATH, streams, methods=["GET"]),
        *([Path(f"{YUNIKORN_PREFIX}/metrics", dispatcher.metrics_endpoint(metrics))] if metrics else []),
        *(
            _with_line_feeds(Mount(prefix, routes=list(_paths_below(prefix, dispatcher))))
            for prefix in (PREFIX, YUNIKORN_PREFIX)
        ),
        Path("/openapi.json", _describe),
        *([Path("/metrics", dispatcher.metrics_endpoint(metrics))] if metrics else []),
        Path("/{path:path}", PageFiles().endpoint),
    ]


def _paths_below(prefix: str, dispatcher: RequestDispatcher) -> Iterator[Path]:
    yield from _paths(prefix, PARTITION_ROUTES, dispatcher.partition_endpoint)
    yield from _paths(prefix, SERVER_ROUTES, dispatcher.server_endpoint)


def _paths(
    prefix: str, routes: Sequence[Route[_T]], create_endpoint: Callable[[Mapping[str, Route[_T]]], _Endpoint]
) -> Iterator[Path]:
    below = [route for route in routes if route.prefix == prefix]
    for path in dict.fromkeys(route.path for route in below):
        by_method = {route.method: route for route in below if route.path == path}
        yield _with_line_feeds(Path(_with_slashes(path), create_endpoint(by_method), methods=list(by_method)))


def _with_slashes(path: str) -> str:
    """Let a name at the end of a path contain slashes, where that is not ambiguous."""
    return path.removesuffix("}") + ":path}" if path.endswith(("{name}", "{queue_path}")) else path


def _with_line_feeds(route: _R) -> _R:
    """Let names in a path contain line feeds, which patterns for the rest of a path do not match by default."""
    route.path_regex = re.compile(route.path_regex.pattern, re.DOTALL)
    return route


async def _describe(request: Request) -> Response:
    """Return the OpenAPI description."""
    return payload_response(json_payload(description(str(request.scope.get("root_path", "")))))


def _lifespan(
    work: Sequence[PeriodicWork], worker: Worker, configurations: Configurations
) -> Callable[[Starlette], AbstractAsyncContextManager[None]]:
    def close() -> None:
        # First, because an upload whose worker ends would be noted as failed.
        configurations.close()
        worker.close()

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        worker.open()
        configurations.open()
        try:
            async with running(work):
                yield
        finally:
            # Also if the server is cancelled, as after a second Ctrl-C.
            await asyncio.to_thread(close)

    return lifespan
