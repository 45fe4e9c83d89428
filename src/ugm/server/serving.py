"""The server run alone: uvicorn, and a reload of the configuration on the signal that daemons reload on."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import Callable
from typing import Final

import uvicorn
from starlette.applications import Starlette

from ugm import UgmError
from ugm.server.configurations import Actor, Configurations
from ugm.server.connections import ConnectionTimeouts, protocol_class
from ugm.server.requests import RequestBounds

__all__ = ["listen", "run", "uvicorn_config"]

_LOGGER: Final = logging.getLogger(__name__)

#: Connections at a time; further requests are answered that the server is busy.
_MOST_CONNECTIONS: Final = 1000
#: Of these, connections that wait for their clients; beyond it, the oldest are closed.
_MOST_WAITING: Final = 400
#: Seconds that requests have to finish when the server stops.
_FAREWELL: Final = 5
#: Seconds that a body may take beyond the time limit of the application, which answers better.
_MARGIN: Final = 10.0


def listen(host: str, port: int) -> socket.socket:
    """Return a socket where clients can connect.

    Raises:
        OSError: they cannot.
    """
    listener = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    # asyncio does this for the sockets that it makes itself. Without it an answer may wait for a twentieth of a second,
    # until the client has confirmed its first half.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def run(app: Starlette, listener: socket.socket, *, ready: Callable[[], None]) -> None:
    """Serve an application until the process is told to end.

    On SIGHUP the configuration is reloaded. The result is logged; if the file is refused, the old one stays in force.

    Args:
        app: from `ugm.server.create_app`.
        listener: where clients connect, from `listen`.
        ready: called when they can.
    """
    asyncio.run(_run(app, listener, ready))


def uvicorn_config(app: Starlette, patience: ConnectionTimeouts | None = None) -> uvicorn.Config:
    """Return how uvicorn runs an application, for programs that run `uvicorn.Server` themselves.

    Args:
        app: from `ugm.server.create_app`.
        patience: how long connections may wait for their clients.
    """
    files = _open_files()
    body = getattr(app.state, "bounds", RequestBounds()).seconds + _MARGIN
    return uvicorn.Config(
        app,
        http=protocol_class(min(_MOST_WAITING, files // 3), patience or ConnectionTimeouts(body=body)),
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_FAREWELL,
        limit_concurrency=min(_MOST_CONNECTIONS, files // 2),
    )


def _open_files() -> int:
    """Return how many files, connections among them, the process may have open."""
    try:
        import resource  # noqa: PLC0415 - not on every system
    except ModuleNotFoundError:
        return 2 * _MOST_CONNECTIONS
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 2 * _MOST_CONNECTIONS if most == resource.RLIM_INFINITY else most


async def _run(app: Starlette, listener: socket.socket, ready: Callable[[], None]) -> None:
    server = uvicorn.Server(uvicorn_config(app))
    reloads: set[asyncio.Task[None]] = set()
    loop = asyncio.get_running_loop()

    def reload() -> None:
        task = loop.create_task(asyncio.to_thread(_reload, app.state.configurations))
        reloads.add(task)
        task.add_done_callback(reloads.discard)

    if hasattr(signal, "SIGHUP"):
        loop.add_signal_handler(signal.SIGHUP, reload)
    # The listener accepts already; what connects now is answered as soon as the server runs.
    ready()
    await server.serve(sockets=[listener])


def _reload(configurations: Configurations) -> None:
    try:
        configurations.reload(Actor("local", "signal"))
    except UgmError:
        # Already logged, with everything that is wrong.
        return
    except Exception:
        _LOGGER.exception("reloading the configuration failed")
