"""The messages between a client and a service: lines of JSON.

Each line is an array whose first item is the name of the message. A receiver ignores further items at the end, and
unknown names in objects, so a neighbouring version may add some. ``docs/reference/service-protocol.json`` describes
them for programs in other languages.

Every operation of a session has a number. A client repeats the operations that were not answered after a reconnect,
with the same numbers, and the leader does not execute a repeated change again.
"""

from __future__ import annotations

from typing import Final, TypeAlias, Union, final

import msgspec

from ugm.service.errors import ProtocolError

__all__ = [
    "MAX_ANSWERS",
    "MAX_LINE",
    "OLDEST_VERSION",
    "VERSION",
    "Bye",
    "Call",
    "ChangeMessage",
    "ClientMessage",
    "ErrorMessage",
    "Follow",
    "Hello",
    "LineReader",
    "Moved",
    "Ping",
    "Pong",
    "Refused",
    "Result",
    "ServiceMessage",
    "Staleness",
    "Welcome",
    "decode_client_lines",
    "decode_service_lines",
    "line",
]

#: The newest and the oldest version of the messages that this package understands.
VERSION: Final = 1
OLDEST_VERSION: Final = 1
#: The maximum size of a line of a client in bytes, and of one of a service: a query may return the whole partition.
MAX_LINE: Final = 8 * 2**20
MAX_ANSWERS: Final = 2**30


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


class Ping(msgspec.Struct, tag="ping", array_like=True):
    """A request for a `Pong`, which shows that the other side is alive."""


class Bye(msgspec.Struct, tag="bye", array_like=True):
    """The end of a session, which is forgotten unless it owns allocations. Allocations stay."""


ClientMessage: TypeAlias = Union[Hello, Call, Follow, Ping, Bye]  # noqa: UP007 - msgspec reads it at run time


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


class Moved(msgspec.Struct, tag="moved", array_like=True):
    """This process does not lead.

    Attributes:
        address: that of the leader; empty if it is unknown.
    """

    address: str


class Refused(msgspec.Struct, tag="refused", array_like=True):
    """The connection is going to be closed.

    Attributes:
        code: ``version``, ``token``, ``session-unknown``, ``too-many-sessions``, ``too-far-behind`` or ``malformed``.
        reason: the reason, for people.
    """

    code: str
    reason: str


class Pong(msgspec.Struct, tag="pong", array_like=True):
    """The answer to `Ping`."""


ServiceMessage: TypeAlias = Union[  # noqa: UP007 - as above
    Welcome, Result, ErrorMessage, Age, ChangeMessage, Moved, Refused, Pong
]

_encode: Final = msgspec.json.Encoder().encode
_decode_client: Final = msgspec.json.Decoder(ClientMessage).decode_lines
_decode_service: Final = msgspec.json.Decoder(ServiceMessage).decode_lines


def line(message: ClientMessage | ServiceMessage) -> bytes:
    """Return the line of a message."""
    return _encode(message) + b"\n"


def decode_client_lines(data: bytes) -> list[ClientMessage]:
    """Return the messages in complete lines of a client.

    Raises:
        ProtocolError: a line is no such message.
    """
    try:
        messages: list[ClientMessage] = _decode_client(data)
    except (ValueError, RecursionError) as error:
        raise ProtocolError("malformed", f"a message cannot be decoded: {error}") from error
    return messages


def decode_service_lines(data: bytes) -> list[ServiceMessage]:
    """Return the messages in complete lines of a service.

    Raises:
        ProtocolError: a line is no such message.
    """
    try:
        messages: list[ServiceMessage] = _decode_service(data)
    except (ValueError, RecursionError) as error:
        raise ProtocolError("malformed", f"a message cannot be decoded: {error}") from error
    return messages


@final
class LineReader:
    """Splits a stream of bytes after complete lines.

    Args:
        limit: the maximum size of a line in bytes.
    """

    __slots__ = ("_limit", "_rest")

    def __init__(self, limit: int) -> None:
        self._limit: Final = limit
        self._rest = bytearray()

    def feed(self, data: bytes) -> bytes:
        """Add received bytes, and return all complete lines.

        Raises:
            ProtocolError: a line is longer than the limit.
        """
        end = data.rfind(b"\n") + 1
        if not end:
            self._rest += data
            if len(self._rest) > self._limit:
                raise ProtocolError("line-too-long", f"a line has more than {self._limit} bytes")
            return b""
        lines = bytes(self._rest) + data[:end] if self._rest else data[:end]
        self._rest = bytearray(data[end:])
        return lines
