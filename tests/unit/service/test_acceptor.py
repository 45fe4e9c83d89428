"""Accepting clients.

TLS handshakes that fail or never end take no room from clients, and no time from the end of a service. Clients for
which there is no file descriptor take no time from others.
"""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Event
from time import monotonic, sleep
from typing import Any, NoReturn

import pytest

from support.certificates import Certificate, certificate, encrypted
from support.logs import own_records
from support.partition_fixtures import memory
from support.service_fixtures import RawClient, eventually, running, started
from ugm.service import Service, ServiceSettings
from ugm.service.acceptor import Acceptor
from ugm.service.addresses import Address
from ugm.service.listener import Listener
from ugm.service.server_connection import ClientLimits
from ugm.service.wire import Refused, Welcome

__all__ = ["certificate"]

#: The first bytes of clients that do not speak TLS.
FOREIGN = (b"", b"GET / HTTP/1.0\r\n\r\n")


def limited(connections: int, hello: float = 60.0) -> ServiceSettings:
    """Return settings with bounds for clients."""
    return ServiceSettings(limits=ClientLimits(connections=connections, hello=hello))


def opened(service: Service) -> socket.socket:
    """Return a socket that is connected to a service, and says nothing."""
    return socket.create_connection(("127.0.0.1", service.addresses[0].port), timeout=20)


def is_closed(client: socket.socket) -> bool:
    """Wait until the service sends something or closes a connection, and return whether it is closed."""
    with suppress(ConnectionError):
        return client.recv(1) == b""
    return True


@contextmanager
def stalled(service: Service, count: int) -> Iterator[list[socket.socket]]:
    """Keep handshakes in progress."""
    with ExitStack() as stack:
        clients = [stack.enter_context(opened(service)) for _ in range(count)]
        eventually(lambda: service._listener.connections == count)
        yield clients


def test_failed_handshakes_take_no_room(certificate: Certificate) -> None:
    """Clients that give up, speak another protocol or trust other certificates leave nothing behind."""
    with certificate.running(limited(2)) as service:
        for turn in range(6):
            with opened(service) as client:
                client.sendall(FOREIGN[turn % 2])
        with pytest.raises(ssl.SSLError), opened(service) as client:
            ssl.create_default_context().wrap_socket(client, server_hostname="localhost")
        eventually(lambda: service._listener.connections == 0)
        with certificate.connected(encrypted(service)) as partition:
            assert partition.allocation_ids() == ()


def test_stalled_handshakes_end(certificate: Certificate) -> None:
    """A handshake ends after the time for a greeting."""
    with certificate.running(limited(2, hello=0.2)) as service, stalled(service, 2) as clients:
        assert all(map(is_closed, clients))
        eventually(lambda: service._listener.connections == 0)


def test_handshakes_are_bounded(certificate: Certificate) -> None:
    """Handshakes count as connections. A client for which there is no room is disconnected at once."""
    with certificate.running(limited(2)) as service:
        with stalled(service, 2) as clients, opened(service) as further:
            assert is_closed(further)
            assert service._listener.connections == 2
            clients.pop().close()
            eventually(lambda: service._listener.connections == 1)
            with certificate.connected(encrypted(service)) as partition:
                assert partition.allocation_ids() == ()
                assert service._listener.connections == 2
        eventually(lambda: service._listener.connections == 0)


def test_service_ends_during_handshakes(certificate: Certificate) -> None:
    """A service that ends waits for no handshake, and ends all of them."""
    with certificate.running(limited(4)) as service, stalled(service, 3) as clients:
        began = monotonic()
        service.stop()
        assert monotonic() - began < 20
        assert all(map(is_closed, clients))


def test_handshake_during_an_election(certificate: Certificate) -> None:
    """A connection is served by the process that leads when its handshake ends."""
    with certificate.running() as service, stalled(service, 1) as [client]:
        listener = service._listener
        leader, listener.clients = listener.clients, service._standby
        with certificate.of_client().wrap_socket(client, server_hostname="localhost"):
            eventually(lambda: listener._connections)
            [connection] = listener._connections
            assert connection.clients is service._standby
            listener.clients = leader


def test_address_that_is_in_use(certificate: Certificate) -> None:
    """A service that cannot use one of its addresses leaves no socket open."""
    with certificate.running() as service:
        address = f"tls://127.0.0.1:0,tls://127.0.0.1:{service.addresses[0].port}"
        other = Service(None, address, security=service._security)
        with pytest.raises(OSError, match="in use"):
            other.start()


def test_listener_that_fails_halfway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If one address cannot be used, the clients and the sockets of the others are closed."""
    path = tmp_path / "s"
    unused: Any = None
    addresses = Address.parse(f"unix:{path}"), Address.parse("tcp://localhost:1")
    listener = Listener(unused, unused, addresses, token="", tls=None, limits=ClientLimits())
    open_one, clients = listener._open, []

    async def open_or_fail(address: Address) -> Address:
        if address.path:
            return await open_one(address)
        clients.append(await asyncio.open_unix_connection(path))
        for _ in range(20):
            await asyncio.sleep(0)
        assert listener.connections == 1
        raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))

    async def work() -> None:
        with pytest.raises(OSError, match="in use"):
            await listener.open()
        [(reader, writer)] = clients
        assert await asyncio.wait_for(reader.read(), 20) == b""
        writer.close()

    monkeypatch.setattr(listener, "_open", open_or_fail)
    asyncio.run(work())
    assert not path.exists()


class Exhausted(socket.socket):
    """A socket of a system without descriptors."""

    attempts = 0
    third: asyncio.Event

    def accept(self) -> NoReturn:
        """Fail."""
        self.attempts += 1
        if self.attempts == 3:
            self.third.set()
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def new_acceptor() -> Acceptor:
    """Return an acceptor to which no client may connect."""
    return Acceptor(1, lambda: True, lambda: pytest.fail("nothing is accepted"))


def test_no_descriptors(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """If the system has no descriptor for a client, the acceptor says so, pauses, and tries it once again."""

    async def work() -> None:
        acceptor = new_acceptor()
        with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()[:2]):
            listening = Exhausted(fileno=server.detach())
            listening.third = asyncio.Event()
            acceptor.listen([listening], None)
            await asyncio.wait_for(listening.third.wait(), 20)
            acceptor.stop_accepting()
            await asyncio.sleep(0.02)
            assert listening.attempts == 3

    monkeypatch.setattr("ugm.service.acceptor._PAUSE", 0.01)
    asyncio.run(work())
    assert len(own_records(caplog)) == 3


@contextmanager
def few_descriptors(count: int) -> Iterator[None]:
    """Let this process have only a number of descriptors more than it has."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with Path(os.devnull).open() as opened:
        resource.setrlimit(resource.RLIMIT_NOFILE, (opened.fileno() + count, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_clients_without_descriptors_delay_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Clients leave descriptors for the files of a leader, so the changes of others are committed."""
    monkeypatch.setattr("ugm.service.acceptor._PAUSE", 60)
    with running(tmp_path, journal="j") as service, started(service) as partition, ExitStack() as stack:
        others = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(60)]
        with few_descriptors(40):
            for other in others:
                other.connect(service.addresses[0].path)
            eventually(lambda: own_records(caplog))
            for number in range(40):
                assert partition.allocate(str(number), "app", memory(1))
                sleep(0.005)
            assert service._listener.connections > 10
    assert [record.name for record in own_records(caplog)] == ["ugm.service.acceptor"]


def test_clients_that_connect_at_once(tmp_path: Path) -> None:
    """Of clients that connect at the same moment, as many are served as there is room for."""
    with running(tmp_path, settings=limited(3)) as service, ExitStack() as stack:
        assert service._loop is not None
        is_released = Event()
        service._loop.call_soon_threadsafe(is_released.wait)
        clients = [stack.enter_context(RawClient(service)) for _ in range(6)]
        is_released.set()
        answers = [type(client.receive() if client in clients[3:] else client.greet()) for client in clients]
    assert answers == [Welcome] * 3 + [Refused] * 3


def test_client_that_is_gone() -> None:
    """A client that is gone before it is accepted changes nothing."""
    acceptor = new_acceptor()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0)
        assert not acceptor._accept(listening, None)
    assert acceptor.connecting == 0
