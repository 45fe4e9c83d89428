"""The server as a program of its own: its signals, and uvicorn with a reload of the configuration on SIGHUP.

It expects a reverse proxy between itself and a public network, for TLS and against clients that send or read slowly.

The handlers of signals only note a signal, and the server looks at the notes several times a second. A handler
interrupts the main thread anywhere, so it may take no lock, and a second signal may interrupt it.

While a command starts its server, nothing looks at the notes. Therefore SIGTERM also raises `SystemExit` then, so that
the contexts which are already open end. That includes the first process of a container, for which the system ignores
SIGTERM by default.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import signal
import socket
from collections.abc import Callable
from contextlib import nullcontext
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, final

from ugm import UgmError
from ugm.server.configurations import Actor, Configurations
from ugm.server.http.payloads import ApiError

if TYPE_CHECKING:
    # They belong to an extra, and a command handles signals before it requires that.
    import uvicorn
    from starlette.applications import Starlette

__all__ = ["ServerSignals", "listen", "run", "uvicorn_config"]


@final
class ServerSignals:
    """Handles SIGTERM and SIGHUP during a `with` block, in the main thread; then the former handlers are restored.

    Args:
        is_command: whether the block is all that the process does. Then SIGTERM raises `SystemExit` with the status 0,
            once and only until `end_start` is called, and both signals are ignored while the interpreter ends.
    """

    #: Whether SIGTERM has arrived.
    is_terminated: bool
    #: Whether SIGHUP has arrived. The server clears it before each reload, so another one during the reload counts.
    is_hung_up: bool

    def __init__(self, *, is_command: bool = False) -> None:
        self._is_command: Final = is_command
        self._is_starting = is_command
        self._before: Final[dict[signal.Signals, Any]] = {}
        self.is_terminated = self.is_hung_up = False

    def __enter__(self) -> Self:
        # Not every system has SIGHUP. SIGTERM is last, because it may raise an exception.
        if hasattr(signal, "SIGHUP"):
            self._before[signal.SIGHUP] = signal.signal(signal.SIGHUP, self._hang_up)
        self._before[signal.SIGTERM] = signal.signal(signal.SIGTERM, self._terminate)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.end_start()
        for number, handler in self._before.items():
            signal.signal(number, handler)
            if self._is_command:
                # The interpreter takes up to a second to end, and a signal must not change the status any more.
                atexit.register(signal.signal, number, signal.SIG_IGN)

    def end_start(self) -> None:
        """Only note SIGTERM from now on: the server runs and looks at the notes, or everything ends already."""
        self._is_starting = False

    def _hang_up(self, _number: int, _frame: FrameType | None) -> None:
        self.is_hung_up = True

    def _terminate(self, _number: int, _frame: FrameType | None) -> None:
        self.is_terminated = True
        if self._is_starting:
            # Another one must not interrupt the end. If the exception is lost, for example in the destructor of an
            # object, the server stops as soon as it runs.
            self._is_starting = False
            raise SystemExit(0)


_LOGGER: Final = logging.getLogger(__name__)

#: Connections at a time; further requests get the status 503.
_MOST_CONNECTIONS: Final = 1000
#: Seconds that requests have to finish when the server stops.
_SHUTDOWN_SECONDS: Final = 5
#: Seconds between two looks at the signals, and between two calls of the function that may stop the server.
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


def run(
    app: Starlette,
    listener: socket.socket,
    *,
    ready: Callable[[], None],
    has_failed: Callable[[], bool] = lambda: False,
    signals: ServerSignals | None = None,
) -> None:
    """Serve an application until the process receives SIGINT or SIGTERM. It returns after SIGTERM.

    On SIGHUP the configuration is reloaded. The result is logged. If the file has problems, the old configuration stays
    in force.

    Args:
        app: the result of `ugm.server.create_app`.
        listener: the socket for clients, from `listen`.
        ready: called when clients can connect.
        has_failed: called several times a second; the server stops when it returns true.
        signals: handles the signals already, and has noted those that arrived before; None to handle them only here.
    """
    with ServerSignals() if signals is None else nullcontext(signals) as noted:
        noted.end_start()
        # uvicorn handles SIGTERM while it serves, and raises it again when it has stopped.
        asyncio.run(_run(app, listener, ready, lambda: noted.is_terminated or has_failed(), noted))


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
    app: Starlette,
    listener: socket.socket,
    ready: Callable[[], None],
    should_stop: Callable[[], bool],
    signals: ServerSignals,
) -> None:
    import uvicorn  # noqa: PLC0415 - needs an extra

    server = uvicorn.Server(uvicorn_config(app))
    # The listener already accepts connections; their requests are answered as soon as the server runs.
    ready()
    watch = asyncio.create_task(_watch(should_stop, server, app, signals))
    try:
        await server.serve(sockets=[listener])
    finally:
        watch.cancel()


async def _watch(
    should_stop: Callable[[], bool], server: uvicorn.Server, app: Starlette, signals: ServerSignals
) -> None:
    """Reload the configuration on a signal, until the server stops or has to."""
    while not (server.should_exit or should_stop()):
        if signals.is_hung_up:
            # Before the file is read, so that a signal after a later change causes another reload.
            signals.is_hung_up = False
            await _reload(app.state.configurations)
        await asyncio.sleep(_WATCH)
    server.should_exit = True
    # They do not end by themselves.
    app.state.streams.close()


async def _reload(configurations: Configurations) -> None:
    try:
        await asyncio.to_thread(configurations.reload, Actor("local", "signal"))
    except UgmError:
        # Already logged, with all problems.
        return
    except ApiError as error:
        _LOGGER.warning("%s", error)
    except Exception:
        _LOGGER.exception("reloading the configuration failed")
