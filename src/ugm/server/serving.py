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
from ugm.server.configurations import Configurations

__all__ = ["listen", "run"]

_LOGGER: Final = logging.getLogger(__name__)

#: Connections at a time; more are told that the server is busy.
_MOST_CONNECTIONS: Final = 1000


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


async def _run(app: Starlette, listener: socket.socket, ready: Callable[[], None]) -> None:
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, server_header=False, limit_concurrency=_MOST_CONNECTIONS
    )
    server = uvicorn.Server(config)
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
        configurations.reload()
    except UgmError:
        # Already logged, with everything that is wrong.
        return
    except Exception:
        _LOGGER.exception("reloading the configuration failed")
