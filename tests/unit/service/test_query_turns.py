"""Queries in other threads: the sessions take turns, and the arguments of waiting queries are bounded."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Event, Thread
from time import sleep

import pytest

from support.partition_fixtures import memory
from support.service_fixtures import RawClient, eventually, request, running, started
from ugm import Partition
from ugm.service import ServiceSettings
from ugm.service.leader import Leader
from ugm.service.query_turns import QueryTurns
from ugm.service.server_connection import ClientLimits, ServerConnection
from ugm.service.session import Session
from ugm.service.wire import Execute, Hello

#: More than the threads execute at once.
MANY = 10


class Peer:
    """A connection that counts how often it may read again."""

    def __init__(self) -> None:
        self.resumed = 0

    def send(self, data: bytes) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""

    def note_executed(self) -> None:
        """Count the call."""
        self.resumed += 1


def connected(name: str) -> Session:
    """Return a session with a connection."""
    session = Session(name, name)
    session.peer = Peer()
    return session


class Waiting:
    """Queries that wait until they may end, in the order in which they were begun."""

    def __init__(self) -> None:
        self.turns, self.may_end = QueryTurns("query"), Event()
        self.begun: list[str] = []

    def submit(self, session: Session, count: int, size: int = 1) -> None:
        """Submit queries of a session."""
        for _ in range(count):
            number = session.last + 1
            assert session.begin(number, is_change=False)
            self.turns.submit(session, number, size, partial(self._execute, session, number))

    def _execute(self, session: Session, number: int) -> Callable[[], None]:
        self.begun.append(session.name)
        self.may_end.wait(30)
        return lambda: session.finish_query(number, b"")

    async def end(self, *sessions: Session) -> None:
        """Let all queries end, and wait for their answers."""
        self.may_end.set()
        await asyncio.to_thread(eventually, lambda: not any(session.undecided for session in sessions))
        self.turns.close()


def test_sessions_take_turns() -> None:
    """A query does not wait for the earlier queries of another session, except for those that are being executed."""

    async def work() -> list[str]:
        waiting, many, one = Waiting(), connected("many"), connected("one")
        waiting.submit(many, MANY)
        waiting.submit(one, 2)
        assert (many.queued_bytes, one.queued_bytes) == (MANY, 2)
        await waiting.end(many, one)
        assert (many.queued_bytes, one.queued_bytes) == (0, 0)
        assert many.peer is not None
        assert many.peer.resumed == MANY  # type: ignore[attr-defined] # of this test
        return waiting.begun

    begun = asyncio.run(work())
    assert begun[:2] == ["many", "many"]
    assert [place for place, name in enumerate(begun) if name == "one"] < [3, 6]
    assert len(begun) == MANY + 2


def test_queries_of_a_lost_connection() -> None:
    """Queries that wait are dropped if their connection is lost, and may be repeated."""

    async def work() -> None:
        waiting, lost, other = Waiting(), connected("lost"), connected("other")
        waiting.submit(lost, MANY)
        waiting.submit(other, MANY)
        lost.disconnect()
        await waiting.end(lost, other)
        assert waiting.begun.count("lost") == 2
        assert waiting.begun.count("other") == MANY
        assert (lost.queued_bytes, lost.undecided) == (0, {})
        assert lost.begin(3, is_change=False)

    asyncio.run(work())


def test_failing_queries(caplog: pytest.LogCaptureFixture) -> None:
    """A query that fails without an answer is logged, may be repeated, and occupies no thread."""
    caplog.set_level(logging.CRITICAL + 1)

    def fail() -> Callable[[], None]:
        raise MemoryError

    async def work() -> None:
        waiting, session = Waiting(), connected("one")
        waiting.may_end.set()
        for number in range(1, MANY):
            assert session.begin(number, is_change=False)
            waiting.turns.submit(session, number, 1, fail)
        waiting.submit(session, 1)
        await waiting.end(session)
        assert (waiting.begun, session.queued_bytes) == (["one"], 0)

    asyncio.run(work())


LARGE = 100_000


def send_until_blocked(client: RawClient) -> int:
    """Send large queries until the leader reads no more, and return how many were begun to be sent."""
    client.socket.settimeout(0.5)
    for sent in range(1, 1000):
        try:
            client.send(Execute(sent, 0, [request("user_usage", "x" * LARGE)]))
        except TimeoutError:
            client.socket.settimeout(30)
            return sent
    raise AssertionError("the leader reads everything")


def test_arguments_of_waiting_queries_are_bounded(quick_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The leader reads nothing more while the queries of a client are too large, and answers all of them later."""
    may_end, largest = Event(), 0
    finish = QueryTurns._finish

    def held(partition: Partition, name: str) -> object:
        may_end.wait(30)
        return usage(partition, name)

    def watched(turns: QueryTurns, session: Session, *arguments: object) -> None:
        nonlocal largest
        largest = max(largest, session.queued_bytes)
        finish(turns, session, *arguments)  # type: ignore[arg-type] # handed on

    usage = Partition.user_usage
    monkeypatch.setattr(Partition, "user_usage", held)
    monkeypatch.setattr(QueryTurns, "_finish", watched)
    settings = ServiceSettings(limits=ClientLimits(queued_bytes=3 * LARGE))
    with running(quick_folder, settings=settings) as service, RawClient(service) as client:
        client.open()
        with started(service) as partition:
            sent = send_until_blocked(client)
            assert partition.allocate("a", "app", memory(1)), "others are served"
            may_end.set()
            # The last message was cut off.
            assert set(client.answers(sent - 1)) == set(range(1, sent))
            eventually(lambda: service.status().waiting == 0)
    assert 3 * LARGE < largest < 5 * LARGE


def test_a_client_that_is_held_back_stays_connected(quick_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client whose messages are not read for a while learns that the leader is alive."""
    connections: list[object] = []
    welcome = Leader.welcome

    def counted(leader: Leader, connection: ServerConnection, hello: Hello) -> object:
        connections.append(connection)
        return welcome(leader, connection, hello)

    monkeypatch.setattr(Leader, "welcome", counted)
    monkeypatch.setattr(Partition, "user_usage", lambda *_: sleep(1))
    settings = ServiceSettings(limits=ClientLimits(queued_bytes=0))
    with running(quick_folder, settings=settings) as service, started(service) as partition:
        queries = [partition.promise(partition.user_usage, f"{number}") for number in range(2)]
        assert [query.result(30) for query in queries] == [None] * 2
        assert partition.allocate("a", "app", memory(1))
    assert len(connections) == 1


def test_every_query_is_held_back(quick_folder: Path) -> None:
    """With the smallest bound, the queries of many messages are executed one after another."""
    settings = ServiceSettings(limits=ClientLimits(queued_bytes=0))
    with running(quick_folder, settings=settings) as service, started(service) as partition:
        queries = [partition.promise(partition.user_usage, f"{number}") for number in range(300)]
        check = partition.promise(partition.check, "app", memory(1))
        assert [query.result(30) for query in queries] == [None] * 300
        assert check.result(30)


def test_a_system_without_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A query waits until it gets a thread, which may take many attempts. Decisions of its client do not wait."""
    start, has_threads = Thread.start, Event()
    attempts: list[str] = []

    def start_later(thread: Thread) -> None:
        if thread.name.startswith("ugm query"):
            attempts.append(thread.name)
            if not has_threads.is_set():
                raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(Thread, "start", start_later)
    with running(tmp_path) as service, started(service) as partition:
        queries = [partition.promise(operation) for operation in (partition.application_ids, partition.allocation_ids)]
        eventually(lambda: len(attempts) >= 3)
        assert partition.allocate("a", "app", memory(1))
        has_threads.set()
        assert [query.result(30) for query in queries] == [("app",), ("a",)]
    assert [record.getMessage() for record in caplog.records] == ["a query has no thread: can't start new thread"]
