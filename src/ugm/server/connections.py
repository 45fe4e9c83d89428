"""Limits for slow clients: the time that the server waits for one, and the number of waiting connections.

A client can open a connection and send half a request, or send a body byte by byte, or not read the response. This
costs the client nothing, but it occupies a connection of the server; a thousand such connections would lock out all
other clients. uvicorn only has a time limit for idle connections, and its limit on connections does not distinguish
them. Here every connection is in one of four phases:

- *head*: the connection is idle, or the request line and headers are incomplete;
- *body*: the body is incomplete;
- *work*: the request is complete, and the server is creating the response;
- *answer*: the client does not read the response.

In all phases but *work*, the server waits for the client. Each of these phases has a time limit, which single bytes do
not extend. A fixed number of connections may wait. If there are more, the client with the most waiting connections
loses the one that has waited longest. A connection with a complete request is not affected.

A client may close its side of the connection after a complete request, and still reads the response. So the connection
stays open until the response is complete. In the other phases it is closed at once, and an endless stream ends, because
a client that has gone looks the same.

A request whose body has two different ends is invalid, because a proxy may have seen the other end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast, final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

__all__ = ["ConnectionTimeouts", "WaitingConnections", "protocol_class"]

_Phase: TypeAlias = Literal["head", "body", "work", "answer"]

_TOO_SLOW: Final = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class ConnectionTimeouts(NamedTuple):
    """The time limit of each phase, in seconds."""

    head: float = 10.0
    body: float = 20.0
    answer: float = 30.0


@final
class WaitingConnections:
    """The connections that wait for their clients.

    Args:
        most: the largest number of them.
    """

    __slots__ = ("_by_client", "_count", "_most")

    #: By the address of the client; for each client, the connection that has waited longest is first.
    _by_client: dict[str, dict[_Connection, None]]

    def __init__(self, most: int) -> None:
        self._most: Final = most
        self._by_client = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, client: str, connection: _Connection) -> None:
        """Add a connection, and close another one if there are now too many."""
        self._by_client.setdefault(client, {})[connection] = None
        self._count += 1
        if self._count > self._most:
            most = max(self._by_client, key=lambda name: len(self._by_client[name]))
            oldest = next(iter(self._by_client[most]))
            self.remove(most, oldest)
            oldest.abort()

    def remove(self, client: str, connection: _Connection) -> None:
        """Remove a connection, if present."""
        connections = self._by_client.get(client, {})
        if connection not in connections:
            return
        del connections[connection]
        self._count -= 1
        if not connections:
            del self._by_client[client]


class _RequestParser(h11.Connection):
    """Parses the requests of a connection, and rejects those with an ambiguous length of the body."""

    def next_event(self) -> type[h11.NEED_DATA | h11.PAUSED] | h11.Event:
        """Return the next event.

        Raises:
            RemoteProtocolError: the request is invalid.
        """
        event = super().next_event()
        if isinstance(event, h11.Request) and _has_ambiguous_length(event):
            raise h11.RemoteProtocolError("the length of the body is ambiguous")
        return event


def _has_ambiguous_length(request: h11.Request) -> bool:
    """Return whether two recipients may find different ends of a body (RFC 9112, section 6)."""
    names = {name for name, _ in request.headers}
    if b"transfer-encoding" not in names:
        return False
    # HTTP/1.0 has no chunks, so a proxy may forward them as a body that lasts until the connection is closed.
    return b"content-length" in names or request.http_version < b"1.1"


class _Connection(H11Protocol):
    """A connection with a phase."""

    conn: h11.Connection
    waiting: WaitingConnections
    timeouts: ConnectionTimeouts

    _phase: _Phase | None = None
    _timer: asyncio.TimerHandle | None = None
    #: Whether the client does not read the response.
    _is_unread: bool = False
    #: Whether the client has closed its side of the connection.
    _is_half_closed: bool = False
    #: Whether the connection is closed.
    _is_closed: bool = False

    @property
    def _client(self) -> str:
        return self.client[0] if self.client else ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        self.conn = _RequestParser(h11.SERVER)
        self._update_phase()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._update_phase()

    def eof_received(self) -> bool:  # type: ignore[override]  # as in asyncio; uvicorn never keeps a connection
        """Return whether the connection stays open, because the client may still read a response."""
        # A connection with TLS cannot be closed on one side.
        self._is_half_closed = self._is_responding and self.transport.can_write_eof()
        if self._is_half_closed:
            # `ugm.server.dispatch` skips expensive work for clients that have probably gone.
            self._scope["ugm.half-closed"] = True
            self._stop_stream()
        return self._is_half_closed

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._is_half_closed:
            self._go_on_half_closed()
        self._update_phase()

    def _go_on_half_closed(self) -> None:
        """Answer the next request that the client has sent before it closed its side, or close the connection."""
        if self._is_responding:
            self._scope["ugm.half-closed"] = True
        else:
            self.transport.close()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._is_unread = True
        self._update_phase()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._is_unread = False
        self._update_phase()

    def shutdown(self) -> None:
        super().shutdown()
        self._stop_stream()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_closed = True
        self._leave()
        super().connection_lost(exc)

    def abort(self) -> None:
        """Close the connection at once, and drop unsent data."""
        self._leave()
        self.transport.abort()

    @property
    def _is_responding(self) -> bool:
        """True if a complete request has no complete response."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete and not cycle.more_body

    @property
    def _scope(self) -> dict[str, Any]:
        """The scope of the latest request, which the application shares; empty before the first one."""
        cycle: RequestResponseCycle | None = self.cycle
        return {} if cycle is None else cast("dict[str, Any]", cycle.scope)

    def _stop_stream(self) -> None:
        """End a stream of events, which does not end by itself."""
        # Set by `ugm.server.streams`.
        stop: Callable[[], None] | None = self._scope.get("ugm.stop")
        if stop is not None:
            stop()

    def _update_phase(self) -> None:
        """Enter the current phase, if it has changed."""
        phase = self._current()
        if phase != self._phase and not self._is_closed:
            self._enter(phase)

    def _enter(self, phase: _Phase) -> None:
        self._leave()
        self._phase = phase
        if phase != "work":
            self._timer = self.loop.call_later(getattr(self.timeouts, phase), self._time_out)
            self.waiting.add(self._client, self)

    def _current(self) -> _Phase:
        if self._is_unread:
            return "answer"
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None or cycle.response_complete:
            return "head"
        return "body" if cycle.more_body else "work"

    def _leave(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.waiting.remove(self._client, self)

    def _time_out(self) -> None:
        if self._phase == "head" and self.conn.trailing_data[0] and not self.transport.is_closing():
            self.transport.write(_TOO_SLOW)
            # It takes effect only when the client has read everything.
            self.transport.close()
            self._timer = self.loop.call_later(self.timeouts.answer, self.abort)
        else:
            self.abort()


def protocol_class(most_waiting: int, timeouts: ConnectionTimeouts) -> type[asyncio.Protocol]:
    """Return the protocol class for the connections of one server, for uvicorn."""

    class Connection(_Connection):
        waiting = WaitingConnections(most_waiting)

    Connection.timeouts = timeouts
    return Connection
