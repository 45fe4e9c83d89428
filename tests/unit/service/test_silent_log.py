"""The clients of a leader that cannot reach its log find the next leader."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from support.partition_fixtures import SUE, memory
from support.postgres import Server, shared_server  # noqa: F401 - a fixture
from support.service_fixtures import CONFIG, RawClient, eventually, request, running, started
from ugm.journal.errors import JournalError
from ugm.journal.file_writer import FileWriter
from ugm.journal.postgres.log import PostgresLog
from ugm.journal.postgres.writer import PostgresWriter
from ugm.service import Service, connect, leader
from ugm.service.wire import Moved


def test_clients_are_sent_around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that finds no other leader comes back, and its operations are executed once."""
    failure = JournalError("j", "the disk does not answer")
    monkeypatch.setattr(leader, "_SILENCE", 60)
    monkeypatch.setattr(leader, "_ROUND", 0.05)
    with running(tmp_path, journal="j") as service, started(service), RawClient(service) as client:
        session = client.open()
        with monkeypatch.context() as fault:
            fault.setattr(leader, "_SILENCE", 0)
            fault.setattr(FileWriter, "commit", lambda *_: failure)
            fault.setattr(FileWriter, "renew", lambda _: (_ for _ in ()).throw(failure))
            client.do(1, request("allocate", "a", "app", memory(1)))
            moved = client.receive()
            assert type(moved) is Moved
            assert moved.address == ""
            assert client.receive() is None
            eventually(lambda: service.status().outage)
        eventually(lambda: not service.status().outage)
        with RawClient(service) as again:
            again.greet(session)
            again.do(1, request("allocate", "a", "app", memory(1)))
            again.do(2, request("release", "a"), request("release", "a"))
            answers = again.answers(3)
    assert [bytes(answers[number].value) for number in (2, 3)] == [b"\xc3", b"\xc2"]


@pytest.mark.ci
@pytest.mark.parametrize("is_known", [True, False])
def test_leader_without_its_database(
    shared_server: Server,  # noqa: F811 - the fixture
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_known: bool,
) -> None:
    """Clients move on, with their open calls, to the process that leads now, also if they do not know its address."""
    run, cut = PostgresWriter._run, set[int]()

    def run_unless_cut(writer: PostgresWriter, *arguments: object) -> None:
        if writer.term in cut:
            raise psycopg.OperationalError("the network is cut")
        run(writer, *arguments)  # type: ignore[arg-type] # passed on

    monkeypatch.setattr(PostgresWriter, "_run", run_unless_cut)
    monkeypatch.setattr(PostgresWriter, "send", lambda *_: None)
    place, schema = f"postgresql://ugm@127.0.0.1:{shared_server.port}/postgres", shared_server.fresh_schema()
    services = [
        Service(PostgresLog(place, schema=schema), f"unix:{tmp_path}/{number}", config=CONFIG) for number in range(2)
    ]
    for service in services:
        service.start()
    addresses = ",".join(f"unix:{tmp_path}/{number}" for number in range(2 if is_known else 1))
    with connect(addresses, deadline=60) as partition:
        partition.submit("app", SUE, "root.a")
        assert partition.allocate("before", "app", memory(1))
        eventually(lambda: services[0].status().standbys)
        session = partition.connection.session
        cut.add(services[0].term)
        assert partition.allocate("after", "app", memory(1))
        assert (services[1].term, partition.connection.session) == (2, session)
        assert partition.allocation_ids() == ("after", "before")
        assert partition.release("before")
    for service in reversed(services):
        service.stop()
