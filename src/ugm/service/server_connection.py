"""The connection of a client at a service, with bounds on everything that a client can use up.

The problem: a slow, silent or malicious client must not delay the others, or fill the memory of the leader.

The idea: if a client does not read its answers, the service stops reading its messages, and disconnects it when too
many answers wait. Changes that it follows wait in the log instead, until it has read the ones before. The service also
stops reading while the waiting queries of a client are too large. A connection executes a limited number of operations,
and then waits until the others had their turn. A connection without a valid `Hello` is closed after a few seconds.
`ClientLimits` has all bounds.
"""

from __future__ import annotations

import asyncio
import hmac
import socket
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NoReturn, Protocol, cast, final

from ugm.service.addresses import MAX_CLIENT_NAME
from ugm.service.errors import ProtocolError
from ugm.service.session import Session
from ugm.service.wire import (
    MAX_FRAME,
    VERSION,
    Bye,
    ClientMessage,
    Execute,
    Follow,
    FrameReader,
    Hello,
    LeaderMessage,
    Ping,
    Pong,
    Refused,
    StandbyReport,
    decode_client_message,
    frame,
)

__all__ = ["ClientLimits", "Clients", "ReadingClients", "ServerConnection"]

_PONG: Final = frame(Pong())
#: The time between two signs of life for a client whose messages are not read, in seconds. Clients wait longer.
_ASSURANCE: Final = 0.1
#: The maximum size of a greeting in bytes.
_LARGEST_GREETING: Final = 1 << 16
#: Larger frames are sent in pieces of this size, in bytes.
_PIECE: Final = 1 << 18
#: If this part of `ClientLimits.unread` is unread, further changes wait, so that they do not end the connection.
_PART_FOR_CHANGES: Final = 16
#: The bound of the numbers of operations.
_LARGEST_NUMBER: Final = 1 << 53
#: A connection whose peer has vanished without notice is closed after about half a minute.
_KEEPALIVE: Final = (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 4), ("TCP_USER_TIMEOUT", 30_000))


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """The bounds of a listener.

    Attributes:
        connections: the number of open connections, with those whose TLS handshake is in progress.
        sessions: the number of sessions, with or without a connection.
        requests: the number of operations in one message.
        outstanding: the number of operations of a session that are not acknowledged.
        turn: the number of operations that a connection executes before the others get a turn.
        queued_bytes: the size of the arguments of waiting queries in bytes, above which nothing more is read.
        unread: the number of bytes that a client has not read when it is disconnected.
        hello: the time for a TLS handshake, for the first message, and for reading the last ones, in seconds.
        frame: the size of a frame in bytes.
    """

    connections: int = 10_000
    sessions: int = 20_000
    requests: int = 1_000
    outstanding: int = 20_000
    turn: int = 256
    queued_bytes: int = 16 * 2**20
    unread: int = 64 * 2**20
    hello: float = 5.0
    frame: int = MAX_FRAME


class Clients(Protocol):
    """Handles the messages of clients: a leader, or a process that stands by."""

    def welcome(self, connection: ServerConnection, hello: Hello) -> tuple[Session | None, LeaderMessage | None]:
        """Return the session of a client, or the message that ends the connection."""
        ...

    def execute(self, session: Session, message: Execute) -> None:
        """Execute operations and arrange their answers."""
        ...

    def follow(self, connection: ServerConnection, message: Follow) -> None:
        """Send the changes after a number to a connection, now and from now on."""
        ...

    def follow_on(self, connection: ServerConnection) -> None:
        """Send further changes to a connection that has read the ones before."""
        ...

    def leave(self, session: Session) -> None:
        """End a session."""
        ...

    def disconnected(self, connection: ServerConnection) -> None:
        """Forget a connection."""
        ...


class ReadingClients(Clients, Protocol):
    """Handles the messages of read-only connections."""

    def report(self, connection: ServerConnection, report: StandbyReport) -> None:
        """Note the position of a standby, and answer with the status of the service."""
        ...


def _admit(connection: ServerConnection) -> bool:  # noqa: ARG001 - every connection
    """Admit every connection."""
    return True


def _ignore(connection: ServerConnection) -> None:
    """Do nothing."""


@final
class ServerConnection(asyncio.Protocol):
    """The connection of one client."""

    def __init__(self, clients: Clients, readers: ReadingClients, limits: ClientLimits, token: str) -> None:
        #: Who serves the connection: the clients of the process when the connection is made, or the readers.
        self.clients: Clients = clients
        self._readers: Final = readers
        self._limits: Final = limits
        self._token: Final = token
        self._reader: Final = FrameReader(min(limits.frame, _LARGEST_GREETING))
        self._transport: asyncio.Transport | None = None
        #: The transport as long as something can be sent.
        self._output: asyncio.Transport | None = None
        self._greeting: asyncio.TimerHandle | None = None
        self._backlog: Final[deque[ClientMessage]] = deque()
        self._is_working = False
        self._is_unread = False
        #: Whether the waiting queries are too large.
        self._is_held = False
        self._is_following = self._is_ended = False
        #: The rest of frames that are sent in pieces, and its size.
        self._pieces: Final[deque[memoryview]] = deque()
        self._waiting = 0
        #: The size of the largest frame that is sent in pieces. It may be larger than the bound.
        self._largest = 0
        #: Ends the connection if the client does not read the last messages.
        self._closing: asyncio.TimerHandle | None = None
        #: Shows a client whose pings are not read that this process is alive.
        self._assuring: asyncio.TimerHandle | None = None
        self.session: Session | None = None
        #: Called when the connection is made, which never happens if a TLS handshake fails; returns whether there is
        #: room for it.
        self.on_made: Callable[[ServerConnection], bool] = _admit
        #: Called when the connection is lost, if it was made.
        self.on_lost: Callable[[ServerConnection], None] = _ignore

    # Called by asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for the greeting."""
        # The transports of other loops, such as that of uvloop, do not inherit from this class.
        made = cast("asyncio.Transport", transport)
        self._transport = made
        has_room = self.on_made(self)
        if self._is_ended:
            return
        self._output = made
        _detect_lost_peer(made)
        if not has_room:
            self._refuse(ProtocolError("too-many-connections", "too many clients are connected"))
            return
        self._greeting = asyncio.get_running_loop().call_later(self._limits.hello, self._greeting_is_late)

    def _greeting_is_late(self) -> None:
        self._refuse(ProtocolError("no-hello", f"no greeting arrived within {self._limits.hello:g} s"))

    def data_received(self, data: bytes) -> None:
        """Handle the messages that are complete."""
        if self._output is None:
            return
        try:
            frames = self._reader.feed(data)
            if len(frames) == 1 and not self._backlog and not self._is_held:
                # Nearly always, at least if the client has one outstanding operation.
                self._handle(decode_client_message(frames[0]))
                return
            self._backlog.extend(map(decode_client_message, frames))
            if not self._is_working:
                self._work()
        except ProtocolError as error:
            self._refuse(error)

    def pause_writing(self) -> None:
        """Stop reading from a client that does not read its answers."""
        self._is_unread = True
        if self._transport is not None:
            self._transport.pause_reading()

    def note_executed(self) -> None:
        """Read again if the waiting queries are small enough."""
        if self._is_held and self.session is not None and self.session.queued_bytes <= self._limits.queued_bytes:
            self._is_held = False
            self._stop_assuring()
            if self._is_working:
                self._continue()
            else:
                self._resume()

    def resume_writing(self) -> None:
        """Read again from a client that has read its answers."""
        self._is_unread = False
        self._send_pieces()
        if not self._pieces:
            self._largest = 0
        self._resume()
        if self._is_following and not self._is_unread:
            self.clients.follow_on(self)

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - the reason does not matter
        """Forget the connection; the session continues when the client connects again."""
        for timer in (self._greeting, self._closing):
            if timer is not None:
                timer.cancel()
        self._stop_assuring()
        self._transport = self._output = None
        self._backlog.clear()
        self._pieces.clear()
        if self.session is not None and self.session.peer is self:
            self.session.disconnect()
        self.clients.disconnected(self)
        self.on_lost(self)

    # Messages

    def _work(self) -> None:
        """Handle messages of the backlog until the turn of this connection is over."""
        backlog, left = self._backlog, self._limits.turn
        while backlog and left > 0 and not self._is_held:
            message = backlog.popleft()
            self._handle(message)
            left -= len(message.requests) if type(message) is Execute else 1
        if backlog:
            self._is_working = True
            if self._transport is not None:
                self._transport.pause_reading()
                if not self._is_held:
                    asyncio.get_running_loop().call_soon(self._continue)
        elif self._is_working:
            self._is_working = False
            self._resume()

    def _continue(self) -> None:
        try:
            self._work()
        except ProtocolError as error:
            self._refuse(error)

    def _resume(self) -> None:
        if self._transport is not None and not self._is_unread and not self._is_working and not self._is_held:
            self._transport.resume_reading()

    def _handle(self, message: ClientMessage) -> None:
        session = self.session
        if session is None:
            self._greet(message)
        elif type(message) is Execute:
            limits = self._limits
            if (
                not 0 <= message.acknowledged < message.first < _LARGEST_NUMBER
                or len(message.requests) > limits.requests
                or session.outstanding > limits.outstanding
            ):
                self._refuse_unbounded(message)
            self.clients.execute(session, message)
            if session.queued_bytes > limits.queued_bytes:
                self._hold()
        elif type(message) is Ping:
            self.send(_PONG)
        elif type(message) is Follow:
            self._follow(message)
        elif type(message) is Bye:
            self.clients.leave(session)
            self.close()
        elif type(message) is StandbyReport and self.clients is self._readers:
            self._readers.report(self, message)
        else:
            raise ProtocolError("unexpected", "a second greeting arrived")

    def _hold(self) -> None:
        """Read nothing more until queries have been executed."""
        self._is_held = True
        if self._transport is not None:
            self._transport.pause_reading()
            if self._assuring is None:
                self._assure()

    def _assure(self) -> None:
        self.send(_PONG)
        self._assuring = asyncio.get_running_loop().call_later(_ASSURANCE, self._assure)

    def _stop_assuring(self) -> None:
        if self._assuring is not None:
            self._assuring.cancel()
            self._assuring = None

    def _follow(self, message: Follow) -> None:
        if self._is_following:
            raise ProtocolError("unexpected", "a second subscription arrived")
        self._is_following = True
        self.clients.follow(self, message)

    def _refuse_unbounded(self, message: Execute) -> NoReturn:
        """Raise the error for operations that exceed a bound."""
        if not 0 <= message.acknowledged < message.first < _LARGEST_NUMBER:
            reason = f"{message.acknowledged} cannot be acknowledged with an operation {message.first}"
            raise ProtocolError("numbers", reason)
        if len(message.requests) > self._limits.requests:
            reason = f"a message has {len(message.requests)} operations, at most {self._limits.requests} are allowed"
            raise ProtocolError("too-many-operations", reason)
        reason = f"more than {self._limits.outstanding} operations are not acknowledged"
        raise ProtocolError("too-many-outstanding", reason)

    def _greet(self, message: ClientMessage) -> None:
        if type(message) is not Hello:
            raise ProtocolError("no-hello", "the first message must be a greeting")
        if len(message.client) > MAX_CLIENT_NAME:
            raise ProtocolError("name", f"the name of a client has at most {MAX_CLIENT_NAME} characters")
        if message.version != VERSION:
            raise ProtocolError(
                "version", f"the client speaks version {message.version}, this process supports version {VERSION}"
            )
        if not hmac.compare_digest(message.token.encode(), self._token.encode()):
            raise ProtocolError("token", "the token is not valid")
        self._reader.limit = self._limits.frame
        if message.is_reader:
            self.clients = self._readers
        self.session, answer = self.clients.welcome(self, message)
        if self._greeting is not None:
            self._greeting.cancel()
        if answer is not None:
            self.send(frame(answer))
            self.close()

    def _refuse(self, error: ProtocolError) -> None:
        self._backlog.clear()
        self.send(frame(Refused(error.problem, error.reason)))
        self.close()

    def send(self, data: bytes) -> None:
        """Send a frame, or disconnect a client that has too much to read."""
        transport = self._output
        if transport is None:
            return
        if len(data) > _PIECE or self._pieces:
            self._send_in_pieces(data)
        else:
            transport.write(data)
        if self._is_unread and self._unread(transport) > self._limits.unread + self._largest:
            self.abort()

    def _unread(self, transport: asyncio.Transport) -> int:
        """Return the number of bytes that the client has not read."""
        return transport.get_write_buffer_size() + self._waiting

    @property
    def is_behind(self) -> bool:
        """True if further changes should wait until the client has read those before.

        Then `Clients.follow_on` is called.
        """
        transport = self._output
        if transport is None or not self._is_unread:
            return False
        return self._unread(transport) > self._limits.unread // _PART_FOR_CHANGES

    def _send_in_pieces(self, data: bytes) -> None:
        """Send a frame as fast as the client reads it. The loop would stop while the transport copies a large one."""
        self._largest = max(self._largest, len(data))
        self._waiting += len(data)
        view = memoryview(data)
        self._pieces.extend(view[start : start + _PIECE] for start in range(0, len(data), _PIECE))
        self._send_pieces()

    def _send_pieces(self, *, at_once: bool = False) -> None:
        transport, pieces = self._transport, self._pieces
        while transport is not None and pieces and (at_once or not self._is_unread):
            piece = pieces.popleft()
            self._waiting -= len(piece)
            transport.write(piece)

    def abort(self) -> None:
        """End the connection at once; called only after it was made."""
        self._is_ended, self._output = True, None
        if self._transport is not None:
            self._transport.abort()

    def close(self) -> None:
        """Execute nothing more, and close the connection after everything was sent, or soon in any case."""
        self._backlog.clear()
        if self._transport is not None and not self._transport.is_closing():
            self._send_pieces(at_once=True)
            self._output = None
            self._transport.close()
            self._closing = asyncio.get_running_loop().call_later(self._limits.hello, self._transport.abort)


def _detect_lost_peer(transport: asyncio.Transport) -> None:
    connection = transport.get_extra_info("socket")
    if connection is None or connection.family == socket.AF_UNIX:
        return
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE:
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
