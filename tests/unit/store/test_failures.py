"""Failures: kills, full disks, lost connections, and leaders that are replaced."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

from support.postgres import Server, server_here
from support.store_fixtures import filled, held, names, put, removed, replayed, submitted, writing_process
from ugm.store import PostgresLocation, Store, StoreDeposedError, StoreError, StoreReader, open_store
from ugm.store.reader import StoreLocation, database_at

#: The changes that may be stored although nobody was told: one of each thread.
_IN_FLIGHT = 4


@pytest.mark.parametrize(
    "kills", [2, pytest.param(5, marks=pytest.mark.ci), pytest.param(100, marks=[pytest.mark.ci, pytest.mark.deep])]
)
def test_kills(location: StoreLocation, kills: int) -> None:
    """Whenever the leader is killed, every acknowledged change is stored, and the tables agree with all changes."""
    random, expected = Random(kills), set[str]()
    for _ in range(kills):
        with writing_process(location) as process:
            time.sleep(random.uniform(0.0, 0.3))
            process.kill()
            assert process.stdout is not None
            for line in process.stdout:
                if line.endswith("\n"):
                    (expected.add if line[0] == "+" else expected.discard)(line[1:].strip())
        # A database may still carry out the last commit of the killed process; another leader waits for its end.
        open_store(location).close()
        found = set(names(location))
        assert len(found ^ expected) <= _IN_FLIGHT
        expected = found
    with StoreReader(location) as reader:
        transactions = reader.changes(0, 10**9)
        assert transactions is not None
        loaded = reader.load()
        assert filled(loaded) == replayed(transactions)
        assert [*loaded.current()["allocation"]] == [*replayed(transactions)["allocation"]]


def test_a_stopped_leader(location: StoreLocation) -> None:
    """A leader that is silent is replaced; after it continues, it can write nothing."""
    with writing_process(location, "address") as process, StoreReader(location) as reader:
        time.sleep(0.1)
        process.send_signal(signal.SIGSTOP)
        found = reader.find_leader()
        assert found is not None
        with open_store(location, replacing=found) as store:
            before = put(store, held("mine"))
            process.send_signal(signal.SIGCONT)
            time.sleep(0.2)
            assert put(store, held("another")) == before + 1
            with pytest.raises(StoreError):
                open_store(location, replacing=found)


@pytest.fixture(name="small_disk")
def _small_disk(tmp_path: Path) -> Iterator[Path]:
    """Return a folder on a small file system."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["/bin/mount", "-t", "tmpfs", "-o", "size=1500k", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:  # noqa: S603 - of this test
        pytest.skip("this user may not mount a file system")
    yield folder
    subprocess.run(["/bin/umount", "--lazy", str(folder)], check=True)  # noqa: S603 - as above


def test_a_full_disk(small_disk: Path) -> None:
    """On a full disk calls raise; nothing is lost, and writing continues when there is room."""
    (small_disk / "other").write_bytes(bytes(700_000))
    location, acknowledged = str(small_disk / "store"), list[str]()
    store = open_store(location)
    put(store, submitted())
    _fill(store, acknowledged)
    for _ in range(3):
        with pytest.raises(StoreError, match="full"):
            put(store, held("never", 10**3000))
    assert acknowledged
    assert set(acknowledged) <= set(names(location))
    (small_disk / "other").unlink()
    put(store, held("last"))
    store.close()
    assert set(names(location)) >= {*acknowledged, "last"}


def _fill(store: Store, acknowledged: list[str]) -> None:
    """Write until the disk is full."""
    with suppress(StoreError):
        while True:
            name = f"a{len(acknowledged):0200}"
            put(store, held(name, 10**3000))
            acknowledged.append(name)


# PostgreSQL


@pytest.fixture(name="postgres")
def _postgres(shared_server: Server) -> PostgresLocation:
    return PostgresLocation(shared_server.conninfo, shared_server.fresh_schema(), 2.0)


@pytest.mark.ci
def test_an_answer_that_is_lost(postgres: PostgresLocation, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit that succeeded without an answer is recognised by its checksums."""
    with open_store(postgres) as store:
        put(store, submitted())
        append, calls = store._database.append, list[Any]()

        def lose(term: int, rows: Any) -> bool:  # noqa: ANN401 - passed on
            calls.append(append(term, rows))
            if len(calls) == 1:
                raise StoreError("p", "no answer")
            return bool(calls[-1])

        monkeypatch.setattr(store._database, "append", lose)
        assert put(store, held("a")) == 2
        assert calls == [True, False]
        assert put(store, held("b")) == 3


@pytest.mark.ci
def test_an_outage() -> None:
    """While the server is down, every call raises; afterwards the change in doubt is written first."""
    with server_here() as server:
        location = PostgresLocation(server.conninfo, "outage", 0.2)
        store = open_store(location)
        put(store, submitted())
        server.stop()
        number = store.append([held("doubt")], 0)
        with pytest.raises(StoreError, match="uncertain"):
            store.wait(number)
        with pytest.raises(StoreError):
            put(store, held("refused"))
        server.start()
        assert put(store, removed("doubt")) == number + 1
        store.close()
        assert names(location) == []


@pytest.mark.ci
def test_a_server_that_is_stopped(postgres: PostgresLocation) -> None:
    """A call without an answer fails, also if the connection is not lost; the next one opens another connection."""
    database = database_at(postgres)
    [[process]] = database.run("SELECT pg_backend_pid()")
    os.kill(process, signal.SIGSTOP)
    try:
        with pytest.raises(StoreError, match="no answer within 4 seconds"):
            database.run("SELECT 1")
        assert database.run("SELECT 1") == [(1,)]
    finally:
        os.kill(process, signal.SIGCONT)
        database.close()


@pytest.mark.ci
def test_a_leader_that_is_replaced(postgres: PostgresLocation, caplog: pytest.LogCaptureFixture) -> None:
    """The leader before is refused, its appended changes are not stored, and it logs that without a traceback."""
    first = open_store(postgres, address="a")
    put(first, submitted())
    with StoreReader(postgres) as reader:
        found = reader.find_leader()
    assert found is not None
    with open_store(postgres, replacing=found) as second:
        with pytest.raises(StoreDeposedError, match="in term 2"):
            put(first, held("old"))
        put(second, held("new"))
        first._fold_due_at = 0.0
        first._fold_if_due()
    assert [record.exc_info for record in caplog.records if "folded" in record.message] == [None]
    with pytest.raises(StoreDeposedError):
        first.close()
    assert names(postgres) == ["new"]
