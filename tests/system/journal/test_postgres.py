"""A log in PostgreSQL: one leader at a time, and no acknowledged change is lost or stored twice."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Barrier, Event, Thread
from time import monotonic
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner

from support.journal_fixtures import LIMITED, partition_of, require_parts
from support.log_processes import ask, lead, leader_process, log_of, place_of, with_application
from support.partition_fixtures import SUE, memory
from support.postgres import Server, server_here, shared_server  # noqa: F401 - a fixture
from support.random_changes import CONFIGS, Actor, state_of
from ugm import RequestError
from ugm.cli.journal import journal
from ugm.journal import (
    JournalDamagedError,
    JournaledPartition,
    JournalError,
    JournalHeldError,
    compact,
    export,
    inspect,
    open_partition,
    usage,
)
from ugm.journal.compaction import checkpoint_rows
from ugm.journal.errors import DeposedError
from ugm.journal.follower import Follower
from ugm.journal.locations import log_at
from ugm.journal.log import Candidate, Log
from ugm.journal.postgres import compaction
from ugm.journal.postgres.connection import Database
from ugm.journal.postgres.log import PostgresLog

pytestmark = pytest.mark.ci


@pytest.fixture(name="place")
def _place(shared_server: Server) -> str:  # noqa: F811 - the fixture
    return place_of(shared_server, shared_server.fresh_schema())


@pytest.fixture(name="log")
def _log(place: str) -> Log:
    return log_of(place)


@pytest.fixture(name="database")
def _database(log: PostgresLog) -> Iterator[Database]:
    """A connection of an administrator."""
    database = log._database()
    yield database
    database.close()


def begin(log: Log, **options: Any) -> JournaledPartition:  # noqa: ANN401 - handed on
    """Return a partition with one application in a queue of 10."""
    return with_application(open_partition(log, LIMITED, **options))


# The same as a file


def test_every_state(log: Log, tmp_path: Path) -> None:
    """Any state is the same after it was opened again, from the changes, from a snapshot and from a backup."""
    actor = Actor("postgres")
    for number in range(4):
        with open_partition(log, CONFIGS[0], durability="group" if number % 2 else "each") as partition:
            for _ in range(40):
                actor.step(partition)
            if number:
                partition.journal.compact()
                partition.journal.backup(tmp_path / str(number))
            state = state_of(partition)
        with open_partition(log) as again:
            assert state_of(again) == state
        if number:
            with open_partition(tmp_path / str(number)) as restored:
                assert state_of(restored) == state


def test_readers(log: Log) -> None:
    """Every reader works with a log that a partition uses."""
    with begin(log, clock=lambda: 1) as partition:
        partition.allocate("a", "app", memory(2))
        assert inspect(log).allocations == 1
        assert [entry["number"] for entry in export(log) if "events" in entry] == [1, 2, 3]
        [row] = usage(log, "user", clock=lambda: 5)
        assert row.amounts == {"memory": 8000}
        assert partition.journal.usage("user") == ()
    assert compact(log).changes == 3
    assert usage(log, "user", clock=lambda: 5) == (row,)


def test_size_of_the_changes_that_are_read(log: Log) -> None:
    """A reader gets changes up to a size, and at least one."""
    with begin(log) as partition:
        require_parts(log, partition)


def test_url(shared_server: Server) -> None:  # noqa: F811 - the fixture
    """A URL is a place, and is shown without its password."""
    url = f"postgresql://ugm:secret@127.0.0.1:{shared_server.port}/postgres"
    with open_partition(url, LIMITED) as partition:
        assert partition.submit("app", SUE, "root.a")
        assert "secret" not in partition.journal.path
        with pytest.raises(JournalHeldError, match="another process has it open") as caught:
            open_partition(url)
        assert "secret" not in str(caught.value)
    with pytest.raises(RequestError, match="expected a connection string"):
        log_at("postgresql://127.0.0.1/x?secret=1")
    with pytest.raises(RequestError, match="expected a name of 1 to 63 bytes"):
        PostgresLog(url, schema="")


def test_command(shared_server: Server) -> None:  # noqa: F811 - the fixture
    """The commands accept a URL, and do not show its password."""
    url = f"postgresql://ugm:secret@127.0.0.1:{shared_server.port}/postgres"
    with open_partition(url, LIMITED):
        done = CliRunner().invoke(journal, ["verify", url])
    assert done.exit_code == 0
    assert "no problems found" in done.output
    assert "secret" not in done.output


def test_missing(log: Log) -> None:
    """Readers do not create anything; without a server they fail soon."""
    with pytest.raises(JournalError, match="there is no journal in the schema"):
        inspect(log)
    assert log.find_leader() is None
    assert not log.exists()
    with pytest.raises(JournalError, match="it cannot be read: connection failed"):
        inspect("postgresql://127.0.0.1:1/postgres")
    with pytest.raises(JournalError, match="it cannot be opened: connection failed"):
        open_partition("postgresql://127.0.0.1:1/postgres")


def test_other_layout(log: Log, database: Database) -> None:
    """Tables of another version are refused by everyone."""
    begin(log).journal.close()
    database.run("UPDATE {schema}.version SET layout = 9")

    for way in (inspect, open_partition, lambda log: list(export(log))):
        with pytest.raises(
            JournalError, match="the format version 9 of its tables is newer than the supported version 1"
        ):
            way(log)


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("UPDATE {schema}.log SET data = '\\x00' WHERE number = 3", "change 3 is damaged"),
        ("UPDATE {schema}.log SET at = at + 1 WHERE number = 3", "change 3 is damaged"),
        ("DELETE FROM {schema}.log WHERE number = 3", "change 3 is missing"),
        ("DELETE FROM {schema}.log WHERE number >= 3", "it ends with change 2, but 6 were acknowledged"),
        (
            "ALTER TABLE {schema}.log ALTER data DROP NOT NULL; UPDATE {schema}.log SET data = NULL",
            "change 1 is damaged",
        ),
        ("ALTER TABLE {schema}.log ALTER at DROP NOT NULL; UPDATE {schema}.log SET at = NULL", "change 1 is damaged"),
        ("UPDATE {schema}.snapshot SET data = data || '\\x00' WHERE position = 1", "row 1 of the snapshot is damaged"),
        (
            "ALTER TABLE {schema}.snapshot ALTER data DROP NOT NULL; UPDATE {schema}.snapshot SET data = NULL",
            "row 0 of the snapshot is damaged",
        ),
        ("DELETE FROM {schema}.snapshot WHERE position = 1", "row 1 of the snapshot is damaged"),
        ("DELETE FROM {schema}.snapshot WHERE position > 1", "the snapshot has 2 of 4 rows"),
        ("DELETE FROM {schema}.history", "the history has 0 of 1 rows"),
    ],
)
def test_damaged(log: Log, database: Database, statement: str, reason: str) -> None:
    """A damaged row is reported, and nothing is opened."""
    with begin(log) as partition:
        if "snapshot" in statement or "history" in statement:
            partition.allocate("b", "app", memory(1))
            log.compact(usage_since=None)
        for number in range(4):
            partition.allocate(f"a-{number}", "app", memory(1))
    database.script(statement)

    with pytest.raises(JournalDamagedError, match=reason):
        inspect(log)


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("DELETE FROM {schema}.leader", "the record of the leader is missing"),
        (
            "ALTER TABLE {schema}.version ALTER layout DROP NOT NULL; UPDATE {schema}.version SET layout = NULL",
            "the format version of the tables is damaged",
        ),
        ("DELETE FROM {schema}.version", "the format version of the tables is missing"),
        ("INSERT INTO {schema}.version VALUES (1)", "the format version of the tables is damaged"),
    ],
)
def test_tables_with_one_row(log: Log, database: Database, statement: str, reason: str) -> None:
    """A missing row, a second row and a missing value are damage for every function."""
    begin(log).journal.close()
    database.script(statement)

    for function in (inspect, open_partition, compact):
        with pytest.raises(JournalDamagedError, match=reason):
            function(log)


@pytest.mark.parametrize("has_changes", [True, False])
def test_missing_leader(log: Log, database: Database, *, has_changes: bool) -> None:
    """A follower reports that the record of the leader is missing, and continues once it is back."""
    partition = begin(log) if has_changes else open_partition(log)
    partition.journal.close()
    follower = Follower(log)
    [record] = database.run("SELECT * FROM {schema}.leader")
    database.run("DELETE FROM {schema}.leader")

    for reader in (follower.poll, follower.lag, follower.find_leader, log.find_leader):
        with pytest.raises(JournalDamagedError, match="the record of the leader is missing"):
            reader()
    database.run("INSERT INTO {schema}.leader VALUES (%s, %s, %s, %s, %s, %s)", record)
    assert follower.poll() == 0
    assert follower.find_leader() is None
    with partition_of(follower.lead(Candidate())) as successor:
        assert bool(successor.applications()) is has_changes


def test_head_under_a_follower(log: Log, database: Database) -> None:
    """A follower that looks for newer changes reports that it cannot decode the number of the snapshot."""
    with begin(log) as partition:
        follower = Follower(log)
        last = partition.journal.number
        partition.allocate("a", "app", memory(1))
        partition.allocate("b", "app", memory(1))
        log.compact(usage_since=None)
    database.run("DELETE FROM {schema}.log WHERE number = %s", [last + 1])
    database.run("UPDATE {schema}.snapshot SET data = '[null]' WHERE position = 0")

    with pytest.raises(JournalDamagedError, match="a record cannot be decoded: TypeError") as caught:
        follower.poll()
    assert caught.value.readable == last
    follower.close()


# Leaders


def test_deposed(log: Log) -> None:
    """A leader that was replaced can never write again, and its changes are not stored."""
    first = lead(log, "one")
    assert first.allocate("a", "app", memory(1))
    leader = log.find_leader()
    assert leader is not None
    with pytest.raises(JournalHeldError):
        lead(log, "two")

    second = lead(log, "two", leader)
    for _ in range(2):
        with pytest.raises(DeposedError, match="in term 2") as caught:
            first.allocate("b", "app", memory(1))
        assert caught.value.term == 2
    with pytest.raises(DeposedError):
        first._transaction_log.change_queue.renew()
    assert second.allocate("c", "app", memory(1))
    with pytest.raises(DeposedError):
        first.journal.close()
    second.journal.close()

    with open_partition(log) as again:
        assert sorted(again.allocation_ids()) == ["a", "c"]


def test_race(log: Log) -> None:
    """Of several candidates that replace the same leader, one succeeds."""
    first = lead(log, "one")
    leader = log.find_leader()
    barrier, led = Barrier(6), []

    def try_to_lead(name: str) -> None:
        barrier.wait()
        with suppress(JournalHeldError):
            led.append(lead(log, name, leader))

    threads = [Thread(target=try_to_lead, args=(f"candidate {number}",)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(led) == 1
    assert led[0].allocate("a", "app", memory(1))
    led[0].journal.close()
    with pytest.raises(DeposedError):
        first.allocate("b", "app", memory(1))


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_failed_leader(place: str, log: Log, how: signal.Signals) -> None:
    """A follower takes over from a leader that was killed or stopped, with every acknowledged change."""
    with leader_process(place, "one") as process:
        follower = Follower(log)
        answers = [ask(process, f"a-{number}") for number in range(5)]
        follower.poll()
        leader = log.find_leader()
        process.send_signal(how)

        with partition_of(follower.lead(Candidate("two", "two:1"), replacing=leader)) as partition:
            partition.verify()
            assert len(partition.allocation_ids()) == answers.count("made") == 5
            partition.allocate("b", "app", memory(1))
            if how is signal.SIGSTOP:
                process.send_signal(signal.SIGCONT)
                assert ask(process, "late") == "DeposedError"
    with open_partition(log) as again:
        assert len(again.allocation_ids()) == 6


def test_looks_are_cheap(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower of an active leader opens no connection to try to lead, and does not wait."""
    leader = lead(log, "one")
    follower = Follower(log)
    assert follower.find_leader() is not None
    monkeypatch.setattr(Database, "_connect", None)
    for _ in range(5):
        leader._transaction_log.change_queue.renew()
        with pytest.raises(JournalHeldError):
            follower.lead(Candidate("two", "two:1"))
    follower.close()
    leader.journal.close()


def test_simultaneous_creation(log: PostgresLog, database: Database) -> None:
    """A process that waits while another one creates the tables uses these tables."""
    other = log._database()
    assert other.find_layout() is None
    with database.connection.transaction():
        database.create()
        thread = Thread(target=other.create)
        thread.start()
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'advisory'"
        while not database.run(waiting)[0][0]:
            database.run("SELECT pg_stat_clear_snapshot()")
    thread.join()

    assert other.find_layout() == database.find_layout()
    other.close()


def test_follower(log: Log) -> None:
    """A follower keeps up with the leader, also over compactions."""
    actor = Actor("follower")
    with open_partition(log, CONFIGS[0]) as partition:
        follower = Follower(log)
        for number in range(100):
            actor.step(partition)
            if number % 9 == 0:
                follower.poll()
            if number == 50:
                before = follower.state
                partition.journal.compact()
        assert follower.state is before
        for _ in range(20):
            actor.step(partition)
        compaction.compact(log._conninfo, log._schema, kept=-1)  # type: ignore[attr-defined]
        follower.poll()
        assert follower.state is not before
        assert follower.lag().changes == 0
        state = state_of(partition)

    with partition_of(follower.lead(Candidate())) as successor:
        assert state_of(successor) == state


def test_follower_without_connection(log: Log, database: Database) -> None:
    """A follower goes on after its connection was lost, and is older meanwhile."""
    stop = Event()
    with begin(log) as partition:
        follower = Follower(log)
        thread = Thread(target=follower.follow, args=(stop, 0.001))
        thread.start()
        for number in range(20):
            _terminate(database)
            partition.allocate(f"a-{number}", "app", memory(0))
        while follower.number < partition.journal.number:
            stop.wait(0.001)
        stop.set()
        thread.join()
        follower.close()
    assert len(follower.state.ledger.owners) == 20


def test_follower_of_a_restored_log(log: Log, database: Database) -> None:
    """If an older copy of the database is restored, a follower begins again."""
    with begin(log) as partition:
        for number in range(3):
            partition.allocate(f"a-{number}", "app", memory(0))
    follower = Follower(log)
    last = follower.number
    database.run("DELETE FROM {schema}.log WHERE number = %s", [last])
    database.run("UPDATE {schema}.leader SET number = number - 1")
    while follower.poll():
        pass

    assert follower.number == last - 1
    assert len(follower.state.ledger.owners) == 2
    follower.close()


def test_background_compaction(log: Log) -> None:
    """Changes go on while another process compacts the log, and a follower goes on as well."""
    with begin(log, durability="group") as partition:
        follower = Follower(log)
        for number in range(50):
            partition.allocate(f"a-{number}", "app", memory(0))
        future = partition.journal.compact_in_background()
        made = 0
        while not future.done():
            partition.allocate(f"b-{made}", "app", memory(0))
            made += 1
        assert future.result().changes >= 52
        state = follower.state
        while follower.poll():
            pass
        assert (follower.number, follower.state) == (partition.journal.number, state)
        follower.close()
    assert inspect(log).allocations == 50 + made
    assert inspect(log).compacted >= 52


def test_two_compactions(log: PostgresLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot that was replaced meanwhile is not replaced by an older one."""
    with begin(log) as partition:
        partition.allocate("a", "app", memory(1))

        def slow(contents: Any, usage_since: int | None) -> Any:  # noqa: ANN401 - passed on
            found = checkpoint_rows(contents, usage_since)
            monkeypatch.undo()
            log.compact(usage_since=None)
            return found

        monkeypatch.setattr(compaction, "checkpoint_rows", slow)
        with pytest.raises(JournalError, match="another process has compacted it meanwhile"):
            partition.journal.compact()
    assert inspect(log).compacted == 3


# Failures of the database


def test_lost_answer(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit whose answer was lost is repeated, and stored once."""
    with begin(log) as partition:
        run = Database.run
        losses = iter([True, True, False] * 20)

        def losing(database: Database, statement: str, values: Any = ()) -> Any:  # noqa: ANN401 - rows
            found = run(database, statement, values)
            if "append" in statement and next(losses):
                database.close()
                raise psycopg.OperationalError("lost")
            return found

        monkeypatch.setattr(Database, "run", losing)
        for number in range(5):
            assert partition.allocate(f"a-{number}", "app", memory(1))
        monkeypatch.undo()
        assert partition.journal.number == 7

    assert inspect(log).allocations == 5


def test_change_in_doubt(log: Log, database: Database) -> None:
    """A change that cannot be committed in time is in doubt, and is written before the next one."""
    with begin(log) as partition:
        database.run("ALTER TABLE {schema}.log RENAME TO other")
        with pytest.raises(JournalError, match="it is uncertain whether the change was stored"):
            partition.allocate("a", "app", memory(1))
        with pytest.raises(JournalError, match="uncertain whether the change was stored"):
            partition.allocate("b", "app", memory(1))
        database.run("ALTER TABLE {schema}.other RENAME TO log")
        assert partition.allocate("b", "app", memory(1))
    with open_partition(log) as again:
        assert sorted(again.allocation_ids()) == ["a", "b"]


def test_missing_changes(log: Log, database: Database) -> None:
    """A database that has lost acknowledged changes, such as a restored one, is not written any more."""
    partition = begin(log)
    partition.allocate("a", "app", memory(1))
    database.run("DELETE FROM {schema}.log WHERE number = 3")
    database.run("UPDATE {schema}.leader SET number = 2")
    for change in (lambda: partition.allocate("b", "app", memory(1)), partition.journal.close):
        with pytest.raises(JournalDamagedError, match="it ends with change 2, but 3 were acknowledged"):
            change()
    assert inspect(log).allocations == 0


def test_read_only(log: Log, database: Database) -> None:
    """A server that only reads, such as a standby, delays changes until another server accepts them."""
    patient = PostgresLog(log._conninfo, schema=log._schema, patience=0.1)  # type: ignore[attr-defined]
    with begin(patient) as partition:
        database.run("ALTER ROLE ugm SET default_transaction_read_only = on")
        try:
            _terminate(database)
            with pytest.raises(JournalError, match="read-only transaction"):
                partition.allocate("a", "app", memory(1))
        finally:
            database.run("SET default_transaction_read_only = off")
            database.run("ALTER ROLE ugm RESET default_transaction_read_only")
        _terminate(database)
        assert partition.allocate("b", "app", memory(1))
    assert inspect(log).allocations == 2


def _terminate(database: Database) -> None:
    """End all other connections."""
    database.run(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND usename = 'ugm'"
    )


@pytest.mark.parametrize("durability", ["each", "group"])
def test_terminated_connections(log: Log, database: Database, durability: Any) -> None:  # noqa: ANN401 - a literal
    """Changes go on while the connections are terminated again and again."""
    made: list[str] = []
    with begin(log, durability=durability) as partition:

        def allocate() -> None:
            made.extend(f"a-{number}" for number in range(60) if partition.allocate(f"a-{number}", "app", memory(0)))

        thread = Thread(target=allocate)
        thread.start()
        while thread.is_alive():
            _terminate(database)
            thread.join(0.02)
    with open_partition(log) as again:
        assert sorted(again.allocation_ids()) == sorted(made)
        assert len(made) == 60


def test_restarted_server() -> None:
    """No acknowledged change is lost when the server crashes; changes go on when it has started again."""
    made: list[str] = []
    with server_here(durable=True) as server:
        log = PostgresLog(server.conninfo, patience=60)
        with begin(log, durability="group") as partition:

            def allocate(thread: int) -> None:
                for number in range(100):
                    name = f"a-{thread}-{number}"
                    if partition.allocate(name, "app", memory(0)):
                        made.append(name)

            threads = [Thread(target=allocate, args=(number,)) for number in range(4)]
            for thread in threads:
                thread.start()
            for _ in range(3):
                threads[0].join(0.1)
                server.stop("immediate")
                server.start()
            for thread in threads:
                thread.join()
        assert len(made) == 400
        with open_partition(log) as again:
            assert sorted(again.allocation_ids()) == sorted(made)


def test_stopped_server(log: Log, database: Database) -> None:
    """A server process that does not answer delays a change for a bounded time."""
    patient = PostgresLog(log._conninfo, schema=log._schema, patience=1.0)  # type: ignore[attr-defined]
    with begin(patient) as partition:
        [[pid]] = database.run(
            "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND classid = %s AND objid::bigint = %s & 4294967295",
            database.lock_numbers,
        )
        os.kill(pid, signal.SIGSTOP)
        try:
            started = monotonic()
            with pytest.raises(JournalError, match="no answer within 3 seconds"):
                partition.allocate("a", "app", memory(1))
            assert monotonic() - started < 10
            assert partition.allocate("a", "app", memory(1))
        finally:
            os.kill(pid, signal.SIGCONT)
    assert inspect(log).allocations == 1


# A connection that was interrupted while it was opened is left to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_interrupted(log: Log) -> None:
    """A change that a signal interrupts is stored completely or not at all."""

    class TimeUp(BaseException):
        pass

    def stop(*_arguments: object) -> None:
        raise TimeUp

    before = signal.signal(signal.SIGALRM, stop)
    try:
        with begin(log) as partition:
            for number in range(60):
                signal.setitimer(signal.ITIMER_REAL, 0.0003 * (number % 20 + 1))
                with suppress(TimeUp):
                    partition.allocate(f"a-{number}", "app", memory(0))
                    signal.setitimer(signal.ITIMER_REAL, 0)
                signal.setitimer(signal.ITIMER_REAL, 0)
            assert partition.allocate("last", "app", memory(1))
            partition.verify()
            state = state_of(partition)
    finally:
        signal.signal(signal.SIGALRM, before)
    with open_partition(log) as again:
        assert state_of(again) == state
