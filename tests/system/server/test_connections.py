"""Slow clients: incomplete requests, slow bodies, and unread responses."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from typing import Any, Final
from urllib.request import urlopen

import pytest
from uvicorn.server import ServerState

from support import page_server as pages
from support.server_fixtures import CONFIG, DECIDE_SECRET, PREFIX, busy, running, served
from ugm.server import dispatch
from ugm.server.connections import ConnectionTimeouts, WaitingConnections
from ugm.server.dispatch import _payload
from ugm.server.payloads import Payload
from ugm.server.serving import uvicorn_config

pytestmark = pytest.mark.ci

QUICK: Final = ConnectionTimeouts(head=0.5, body=0.5, answer=0.5)
HEAD: Final = b"GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\n"
BODY: Final = (
    b"POST /api/v1/validate-conf HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/yaml\r\n"
    b"Content-Length: 100000\r\n\r\n"
)


@contextmanager
def clients(port: int, count: int, sent: bytes) -> Iterator[list[socket.socket]]:
    """Connect many clients that send the same bytes and then wait."""
    found: list[socket.socket] = []
    try:
        for _ in range(count):
            found.append(socket.create_connection(("127.0.0.1", port), timeout=60))
            found[-1].sendall(sent)
        yield found
    finally:
        for one in found:
            one.close()


def served_at(port: int, path: str = "/api/v1/health") -> float:
    """Return the seconds until a normal client receives its response."""
    started = time.perf_counter()
    with urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
        assert json.load(answer)
    return time.perf_counter() - started


@pytest.mark.parametrize(
    "sent", [b"", b"GET /", HEAD, BODY, BODY + b"x"], ids=["nothing", "line", "head", "body", "part"]
)
def test_many_who_keep_the_server_waiting(sent: bytes) -> None:
    """With 1,200 waiting connections and further ones, other clients are served."""
    with running(served()) as port, clients(port, 1200, sent):
        for _ in range(3):
            assert served_at(port) < 10
            with clients(port, 100, sent):
                assert served_at(port, "/api/v1/partition/default/queues") < 10


def closed_after(connection: socket.socket) -> tuple[float, bytes]:
    """Return the seconds until a connection is closed, and the received bytes."""
    started, answer = time.perf_counter(), b""
    try:
        while part := connection.recv(1 << 16):
            answer += part
    except ConnectionResetError:
        pass
    return time.perf_counter() - started, answer


def test_half_a_request_ends() -> None:
    """A request whose headers are incomplete in time gets an error, and the connection is closed."""
    with running(served(), QUICK) as port, clients(port, 1, HEAD) as (connection,):
        seconds, answer = closed_after(connection)

    assert answer.startswith(b"HTTP/1.1 408 ")
    assert 0.3 < seconds < 20


class _Unread(asyncio.Transport):
    """A transport whose client reads nothing, so that closing it has no effect."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.aborted = asyncio.Event()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Record the status of a response."""
        self.calls.append(bytes(data[9:12]).decode())

    def close(self) -> None:
        """Record the call."""
        self.calls.append("close")

    def is_closing(self) -> bool:
        """Return whether it was closed."""
        return "close" in self.calls

    def abort(self) -> None:
        """Record the call."""
        self.calls.append("abort")
        self.aborted.set()


def test_half_a_request_and_an_unread_answer() -> None:
    """The time limit of answers also applies after the error for a request that is incomplete in time."""

    async def connect() -> list[str]:
        transport, config = _Unread(), uvicorn_config(served(), QUICK)
        config.load()
        connection = config.http_protocol_class(config, ServerState(), {})  # type: ignore[call-arg]  # as uvicorn does
        connection.connection_made(transport)
        connection.data_received(HEAD)
        async with asyncio.timeout(20):
            await transport.aborted.wait()
        return transport.calls

    assert asyncio.run(connect()) == ["408", "close", "abort"]


def test_silence_ends() -> None:
    """An idle connection is closed."""
    with running(served(), QUICK) as port, clients(port, 1, b"") as (connection,):
        assert closed_after(connection)[1] == b""


@pytest.mark.parametrize("sent", [HEAD + b"X: ", BODY], ids=["head", "body"])
def test_trickling_does_not_extend_the_time(sent: bytes) -> None:
    """Single bytes do not keep a connection open."""
    with running(served(), QUICK) as port, clients(port, 1, sent) as (connection,):
        started = time.perf_counter()
        with suppress(OSError):
            while time.perf_counter() - started < 30:
                connection.sendall(b"x")
                time.sleep(0.05)

    assert time.perf_counter() - started < 20


def test_second_request_has_its_own_time() -> None:
    """The second request of a connection has the same time limit as the first."""
    with running(served(), ConnectionTimeouts(head=1.5)) as port:
        connection = HTTPConnection("127.0.0.1", port, timeout=60)
        for _ in range(3):
            connection.request("GET", "/api/v1/health")
            assert connection.getresponse().read()
            time.sleep(0.7)
        connection.sock.sendall(HEAD)

        assert closed_after(connection.sock)[1].startswith(b"HTTP/1.1 408 ")
        connection.close()


def test_an_answer_that_nobody_reads() -> None:
    """A client that does not read a large response loses its connection, and others are served."""
    partition, _ = pages.crowd(1500, 10)
    request = HEAD.replace(b"health", b"partition/default/queues") + b"\r\n"
    with running(served(partition), QUICK) as port, clients(port, 30, request * 20) as connections:
        started = time.perf_counter()
        assert served_at(port) < 30
        while time.perf_counter() - started < 60:
            time.sleep(0.2)
            try:
                connections[0].sendall(request)
            except OSError:
                break
        else:
            pytest.fail("the connection is still open")


@pytest.fixture
def _slow_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Delay every answer, so that the end of the client's data arrives before it."""

    def answer(*arguments: Any) -> Payload:  # noqa: ANN401 - handed on
        time.sleep(0.3)
        return _payload(*arguments)

    monkeypatch.setattr(dispatch, "_payload", answer)


def answer_to_half_closed(port: int, sent: bytes) -> tuple[float, bytes]:
    """Send bytes and half-close the connection, and return the seconds until the server closes it, and the answer."""
    with clients(port, 1, sent) as (connection,):
        connection.shutdown(socket.SHUT_WR)
        return closed_after(connection)


@pytest.mark.usefixtures("_slow_answers")
def test_half_closed_after_requests() -> None:
    """A client that closes its side after its requests gets all responses, and then the connection is closed."""
    body = b'{"allocation_id": "held"}'
    head = (
        f"POST {PREFIX}/release HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {DECIDE_SECRET}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with running(served()) as port:
        _, one = answer_to_half_closed(port, head.encode() + body)
        seconds, three = answer_to_half_closed(port, (head.encode() + body) * 3)

    assert one.endswith(b'{"existed":true}')
    assert three.count(b'{"existed":false}') == 3
    assert seconds < ConnectionTimeouts().head / 2


@pytest.mark.parametrize(
    "sent", [b"", HEAD, HEAD + b"\r\n" + HEAD, BODY, BODY + b"x"], ids=["nothing", "head", "second", "body", "part"]
)
def test_half_closed_within_a_request(sent: bytes) -> None:
    """A client that closes its side while its request is incomplete cannot complete it, so it loses the connection."""
    with running(served()) as port:
        seconds, answer = answer_to_half_closed(port, sent)

    assert seconds < ConnectionTimeouts().head / 2
    assert answer.count(b"HTTP/1.1 ") == sent.count(b"\r\n\r\nGET")


def test_half_closed_stream() -> None:
    """A stream ends when the client closes its side, because a client that has gone looks the same."""
    with running(served()) as port:
        seconds, answer = answer_to_half_closed(port, HEAD.replace(b"health", b"partition/default/stream") + b"\r\n")

    assert answer.endswith(b"\r\n0\r\n\r\n")
    assert seconds < ConnectionTimeouts().head / 2


def test_half_closed_streams() -> None:
    """Streams whose requests were sent before the client closed its side end as well."""
    request = HEAD.replace(b"health", b"partition/default/stream") + b"\r\n"
    with running(served()) as port:
        seconds, answer = answer_to_half_closed(port, request * 2)

    assert answer.count(b"HTTP/1.1 200 ") == answer.count(b"\r\n0\r\n\r\n") == 2
    assert seconds < ConnectionTimeouts().head / 2


def test_half_closed_and_nothing_read() -> None:
    """A client that closes its side and does not read a large response loses its connection in time."""
    partition, _ = pages.crowd(1500, 10)
    request = HEAD.replace(b"health", b"partition/default/queues") + b"\r\n"
    with running(served(partition), QUICK) as port, clients(port, 1, request * 20) as (connection,):
        connection.shutdown(socket.SHUT_WR)
        time.sleep(5)
        _, answer = closed_after(connection)

    assert 0 < answer.count(b"HTTP/1.1 200 ") < 20


@pytest.mark.usefixtures("_slow_answers")
def test_half_closed_before_a_configuration_is_read() -> None:
    """A configuration that waits is skipped if the client closes its side, because it has probably gone."""
    content = CONFIG.encode()
    request = BODY.replace(b"100000", str(len(content)).encode()) + content
    with running(served()) as port, clients(port, 1, request):
        _, answer = answer_to_half_closed(port, request)

    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b'"client-gone"' in answer


class _Fake:
    """A connection that records whether it was closed."""

    def __init__(self) -> None:
        self.is_open = True

    def abort(self) -> None:
        """Close it."""
        self.is_open = False


def test_who_loses_a_connection() -> None:
    """Beyond the bound, the client with the most connections loses the one that has waited longest."""
    waiting = WaitingConnections(3)
    quiet, *many = [_Fake() for _ in range(5)]
    waiting.add("10.0.0.1", quiet)  # type: ignore[arg-type]  # all that is used of a connection
    for one in many:
        waiting.add("10.0.0.2", one)  # type: ignore[arg-type]  # as above

    assert quiet.is_open
    assert [one.is_open for one in many] == [False, False, True, True]
    assert len(waiting) == 3
    waiting.remove("10.0.0.1", quiet)  # type: ignore[arg-type]  # as above
    waiting.remove("10.0.0.1", quiet)  # type: ignore[arg-type]  # as above
    assert len(waiting) == 2


def test_no_websockets() -> None:
    """Other protocols do not circumvent the limits."""
    assert uvicorn_config(served(busy())).ws == "none"
