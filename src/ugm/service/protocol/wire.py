"""The messages between a client and a service: lines of JSON.

Each line is an array whose first item is the name of the message. No text of a client contains the character NUL, which
databases cannot store. A receiver ignores further items at the end, and unknown names in objects, so a neighbouring
version may add some. ``docs/reference/service-protocol.json`` describes them for programs in other languages.

Every operation of a session has a number. A client repeats the operations that were not answered after a reconnect,
with the same numbers, and the leader does not execute a repeated change again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import Final, Generic, TypeAlias, TypeVar, Union, cast

import msgspec

from ugm.service.errors import ProtocolError
from ugm.store.row_tables import has_nul

_M = TypeVar("_M")

#: The newest and the oldest version of the messages that this package understands.
VERSION: Final = 1
OLDEST_VERSION: Final = 1
#: The maximum size of a line of a client in bytes, and of one of a service: a query may return the whole partition.
MAX_LINE: Final = 8 * 2**20
MAX_ANSWERS: Final = 2**30
#: The code of `Refused` of a process that does not know a leader, because it cannot use the store.
STORE_UNAVAILABLE: Final = "store-unavailable"


class Hello(msgspec.Struct, tag="hello", array_like=True):
    """The first message of a client.

    Attributes:
        oldest: the oldest version that the client understands.
        newest: the newest one. The service chooses the newest version that both understand.
        client: the name of the client, for people.
        token: the secret of the client; empty for none.
        session: the session to resume; empty for a new one.
        is_reader: whether the client only makes queries, and accepts a state that is not the newest. It has no session.
    """

    oldest: int
    newest: int
    client: str = ""
    token: str = ""
    session: str = ""
    is_reader: bool = False


class Call(msgspec.Struct, tag="call", array_like=True, gc=False):
    """An operation to execute.

    Attributes:
        number: its number; each operation of a session has the next one.
        acknowledged: the client never repeats an operation up to this number.
        operation: its name.
        arguments: its arguments, as an object with the names of the parameters.
    """

    number: int
    acknowledged: int
    operation: str
    arguments: msgspec.Raw


class Follow(msgspec.Struct, tag="follow", array_like=True):
    """A request for all changes after a number.

    Attributes:
        after: the number; -1 for the last change.
    """

    after: int


class Wait(msgspec.Struct, tag="wait", array_like=True):
    """A request for one `Woken`, as soon as pending requests may start."""


class Ping(msgspec.Struct, tag="ping", array_like=True):
    """A request for a `Pong`, which shows that the other side is alive."""


class Bye(msgspec.Struct, tag="bye", array_like=True):
    """The end of a session, which is forgotten unless it owns allocations. Allocations stay."""


ClientMessage: TypeAlias = Union[Hello, Call, Follow, Wait, Ping, Bye]  # noqa: UP007 - msgspec reads it at run time


class Welcome(msgspec.Struct, tag="welcome", array_like=True):
    """The answer to `Hello`.

    Attributes:
        version: the version of all further messages.
        session: the session, new or resumed; empty for a reader.
        term: the term of the leader.
    """

    version: int
    session: str
    term: int = 0


class Staleness(msgspec.Struct, array_like=True, frozen=True):
    """The age of the state from which a query was answered.

    Attributes:
        seconds: the answer has all changes that were acknowledged more than this long before it was sent.
        change: the answer has all changes up to this number.
    """

    seconds: float
    change: int


class Result(msgspec.Struct, tag="result", array_like=True, gc=False):
    """The result of an operation.

    Attributes:
        number: the number of the operation.
        value: the result.
        special: for exceeded limits of quota models in the result: their position among all exceeded limits of the
            result, whether waiting can help, their text, and the next change that helps.
    """

    number: int
    value: msgspec.Raw
    special: list[tuple[int, bool, str, tuple[int, int | None] | None]] = []


class ErrorMessage(msgspec.Struct, tag="error", array_like=True):
    """The error of an operation.

    Attributes:
        number: the number of the operation.
        name: the name of the class of the error.
        arguments: its data. A value that JSON cannot represent is an object with its ``text``.
        code: the code of the error, one of `ugm.errors.ERROR_CODES`.
        text: its text, for people.
    """

    number: int
    name: str
    arguments: msgspec.Raw
    code: str = ""
    text: str = ""


class Age(msgspec.Struct, tag="age", array_like=True):
    """For a reader: the age of the state from which all further operations are answered."""

    staleness: Staleness


class ChangeMessage(msgspec.Struct, tag="change", array_like=True):
    """A durable change, for a client that follows.

    Attributes:
        number: the number of the change.
        changes: the rows that have changed, in the form of the table ``change`` of a store. The first message has none:
            it has the number after which the changes begin.
    """

    number: int
    changes: msgspec.Raw


class Woken(msgspec.Struct, tag="woken", array_like=True):
    """Pending requests that may start: those of the session, and those whose owner does not wait.

    Attributes:
        requests: the requests, each an array of the properties that `allocate` has.
    """

    requests: msgspec.Raw


class Moved(msgspec.Struct, tag="moved", array_like=True):
    """This process does not lead.

    Attributes:
        address: that of the leader; empty if it is unknown.
    """

    address: str


class Refused(msgspec.Struct, tag="refused", array_like=True):
    """The connection is going to be closed.

    Attributes:
        code: ``version``, ``token``, ``session-unknown``, ``too-many-sessions``, ``too-far-behind``,
            ``store-unavailable`` or ``malformed``.
        reason: the reason, for people.
    """

    code: str
    reason: str


class Pong(msgspec.Struct, tag="pong", array_like=True):
    """The answer to `Ping`."""


ServiceMessage: TypeAlias = Union[  # noqa: UP007 - as above
    Welcome, Result, ErrorMessage, Age, ChangeMessage, Woken, Moved, Refused, Pong
]

#: The number of lines that do not wait for others, so that the other side handles them while this one makes more.
_GROUP: Final = 16
#: The maximum number of bytes of one read.
_READ_SIZE: Final = 1 << 15

_encode: Final = msgspec.json.Encoder().encode
_decode_client_lines: Final[Callable[[bytes], list[ClientMessage]]] = msgspec.json.Decoder(ClientMessage).decode_lines
#: Returns the messages in complete lines.
decode_service_lines: Final[Callable[[bytes], list[ServiceMessage]]] = msgspec.json.Decoder(ServiceMessage).decode_lines


def decode_client_lines(data: bytes) -> list[ClientMessage]:
    """Return the messages in complete lines.

    Raises:
        ValueError: a line is no message, or a text contains the character NUL.
    """
    if has_nul(data):
        raise ValueError("a text contains the character NUL")
    return _decode_client_lines(data)


def line(message: ClientMessage | ServiceMessage) -> bytes:
    """Return the line of a message."""
    return _encode(message) + b"\n"


class Link(asyncio.BufferedProtocol, Generic[_M]):
    """One end of a connection: receives messages, and sends lines, of which those of one iteration share a write.

    Args:
        decode: returns the messages in complete lines.
        max_line: the maximum size of a received line in bytes.
        max_unread: the number of bytes that the other side has not read when the connection is ended.
        receive: called with the messages of each read.
        lost: called when the connection has ended.
    """

    #: The transport of the connection.
    transport: asyncio.Transport

    def __init__(
        self,
        decode: Callable[[bytes], list[_M]],
        max_line: int,
        max_unread: int,
        receive: Callable[[list[_M]], None],
        lost: Callable[[], None],
    ) -> None:
        self._loop: Final = asyncio.get_running_loop()
        self._decode: Final = decode
        self.max_line: int = max_line
        self._max_unread: Final = max_unread
        self._receive: Final = receive
        self._lost: Final = lost
        #: Without it, each read would allocate 256 KiB, for which the allocator may call the system three times.
        self._buffer: Final = bytearray(_READ_SIZE)
        #: The begin of a line whose end was not received yet.
        self._rest = bytearray()
        #: Lines that are sent together, and whether they answer messages that are being handled.
        self._lines: list[bytes] = []
        self._is_receiving = False
        #: When something was received and handled last, on the monotonic clock.
        self.heard_at: float = monotonic()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note the connection."""
        self.transport = cast("asyncio.Transport", transport)

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - as in the base class
        """Pass the loss on."""
        self._lost()

    def get_buffer(self, sizehint: int) -> bytearray:  # noqa: ARG002 - as in the base class
        """Return the buffer for the next bytes."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Pass complete messages on."""
        data = bytes(memoryview(self._buffer)[:nbytes])
        end = data.rfind(b"\n") + 1
        lines = bytes(self._rest) + data[:end] if end else b""
        self._rest = bytearray(data[end:]) if end else self._rest + data
        if len(self._rest) > self.max_line:
            self.refuse(ProtocolError("line-too-long", f"a line has more than {self.max_line} bytes"))
        elif lines:
            try:
                messages = self._decode(lines)
            except (ValueError, RecursionError) as error:
                self.refuse(ProtocolError("malformed", f"a message cannot be decoded: {error}"))
            else:
                self._is_receiving = True
                try:
                    self._receive(messages)
                finally:
                    self._is_receiving = False
                    self.flush()
        self.heard_at = monotonic()

    def refuse(self, error: ProtocolError) -> None:  # noqa: ARG002 - a service sends it
        """End the connection, because the other side has violated the protocol."""
        self.abort()

    def send(self, data: bytes) -> None:
        """Send a line, together with others of this iteration of the loop, or of the read that is being handled."""
        if not (self._lines or self._is_receiving):
            self._loop.call_soon(self.flush)
        self._lines.append(data)
        if len(self._lines) == _GROUP:
            self.flush()

    def send_now(self, data: bytes) -> None:
        """Send a line at once, after those that wait."""
        self._lines.append(data)
        self.flush()

    def flush(self) -> None:
        """Send everything now."""
        lines, self._lines = self._lines, []
        if not lines or self.transport.is_closing():
            return
        if self.transport.get_write_buffer_size() > self._max_unread:
            self.abort()
        else:
            self.transport.write(b"".join(lines))

    def abort(self) -> None:
        """End the connection at once."""
        self.transport.abort()
