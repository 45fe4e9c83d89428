"""Connections whose clients keep the server waiting, and how long and how many of them it tolerates.

A client can open a connection and send half a request, or a body byte by byte, or not read its answer. Each of these
costs the client nothing and the server a connection; a thousand of them would shut out everybody else. uvicorn has a
time limit for idle connections only, and counts all connections alike. So every connection is in one of four phases:

- *head*: idle, or a request line and headers are incomplete;
- *body*: the body is incomplete;
- *work*: the request is complete, and the server is answering;
- *answer*: the client does not read what was written.

In every phase but *work* the server waits for the client. Each has a time limit, which starts with the phase and is not
extended by a byte now and then. At most a fixed number of connections may wait; beyond it, the client with the most of
them loses the one that has waited longest. A client who sends a whole request at once is in *work* before that.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final, Literal, NamedTuple, TypeAlias, final

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

__all__ = ["ConnectionTimeouts", "WaitingConnections", "protocol_class"]

_Phase: TypeAlias = Literal["head", "body", "work", "answer"]

_TOO_SLOW: Final = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class ConnectionTimeouts(NamedTuple):
    """How long a connection may be in each phase, in seconds."""

    head: float = 10.0
    body: float = 20.0
    answer: float = 30.0


@final
class WaitingConnections:
    """The connections that wait for their clients.

    Args:
        most: how many there may be.
    """

    __slots__ = ("_by_client", "_count", "_most")

    #: By the address of the client, the one that has waited longest first.
    _by_client: dict[str, dict[_Connection, None]]

    def __init__(self, most: int) -> None:
        self._most: Final = most
        self._by_client = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, client: str, connection: _Connection) -> None:
        """Add a connection, and close another one if there are too many."""
        self._by_client.setdefault(client, {})[connection] = None
        self._count += 1
        if self._count > self._most:
            most = max(self._by_client, key=lambda name: len(self._by_client[name]))
            oldest = next(iter(self._by_client[most]))
            self.remove(most, oldest)
            oldest.abort()

    def remove(self, client: str, connection: _Connection) -> None:
        """Remove a connection, if it is there."""
        connections = self._by_client.get(client, {})
        if connection not in connections:
            return
        del connections[connection]
        self._count -= 1
        if not connections:
            del self._by_client[client]


class _Connection(H11Protocol):
    """A connection that knows its phase."""

    waiting: WaitingConnections
    patience: ConnectionTimeouts

    _phase: _Phase | None = None
    _timer: asyncio.TimerHandle | None = None
    #: Whether the client does not read what was written.
    _is_unread: bool = False
    #: Whether the connection is closed.
    _is_over: bool = False

    @property
    def _client(self) -> str:
        return self.client[0] if self.client else ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        self._follow()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._follow()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._follow()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._is_unread = True
        self._follow()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._is_unread = False
        self._follow()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_over = True
        self._leave()
        super().connection_lost(exc)

    def abort(self) -> None:
        """Close the connection at once, also if something is left to be written."""
        self._leave()
        self.transport.abort()

    def _follow(self) -> None:
        """Notice that the phase has changed."""
        phase = self._current()
        if phase != self._phase and not self._is_over:
            self._enter(phase)

    def _enter(self, phase: _Phase) -> None:
        self._leave()
        self._phase = phase
        if phase != "work":
            self._timer = self.loop.call_later(getattr(self.patience, phase), self._give_up)
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

    def _give_up(self) -> None:
        if self._phase == "head" and self.conn.trailing_data[0]:
            self.transport.write(_TOO_SLOW)
            self._leave()
            self.transport.close()
        else:
            self.abort()


def protocol_class(most_waiting: int, patience: ConnectionTimeouts) -> type[Any]:
    """Return the protocol of the connections of one server, for uvicorn."""

    class Connection(_Connection):
        waiting = WaitingConnections(most_waiting)

    Connection.patience = patience
    return Connection
