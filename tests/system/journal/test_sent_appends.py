"""Changes that the loop of a leader sends to PostgreSQL: no failure loses one, or stores one twice."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import Any, Final

import psycopg
import pytest

from support.log_processes import log_of, place_of
from support.partition_fixtures import memory
from support.postgres import Server, shared_server  # noqa: F401 - a fixture
from support.service_fixtures import CONFIG, eventually, started
from ugm.journal import open_partition
from ugm.journal.change_queue import ChangeQueue
from ugm.journal.errors import DeposedError, JournalError
from ugm.journal.file_writer import ChangeRow
from ugm.journal.log import Candidate, SentCommit
from ugm.journal.opening import OpenLog, open_log
from ugm.journal.postgres import connection
from ugm.journal.postgres.log import PostgresLog
from ugm.journal.postgres.sent_append import PreparedAppend, SentAppend
from ugm.journal.postgres.writer import PostgresWriter
from ugm.operation_lock import OperationLock
from ugm.service import Service

pytestmark = pytest.mark.ci

ME: Final = Candidate("name", "unix:/x")


@pytest.fixture(name="log")
def _log(shared_server: Server) -> PostgresLog:  # noqa: F811 - the fixture
    log = log_of(place_of(shared_server, shared_server.fresh_schema()))
    assert type(log) is PostgresLog
    return log


class Scene:
    """A leader whose first commit has prepared the connection, and a connection of an administrator."""

    def __init__(self, log: PostgresLog, administrator: psycopg.Connection[Any]) -> None:
        self.opened: OpenLog = open_log(log, ME, OperationLock())
        self.administrator = administrator
        self.schema = log._schema
        self.results: list[tuple[int, JournalError | None]] = []
        self.append(b"[]", is_watched=False)
        self.expect(1)

    @property
    def queue(self) -> ChangeQueue:
        """The queue."""
        return self.opened.change_queue

    def append(self, data: bytes, *, is_watched: bool | None = True) -> SentAppend | None:
        """Append a change and send it; return what the loop watches. With None, it may watch something or not."""
        number, watched = self.queue.number + 1, list[SentAppend]()

        def watch(sent: SentCommit) -> bool:
            assert isinstance(sent, SentAppend)
            watched.append(sent)
            return True

        self.queue.send(data, lambda failure: self.results.append((number, failure)), watch)
        assert is_watched in (None, bool(watched))
        return watched[0] if watched else None

    def receive(self) -> None:
        """Take answers until there are none, as the loop does."""
        eventually(lambda: not self.queue.receive())

    def expect(self, *numbers: int) -> None:
        """Wait until changes are durable."""
        eventually(lambda: len(self.results) == len(numbers))
        assert self.results == [(number, None) for number in numbers]
        self.results.clear()

    @property
    def backend(self) -> int:
        """The process of the server that serves the leader."""
        return self.writer._database.connection.info.backend_pid

    @property
    def writer(self) -> PostgresWriter:
        """The writer of the leader."""
        assert type(self.queue._log) is PostgresWriter
        return self.queue._log

    def is_waiting(self) -> bool:
        """Return whether the leader waits for a lock."""
        return self._counts("pid = %s AND wait_event_type = 'Lock'", self.backend)

    def has_ended(self, backend: int) -> bool:
        """Return whether a process of the server has ended."""
        return not self._counts("pid = %s", backend)

    def _counts(self, condition: str, backend: int) -> bool:
        query = f"SELECT FROM pg_stat_activity WHERE {condition}"
        return self.administrator.execute(query.encode(), [backend]).rowcount > 0

    @contextmanager
    def blocked(self) -> Iterator[None]:
        """Let every append wait for a lock."""
        with psycopg.connect(self.administrator.info.dsn) as other:
            other.execute(f'SELECT FROM "{self.schema}".leader FOR UPDATE'.encode())
            yield

    def stored(self) -> list[bytes]:
        """Return the data of all changes in the log."""
        rows = self.administrator.execute(f'SELECT data FROM "{self.schema}".log ORDER BY number'.encode())  # noqa: S608 - our own
        return [row[0] for row in rows]


@contextmanager
def scene_of(log: PostgresLog) -> Iterator[Scene]:
    """Return a leader, and end it."""
    with psycopg.connect(log._conninfo, autocommit=True) as administrator:
        scene = Scene(log, administrator)
        yield scene
        with suppress(DeposedError):
            scene.opened.journal.close()


@pytest.fixture(name="scene")
def _scene(log: PostgresLog) -> Iterator[Scene]:
    with scene_of(log) as scene:
        yield scene


def test_many(scene: Scene) -> None:
    """Every change is sent and stored, from an empty one to 20 MB, which no socket accepts at once."""
    made = [b"", b"\0\xff" * 10, *(b"%d" % number for number in range(50)), b"x" * 20_000_000, b"[]"]
    for number, data in enumerate(made, 2):
        scene.append(data, is_watched=len(data) < 1000 or None)
        scene.receive()
        scene.expect(number)
    assert scene.stored() == [b"[]", *made]


def test_large_change_alone(scene: Scene) -> None:
    """A thread sends the rest of a large change and takes the answer, although the loop does nothing."""
    # A fast server may have taken everything at once.
    scene.append(b"x" * 20_000_000, is_watched=None)
    scene.expect(2)


def test_error_of_the_commit(scene: Scene) -> None:
    """A change that the server refuses after it has executed the statement is not durable."""
    scene.administrator.execute(
        f"""
        CREATE FUNCTION "{scene.schema}".refuse() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN RAISE EXCEPTION 'refused at the commit'; END $$;
        CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON "{scene.schema}".log DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION "{scene.schema}".refuse();
        """.encode()
    )
    scene.append(b"second")
    scene.receive()
    eventually(lambda: scene.results)
    [(number, failure)] = scene.results
    assert number == 2
    assert "refused at the commit" in str(failure)
    assert scene.stored() == [b"[]"]
    scene.administrator.execute(f'DROP TRIGGER refuse ON "{scene.schema}".log'.encode())
    scene.queue.flush()
    assert scene.stored() == [b"[]", b"second"]


def test_forgotten_statement(scene: Scene) -> None:
    """If the server has forgotten the statement, it is prepared again."""
    with scene.queue._writing:
        scene.writer._database.run("DEALLOCATE ALL")
    scene.append(b"second")
    expect_second_and_third(scene)


def end_connection(scene: Scene) -> None:
    """End the connection of the leader."""
    backend = scene.backend
    scene.administrator.execute("SELECT pg_terminate_backend(%s)", [backend])
    eventually(lambda: scene.has_ended(backend))


def cancel_statement(scene: Scene) -> None:
    """Let the statement fail, if there is one."""
    scene.administrator.execute("SELECT pg_cancel_backend(%s)", [scene.backend])


FAILURES: Final = [end_connection, cancel_statement]


def expect_second_and_third(scene: Scene) -> None:
    """Wait until the second change is durable, and append another one."""
    scene.receive()
    scene.expect(2)
    scene.append(b"third")
    scene.receive()
    scene.expect(3)
    assert scene.stored() == [b"[]", b"second", b"third"]


def test_failure_before(scene: Scene) -> None:
    """A connection that has ended before is noticed at the next change."""
    end_connection(scene)
    scene.append(b"second", is_watched=None)
    expect_second_and_third(scene)


@pytest.mark.parametrize("fail", FAILURES)
def test_failure_during(scene: Scene, fail: Callable[[Scene], None]) -> None:
    """A change that was not stored is committed again by the thread."""
    with scene.blocked():
        scene.append(b"second")
        eventually(scene.is_waiting)
        assert scene.queue.receive()
        fail(scene)
    expect_second_and_third(scene)


@pytest.mark.parametrize("fail", FAILURES)
def test_failure_after(scene: Scene, fail: Callable[[Scene], None]) -> None:
    """A change whose answer was not received is stored once."""
    scene.append(b"second")
    eventually(lambda: len(scene.stored()) == 2)
    fail(scene)
    expect_second_and_third(scene)


def test_server_that_does_not_answer(log: PostgresLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """After some time, the thread commits the change over another connection."""
    monkeypatch.setattr(connection, "_EXTRA_WAIT", -2.7)
    with scene_of(log) as scene:
        backend = scene.backend
        os.kill(backend, signal.SIGSTOP)
        try:
            began_at = monotonic()
            scene.append(b"second")
            scene.receive()
            scene.expect(2)
            assert 0.3 <= monotonic() - began_at < 5
            assert scene.backend != backend
        finally:
            os.kill(backend, signal.SIGCONT)
        assert scene.stored() == [b"[]", b"second"]


def test_replaced_leader(scene: Scene, log: PostgresLog) -> None:
    """A leader that was replaced stores nothing, and learns it."""
    found = log.find_leader()
    assert found is not None
    log.lead(Candidate("other", "unix:/y"), replacing=found).release()
    scene.append(b"second")
    scene.receive()
    eventually(lambda: scene.results)
    [(number, failure)] = scene.results
    assert (number, type(failure)) == (2, DeposedError)
    scene.append(b"third", is_watched=False)
    assert scene.stored() == [b"[]"]


def test_interruption(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception from outside while the answer is received leaves a change that is committed again."""

    def interrupt(_sent: SentAppend) -> None:
        raise KeyboardInterrupt

    scene.append(b"second")
    with monkeypatch.context() as fault:
        fault.setattr(SentAppend, "_receive", interrupt)
        with pytest.raises(KeyboardInterrupt):
            scene.queue.receive()
    expect_second_and_third(scene)


def test_service(log: PostgresLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service sends its changes, over the next connection as well, and ends when all are stored."""
    sent: list[int] = []
    send = PreparedAppend.send

    def note_and_send(prepared: PreparedAppend, row: ChangeRow) -> SentAppend | None:
        sent.append(row[0])
        return send(prepared, row)

    monkeypatch.setattr(PreparedAppend, "send", note_and_send)
    service = Service(log, f"unix:{tmp_path}/s", config=CONFIG)
    service.start()
    with started(service) as partition, psycopg.connect(log._conninfo, autocommit=True) as administrator:
        for number in range(60):
            if number % 20 == 10:
                administrator.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
                )
            assert partition.allocate(f"a-{number}", "app", memory(1))
        # An idle leader watches nothing, so a connection that it has given up ends.
        answers = service._leader.committer._answers  # type: ignore[union-attr] # it leads
        eventually(lambda: answers._connection is None)
        assert len(partition.allocation_ids()) == 60
    # Three connections were ended, and each new one begins with a commit by the thread.
    assert len(sent) >= 50
    service.stop()
    with open_partition(log) as again:
        assert len(again.allocation_ids()) == 60
