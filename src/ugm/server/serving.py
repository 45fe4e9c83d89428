"""The server as a program of its own: uvicorn, with a reload of the configuration on SIGHUP.

It expects a reverse proxy between itself and a public network, for TLS and against clients that send or read slowly.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ugm import UgmError
from ugm.server.configurations import Actor, Configurations

if TYPE_CHECKING:
    # They belong to an extra.
    import uvicorn
    from starlette.applications import Starlette

_LOGGER: Final = logging.getLogger(__name__)

#: Connections at a time; further requests get the status 503.
_MOST_CONNECTIONS: Final = 1000
#: Seconds that requests have to finish when the server stops.
_SHUTDOWN_SECONDS: Final = 5
#: Seconds between two looks at SIGHUP, and between two calls of the function that may stop the server.
_WATCH: Final = 0.2


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that accepts connections of clients.

    Raises:
        OSError: the address or the port cannot be used.
    """
    listener = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    # asyncio sets this option for sockets that it creates itself. Without it, the second part of a response may wait
    # for a twentieth of a second, until the client has acknowledged the first part.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def exit_on_sigterm() -> None:
    """Let SIGTERM end a command with the status 0, also in the first process of a container, where it has no effect.

    `SystemExit` is raised, so that the contexts which are open end. While a server runs, it stops before that.
    SIGHUP is ignored until a server handles it.
    """
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(0))
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, signal.SIG_IGN)


def run(
    app: Starlette,
    listener: socket.socket,
    *,
    ready: Callable[[], None],
    has_failed: Callable[[], bool] = lambda: False,
) -> None:
    """Serve an application in the main thread until SIGINT or SIGTERM, and then handle the signal as before.

    On SIGHUP the configuration is reloaded. The result is logged. If the file has problems, the old configuration stays
    in force.

    Args:
        app: the result of `ugm.server.create_app`.
        listener: the socket for clients, from `listen`.
        ready: called when clients can connect.
        has_failed: called several times a second; the server stops when it returns true.
    """
    # uvicorn handles SIGINT and SIGTERM while it serves, and raises them again when it has stopped.
    asyncio.run(_run(app, listener, ready, has_failed))


def uvicorn_config(app: Starlette) -> uvicorn.Config:
    """Return the settings of uvicorn for an application, for programs that run `uvicorn.Server` themselves.

    Args:
        app: the result of `ugm.server.create_app`.
    """
    import uvicorn  # noqa: PLC0415 - needs an extra

    return uvicorn.Config(
        app,
        ws="none",
        # Any client can send the headers of proxies. With them it would choose its name in the audit log.
        proxy_headers=False,
        # Otherwise uvicorn reads it from the environment.
        workers=1,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        limit_concurrency=_MOST_CONNECTIONS,
    )


async def _run(
    app: Starlette, listener: socket.socket, ready: Callable[[], None], has_failed: Callable[[], bool]
) -> None:
    import uvicorn  # noqa: PLC0415 - needs an extra

    server, hung_up = uvicorn.Server(uvicorn_config(app)), asyncio.Event()
    # Not every system has it.
    if hasattr(signal, "SIGHUP"):
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, hung_up.set)
    # The listener already accepts connections; their requests are answered as soon as the server runs.
    ready()
    watch = asyncio.create_task(_watch(server, app, has_failed, hung_up))
    try:
        await server.serve(sockets=[listener])
    finally:
        watch.cancel()


async def _watch(
    server: uvicorn.Server, app: Starlette, has_failed: Callable[[], bool], hung_up: asyncio.Event
) -> None:
    """Reload the configuration on a signal, until the server stops or has to."""
    while not (server.should_exit or has_failed()):
        if hung_up.is_set():
            # Before the file is read, so that a signal after a later change causes another reload.
            hung_up.clear()
            await _reload(app.state.configurations)
        await asyncio.sleep(_WATCH)
    server.should_exit = True
    # Streams do not end by themselves.
    for feed in app.state.feeds:
        feed.close()


async def _reload(configurations: Configurations) -> None:
    try:
        await asyncio.to_thread(configurations.reload, Actor("local", "signal"))
    except UgmError:
        # Already logged, with all problems.
        return
    except Exception:
        _LOGGER.exception("reloading the configuration failed")
