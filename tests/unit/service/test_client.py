"""Clients of a service: calls, promises, deadlines, reconnection and closing."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from concurrent.futures import CancelledError
from pathlib import Path
from time import monotonic, sleep

import pytest

from support.certificates import Certificate, certificate, encrypted
from support.partition_fixtures import SUE
from support.service_fixtures import CONFIG, eventually, running, started
from ugm import RequestError, Resource
from ugm.service import (
    DeadlineError,
    ProtocolError,
    Security,
    Service,
    Staleness,
    UnavailableError,
    connect,
    connect_async,
)

__all__ = ["certificate"]

UNIT = Resource(memory=1)


@pytest.fixture(name="service")
def _service(tmp_path: Path) -> Iterator[Service]:
    with running(tmp_path) as service:
        yield service


def test_promises(service: Service) -> None:
    """A promise is answered in the order of the calls; one that was cancelled has no answer."""
    with started(service) as partition:
        futures = [partition.promise(partition.allocate, f"a-{number}", "app", UNIT) for number in range(500)]
        assert all(future.result() for future in futures)
        assert len(partition.promise(partition.allocation_ids).result()) == 500
        cancelled = partition.promise(partition.release, "a-0")
        if cancelled.cancel():
            with pytest.raises(CancelledError):
                cancelled.result()
        with pytest.raises(RequestError, match="expected a method"):
            partition.promise(partition.wake)
        with pytest.raises(RequestError, match="no such application") as caught:
            partition.promise(partition.complete, "none").result()
        assert (caught.value.argument, caught.value.value) == ("application_id", "none")


def test_asyncio(service: Service) -> None:
    """Tasks share a connection; a cancelled call disturbs no other."""

    async def work() -> None:
        async with await connect_async(str(service.addresses[0])) as partition:
            await partition.submit("app", SUE, "root.a")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(partition.allocate("b", "app", UNIT), 0)
            answers = await asyncio.gather(*(partition.allocate(f"a-{one}", "app", UNIT) for one in range(200)))
            assert all(answers)
            assert await partition.config() == CONFIG
            assert (await partition.snapshot()).allocation_count in (200, 201)
            received: list[object] = []
            async with await partition.subscribe(lambda _, events: received.extend(events)):
                await partition.release("a-0")
                await asyncio.to_thread(eventually, lambda: received)

    asyncio.run(work())
    assert service.partition.allocation("a-1") is not None


def test_a_call_ends_at_its_deadline(tmp_path: Path) -> None:
    """A process that accepts connections and never answers delays a call until its deadline, and not longer."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "silent"))
        listener.listen()
        began = monotonic()
        with pytest.raises(DeadlineError, match="no leader answered"):
            connect(f"unix:{tmp_path}/silent", deadline=0.5)
    assert 0.4 < monotonic() - began < 2
    with running(tmp_path) as service:
        partition = started(service, deadline=0.5)
    with pytest.raises(DeadlineError):
        partition.release("x")
    partition.close()


def test_a_lost_connection_is_opened_again(service: Service) -> None:
    """Calls that were open when a connection was lost are answered over the next one, and take effect once."""
    with started(service) as partition:
        connection = partition.connection._connection
        link = connection._link
        assert link is not None
        futures = [partition.promise(partition.allocate, f"a-{number}", "app", UNIT) for number in range(300)]
        connection._loop.call_soon_threadsafe(link.transport.abort)
        assert all(future.result() for future in futures)
        assert connection._link is not link
        assert len(partition.allocation_ids()) == 300


def test_a_service_in_memory_that_was_replaced(tmp_path: Path) -> None:
    """The client gets a new session; its open calls fail, because nobody knows whether they were executed."""
    with running(tmp_path) as service:
        partition = started(service)
        session = partition.connection.session
    future = partition.promise(partition.allocate, "x", "app", UNIT)
    with running(tmp_path):
        with pytest.raises(UnavailableError, match="was replaced"):
            future.result()
        assert partition.application_ids() == ()
        assert partition.connection.session not in {"", session}
        partition.close()


def test_closing(service: Service) -> None:
    """Calls after the end raise; allocations stay, and others go on; closing twice does nothing."""
    partition = started(service)
    partition.allocate("x", "app", UNIT)
    partition.close()
    partition.close()
    with pytest.raises(UnavailableError, match="was closed"):
        partition.release("x")
    service.partition.close()
    assert service.partition.allocation_ids() == ("x",)
    with connect(str(service.addresses[0])) as other:
        assert other.release("x")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_needs_its_own_connection(service: Service) -> None:
    """Calls on the connection of the parent raise one clear error."""
    with started(service) as partition:
        child = os.fork()
        if child == 0:
            try:
                partition.release("x")
            except UnavailableError as error:
                os._exit(0 if "forked" in str(error) else 1)
            os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert not partition.release("x")


def test_readers(service: Service) -> None:
    """A reader makes queries without a session, learns their age, and cannot change anything."""
    with started(service), connect(str(service.addresses[0]), read_only=True) as reader:
        assert reader.application_ids() == ("app",)
        assert isinstance(reader.connection.staleness, Staleness)
        assert reader.connection.staleness.seconds == 0
        assert reader.connection.session == ""
        with pytest.raises(RequestError, match="read-only"):
            reader.release("x")
        assert len(reader.sessions.sessions()) == 1


def test_large_arguments_and_answers(service: Service) -> None:
    """Messages of megabytes are sent; one beyond the limit is refused by the client."""
    with started(service) as partition:
        names = [f"{number:0250}" for number in range(8_000)]
        assert partition.allocate_all([(name, "app", Resource(memory=0)) for name in names])
        assert len(partition.allocations()) == 8_000
        with pytest.raises(RequestError, match="bytes"):
            partition.allocations_by_id(names * 5)
        assert not partition.release("none")


def test_tls_and_tokens(certificate: Certificate) -> None:
    """Other machines need TLS and the token."""
    with certificate.running() as service:
        address = encrypted(service)
        with certificate.connected(address) as partition:
            assert partition.submit("app", SUE, "root.a")
        with pytest.raises(ProtocolError, match="token is wrong"):
            connect(address, tls=certificate.of_client(), deadline=5)


def test_addresses_of_other_machines_are_protected() -> None:
    """A service listens with plain TCP only on this machine; TLS needs a certificate and a token."""
    for address in ("tcp://0.0.0.0:0", "tls://127.0.0.1:0", "tcp://example.org:1"):
        with pytest.raises(RequestError):
            Service(None, address)
    with pytest.raises(RequestError, match="tokens"):
        Security(tokens=[object()])  # type: ignore[list-item]  # no token of administrators comes first


def test_plain_tcp_on_this_machine() -> None:
    """A service may listen on a port of the loopback address; 0 chooses a free one."""
    service = Service(None, "tcp://127.0.0.1:0")
    service.start()
    with connect(str(service.announced)) as partition:
        assert partition.config is None
    service.stop()


def test_a_leader_that_hangs_is_left(tmp_path: Path) -> None:
    """A client tries another process when the one that it is connected to does not answer."""
    with running(tmp_path) as service, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "silent"))
        listener.listen()
        with connect(f"unix:{tmp_path}/silent,{service.addresses[0]}", deadline=10) as partition:
            assert partition.config is not None


def test_back_pressure(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """More calls than may be outstanding wait for room."""
    monkeypatch.setattr("ugm.service.remote.MAX_OUTSTANDING", 10)
    with started(service) as partition:
        futures = [partition.promise(partition.release, "x") for _ in range(200)]
        assert partition.connection._connection.outstanding <= 11
        assert [future.result() for future in futures] == [False] * 200
    sleep(0)
    eventually(lambda: not service.sessions.sessions()[1:])
