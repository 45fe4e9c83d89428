"""The socket of a blocking client: nothing is sent in clear text while an encrypted connection ends."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from threading import Thread
from time import monotonic
from typing import Any, Final

import pytest

from support.certificates import Certificate, certificate, encrypted
from support.locks import is_locked
from support.partition_fixtures import SUE, memory
from ugm.service.addresses import Address
from ugm.service.client_socket import ClientSocket
from ugm.service.wire import Ping, frame

__all__ = ["certificate"]

#: How long a thread gets to send while the connection ends, in seconds.
_MOMENT: Final = 0.1


@pytest.fixture(name="connection")
def _connection(certificate: Certificate) -> Iterator[ClientSocket]:
    with certificate.running() as service:
        address, deadline = Address.parse(encrypted(service)), monotonic() + 20
        with closing(ClientSocket(address, certificate.of_client(), deadline, 0)) as connection:
            yield connection


@pytest.fixture(name="clear_text")
def _clear_text(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Return what is sent without encryption from now on."""
    sent: list[bytes] = []
    send = socket.socket.send

    def note(self: socket.socket, data: bytes, flags: int = 0) -> int:
        if isinstance(self, ssl.SSLSocket) and self.fileno() >= 0:
            sent.append(data)
        return send(self, data, flags)

    monkeypatch.setattr(socket.socket, "send", note)
    return sent


def send(connection: ClientSocket) -> None:
    """Send something, as another thread does."""
    with suppress(OSError):
        connection.send(frame(Ping()))


def meanwhile(monkeypatch: pytest.MonkeyPatch, name: str, action: Callable[[], object]) -> None:
    """Do something before a plain socket does what the encrypted one has begun."""
    method: Callable[..., Any] = getattr(socket.socket, name)

    def replaced(self: socket.socket, *arguments: Any) -> None:  # noqa: ANN401 - as the method
        if isinstance(self, ssl.SSLSocket):
            action()
        method(self, *arguments)

    monkeypatch.setattr(socket.socket, name, replaced)


def test_abort_keeps_the_encryption(
    connection: ClientSocket, clear_text: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What another thread sends while a connection is aborted is encrypted, and sending fails afterwards."""
    meanwhile(monkeypatch, "shutdown", lambda: send(connection))
    connection.abort()
    with pytest.raises((ssl.SSLError, ConnectionError)):
        connection.send(frame(Ping()))
    assert clear_text == []


def test_close_waits_for_senders(
    connection: ClientSocket, clear_text: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What another thread sends while a connection is closed is not sent."""
    senders: list[Thread] = []

    def send_in_thread() -> None:
        senders.append(Thread(target=send, args=(connection,)))
        senders[-1].start()
        senders[-1].join(_MOMENT)

    meanwhile(monkeypatch, "_real_close", send_in_thread)
    connection.close()
    for sender in senders:
        sender.join()
    assert senders
    assert clear_text == []


def test_interrupted_close(connection: ClientSocket, clear_text: list[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    """After an interruption that keeps the descriptor open, nothing arrives at the leader, and no lock is held."""

    def interrupt() -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    meanwhile(monkeypatch, "_real_close", interrupt)
    with pytest.raises(KeyboardInterrupt):
        connection.close()
    assert not is_locked(connection._guard)
    # The leader may have reset the connection already.
    with pytest.raises((BrokenPipeError, ConnectionResetError)):
        connection.send(frame(Ping()))
    assert clear_text == []


def test_close_while_a_sender_was_interrupted(connection: ClientSocket, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a thread never releases the lock, the connection is closed after a while nevertheless."""
    monkeypatch.setattr("ugm.service.client_socket.PATIENCE", _MOMENT)
    sender = Thread(target=connection._guard.acquire)
    sender.start()
    sender.join()
    connection.close()
    with pytest.raises(ValueError, match="file descriptor"):
        connection._poll.register(connection._socket)


def test_closed_connection(connection: ClientSocket) -> None:
    """A thread that still has a connection that was closed gets an error, and closing it again does nothing."""
    connection.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        connection.send(frame(Ping()))


@pytest.mark.parametrize(("count", "bound"), [(10, None), (10, 3), (1, None), (0, None)])
def test_records_are_received_at_once(
    connection: ClientSocket, monkeypatch: pytest.MonkeyPatch, count: int, bound: int | None
) -> None:
    """All records that have arrived are received at once, up to a bound, and then the end of the connection."""
    records = iter([bytes([number]) * 5 for number in range(count)] + [b""] * 2)
    monkeypatch.setattr(ssl.SSLSocket, "recv", lambda *_: next(records))
    monkeypatch.setattr(ClientSocket, "_has_input", lambda *_: True)
    if bound is not None:
        monkeypatch.setattr("ugm.service.client_socket._RECORDS", bound)
    expected = b"".join(bytes([number]) * 5 for number in range(bound or count))
    assert connection._receive_records() == expected
    assert bound or connection._receive_records() == b""


@pytest.mark.parametrize("error", [ssl.SSLWantReadError(), ssl.SSLError("wrong version number")])
def test_records_that_are_not_complete(
    connection: ClientSocket, monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    """The records before one that is broken, or has not arrived completely, are received."""
    results: Iterator[bytes | OSError] = iter([b"first", error])

    def receive(*_: object) -> bytes:
        result = next(results)
        if isinstance(result, bytes):
            return result
        raise result

    monkeypatch.setattr(ssl.SSLSocket, "recv", receive)
    monkeypatch.setattr(ClientSocket, "_has_input", lambda *_: True)
    assert connection._receive_records() == b"first"


def test_promises(certificate: Certificate) -> None:
    """Many promised calls, large and small, get their own answers."""
    with certificate.running() as service, certificate.connected(encrypted(service)) as partition:
        assert partition.submit("app", SUE, "root.a")
        names = [f"{number}-{'n' * (number % 3 * 100)}" for number in range(600)]
        futures = [partition.promise(partition.allocate, name, "app", memory(0)) for name in names]
        assert all(future.result(timeout=60).allowed for future in futures)
        assert sorted(partition.allocation_ids()) == sorted(names)
