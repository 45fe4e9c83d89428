"""The listener of a service: the sockets on which it accepts clients, and the connections that are open."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
from contextlib import suppress
from pathlib import Path
from ssl import SSLContext
from typing import Final, final

from ugm.errors import RequestError
from ugm.service.addresses import Address
from ugm.service.server_connection import ClientLimits, Clients, ReadingClients, ServerConnection
from ugm.service.wire import LeaderMessage, frame

__all__ = ["Listener", "remove_stale_socket"]

#: The number of connections that wait to be accepted: all clients connect at once when another process leads.
_WAITING: Final = 4096
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
        self._tls: Final = tls
        self._limits: Final = limits
        self._connections: Final[set[ServerConnection]] = set()
        #: Set when the last connection has ended.
        self._is_empty: Final = asyncio.Event()
        self._is_closed = False
        self._servers: Final[list[asyncio.Server]] = []

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self._connections)

    async def open(self) -> tuple[Address, ...]:
        """Begin to listen, and return the addresses with their ports.

        Raises:
            OSError: an address is in use or cannot be used.
        """
        return tuple([await self._open(address) for address in self._addresses])

    async def _open(self, address: Address) -> Address:
        loop = asyncio.get_running_loop()
        if address.path:
            self._servers.append(
                await loop.create_unix_server(self._connection, sock=_unix_socket(address.path), backlog=_WAITING)
            )
            return address
        tls = self._tls if address.is_encrypted else None
        server = await loop.create_server(
            self._connection, address.host, address.port, ssl=tls, reuse_address=True, backlog=_WAITING
        )
        self._servers.append(server)
        port = server.sockets[0].getsockname()[1]
        return Address("", address.host, port, address.is_encrypted)

    def _connection(self) -> ServerConnection:
        connection = ServerConnection(
            self.clients,
            self._readers,
            self._limits,
            self._token,
            is_full=len(self._connections) >= self._limits.connections,
        )
        connection.on_lost = self._forget
        self._connections.add(connection)
        if self._is_closed:
            connection.abort()
        self._is_empty.clear()
        return connection

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
        for connection in tuple(self._connections):
            connection.abort()
        # A connection that is just being accepted ends after some iterations of the loop.
        for _ in range(_ITERATIONS):
            await asyncio.sleep(0)

    async def _stop_accepting(self) -> None:
        """Close the servers after the connections that were just accepted have their transports."""
        self._is_closed, loop = True, asyncio.get_running_loop()
        for server in self._servers:
            for listening in server.sockets:
                loop.remove_reader(listening)
        for _ in range(_ITERATIONS):
            await asyncio.sleep(0)
        for server in self._servers:
            server.close()

    def _remove_paths(self) -> None:
        for address in self._addresses:
            if address.path:
                with suppress(OSError):
                    Path(address.path).unlink()


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
