"""The acceptor of ``tls`` addresses: it accepts clients, and bounds the TLS handshakes that are in progress.

The problem: any client that reaches a ``tls`` address can begin a handshake, and fail or never end it. The servers of
asyncio do not report such a handshake, so it could neither be counted nor forgotten.

The idea: the sockets are accepted here, each handshake is a task of its own, and it is forgotten when its task ends.
A client that is accepted while there is no room is disconnected at once, because even a refusal would need a handshake.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from ssl import SSLContext
from typing import Final, final

from ugm.service.server_connection import ServerConnection

__all__ = ["TlsAcceptor"]

_LOGGER: Final = logging.getLogger(__name__)

#: The time without accepting when the system has no descriptor or memory for a client, in seconds.
_PAUSE: Final = 1.0
#: The errors of a system that has no descriptor or memory for a client.
_EXHAUSTED: Final = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))
#: asyncio requires a positive time.
_SHORTEST: Final = 0.001


@final
class TlsAcceptor:
    """Accepts the clients of ``tls`` addresses.

    Args:
        tls: the certificate.
        patience: the maximum time of a handshake, and of the end of a connection, in seconds.
        has_room: whether another client can be accepted.
        new_connection: returns a connection whose handshake begins.
    """

    __slots__ = ("_handshakes", "_has_room", "_new_connection", "_patience", "_sockets", "_tls")

    def __init__(
        self,
        tls: SSLContext,
        patience: float,
        has_room: Callable[[], bool],
        new_connection: Callable[[], ServerConnection],
    ) -> None:
        self._tls: Final = tls
        self._patience: Final = max(patience, _SHORTEST)
        self._has_room: Final = has_room
        self._new_connection: Final = new_connection
        self._sockets: Final[list[socket.socket]] = []
        #: The connections whose handshakes are in progress, with their tasks.
        self._handshakes: Final[dict[ServerConnection, asyncio.Task[None]]] = {}

    @property
    def handshakes(self) -> int:
        """The number of handshakes in progress."""
        return len(self._handshakes)

    async def listen(self, host: str, port: int, backlog: int) -> int:
        """Begin to listen, and return the port.

        Raises:
            OSError: the address is in use or cannot be used.
        """
        loop = asyncio.get_running_loop()
        # This server never serves. It looks up the host and binds the sockets.
        server = await loop.create_server(asyncio.Protocol, host, port, reuse_address=True, start_serving=False)
        try:
            own_port: int = server.sockets[0].getsockname()[1]
            for bound in server.sockets:
                self._listen(socket.socket(fileno=os.dup(bound.fileno())), backlog)
        finally:
            server.close()
        return own_port

    def _listen(self, bound: socket.socket, backlog: int) -> None:
        self._sockets.append(bound)
        bound.settimeout(0)
        bound.listen(backlog)
        asyncio.get_running_loop().add_reader(bound, self._accept, bound)

    def _accept(self, listening: socket.socket) -> None:
        """Accept one client: handshakes take time, and the other connections get their turn in between."""
        try:
            accepted, _ = listening.accept()
        except OSError as error:
            # Otherwise the client has gone, or the network has failed.
            if error.errno in _EXHAUSTED:
                _LOGGER.warning("no client can be accepted: %s", error)
                self._pause(listening)
            return
        if not self._has_room():
            accepted.close()
            return
        connection = self._new_connection()
        task = asyncio.get_running_loop().create_task(self._shake_hands(accepted, connection))
        self._handshakes[connection] = task
        task.add_done_callback(lambda _: self.forget(connection))

    def _pause(self, listening: socket.socket) -> None:
        """Accept nothing for a while, because the loop would call `_accept` again at once."""
        loop = asyncio.get_running_loop()
        loop.remove_reader(listening)
        loop.call_later(_PAUSE, self._resume, listening)

    def _resume(self, listening: socket.socket) -> None:
        if listening in self._sockets:
            asyncio.get_running_loop().add_reader(listening, self._accept, listening)

    async def _shake_hands(self, accepted: socket.socket, connection: ServerConnection) -> None:
        # The client may give up, take too long, or speak another protocol.
        with suppress(OSError):
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection,
                accepted,
                ssl=self._tls,
                ssl_handshake_timeout=self._patience,
                ssl_shutdown_timeout=self._patience,
            )

    def forget(self, connection: ServerConnection) -> None:
        """Forget a handshake that has ended; also called as soon as the connection is made."""
        self._handshakes.pop(connection, None)

    def stop_accepting(self) -> None:
        """Stop listening."""
        loop = asyncio.get_running_loop()
        while self._sockets:
            listening = self._sockets.pop()
            loop.remove_reader(listening)
            listening.close()

    async def end_handshakes(self) -> None:
        """End the handshakes that are in progress. They began some iterations of the loop ago."""
        tasks = tuple(self._handshakes.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
