"""The connections of clients at a service, with bounds on everything that a client can use up.

The problem: a slow, silent or malicious client must not delay the others, or fill the memory of the leader.

The idea: while a client does not read its answers, the service reads no more of its messages, and it disconnects a
client whose unread answers are too many. A connection without a valid `Hello` is closed after a few seconds. Operations
of several clients take turns, because the loop reads a limited number of bytes from one connection at a time.
`ClientLimits` has all bounds.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import socket
import ssl
import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, Protocol, final

from ugm.errors import RequestError
from ugm.partition.interface.operation_kinds import Role
from ugm.service.errors import ProtocolError
from ugm.service.protocol import wire
from ugm.service.protocol.addresses import MAX_CLIENT_NAME, Address
from ugm.service.sessions import Session

_PONG: Final = wire.line(wire.Pong())
#: The maximum size of a greeting in bytes.
_LARGEST_GREETING: Final = 1 << 16
#: A connection whose peer has vanished without notice is closed after about half a minute.
_KEEPALIVE: Final = (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 4), ("TCP_USER_TIMEOUT", 30_000))


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """The bounds of a listener.

    Attributes:
        connections: the number of open connections.
        sessions: the number of sessions, with or without a connection.
        outstanding: the number of operations of a session that are not acknowledged.
        unread: the number of bytes that a client has not read when it is disconnected.
        hello: the time for a TLS handshake, for the first message, and for reading the last ones, in seconds.
        line: the size of a message of a client in bytes.
    """

    connections: int = 10_000
    sessions: int = 20_000
    outstanding: int = 20_000
    unread: int = 64 * 2**20
    hello: float = 5.0
    line: int = wire.MAX_LINE


@dataclass(frozen=True, slots=True)
class ClientToken:
    """The token of some clients, with their role.

    Attributes:
        name: a name for people. Clients whose tokens have the same name may release each other's allocations.
        token: the secret.
        role: what the clients may do.
    """

    name: str
    token: str = field(repr=False)
    role: Role = Role.SCHEDULER


@dataclass(frozen=True, slots=True)
class Security:
    """The secrets and the certificates of a service.

    Attributes:
        token: the secret of administrators, which other processes of the service use as well; empty for none.
        tls: the certificate for ``tls`` addresses.
        client_tls: the certificates that this process trusts when it connects to the leader; None for those of the
            system.
        tokens: the tokens of further clients, each with a role. They need *token*.

    Raises:
        RequestError: there are tokens of clients, but none of administrators; or one is empty.
    """

    token: str = field(default="", repr=False)
    tls: ssl.SSLContext | None = None
    client_tls: ssl.SSLContext | None = None
    tokens: Sequence[ClientToken] = ()

    def __post_init__(self) -> None:
        if self.tokens and not (self.token and all(one.name and one.token for one in self.tokens)):
            raise RequestError("tokens", len(self.tokens), "expected a token of administrators, and no empty ones")

    def role_of(self, token: str) -> tuple[str, Role] | None:
        """Return the name and the role of a token; None if it is wrong."""
        found = None
        for name, secret, role in (
            ("", self.token, Role.ADMIN),
            *((one.name, one.token, one.role) for one in self.tokens),
        ):
            # All are compared, so that the time does not tell which one is nearly right.
            if hmac.compare_digest(token.encode(), secret.encode()):
                found = name, role
        return found


class Clients(Protocol):
    """Handles the messages of clients: a leader, or a process that stands by."""

    def welcome(self, connection: Connection, hello: wire.Hello) -> None:
        """Answer the greeting of a client, or close the connection."""

    def handle(self, connection: Connection, messages: list[wire.ClientMessage]) -> None:
        """Handle messages of a client that was welcomed."""

    def disconnected(self, connection: Connection) -> None:
        """Forget a connection that was lost."""


@final
class Connection(wire.Link[wire.ClientMessage]):
    """The connection of one client.

    Args:
        listener: the listener that has accepted it.
    """

    def __init__(self, listener: Listener) -> None:
        limits = listener.limits
        super().__init__(wire.decode_client_lines, _LARGEST_GREETING, limits.unread, self._take, self._end)
        self._listener: Final = listener
        self._is_closing = False
        self._is_greeted = False
        #: Set while the client reads what was sent.
        self.writable: Final = asyncio.Event()
        self.writable.set()
        #: Set by the greeting.
        self.version: int = wire.VERSION
        self.token_name: str = ""
        self.role: Role = Role.ADMIN
        #: The session; None for a reader, and before the greeting.
        self.session: Session | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note the connection, unless there are too many."""
        super().connection_made(transport)
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, value in _KEEPALIVE:
                if hasattr(socket, name):
                    sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        self._hello = self._loop.call_later(self._listener.limits.hello, self.abort)
        self._listener.connections.add(self)
        if len(self._listener.connections) > self._listener.limits.connections:
            self.abort()

    def _end(self) -> None:
        self._is_closing = True
        self._hello.cancel()
        self._listener.connections.discard(self)
        self._listener.clients.disconnected(self)

    def _take(self, messages: list[wire.ClientMessage]) -> None:
        if self._is_closing:
            return
        try:
            if not self._is_greeted:
                self._greet(messages.pop(0))
            if messages and not self._is_closing:
                self._handle(messages)
        except ProtocolError as error:
            self.refuse(error)

    def refuse(self, error: ProtocolError) -> None:
        """Send an error, and close the connection."""
        self.close(wire.Refused(error.problem, error.reason))

    def _greet(self, hello: wire.ClientMessage) -> None:
        if not isinstance(hello, wire.Hello):
            raise ProtocolError("malformed", "the first message is no greeting")
        self.version = min(wire.VERSION, hello.newest)
        if self.version < max(wire.OLDEST_VERSION, hello.oldest):
            reason = f"this process understands the versions {wire.OLDEST_VERSION} to {wire.VERSION}"
            raise ProtocolError("version", f"{reason}; the client has {hello.oldest} to {hello.newest}")
        found = self._listener.security.role_of(hello.token)
        if found is None:
            raise ProtocolError("token", "the token is wrong")
        if len(hello.client) > MAX_CLIENT_NAME:
            raise ProtocolError("malformed", "the name of the client is too long")
        self._is_greeted = True
        self.max_line: int = self._listener.limits.line
        self.token_name, self.role = found
        self._hello.cancel()
        self._listener.clients.welcome(self, hello)

    def _handle(self, messages: list[wire.ClientMessage]) -> None:
        last = messages[-1]
        if type(last) is wire.Call and last.number - last.acknowledged > self._listener.limits.outstanding:
            raise ProtocolError("too-many-calls", "too many operations are outstanding")
        if any(type(one) is wire.Ping for one in messages):
            self.send(_PONG)
            messages = [one for one in messages if type(one) is not wire.Ping]
        if messages:
            self._listener.clients.handle(self, messages)

    def pause_writing(self) -> None:
        """Read no more while the client does not read."""
        self.writable.clear()
        self.transport.pause_reading()

    def resume_writing(self) -> None:
        """Read again."""
        self.writable.set()
        if not self._is_closing:
            self.transport.resume_reading()

    def close(self, last: wire.Moved | wire.Refused) -> None:
        """Send a last message, and close the connection when the client has read everything."""
        if not self._is_closing:
            self._is_closing = True
            self.send(wire.line(last))
            self.flush()
            self.transport.close()
            self._loop.call_later(self._listener.limits.hello, self.abort)

    def abort(self) -> None:
        """Close the connection at once."""
        self._is_closing = True
        self.transport.abort()


@final
class Listener:
    """Accepts connections at some addresses.

    Args:
        clients: handles the messages.
        addresses: the addresses.
        security: the secrets and the certificate.
        limits: the bounds for clients.

    Raises:
        RequestError: an address that other machines can reach is not protected.
    """

    def __init__(
        self, clients: Clients, addresses: tuple[Address, ...], security: Security, limits: ClientLimits
    ) -> None:
        for address in addresses:
            if not address.is_local and not (address.is_encrypted and security.token):
                reason = "other machines can reach it; use tls:// with a certificate and a token"
                raise RequestError("listen", str(address), reason)
            if address.is_encrypted and security.tls is None:
                raise RequestError("listen", str(address), "it needs a certificate")
        #: Handles the messages; another object when the process begins or ceases to lead.
        self.clients = clients
        self._addresses: Final = addresses
        self.security: Final = security
        self.limits: Final = limits
        self.connections: Final[set[Connection]] = set()
        self._servers: Final[list[asyncio.Server]] = []
        self._paths: Final[list[Path]] = []

    async def open(self) -> tuple[Address, ...]:
        """Listen, and return the addresses with their ports.

        Raises:
            OSError: an address cannot be used.
        """
        try:
            return tuple([await self._listen(address) for address in self._addresses])
        except BaseException:
            await self.close()
            raise

    async def _listen(self, address: Address) -> Address:
        loop, make = asyncio.get_running_loop(), partial(Connection, self)
        if address.path:
            remove_stale_socket(address.path)
            # The socket is only for processes of the same user until its permissions are changed.
            before = os.umask(0o177)
            try:
                self._servers.append(await loop.create_unix_server(make, address.path, backlog=1024))
                self._paths.append(Path(address.path))
            finally:
                os.umask(before)
            return address
        tls = self.security.tls if address.is_encrypted else None
        timeout = None if tls is None else self.limits.hello
        server = await loop.create_server(
            make, address.host, address.port, ssl=tls, backlog=1024, ssl_handshake_timeout=timeout
        )
        self._servers.append(server)
        return Address("", address.host, server.sockets[0].getsockname()[1], address.is_encrypted)

    def close_connections(self, last: wire.Moved | wire.Refused) -> None:
        """Close all connections after a last message."""
        for connection in tuple(self.connections):
            connection.close(last)

    async def close(self) -> None:
        """Accept no more connections, and remove the Unix sockets."""
        loop = asyncio.get_running_loop()
        for listening in [one for server in self._servers for one in server.sockets]:
            loop.remove_reader(listening.fileno())
        # A connection that was accepted just now is made meanwhile, which a closed server would not let happen.
        for _ in range(3):
            await asyncio.sleep(0)
        for server in self._servers:
            server.close()
        for path in self._paths:
            with suppress(OSError):
                path.unlink()


def remove_stale_socket(path: str) -> None:
    """Remove a Unix socket on which no process listens.

    Raises:
        OSError: a process listens there, or the path is another kind of file.
    """
    try:
        if not stat.S_ISSOCK(Path(path).stat().st_mode):
            raise FileExistsError(f"{path} exists and is not a socket")
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(1)
            probe.connect(path)
    except ConnectionRefusedError:
        Path(path).unlink(missing_ok=True)
    except FileNotFoundError:
        return
    else:
        raise OSError(f"another process listens at {path}")
