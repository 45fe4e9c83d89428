"""Processes that lead or stand by: durability, takeover, reading from a standby, joining and stopping."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import monotonic, sleep

import pytest

from support.partition_fixtures import SUE
from support.places import environment
from support.postgres import server_here
from support.service_fixtures import CONFIG, RawClient, eventually, running, started
from ugm import RequestError, Resource, join
from ugm.events import Event
from ugm.service import DeadlineError, ProtocolError, Service, ServiceSettings, connect, join_async
from ugm.store import PostgresLocation, StoreError, open_partition, read_partition

UNIT = Resource(memory=1)
#: Leads or stands by: ``python -c _SERVE STORE ADDRESS TAKEOVER``.
_SERVE = """
import sys
from support.service_fixtures import CONFIG
from ugm.service import Service, ServiceSettings
settings = ServiceSettings(takeover=float(sys.argv[3]))
Service(sys.argv[1], sys.argv[2], config=CONFIG, settings=settings).run(lambda: print("ready", flush=True))
"""


@contextmanager
def process(folder: Path, name: str, takeover: float = 1.0, program: str = _SERVE) -> Iterator[subprocess.Popen[str]]:
    """Run a process that leads or stands by."""
    command = [sys.executable, "-c", program, str(folder / "store"), f"unix:{folder / name}", str(takeover)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment()) as made:  # noqa: S603 - our own
        assert made.stdout is not None
        assert made.stdout.readline() == "ready\n"
        try:
            yield made
        finally:
            made.kill()


def test_changes_are_in_the_store(tmp_path: Path) -> None:
    """What a service acknowledged is in its store, which any program can open afterwards."""
    with running(tmp_path, store="store") as service, started(service) as partition:
        assert partition.allocate("x", "app", UNIT)
        with pytest.raises(StoreError):
            open_partition(tmp_path / "store")
        assert read_partition(tmp_path / "store").allocation_ids() == ("x",)
        assert service.status().change > 0
    with open_partition(tmp_path / "store") as opened:
        assert opened.allocation_ids() == ("x",)
        opened.release("x")
    with running(tmp_path, store="store") as service:
        assert service.partition.allocation_ids() == ()
        assert service.term == 3


def test_a_repeated_call_gets_its_answer_from_the_next_leader(tmp_path: Path) -> None:
    """The answers that a client may have missed are in the store, so no change is made twice."""
    with running(tmp_path, store="store") as service, RawClient(service) as client:
        session = client.greet()[2]
        client.call(1, "submit", application_id="app", user=["sue", []], queue="root.a")
        client.call(2, "allocate", allocation_id="x", application_id="app", usage={"memory": 1})
        client.call(3, "release", allocation_id="x")
        assert client.answers(3)[3] == ("result", True)
    with running(tmp_path, store="store") as service, RawClient(service) as client:
        assert client.greet(session)[2] == session
        client.call(3, "release", allocation_id="x", acknowledged=1)
        client.call(2, "allocate", allocation_id="x", application_id="app", usage={"memory": 1})
        assert client.answers(2) == {3: ("result", True), 2: ("result", [[], [], None])}
        assert service.partition.allocation_ids() == ()


def test_a_killed_leader_is_replaced_at_once(tmp_path: Path) -> None:
    """A standby leads, and the client goes on, long before `takeover`."""
    with (
        process(tmp_path, "one", takeover=60) as leader,
        process(tmp_path, "two", takeover=60),
        connect(f"unix:{tmp_path}/one,unix:{tmp_path}/two", deadline=20) as partition,
    ):
        partition.submit("app", SUE, "root.a")
        assert partition.allocate("x", "app", UNIT)
        leader.kill()
        began = monotonic()
        # The leader had no time to fold, so the owner is known from its changes.
        [owned] = partition.sessions.owned_by(partition.connection.session)
        assert owned.allocation.allocation_id == "x"
        assert partition.release("x")
        assert not partition.release("x")
        assert monotonic() - began < 10


@pytest.mark.ci
def test_an_outage_of_the_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors of clients and the status of every process have the reason; readers are answered, then all clients are."""
    monkeypatch.setattr("ugm.service.leader._SILENCE", 0.2)
    with server_here() as server, ExitStack() as opened:
        store = PostgresLocation(server.conninfo, "outage", 0.2)
        services = [opened.enter_context(running(tmp_path, name, store=store)) for name in "ab"]
        addresses = ",".join(str(one.addresses[0]) for one in services)
        partition = opened.enter_context(started(services[0], deadline=1))
        other = opened.enter_context(connect(addresses, deadline=1))
        readers = [opened.enter_context(connect(str(one.addresses[0]), read_only=True)) for one in services]
        eventually(lambda: services[1].status().change == services[0].status().change)
        server.stop()
        eventually(lambda: all(one.status().outage for one in services) and not services[1].status().leader)
        sleep(0.3)
        for client in (partition, other):
            with pytest.raises(DeadlineError, match=": store postgresql://"):
                client.release("x")
        assert [one.application_ids() for one in readers] == [("app",), ("app",)]
        assert all((age := one.connection.staleness) is not None and age.seconds > 1 for one in readers)
        server.start()
        eventually(lambda: not any(one.status().outage for one in services))
        assert partition.allocate("x", "app", UNIT)
        assert other.allocation_ids() == ("x",)


@pytest.mark.ci
def test_a_stopped_leader_is_replaced_after_a_while(tmp_path: Path) -> None:
    """A leader that does not show that it is active is replaced; with a file, it is killed first."""
    with (
        process(tmp_path, "one") as leader,
        process(tmp_path, "two"),
        connect(f"unix:{tmp_path}/one,unix:{tmp_path}/two", deadline=30) as partition,
    ):
        partition.submit("app", SUE, "root.a")
        assert partition.allocate("x", "app", UNIT)
        leader.send_signal(signal.SIGSTOP)
        assert partition.release("x")
        assert leader.wait(20) == -signal.SIGKILL


def test_reading_from_a_standby(tmp_path: Path) -> None:
    """A standby answers readers from its state, with its age; others are sent to the leader, also to wait."""
    with (
        running(tmp_path, "one", store="store") as leader,
        running(tmp_path, "two", store="store") as standby,
        started(standby) as partition,
        connect(f"{standby.addresses[0]},{leader.addresses[0]}", read_only=True) as reader,
    ):
        assert partition.request("waits", "app", UNIT)
        assert [one.allocation_id for one in reader.waiting_list().wait(30)] == ["waits"]
        assert partition.allocate("x", "app", UNIT)
        eventually(lambda: reader.allocation_ids() == ("waits", "x"))
        staleness = reader.connection.staleness
        assert staleness is not None
        assert staleness.seconds < 20
        eventually(lambda: standby.status().change == leader.status().change)
        status = standby.status()
        assert (status.is_leading, status.leader, status.term) == (False, leader.name, 1)
        assert status.address == str(leader.addresses[0])
        assert status.age < 20
        assert standby.partition.allocation_ids() == ("waits", "x")
        assert next(one.client for one in standby.sessions.sessions()) == ""


def test_a_leader_that_is_asked_to_stop_hands_over_at_once(tmp_path: Path) -> None:
    """The standby does not wait for `takeover`, and everything that was answered is there."""
    settings = ServiceSettings(takeover=60)
    with (
        running(tmp_path, "one", store="store", settings=settings) as leader,
        running(tmp_path, "two", store="store", settings=settings) as standby,
        connect(f"unix:{tmp_path}/one,unix:{tmp_path}/two") as partition,
    ):
        partition.submit("app", SUE, "root.a")
        futures = [partition.promise(partition.allocate, f"a-{one}", "app", UNIT) for one in range(100)]
        began = monotonic()
        leader.stop()
        assert all(future.result() for future in futures)
        assert monotonic() - began < 5
        assert len(partition.allocation_ids()) == 100
        assert standby.term == 2


def test_subscriptions(tmp_path: Path) -> None:
    """A subscriber gets all events after a number once, in order, also from the next leader."""
    received: list[tuple[int, tuple[Event, ...]]] = []
    with (
        running(tmp_path, "one", store="store") as leader,
        running(tmp_path, "two", store="store"),
        connect(f"unix:{tmp_path}/one,unix:{tmp_path}/two") as partition,
    ):
        partition.submit("app", SUE, "root.a")
        with partition.subscribe(lambda first, events: received.append((first, events)), after=0) as subscription:
            partition.allocate("a", "app", UNIT)
            eventually(lambda: "Allocated" in str(received))
            leader.stop()
            partition.release("a")
            eventually(lambda: "Released" in str(received))
            last = subscription.number
        partition.allocate("b", "app", UNIT)
        numbers = [first for first, _ in received]
        assert numbers == sorted(set(numbers))
        kinds = [type(event).__name__ for _, events in received for event in events]
        assert kinds == ["ConfigurationChanged", "ApplicationSubmitted", "GroupAssigned", "Allocated", "Released"]
        del received[:]
        with partition.subscribe(lambda first, events: received.append((first, events)), after=last):
            eventually(lambda: received)
        assert [type(event).__name__ for event in received[0][1]] == ["Allocated"]


def test_a_subscription_that_cannot_continue(tmp_path: Path) -> None:
    """Events that are not available any more are an error, and so is a number of another service."""
    with running(tmp_path) as service, started(service) as partition:
        with pytest.raises(ProtocolError, match="not available"):
            partition.subscribe(print, after=0)
        with pytest.raises(ProtocolError, match="there is no change"):
            partition.subscribe(print, after=1 << 90)
        with pytest.raises(RequestError):
            partition.subscribe(print, after=-1)


def test_joining(tmp_path: Path) -> None:
    """Programs elect a leader among themselves; when it leaves, another one leads, and calls go on."""
    one = join(tmp_path / "store", config=CONFIG, client="one")
    two = join(tmp_path / "store", config=CONFIG, client="two")
    assert one.service is not None
    assert two.service is not None
    assert (one.service.term, two.service.term) == (1, 0)
    two.submit("app", SUE, "root.a")
    assert two.allocate("x", "app", UNIT)
    assert [report.client for report in one.sessions.sessions()] == ["one", "two"]
    one.close()
    assert two.release("x")
    assert two.service.term == 2
    two.close()

    async def work() -> None:
        async with await join_async(tmp_path / "store") as partition:
            assert await partition.application_ids() == ("app",)

    asyncio.run(work())
    assert {path.name for path in tmp_path.iterdir()} <= {"store", "store-lock"}
    with pytest.raises(RequestError, match="needs the address"):
        join("postgresql://localhost/none")


def test_settings_are_checked(tmp_path: Path) -> None:
    """A setting that has no meaning is refused, and nothing starts."""
    with pytest.raises(RequestError, match="group_limits"):
        Service(None, f"unix:{tmp_path}/s", settings=ServiceSettings(group_limits="never"))  # type: ignore[arg-type]
    with pytest.raises(RequestError, match="takeover"):
        ServiceSettings(takeover=0.1)
    with pytest.raises(RequestError, match="announce the name"):
        Service(None, "tcp://0.0.0.0:0")


def test_a_full_or_missing_place_is_an_error(tmp_path: Path) -> None:
    """A service that cannot use its store or its address does not start."""
    (tmp_path / "file").write_text("no store")
    with pytest.raises(StoreError):
        Service(tmp_path / "file", f"unix:{tmp_path}/s").start()
    with pytest.raises(OSError, match="exists"):
        Service(None, f"unix:{tmp_path}/file").start()
    with running(tmp_path), pytest.raises(OSError, match="listens"):
        Service(None, f"unix:{tmp_path}/s").start()
    assert (tmp_path / "file").exists()
    assert not (tmp_path / "s").exists()


def test_changes_of_other_threads_of_the_process(tmp_path: Path) -> None:
    """A program in the process of the service uses the partition while it leads and while it stands by."""
    with running(tmp_path, "one", store="store") as leader, running(tmp_path, "two", store="store") as standby:
        for service, name in ((leader, "a"), (standby, "b")):
            assert service.partition.submit(name, SUE, "root.a")
            assert service.partition.allocate(name, name, UNIT)
        assert leader.partition.allocation_ids() == standby.partition.allocation_ids() == ("a", "b")
        leader.stop()
        eventually(lambda: standby.term == 2)
        assert standby.partition.release("a")


def test_sessions_are_forgotten(tmp_path: Path) -> None:
    """A client that leaves without allocations leaves no rows behind."""
    with running(tmp_path, store="store") as service:
        with started(service) as partition:
            partition.allocate("x", "app", UNIT)
            partition.release("x")
        eventually(lambda: not service.status().sessions)
    import sqlite3  # noqa: PLC0415 - only here

    with sqlite3.connect(tmp_path / "store") as connection:
        for table in ("session", "answer", "owner"):
            statement = f"SELECT count(*) FROM {table}"  # noqa: S608 - a constant
            assert connection.execute(statement).fetchone() == (0,), table


def test_an_answer_that_is_acknowledged_too_early(tmp_path: Path) -> None:
    """A client that acknowledges a call before its answer is stored leaves a store that the next leader can open."""
    with running(tmp_path, store="store") as service, RawClient(service) as client:
        client.greet()
        for number in range(1, 100, 2):
            client.call(number, "submit", application_id=f"app-{number}", user=["sue", []], queue="root.a")
            client.call(number + 1, "remove", acknowledged=number + 1, application_id=f"app-{number}")
        client.answers(100)
    with running(tmp_path, store="store") as service:
        assert service.partition.application_ids() == ()
