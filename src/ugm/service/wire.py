"""The messages between a client and the leader, and their frames.

A frame is a length of four bytes and a message in MessagePack. `msgspec` encodes the messages and checks the types of
everything that is decoded. Arguments and results of operations travel as raw MessagePack inside; `ugm.service.codec`
interprets them.

Every operation of a session has a number. A client repeats the operations that were not answered after a reconnect,
with the same numbers, and the leader answers a repeated number without executing it again.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from struct import Struct
from typing import Final, TypeAlias, Union, final

import msgspec

from ugm.service.addresses import Address
from ugm.service.errors import ProtocolError
from ugm.service.status import ServiceStatus

__all__ = [
    "FINAL_REFUSALS",
    "FOLLOW_REFUSALS",
    "MAX_ANSWERS",
    "MAX_ARGUMENTS",
    "MAX_FRAME",
    "SESSION_UNKNOWN",
    "TLS_REFUSED",
    "TOO_FAR_BEHIND",
    "VERSION",
    "Bye",
    "ChangeMessage",
    "ClientMessage",
    "DenialMessage",
    "Execute",
    "Follow",
    "FrameReader",
    "Hello",
    "LeaderMessage",
    "Moved",
    "OperationRequest",
    "Ping",
    "Pong",
    "Refused",
    "Replies",
    "Reply",
    "Staleness",
    "StandbyReport",
    "StatusMessage",
    "Welcome",
    "decode_client_message",
    "decode_leader_message",
    "frame",
    "tls_refusals",
]

#: The version of the messages. The leader refuses clients with another version.
VERSION: Final = 16
#: The maximum size of a frame of a client in bytes, and of one operation in it.
MAX_FRAME: Final = 8 * 2**20
MAX_ARGUMENTS: Final = MAX_FRAME - 2**20
#: The maximum size of a frame of a leader in bytes: a query may return the whole partition.
MAX_ANSWERS: Final = 2**30

#: The code of a refusal: the session to resume does not exist.
SESSION_UNKNOWN: Final = "session-unknown"
#: The code of a refusal: the changes that a client wants to follow are not available.
TOO_FAR_BEHIND: Final = "too-far-behind"
#: The code of a refusal: the changes that a client wants to follow cannot be read, because the log is damaged.
DAMAGED: Final = "damaged"
#: The codes of refusals that end a subscription.
FOLLOW_REFUSALS: Final = frozenset({TOO_FAR_BEHIND, DAMAGED})
#: The code of a refusal: no encrypted connection is possible, for example because the certificate is not trusted.
TLS_REFUSED: Final = "tls"
#: The codes of refusals that another attempt would get as well.
FINAL_REFUSALS: Final = frozenset({"token", "version", TLS_REFUSED})

_LENGTH: Final = Struct(">I")
_HEADER: Final = _LENGTH.size
_pack_length: Final = _LENGTH.pack
_unpack_length: Final = _LENGTH.unpack_from


@contextmanager
def tls_refusals(address: Address) -> Iterator[None]:
    """Raise the failures of encryption that another attempt would get as well as refusals.

    Raises:
        ProtocolError: the certificate is not trusted, or both sides have no version of TLS in common.
    """
    try:
        yield
    except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
        # The connection was lost during the handshake.
        raise
    except ssl.SSLError as error:
        # Its first argument is a number of OpenSSL.
        reason = getattr(error, "verify_message", "") or error.reason or str(error)
        raise ProtocolError(TLS_REFUSED, f"no encrypted connection to {address}: {reason}") from error


class Hello(msgspec.Struct, tag=0, array_like=True):
    """The first message of a client.

    Attributes:
        version: `VERSION`.
        client: the name of the client, for people.
        token: the secret that allows the client to connect; empty for none.
        session: the session to resume; empty for a new one.
        after: with a session to resume: the last number that was answered.
        is_reader: whether the client only makes queries, and accepts a state that is not the newest. It has no session.
    """

    version: int
    client: str
    token: str
    session: str
    after: int
    is_reader: bool = False


class OperationRequest(msgspec.Struct, array_like=True, gc=False):
    """One operation with its encoded arguments."""

    operation: int
    arguments: msgspec.Raw


class Execute(msgspec.Struct, tag=1, array_like=True):
    """Operations to execute in this order.

    Attributes:
        first: the number of the first operation; the others follow without gaps.
        acknowledged: the client has received all answers up to this number and never repeats these operations.
        requests: the operations.
    """

    first: int
    acknowledged: int
    requests: list[OperationRequest]


class Follow(msgspec.Struct, tag=2, array_like=True):
    """A subscription to the changes after a number; -1 for all changes from now on.

    Attributes:
        after: the number.
        denials: whether denials are sent, too.
    """

    after: int
    denials: bool = False


class Ping(msgspec.Struct, tag=3, array_like=True):
    """A request for a `Pong`, which shows that the other side is alive."""


class Bye(msgspec.Struct, tag=4, array_like=True):
    """The end of a session, unless it owns allocations. Allocations stay."""


class StandbyReport(msgspec.Struct, tag=5, array_like=True, frozen=True):
    """The position of a standby, over a read-only connection to the leader, which answers with a `StatusMessage`.

    Attributes:
        name: the name of the standby, for people.
        address: where clients reach it.
        change: the number of the last change that it has applied.
        seconds: the age of its state.
    """

    name: str
    address: str
    change: int
    seconds: float


ClientMessage: TypeAlias = Union[Hello, Execute, Follow, Ping, Bye, StandbyReport]  # noqa: UP007 - msgspec reads it at run time


class Welcome(msgspec.Struct, tag=10, array_like=True):
    """The answer to `Hello`.

    Attributes:
        session: the session, new or resumed.
        term: the term of the leader.
        last: the last number that was executed in the session.
    """

    session: str
    term: int
    last: int


class Reply(msgspec.Struct, array_like=True, gc=False):
    """The answer to one operation.

    Attributes:
        number: the number of the operation.
        status: 0 for a result, 1 for an error.
        value: the encoded result or error.
    """

    number: int
    status: int
    value: msgspec.Raw


class Replies(msgspec.Struct, tag=11, array_like=True):
    """Replies, in the order of their numbers unless the operations took different times."""

    answers: list[Reply]


class ChangeMessage(msgspec.Struct, tag=12, array_like=True):
    """A durable change, for a client that follows.

    Attributes:
        number: the number of the change in the log.
        data: the change as it is in the log; see `ugm.journal.change_data`. The first message has no data: it has the
            number after which the changes begin.
    """

    number: int
    data: bytes


class Moved(msgspec.Struct, tag=13, array_like=True):
    """This process does not lead. The address is that of the leader; empty if it is unknown."""

    address: str

    @property
    def reason(self) -> str:
        """Why a client cannot use this process."""
        return "another process leads" if self.address else "it neither leads nor knows the leader"


class Refused(msgspec.Struct, tag=14, array_like=True):
    """The connection is going to be closed for this reason."""

    code: str
    reason: str


class Pong(msgspec.Struct, tag=15, array_like=True):
    """The answer to `Ping`."""


class Staleness(msgspec.Struct, tag=16, array_like=True, frozen=True):
    """The age of the state from which a query was answered; sent to readers before the answer.

    Attributes:
        seconds: the answer has all changes that were acknowledged more than this long before it was sent.
        change: the answer has all changes up to this number in the log.
    """

    seconds: float
    change: int


class StatusMessage(msgspec.Struct, tag=17, array_like=True):
    """The status of the service."""

    status: ServiceStatus


class DenialMessage(msgspec.Struct, tag=18, array_like=True):
    """Denials since the last change, for a client that follows; see `ugm.service.denials`."""

    data: bytes


LeaderMessage: TypeAlias = Union[  # noqa: UP007 - as above
    Welcome, Replies, ChangeMessage, Moved, Refused, Pong, Staleness, StatusMessage, DenialMessage
]

_encode: Final = msgspec.msgpack.Encoder().encode
_decode_client: Final = msgspec.msgpack.Decoder(ClientMessage).decode
_decode_leader: Final = msgspec.msgpack.Decoder(LeaderMessage).decode


def frame(message: ClientMessage | LeaderMessage) -> bytes:
    """Return the frame of a message."""
    data = _encode(message)
    return _pack_length(len(data)) + data


def decode_client_message(data: bytes) -> ClientMessage:
    """Return the message in a frame of a client.

    Raises:
        ProtocolError: the frame holds no such message.
    """
    try:
        message: ClientMessage = _decode_client(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError("malformed", f"a message cannot be decoded: {error}") from error
    return message


def decode_leader_message(data: bytes) -> LeaderMessage:
    """Return the message in a frame of a leader.

    Raises:
        ProtocolError: the frame holds no such message.
    """
    try:
        message: LeaderMessage = _decode_leader(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError("malformed", f"a message cannot be decoded: {error}") from error
    return message


@final
class FrameReader:
    """Splits a stream of bytes into frames.

    Args:
        limit: the maximum size of a frame in bytes.
    """

    __slots__ = ("_buffer", "limit")

    #: The maximum size of a frame in bytes.
    limit: int

    def __init__(self, limit: int = MAX_FRAME) -> None:
        self.limit = limit
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Add received bytes, and return the frames that are complete.

        Raises:
            ProtocolError: a frame is longer than the limit.
        """
        buffer, end = self._buffer, len(data)
        # Nearly always the data are one frame.
        if not buffer and end >= _HEADER and _unpack_length(data)[0] == end - _HEADER <= self.limit:
            return [data[_HEADER:]]
        buffer += data
        frames, start, end = [], 0, len(buffer)
        while end - start >= _HEADER:
            [length] = _unpack_length(buffer, start)
            if length > self.limit:
                raise ProtocolError("frame-too-large", f"a frame has {length} bytes, at most {self.limit} are allowed")
            begin = start + _HEADER
            if end - begin < length:
                break
            start = begin + length
            frames.append(bytes(buffer[begin:start]))
        del buffer[:start]
        return frames
