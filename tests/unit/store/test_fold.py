"""The law of folding: the tables of rows, with the changes after the fold, are the result of all changes."""

from __future__ import annotations

from tempfile import TemporaryDirectory
from typing import Any, Final, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.postgres import Server
from support.store_fixtures import APPLICATION, allocation, filled, fold
from ugm.partition.rows import Change, RequestRow
from ugm.store import PostgresLocation, StoreReader, copy_store, open_store
from ugm.store.reader import StoreLocation

Tables: TypeAlias = dict[str, dict[str, Any]]

#: Writes a row, or removes it.
_ROWS: Final = st.one_of(
    st.tuples(st.just("allocation"), st.sampled_from("abc"), st.integers(0, 3)),
    st.tuples(st.just("application"), st.just("app"), st.integers(0, 2)),
    st.tuples(st.just("request"), st.sampled_from("ab"), st.integers(0, 2)),
    st.tuples(st.sampled_from(["session"]), st.sampled_from("xy"), st.integers(0, 2)),
)
_STEPS: Final = st.lists(
    st.one_of(st.lists(_ROWS, min_size=1, max_size=4), st.sampled_from(["fold", "reopen", "copy"])), max_size=25
)


def _row(table: str, key: str, value: int) -> Any:  # noqa: ANN401 - a row of any table
    """Return a row, or None for 0."""
    rows: dict[str, Any] = {
        "allocation": allocation(key, value),
        "application": APPLICATION._replace(number=value),
        "request": RequestRow(value),
    }
    return rows.get(table, {"client": str(value)}) if value else None


def _changes(tables: Tables, wanted: list[tuple[str, str, int]]) -> list[Change]:
    """Apply changes to tables and return them."""
    changes = []
    for table, key, value in wanted:
        rows = tables.setdefault(table, {})
        old, new = rows.get(key), _row(table, key, value)
        if new is not None:
            rows[key] = new
        elif old is not None:
            del rows[key]
        if old != new:
            changes.append(Change(table, key, old, new))
    return changes


def check(location: StoreLocation, steps: list[Any], copies: list[StoreLocation]) -> None:
    """Make some steps, and compare the store with plain dictionaries after each."""
    expected: Tables = {}
    store = open_store(location)
    for step in steps:
        if step == "fold":
            fold(store)
        elif step == "reopen":
            store.close()
            store = open_store(location)
        elif step == "copy":
            store.close()
            copy_store(location, copies[-1])
            location = copies.pop()
            store = open_store(location)
        elif changes := _changes(expected, step):
            store.wait(store.append(changes, 0))
        with StoreReader(location) as reader:
            found = filled(reader.load())
        assert found == {name: rows for name, rows in expected.items() if rows}
        assert {name: [*rows] for name, rows in found.items()} == {n: [*rows] for n, rows in expected.items() if rows}
    store.close()


@given(_STEPS)
def test_folded_rows_and_later_changes_are_everything(steps: list[Any]) -> None:
    """Whenever a file is folded, closed, opened or copied, its rows are those of plain dictionaries, in their order."""
    with TemporaryDirectory() as folder:
        check(f"{folder}/store", steps, [f"{folder}/{number}" for number in range(25)])


@pytest.mark.ci
def test_in_postgres(shared_server: Server) -> None:
    """The same holds for PostgreSQL, and for copies between both."""
    with TemporaryDirectory() as folder:

        @given(_STEPS)
        def law(steps: list[Any]) -> None:
            places: list[StoreLocation] = []
            for number in range(26):
                schema = shared_server.fresh_schema()
                file = f"{folder}/{schema}"
                places.append(file if number % 2 else PostgresLocation(shared_server.conninfo, schema))
            check(places.pop(0), steps, places)

        law()
