"""Frames and messages between clients and the leader."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from ugm.service.errors import ProtocolError
from ugm.service.wire import (
    Execute,
    FrameReader,
    Hello,
    OperationRequest,
    Ping,
    Replies,
    Reply,
    decode_client_message,
    decode_leader_message,
    frame,
)


def parts(data: bytes, sizes: list[int]) -> list[bytes]:
    """Return the data cut into pieces."""
    pieces, start = [], 0
    for size in sizes:
        pieces.append(data[start : start + size])
        start += size
    return [*pieces, data[start:]]


@given(st.lists(st.binary(max_size=50)), st.lists(st.integers(1, 60)))
def test_frames_arrive_in_any_pieces(contents: list[bytes], sizes: list[int]) -> None:
    """The frames that are read are those that were written, however the stream is cut."""
    stream = b"".join(len(each).to_bytes(4, "big") + each for each in contents)
    reader = FrameReader()
    assert [each for piece in parts(stream, sizes) for each in reader.feed(piece)] == contents


def test_large_frames_are_refused_before_they_arrive() -> None:
    """The length alone is enough to refuse a frame."""
    reader = FrameReader(limit=10)
    assert list(reader.feed(b"\x00\x00\x00\x0a" + b"x" * 10)) == [b"x" * 10]
    with pytest.raises(ProtocolError, match="11 bytes, at most 10") as caught:
        list(reader.feed(b"\x00\x00\x00\x0b"))
    assert caught.value.problem == "frame-too-large"


def test_messages_survive() -> None:
    """A message is decoded to what was encoded."""
    do = Execute(7, 3, [OperationRequest(1, Raw(b"\x01")), OperationRequest(2, Raw(b"\xc0"))])
    [data] = FrameReader().feed(frame(do))
    again = decode_client_message(data)
    assert isinstance(again, Execute)
    assert (again.first, again.acknowledged) == (7, 3)
    assert [(each.operation, bytes(each.arguments)) for each in again.requests] == [(1, b"\x01"), (2, b"\xc0")]
    [data] = FrameReader().feed(frame(Replies([Reply(7, 0, Raw(b"\x01"))])))
    assert isinstance(decode_leader_message(data), Replies)


@pytest.mark.parametrize(
    "data", [b"", b"\x00", b"\xff" * 20, b"\x92\x63\x01", frame(Hello(1, "", "", "", 0))[4:-1], b"\x91\x0b"]
)
def test_malformed_messages(data: bytes) -> None:
    """Anything else is a protocol error."""
    with pytest.raises(ProtocolError):
        decode_client_message(data)


@given(st.binary(max_size=100))
def test_any_bytes(data: bytes) -> None:
    """Any bytes are a message or a protocol error."""
    for decode in (decode_client_message, decode_leader_message):
        with suppress(ProtocolError):
            decode(data)


def test_messages_of_a_leader_are_not_those_of_a_client() -> None:
    """The two directions have different messages."""
    [data] = FrameReader().feed(frame(Ping()))
    with pytest.raises(ProtocolError):
        decode_leader_message(data)
