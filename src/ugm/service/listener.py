"""The listener of a service: the sockets on which it accepts clients, and the connections that are open."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from ssl import SSLContext
from typing import Final, final

from ugm.errors import RequestError
from ugm.service.acceptor import Acceptor
from ugm.service.addresses import Address
from ugm.service.server_connection import ClientLimits, Clients, ReadingClients, ServerConnection
from ugm.service.wire import LeaderMessage, frame

__all__ = ["Listener", "remove_stale_socket"]

#: The maximum time in which clients read the last messages of a service that ends, in seconds.
_FAREWELL: Final = 0.5
_ITERATIONS: Final = 10


@final
class Listener:
    """The sockets on which a service accepts clients.

    Args:
        clients: the sessions.
        readers: answers the queries of read-only connections.
        addresses: the addresses to listen on.
        token: the secret of the clients; required for addresses that other machines can reach.
        tls: the certificate for ``tls`` addresses.
        limits: the bounds.

    Raises:
        RequestError: an address may be used by other machines, but has no TLS or no token.
    """

    def __init__(
        self,
        clients: Clients,
        readers: ReadingClients,
        addresses: tuple[Address, ...],
        *,
        token: str,
        tls: SSLContext | None,
        limits: ClientLimits,
    ) -> None:
        for address in addresses:
            _require_secure(address, token, tls)
        #: Who serves new connections; replaced when this process begins or ceases to lead.
        self.clients = clients
        self._readers: Final = readers
        self._addresses: Final = addresses
        self._token: Final = token
        self._limits: Final = limits
        self._tls: Final = tls
        self._acceptor: Final = Acceptor(limits.hello, self._has_room, self._connection)
        self._connections: Final[set[ServerConnection]] = set()
        #: Set when the last connection has ended.
        self._is_empty: Final = asyncio.Event()
        self._is_closed = False
        #: The paths of the sockets that are open.
        self._paths: Final[list[Path]] = []

    @property
    def connections(self) -> int:
        """The number of open connections, with those whose TLS handshake is in progress."""
        return len(self._connections) + self._acceptor.connecting

    def _has_room(self) -> bool:
        return self.connections < self._limits.connections

    async def open(self) -> tuple[Address, ...]:
        """Begin to listen, and return the addresses with their ports.

        Raises:
            OSError: an address is in use or cannot be used.
        """
        try:
            return tuple([await self._open(address) for address in self._addresses])
        except BaseException:
            await self._stop_accepting()
            self._remove_paths()
            self._abort_connections()
            raise

    async def _open(self, address: Address) -> Address:
        if address.path:
            bound = [_unix_socket(address.path)]
            self._paths.append(Path(address.path))
        else:
            bound = await _tcp_sockets(address.host, address.port)
        self._acceptor.listen(bound, self._tls if address.is_encrypted else None)
        return address if address.path else replace(address, port=bound[0].getsockname()[1])

    def _connection(self) -> ServerConnection:
        connection = ServerConnection(self.clients, self._readers, self._limits, self._token)
        # The room is counted now, because more clients may be accepted before the connection is made.
        connection.on_made = partial(self._admit, has_room=self._has_room())
        connection.on_lost = self._forget
        return connection

    def _admit(self, connection: ServerConnection, *, has_room: bool) -> bool:
        """Note a connection that is made, and return whether there was room for it.

        A connection is noted here and not before, because asyncio reports no loss of one that was never made.
        """
        self._acceptor.forget(connection)
        # Another process may lead since the TLS handshake began.
        connection.clients = self.clients
        self._connections.add(connection)
        self._is_empty.clear()
        if self._is_closed:
            connection.abort()
        return has_room

    def _forget(self, connection: ServerConnection) -> None:
        self._connections.discard(connection)
        if not self._connections:
            self._is_empty.set()

    def close_connections(self, message: LeaderMessage) -> None:
        """Send a last message to all clients and close their connections."""
        data = frame(message)
        for connection in tuple(self._connections):
            connection.send(data)
            connection.close()

    async def close(self) -> None:
        """Stop listening, and wait a moment until the clients have read the last messages."""
        await self._stop_accepting()
        self._remove_paths()
        if self._connections:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._is_empty.wait(), _FAREWELL)
        self._abort_connections()
        # A connection that is just being accepted ends after some iterations of the loop.
        for _ in range(_ITERATIONS):
            await asyncio.sleep(0)

    async def _stop_accepting(self) -> None:
        """Stop listening, and end the connections that are being made."""
        self._is_closed = True
        self._acceptor.stop_accepting()
        for _ in range(_ITERATIONS):
            await asyncio.sleep(0)
        await self._acceptor.end_connecting()

    def _abort_connections(self) -> None:
        for connection in tuple(self._connections):
            connection.abort()

    def _remove_paths(self) -> None:
        for path in self._paths:
            with suppress(OSError):
                path.unlink()


def _require_secure(address: Address, token: str, tls: SSLContext | None) -> None:
    if address.is_encrypted and tls is None:
        raise RequestError("address", str(address), "a tls address needs a certificate")
    if address.is_local:
        return
    if not address.is_encrypted:
        raise RequestError("address", str(address), "other machines can reach it; use tls://")
    if not token:
        raise RequestError("address", str(address), "other machines can reach it; set a token")


def _unix_socket(path: str) -> socket.socket:
    """Return a socket that only the owner of this process can use, bound to a path that no other process listens on.

    Raises:
        OSError: another process listens there, or the path cannot be used.
    """
    remove_stale_socket(path)
    listening = socket.socket(socket.AF_UNIX)
    try:
        # The permission is set before the socket listens, so no other user can connect in between.
        listening.bind(path)
        os.chmod(path, stat.S_IRUSR | stat.S_IWUSR)  # noqa: PTH101 - a socket, not a file
    except OSError:
        listening.close()
        raise
    return listening


async def _tcp_sockets(host: str, port: int) -> list[socket.socket]:
    """Return sockets that are bound to the addresses of a host.

    Raises:
        OSError: an address is in use or cannot be used.
    """
    loop = asyncio.get_running_loop()
    # This server never serves. It looks up the host and binds the sockets.
    server = await loop.create_server(asyncio.Protocol, host, port, reuse_address=True, start_serving=False)
    try:
        return [socket.socket(fileno=os.dup(bound.fileno())) for bound in server.sockets]
    finally:
        server.close()


def remove_stale_socket(path: str) -> None:
    """Remove a socket on which no process listens.

    Raises:
        OSError: a process listens there, or the socket cannot be removed.
    """
    place = Path(path)
    if not place.is_socket():
        return
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1)
        try:
            probe.connect(path)
        except (ConnectionRefusedError, FileNotFoundError):
            place.unlink(missing_ok=True)
            return
    raise OSError(f"another process listens on {path}")
