"""The contract of a store, for a file and for PostgreSQL."""

from __future__ import annotations

import os
from pathlib import Path
from threading import Thread
from typing import Any, Final

import pytest

from support.partition_fixtures import config
from support.store_fixtures import allocation, filled, fold, held, names, put, removed, replayed, submitted, written
from ugm import RequestError, Resource
from ugm.partition.config.compiled import CompiledConfig
from ugm.partition.rows import AllocationState, Change, ConfigurationRow, NodeRow, PartitionRow, QueueRow, RequestRow
from ugm.queues import Acl, QueueSpec, Quota
from ugm.store import (
    CapturedModels,
    StoreDamagedError,
    StoreDeposedError,
    StoreError,
    StoreHeldError,
    StoreReader,
    copy_store,
    open_store,
)
from ugm.store.database import FORMAT
from ugm.store.reader import StoreLocation, database_at

#: A row of each table, with values in all fields.
ROWS: Final = [
    Change("partition", "", None, PartitionRow(True, Resource(memory=9), ("M",), {"root.a": "r"}, {"root.a": 7})),  # noqa: FBT003 - a row
    Change("configuration", "", None, ConfigurationRow(CompiledConfig.of(config("{name: a}")), "ana")),
    Change("node", "n1", None, NodeRow("n1", Resource(memory=5))),
    Change("queue", "root.b", None, QueueRow(QueueSpec("root.b", quota=Quota(Resource(memory=1), 2), template=Quota(),
        submit_acl=Acl.parse("ana dev")), was_configured=True, quota=Resource(memory=3))),
    submitted(),
    held("a1"),
    Change("allocation", "a2", None, allocation("a2", 2**70, AllocationState.PENDING)._replace(until=5, node="ü")),
    Change("request", "a2", None, RequestRow(4, placed=True)),
    Change("session", "s", None, {"client": "one", "opened_at": 1, "is_fenced": False}),
    Change("answer", "s:1", None, [1, '["result",1,true]']),
    Change("owner", "a", None, ["s", 1]),
]  # fmt: skip


def change_sql(location: StoreLocation, statement: str) -> None:
    """Change a store as nobody should."""
    database = database_at(location)
    database.run(statement)
    database.close()


def loaded(location: StoreLocation) -> dict[str, dict[str, Any]]:
    """Return the tables of a store that are not empty."""
    with StoreReader(location) as reader:
        return filled(reader.load())


# What is stored


def test_every_kind_of_row(location: StoreLocation) -> None:
    """Every row is read as it was written, from the changes and from the tables of rows."""
    expected: dict[str, dict[str, Any]] = {one.table: {} for one in ROWS}
    for one in ROWS:
        expected[one.table][one.key] = one.new
    with open_store(location) as store:
        put(store, *ROWS)
        assert comparable(loaded(location)) == comparable(expected)
    assert comparable(loaded(location)) == comparable(expected)


def comparable(tables: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return tables with configurations that can be compared."""
    row = tables["configuration"][""]
    return {**tables, "configuration": {"": (row.compiled.config, row.author)}}


def test_time_never_goes_back(location: StoreLocation) -> None:
    """A time before that of the last transaction is replaced by it, also by a later leader; numbers begin with 1."""
    with open_store(location) as store:
        assert store.load()[1:5] == (0, 0, (), 1)
        assert put(store, submitted(), at=5000) == store.number == store.durable == 1
        put(store, held("a"), at=3000)
    with open_store(location) as store:
        put(store, held("b"), at=10)
        loaded = store.load()
        assert (loaded.number, loaded.at, loaded.term) == (3, 5000, 2)


def test_values_that_no_database_stores(location: StoreLocation) -> None:
    """A text with a NUL or half a character is refused, and nothing is appended."""
    with open_store(location) as store:
        for name in ("a\0b", "\ud800"):
            with pytest.raises(RequestError, match="cannot be stored"):
                store.append([held(name)], 0)
        with pytest.raises(RequestError):
            store.append([held("a", 10**5000)], 0)
        put(store, submitted(), held("back\\u0000slash 😀"))
    assert names(location) == ["back\\u0000slash 😀"]


def test_sql_users_read_rows(location: StoreLocation) -> None:
    """The tables of rows have readable columns."""
    written(location, 1)
    database = database_at(location, is_reader=True)
    query = """SELECT a.allocation_id, p."user", p.queue_path, a.state, a.priority FROM allocation AS a
        JOIN application AS p ON a.application_id = p.application_id"""
    assert database.run(query) == [("a0", "sue", "root.a", "held", 0)]
    database.close()


# Waiting


def test_readers_see_one_moment(location: StoreLocation) -> None:
    """Each reading shows the state after one transaction, while others are written and folded."""
    with open_store(location) as store, StoreReader(location) as reader:
        put(store, submitted(), held("0"))
        writer = Thread(target=lambda: [put(store, removed(str(n)), held(str(n + 1))) for n in range(200)])
        writer.start()
        seen = 0
        while writer.is_alive():
            found = reader.load()
            assert len(found.current()["allocation"]) == 1
            assert found.current()["allocation"].keys() == {str(found.number - 1)}
            fold(store)
            seen += 1
        writer.join()
        assert seen


# Followers


def test_followers(location: StoreLocation) -> None:
    """A follower gets all transactions in parts, with old and new rows."""
    written(location, 4)
    with StoreReader(location) as reader:
        first, second = reader.changes(0, 3), reader.changes(3, 3)
        assert first is not None
        assert second is not None
        assert [one.number for one in (*first, *second)] == [1, 2, 3, 4, 5]
        assert first[1].changes == (held("a0"),)
        assert reader.changes(5) == []
        with pytest.raises(StoreDamagedError, match="ends with change 5, but 6 was read before"):
            reader.changes(6)


def test_trimmed_changes(location: StoreLocation, monkeypatch: pytest.MonkeyPatch) -> None:
    """Old changes are deleted after they were folded; a reader that needs them gets None."""
    monkeypatch.setattr("ugm.store.store._KEEP", 1000)
    with open_store(location) as store:
        put(store, submitted(), at=1000)
        put(store, held("a"), at=5000)
        fold(store)
        with StoreReader(location) as reader:
            assert reader.changes(0) is None
            found = reader.changes(1)
            assert found is not None
            assert found[0].number == 2
        put(store, held("b"), at=90_000)
        fold(store)
        put(store, held("c"), at=190_000)
    assert names(location) == ["a", "b", "c"]
    with open_store(location) as store:
        assert put(store, held("d")) == 5


# Models


def test_models_are_stored_with_their_change(location: StoreLocation, slow_folds: None) -> None:  # noqa: ARG001 - a fixture
    """The state of models belongs to the folded change; later changes are returned with it."""
    captured: list[CapturedModels | None] = [None, CapturedModels(2, {"budget/b": {"used": 7}})]
    with open_store(location, capture=captured.pop) as store:
        put(store, submitted())
        put(store, held("a"))
        put(store, held("b"))
        fold(store)
        assert store.folded == 2
        found = store.load()
        assert found.tables["model"] == {"budget/b": {"used": 7}}
        assert [one.number for one in found.tail] == [3]
        assert list(found.tables["allocation"]) == ["a"]
        assert list(found.current()["allocation"]) == ["a", "b"]


# Damage


def test_another_version(location: StoreLocation) -> None:
    """A store of another version is refused."""
    written(location, 0)
    change_sql(location, "UPDATE store SET format = 99")
    with pytest.raises(StoreError, match=f"its format version is 99; expected {FORMAT}"):
        open_store(location)


def test_other_files(tmp_path: Path) -> None:
    """A file that is not a store, and a folder, are refused."""
    text = tmp_path / "text"
    text.write_text("some text that is no database" * 99)
    with pytest.raises(StoreDamagedError, match="not a database"):
        open_store(text)
    with pytest.raises(StoreError):
        open_store(tmp_path)
    with StoreReader(tmp_path / "missing") as reader, pytest.raises(StoreError, match="there is no store"):
        reader.load()
    assert not (tmp_path / "missing").exists()


# Leaders


def test_one_leader(location: StoreLocation) -> None:
    """A store has one leader, until it is closed."""
    with open_store(location, holder="first"):
        with pytest.raises(StoreHeldError, match="first has it open for writing") as caught:
            open_store(location)
        assert caught.value.holder == "first"
    with open_store(location) as store:
        assert store.term == 2


def test_the_leader_is_known(location: StoreLocation) -> None:
    """A leader with an address is found until it ends."""
    with StoreReader(location) as reader:
        assert reader.find_leader() is None
        with open_store(location, holder="h", address="tcp://h:1") as store:
            store.renew()
            found = reader.find_leader()
            assert found is not None
            assert (found.term, found.holder, found.address) == (1, "h", "tcp://h:1")
            assert found.silent_for < 60
        assert reader.find_leader() is None


def test_a_deposed_leader(location: StoreLocation) -> None:
    """A leader whose term is over can neither append nor fold nor renew, and says so for ever."""
    store = open_store(location)
    put(store, submitted())
    change_sql(location, "UPDATE leader SET term = term + 1")
    for _ in range(2):
        with pytest.raises(StoreDeposedError, match="in term 2"):
            put(store, held("a"))
    with pytest.raises(StoreDeposedError):
        store.renew()
    with pytest.raises(StoreDeposedError):
        fold(store)
    with pytest.raises(StoreDeposedError):
        store.close()
    assert names(location) == []


def test_after_closing(location: StoreLocation) -> None:
    """A closed store refuses changes; closing it again does nothing."""
    store = open_store(location)
    store.close()
    store.close()
    for call in (lambda: store.append([], 0), lambda: store.wait(1), store.renew, store.flush):
        with pytest.raises(StoreError, match="has been closed"):
            call()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child(location: StoreLocation) -> None:
    """A forked child gets a clear error, and does not disturb its parent."""
    with open_store(location) as store:
        child = os.fork()
        if not child:
            try:
                store.append([submitted()], 0)
            except StoreError as error:
                os._exit(17 if "before this process was forked" in str(error) else 1)
            os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 17
        put(store, submitted())


# Copies


def test_a_copy_while_in_use(location: StoreLocation, tmp_path: Path) -> None:
    """A copy has all durable changes and all rows, and is a store of its own."""
    with open_store(location) as store:
        put(store, *ROWS)
        fold(store)
        put(store, held("z"))
        copy_store(location, tmp_path / "copy")
        put(store, held("later"))
    with StoreReader(tmp_path / "copy") as reader:
        transactions = reader.changes(0)
        assert transactions is not None
        expected = replayed(transactions)
        assert comparable(filled(reader.load())) == comparable(expected)
        assert list(expected["allocation"]) == ["a1", "a2", "z"]
    with open_store(tmp_path / "copy") as copy:
        assert put(copy, held("own")) == 3
    with pytest.raises(RequestError, match="there is a store already"):
        copy_store(location, tmp_path / "copy")


def test_models_that_cannot_be_captured(
    location: StoreLocation, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A failure in the capture of models delays folds, and nothing else."""
    monkeypatch.setattr("ugm.store.store._FOLD_INTERVAL", 0.0)
    # The first call raises, the second one returns None, and there is no fourth answer.
    answers: list[CapturedModels | str | None] = [CapturedModels(2, {}), None, "error"]

    def capture() -> CapturedModels | None:
        answer = answers.pop()
        if isinstance(answer, str):
            raise TypeError(answer)
        return answer

    with open_store(location, capture=capture) as store:
        put(store, submitted())
        put(store, held("a"))
        while store.folded < 2:
            put(store, held(f"a{store.number}"))
    assert "could not be folded" in caplog.text


def test_models_of_a_process_that_always_collects_changes(
    location: StoreLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two appends, the models know more than the store; so they are captured right after an append."""
    monkeypatch.setattr("ugm.store.store._FOLD_INTERVAL", 0.0)

    def capture() -> CapturedModels | None:
        return None if store.has_collected else CapturedModels(store.number, {"budget/b": {"used": store.number}})

    with open_store(location, capture=capture) as store:
        store.has_collected = True
        while store.folded < 2:
            number = store.append([submitted()] if store.number == 0 else [held(f"a{store.number}")], 1000)
            store.has_collected = True
            store.wait(number)
        folded = store.folded
        with StoreReader(location) as reader:
            assert reader.load().tables["model"]["budget/b"]["used"] >= folded
        store.has_collected = False
