"""Read-only connections: a standby answers queries from the state that it follows, and states how old the answer is."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from threading import Event, Semaphore, Thread
from time import monotonic, sleep
from unittest.mock import Mock

import pytest

from support.declared_models import ELASTIC, TREE, declaring
from support.failing_models import Failing
from support.journal_fixtures import begin
from support.partition_fixtures import SUE, memory
from support.service_fixtures import CONFIG, RawClient, eventually, request, running, started
from ugm import Partition, RequestError, Resource
from ugm.journal.follower import Follower
from ugm.service import ConnectedPartition, Service, ServiceSettings, Staleness, connect, connect_async
from ugm.service.operations import ERROR
from ugm.service.readers import Readers, ReadView
from ugm.service.session import Session
from ugm.service.status import ServiceStatus
from ugm.service.wire import (
    VERSION,
    Execute,
    Follow,
    FrameReader,
    Hello,
    OperationRequest,
    Refused,
    Welcome,
    decode_leader_message,
)

#: No standby replaces a leader that a busy machine delays.
PATIENT = ServiceSettings(takeover=30)


@pytest.fixture(name="leader")
def _leader(tmp_path: Path) -> Iterator[Service]:
    with running(tmp_path, "leader", journal="j") as service:
        yield service


@pytest.fixture(name="standby")
def _standby(tmp_path: Path, leader: Service) -> Iterator[Service]:
    with running(tmp_path, "standby", journal="j") as service:
        assert leader.term
        assert not service.term
        with reader_of(service) as reader:
            eventually(lambda: reader.queue("root.a"))
        yield service


def reader_of(service: Service) -> ConnectedPartition:
    """Return a read-only client of a service."""
    return connect(str(service.addresses[0]), read_only=True)


def staleness_of(reader: ConnectedPartition) -> Staleness:
    """Return the staleness of the last answer."""
    staleness = reader.connection.staleness
    assert staleness is not None
    return staleness


def test_standby_answers_queries(leader: Service, standby: Service) -> None:
    """A standby has every change shortly after the leader, and names the last one."""
    with started(leader) as partition, reader_of(standby) as reader:
        assert partition.allocate("a", "app", memory(600))
        eventually(lambda: reader.allocation_ids() == ("a",))
        assert reader.queue("root.a") == partition.queue("root.a")
        assert not reader.check("app", memory(600))
        assert reader.snapshot().allocation_count == 1
        change = staleness_of(reader).change
        assert change > 0
        assert partition.release("a")
        # The stated number is that before the query.
        eventually(lambda: reader.allocation_ids() == () and staleness_of(reader).change > change)


def test_stated_staleness_is_an_upper_bound(leader: Service, standby: Service) -> None:
    """If a change is missing in an answer, the answer is at least as old as the change."""
    with started(leader) as partition, reader_of(standby) as reader:
        missing = 0
        for number in range(100):
            partition.allocate(f"a-{number}", "app", memory(1))
            acknowledged = monotonic()
            sleep(0.003)
            asked_at = monotonic()
            if reader.allocation(f"a-{number}") is None:
                missing += 1
                assert staleness_of(reader).seconds > asked_at - acknowledged
        assert missing


def test_no_half_of_a_change_is_visible(leader: Service, standby: Service) -> None:
    """While many allocations are made and removed together, every answer has all of them or none."""
    interval, done, size = sys.getswitchinterval(), Event(), 300

    def change() -> None:
        with connect(str(leader.addresses[0])) as partition:
            for number in range(30):
                partition.submit("gang", SUE, "root.a")
                assert partition.allocate_all([(f"{number}-{one}", "gang", memory(1)) for one in range(size)])
                partition.remove("gang")
        done.set()

    thread, found = Thread(target=change), set()
    sys.setswitchinterval(1e-5)
    thread.start()
    with reader_of(standby) as reader:
        while not done.is_set():
            found.add(len(reader.allocation_ids()))
    thread.join()
    sys.setswitchinterval(interval)
    assert found <= {0, size}


def test_changes_raise(leader: Service, standby: Service) -> None:
    """A read-only connection refuses changes and the operations of sessions, at every process."""
    for service in (leader, standby):
        with reader_of(service) as reader:
            for call in (lambda: reader.release("a"), reader.sessions.sessions):
                with pytest.raises(RequestError, match="the connection is read-only"):
                    call()
        with RawClient(service) as client:
            client.send(Hello(VERSION, "raw", "", "", 0, is_reader=True))
            assert type(client.receive()) is Welcome
            client.do(1, request("release", "a"))
            assert type(client.receive()) is Staleness
            [answer] = client.answers(1).values()
            assert answer.status == ERROR
            client.send(Follow(-1))
            assert type(client.receive()) is Refused


def test_leader_answers_readers(leader: Service) -> None:
    """A leader answers with its newest state, and a reader has no session."""
    with started(leader) as partition, reader_of(leader) as reader:
        for number in range(20):
            partition.allocate(str(number), "app", memory(1))
            assert len(reader.allocation_ids()) == number + 1
        assert staleness_of(reader).seconds < 30
        assert sum(session.is_connected for session in partition.sessions.sessions()) == 1


def test_reader_survives_a_takeover(leader: Service, standby: Service) -> None:
    """A reader keeps its connection when its standby begins to lead, and gets new changes."""
    with started(leader) as partition, reader_of(standby) as reader:
        partition.allocate("a", "app", memory(1))
        eventually(lambda: reader.allocation("a"))
        leader.stop()
        eventually(lambda: standby.term)
        assert reader.allocation_ids() == ("a",)
        with connect(str(standby.addresses[0])) as successor:
            successor.allocate("b", "app", memory(1))
            assert reader.allocation_ids() == ("a", "b")


def test_reader_finds_another_process(tmp_path: Path, leader: Service) -> None:
    """A reader whose standby ends goes on with the next address."""
    with running(tmp_path, "standby", journal="j") as standby:
        reader = connect(f"{standby.addresses[0]},{leader.addresses[0]}", read_only=True)
        eventually(lambda: reader.queue("root.a"))
    assert reader.queue("root.a")
    reader.connection.close()


def test_view_of_a_log_that_was_loaded_again(quick_folder: Path) -> None:
    """A follower that has to load the log again gets another view, and the old one stays whole."""
    path = quick_folder / "journal"
    with begin(path) as partition:
        follower = Follower(path)
        old = ReadView.of_follower(follower, None, lacks_models=False)
        assert ReadView.of_follower(follower, old, lacks_models=False).partition is old.partition
        partition.allocate("a", "app", memory(1))
        partition.journal.compact()
        partition.allocate("b", "app", memory(1))
        while follower.poll():
            pass
        new = ReadView.of_follower(follower, old, lacks_models=False)
        assert (old.partition.allocation_ids(), new.partition.allocation_ids()) == ((), ("a", "b"))
        assert new.number == partition.journal.number > old.number
        follower.close()


def test_asyncio(leader: Service, standby: Service) -> None:
    """The client for asyncio reads from a standby as well."""

    async def work() -> None:
        async with await connect_async(str(standby.addresses[0]), read_only=True) as reader:
            assert await reader.application("app") is not None
            assert reader.connection.staleness is not None
            assert reader.connection.staleness.change >= staleness_of(blocking).change
            with pytest.raises(RequestError, match="the connection is read-only"):
                await reader.release("a")

    with started(leader), reader_of(standby) as blocking:
        eventually(lambda: blocking.application("app"))
        asyncio.run(work())


def test_standby_does_not_guess_the_answers_of_models(tmp_path: Path) -> None:
    """Queries whose answer depends on quota models are refused by a standby; all others are answered."""
    place = tmp_path / "j"
    services = [
        Service(place, f"unix:{tmp_path / name}", config=CONFIG, models=[Failing()], settings=PATIENT)
        for name in ("leader", "standby")
    ]
    for service in services:
        service.start()
    with started(services[0]) as partition, reader_of(services[0]) as fresh, reader_of(services[1]) as stale:
        assert partition.check("app", memory(1))
        assert fresh.check("app", memory(1))
        eventually(lambda: stale.application("app"))
        with pytest.raises(RequestError, match="does not keep the quota models"):
            stale.check("app", memory(1))
    for service in reversed(services):
        service.stop()


def test_standbys_make_declared_models(tmp_path: Path) -> None:
    """A standby refuses what depends on declared models, and makes them with their usage when it leads."""
    services = [
        Service(tmp_path / "j", f"unix:{tmp_path / name}", config=declaring(TREE, elastic=ELASTIC), settings=PATIENT)
        for name in ("leader", "standby")
    ]
    for service in services:
        service.start()
    with connect(f"unix:{tmp_path / 'leader'}") as partition, reader_of(services[1]) as stale:
        partition.add_node("n", Resource(gpu=10))
        partition.submit("a", SUE, "root.a")
        assert partition.allocate("a-0", "a", Resource(gpu=5))
        assert not partition.allocate("a-1", "a", Resource(gpu=4))
        eventually(lambda: stale.application("a"))
        with pytest.raises(RequestError, match="does not keep the quota models"):
            stale.headroom("a")
        plan = partition.plan(declaring(elastic=ELASTIC))
        before = partition.model_reports()
    services[0].stop()
    with connect(f"unix:{tmp_path / 'standby'}") as partition:
        assert partition.model_reports() == before
        assert {one.kind for one in partition.allocate("a-1", "a", Resource(gpu=4)).violations} == {
            "elastic group",
            "quota node",
        }
        partition.apply(plan)
        assert [report.model for report in partition.model_reports()] == ["ElasticModel"]
        assert partition.exceeded_limits() == plan.exceeded
        partition.verify()
    services[1].stop()


def test_services_need_the_models_of_the_program(tmp_path: Path) -> None:
    """A service does not lead a partition that was used with models of the program, unless it states its models."""
    journal, address = tmp_path / "j", f"unix:{tmp_path / 's'}"
    for models in ([Failing()], ()):
        with pytest.raises(RequestError, match="used with Failing") if models == () else nullcontext():
            if models == ():
                Service(journal, address, config=CONFIG).start()
        service = Service(journal, address, config=CONFIG, models=models)
        service.start()
        service.stop()
    service = Service(journal, address, config=CONFIG)
    service.start()
    service.stop()


class Peer:
    """A connection that keeps what it is sent."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []

    def send(self, data: bytes) -> None:
        """Keep a frame."""
        self.frames.append(data)

    def close(self) -> None:
        """Do nothing."""

    def note_executed(self) -> None:
        """Do nothing."""


def start_queries(readers: Readers, peer: Peer, *requests: OperationRequest) -> Session:
    """Execute operations of a session."""
    session = Session("", "client")
    session.peer = peer
    readers.execute(session, Execute(1, 0, list(requests)))
    return session


def test_outage_during_a_query() -> None:
    """If the log cannot be reached any more when a query has ended, its age counts from the last contact."""

    async def work() -> object:
        view, peer = ReadView(Partition(), 3, monotonic()), Peer()
        views = iter([view, view._replace(complete_at=view.complete_at - 60)])
        readers = Readers(lambda: next(views), lambda callback: callback(), lambda: ServiceStatus(""))
        start_queries(readers, peer, request("allocation_ids"))
        await asyncio.to_thread(eventually, lambda: peer.frames)
        readers.close()
        return decode_leader_message(FrameReader().feed(peer.frames[0])[0])

    staleness = asyncio.run(work())
    assert type(staleness) is Staleness
    assert staleness.seconds >= 60


def test_queries_of_a_lost_connection() -> None:
    """Queries that wait for a thread are not executed if their connection is lost."""
    may_end, started = Event(), Semaphore(0)

    def wait() -> tuple[str, ...]:
        started.release()
        may_end.wait(30)
        return ()

    async def work() -> None:
        view = ReadView(Mock(allocation_ids=Mock(side_effect=wait)), 3, monotonic())
        readers = Readers(lambda: view, lambda callback: callback(), lambda: ServiceStatus(""))
        session = start_queries(readers, Peer(), *[request("allocation_ids")] * 20)
        # The pool has two threads.
        for _ in range(2):
            await asyncio.to_thread(started.acquire)
        session.disconnect()
        may_end.set()
        await asyncio.to_thread(eventually, lambda: not session.undecided)
        readers.close()

    asyncio.run(work())
    assert not started.acquire(blocking=False)
