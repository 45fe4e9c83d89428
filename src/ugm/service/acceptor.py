"""The acceptor of a service: it accepts the clients, and bounds the connections that are being made.

The problem: anyone who reaches an address can connect until the process has no file descriptor left. The servers of
asyncio then try to accept as many clients as may wait, and log each failure, while all others get no answers. With TLS,
a client can also begin a handshake, and fail or never end it. The servers of asyncio do not report such a handshake, so
it could neither be counted nor forgotten.

The idea: the sockets are accepted here. Without a descriptor for a client, nothing is accepted for a while. The last
descriptors are left for the files of the process, so a client that gets one of them is disconnected. Each connection is
made in a task of its own, and it is forgotten when its task ends. A client of a ``tls`` address that is accepted while
there is no room is disconnected at once, because even a refusal would need a handshake.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import resource
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from ssl import SSLContext
from typing import Final, final

from ugm.service.server_connection import ServerConnection

__all__ = ["Acceptor"]

_LOGGER: Final = logging.getLogger(__name__)

#: The number of connections that wait to be accepted: all clients connect at once when another process leads.
_WAITING: Final = 4096
#: The number of clients that are accepted before the connections get their turn. With TLS it is one, because
#: handshakes take time.
_AT_ONCE: Final = 64
#: The time without accepting when the system has no descriptor or memory for a client, in seconds.
_PAUSE: Final = 1.0
#: The errors of a system that has no descriptor or memory for a client.
_EXHAUSTED: Final = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))
#: The number of descriptors that are left for files, and the part of a small number of descriptors.
_RESERVED: Final = 16
_RESERVED_PART: Final = 8
#: asyncio requires a positive time.
_SHORTEST: Final = 0.001


@final
class Acceptor:
    """Accepts the clients of all addresses.

    Args:
        patience: the maximum time of a TLS handshake, and of the end of its connection, in seconds.
        has_room: whether another client can be accepted.
        new_connection: returns a connection that is about to be made.
    """

    __slots__ = ("_connecting", "_has_room", "_new_connection", "_patience", "_sockets")

    def __init__(
        self, patience: float, has_room: Callable[[], bool], new_connection: Callable[[], ServerConnection]
    ) -> None:
        self._patience: Final = max(patience, _SHORTEST)
        self._has_room: Final = has_room
        self._new_connection: Final = new_connection
        #: The sockets that listen, with the certificate for those of ``tls`` addresses.
        self._sockets: Final[dict[socket.socket, SSLContext | None]] = {}
        #: The connections that are being made, with their tasks.
        self._connecting: Final[dict[ServerConnection, asyncio.Task[None]]] = {}

    @property
    def connecting(self) -> int:
        """The number of connections that are being made."""
        return len(self._connecting)

    def listen(self, bound: Iterable[socket.socket], tls: SSLContext | None) -> None:
        """Begin to listen on sockets that have an address.

        Args:
            bound: the sockets, which belong to the acceptor from now on.
            tls: the certificate; None for connections without TLS.

        Raises:
            OSError: the address is in use or cannot be used.
        """
        added = dict.fromkeys(bound, tls)
        self._sockets.update(added)
        for listening in added:
            listening.settimeout(0)
            listening.listen(_WAITING)
            self._resume(listening)

    def _accept_some(self, listening: socket.socket) -> None:
        tls = self._sockets[listening]
        for _ in range(_AT_ONCE if tls is None else 1):
            if not self._accept(listening, tls):
                return

    def _accept(self, listening: socket.socket, tls: SSLContext | None) -> bool:
        """Accept one client, and return whether more may be accepted."""
        try:
            accepted, _ = listening.accept()
        except OSError as error:
            # Otherwise there is no client, or it has gone, or the network has failed.
            if error.errno in _EXHAUSTED:
                self._pause(listening, str(error))
            return False
        if _is_reserved(accepted.fileno()):
            accepted.close()
            self._pause(listening, "the last file descriptors of this process are left for its files")
            return False
        if tls is not None and not self._has_room():
            accepted.close()
            return True
        self._connect(accepted, tls)
        return True

    def _connect(self, accepted: socket.socket, tls: SSLContext | None) -> None:
        connection = self._new_connection()
        task = asyncio.get_running_loop().create_task(self._make(connection, accepted, tls))
        self._connecting[connection] = task
        task.add_done_callback(lambda _: self.forget(connection))

    def _pause(self, listening: socket.socket, reason: str) -> None:
        """Accept nothing for a while, because the loop would try again at once."""
        _LOGGER.warning("no client can be accepted: %s", reason)
        loop = asyncio.get_running_loop()
        loop.remove_reader(listening)
        loop.call_later(_PAUSE, self._resume, listening)

    def _resume(self, listening: socket.socket) -> None:
        if listening in self._sockets:
            asyncio.get_running_loop().add_reader(listening, self._accept_some, listening)

    async def _make(self, connection: ServerConnection, accepted: socket.socket, tls: SSLContext | None) -> None:
        patience = None if tls is None else self._patience
        # In a handshake, the client may give up, take too long, or speak another protocol.
        with suppress(OSError):
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection,
                accepted,
                ssl=tls,
                ssl_handshake_timeout=patience,
                ssl_shutdown_timeout=patience,
            )

    def forget(self, connection: ServerConnection) -> None:
        """Forget a connection whose task has ended; also called as soon as the connection is made."""
        self._connecting.pop(connection, None)

    def stop_accepting(self) -> None:
        """Stop listening."""
        loop = asyncio.get_running_loop()
        while self._sockets:
            listening, _ = self._sockets.popitem()
            loop.remove_reader(listening)
            listening.close()

    async def end_connecting(self) -> None:
        """End the tasks that make connections. They began some iterations of the loop ago."""
        tasks = tuple(self._connecting.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


def _is_reserved(descriptor: int) -> bool:
    """Return whether a new descriptor is one of the last. The system gives the lowest number that is free."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return limit != resource.RLIM_INFINITY and descriptor >= limit - min(_RESERVED, limit // _RESERVED_PART)
