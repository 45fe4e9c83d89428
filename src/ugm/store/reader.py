"""Reads a store that another process may be writing.

Opening reads the tables of rows, and the changes after the number up to which they are folded. There is no replay of
the history.

Copies of a store, and the deletion of old usage, also work while a leader writes the store.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, Final, NamedTuple, Self, TypeAlias, cast, final

from ugm.errors import RequestError, time_text
from ugm.partition.engine.transaction import Clock
from ugm.partition.rows import ApplicationRow, Change, ConfigurationRow
from ugm.store.database import (
    ALL_TABLES,
    POSITION,
    ChangeRow,
    Database,
    LeaderRecord,
    StoreDamagedError,
    StoreError,
    change_row,
    quoted,
)
from ugm.store.row_tables import CURRENT_USAGE, ROW_TABLES, USAGE, RowTable, decode_changes, to_json
from ugm.store.sqlite import SqliteDatabase
from ugm.store.usage import Grouping, Period, UsageMeter, UsageQuery, UsageRow, stored_time

#: The beginnings of URLs of PostgreSQL.
URL_SCHEMES: Final = ("postgresql://", "postgres://")


class PostgresLocation(NamedTuple):
    """A store in a PostgreSQL database."""

    #: A URL that begins with ``postgresql://``, or keywords and values, as for libpq.
    conninfo: str
    #: The schema of its tables; it is created by the first leader. Each schema has one store.
    schema: str = "ugm_store"
    #: The time after which a change fails if the database is not available, in seconds.
    patience: float = 5.0


#: The path of a file, a URL that begins with ``postgresql://``, or a `PostgresLocation`.
StoreLocation: TypeAlias = str | os.PathLike[str] | PostgresLocation


def database_at(location: StoreLocation, *, is_reader: bool = False) -> Database:
    """Return the database at a location, which is not opened yet.

    Raises:
        RequestError: the location is invalid.
        StoreError: the package for PostgreSQL is not installed.
    """
    if isinstance(location, str) and location.startswith(URL_SCHEMES):
        location = PostgresLocation(location)
    if not isinstance(location, PostgresLocation):
        return SqliteDatabase(location, is_reader=is_reader)
    # psycopg takes 60 ms to import, and is an extra.
    try:
        from ugm.store.postgres import PostgresDatabase  # noqa: PLC0415 - as above
    except ModuleNotFoundError as error:
        raise StoreError("postgresql://", f"it needs {error.name}: install the extra 'postgres'") from error
    return PostgresDatabase(*location)


class Transaction(NamedTuple):
    """A list of changes that was appended at once."""

    number: int
    #: The term of the leader.
    term: int
    #: In milliseconds since 1970. Never less than that of the transaction before.
    at: int
    changes: tuple[Change, ...]


class Loaded(NamedTuple):
    """The content of a store at one moment."""

    #: The rows of each table by key after the change `folded`, in the order of their insertion.
    tables: dict[str, dict[str, Any]]
    #: The last change that the tables know, and its instant in milliseconds since 1970.
    folded: int
    folded_at: int
    #: The changes after it.
    tail: tuple[Transaction, ...]
    #: The term of the leader.
    term: int
    #: The path or the address of the store, for people.
    location: str

    @property
    def number(self) -> int:
        """The number of the last change."""
        return self.folded + len(self.tail)

    @property
    def at(self) -> int:
        """The instant of the last change, in milliseconds since 1970."""
        return self.tail[-1].at if self.tail else self.folded_at

    def current(self) -> dict[str, dict[str, Any]]:
        """Bring the tables up to date with all changes, and return them; ``model`` stays as it is."""
        for transaction in self.tail:
            for table, key, _, new, _ in transaction.changes:
                if new is None:
                    self.tables[table].pop(key, None)
                else:
                    self.tables[table][key] = new
        return self.tables


@final
class StoreReader:
    """A connection that reads a store; one thread at a time uses it.

    Args:
        location: the path of a file, or the address of a database.

    Every method raises a `StoreError` if there is no store or it cannot be read, and a `StoreDamagedError` if it is
    damaged.
    """

    def __init__(self, location: StoreLocation) -> None:
        self.location: Final = location
        self._database: Final = database_at(location, is_reader=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; the next call opens another one."""
        self._database.close()

    def load(self) -> Loaded:
        """Return the whole content."""
        database = self._database
        with self._at_one_moment():
            leader, (folded, at, _) = database.read_leader(), read_fold(database)
            tables = {name: read_table(database, name) for name in ROW_TABLES}
            tail = tuple(read_transactions(database, folded, leader.number))
        return Loaded(tables, folded, at, tail, leader.term, database.location)

    def changes(self, after: int, size: int = 2000) -> list[Transaction] | None:
        """Return the first durable transactions after a number; None if they were trimmed.

        Args:
            after: the number of the last known transaction.
            size: the maximum number of transactions.
        """
        database = self._database
        if self.number == after:
            return []
        with self._at_one_moment():
            last = database.read_leader().number
            [[oldest]] = database.run("SELECT min(number) FROM change")
            if last < after:
                raise StoreDamagedError(database.location, f"it ends with change {last}, but {after} was read before")
            if oldest is None or oldest > after + 1:
                return None
            return list(read_transactions(database, after, min(last, after + size)))

    @property
    def number(self) -> int:
        """The number of the last durable change; 0 for none."""
        return self._database.read_leader().number

    @property
    def oldest(self) -> int:
        """The number of the oldest change that is kept; 0 for none."""
        self._database.require_format()
        [[oldest]] = self._database.run("SELECT min(number) FROM change")
        return oldest or 0

    @property
    def usage_since(self) -> int:
        """The first instant at which usage is known, in milliseconds since 1970."""
        self._database.require_format()
        return read_fold(self._database)[2]

    def find_leader(self) -> LeaderRecord | None:
        """Return the leader; None if there is none that has an address and has not ended."""
        if not self._database.has_tables():
            return None
        found = self._database.read_leader()
        return found if found.address else None

    def usage(self, query: UsageQuery, now: int) -> tuple[UsageRow, ...]:
        """Return the usage of a query at a time in milliseconds since 1970."""
        database = self._database
        with self._at_one_moment():
            leader, (folded, _, known) = database.read_leader(), read_fold(database)
            begin = known if query.begin is None else query.begin
            condition, values = 'WHERE "end" > ?', list[object]([begin])
            if query.names is not None and query.column is not None:
                condition += f" AND {quoted(query.column)} IN (SELECT value FROM {database.elements})"  # noqa: S608 - constants
                values.append(to_json(sorted(query.names)))
            intervals = [one for _, one in read_rows(database, USAGE, condition, values)]
            meter = read_meter(database)
            last = now
            for transaction in read_transactions(database, folded, leader.number):
                intervals += meter.process(transaction.changes, transaction.at)
                last = max(now, transaction.at)
            intervals += meter.finish(last)
        return query.rows(
            (one.part(max(one.begin, known), one.end) for one in intervals if one.end > known), known, now
        )

    @contextmanager
    def _at_one_moment(self) -> Iterator[None]:
        self._database.require_format()
        with self._database.transaction(reading=True):
            yield


def usage_of(
    location: StoreLocation,
    by: Grouping,
    *,
    since: float | None = None,
    until: float | None = None,
    period: Period | int | None = None,
    zone: str = "UTC",
    queue: str = "root",
    clock: Clock = time.time,
) -> tuple[UsageRow, ...]:
    """Return the usage between two instants from a store, which another process may be writing.

    Args:
        location: the path of a file, or the address of a database.
        by: the subjects of the sums. The queue of an application is the one in which it was placed. Usage that no limit
            assigns to a group counts for the first group of its user. An elastic group includes the groups below. The
            nodes of quota trees are named ``tree/node``; they are those of the group of an application and not those
            that hold its allocations. Both are known for models that the configuration declares.
        since: the first instant, in seconds since 1970; None for the first for which usage is known.
        until: the end of the range, which is not included; None, or a time in the future, stands for now.
        period: the period of each sum: a day, week (from Monday), month or year of the calendar, or a number of
            seconds; None for one sum.
        zone: the time zone of the calendar. A day may have 23 or 25 hours.
        queue: only usage in and below this queue counts.
        clock: a function that returns the seconds since 1970; fractions are allowed.

    Returns:
        Rows sorted by period, then by name; subjects and resources without usage are left out.

    Raises:
        RequestError: an argument is invalid, or usage at the first instant is no longer known.
        StoreError: the store cannot be read.
    """
    now = stored_time("clock", clock())
    with StoreReader(location) as reader:
        return reader.usage(UsageQuery(by, since, until, period, zone, queue), now)


# Reading within a transaction


def read_fold(database: Database) -> tuple[int, int, int]:
    """Return the last change of which the tables of rows know, its instant, and the first instant of known usage."""
    number, at, since = database.only_row("SELECT number, at, usage_since FROM fold", "number of the last fold")
    return number, at, since


def read_rows(
    database: Database, table: RowTable, more: str = "", values: Sequence[object] = ()
) -> Iterator[tuple[str, Any]]:
    """Yield the keys and rows of a table.

    Args:
        database: the database.
        table: the table.
        more: the end of the query.
        values: its values.
    """
    columns, decode = database.selected(table.columns), table.decoder()
    statement = f"SELECT {columns} FROM {quoted(table.name)} {more}"  # noqa: S608 - constants
    try:
        for rows in database.stream(table.name, statement, values):
            yield from decode(rows)
    except StoreError:
        raise
    except Exception as error:
        # Of a value that this package has not stored.
        raise StoreDamagedError(database.location, f"a row of the table {table.name} is damaged: {error}") from error


def read_table(database: Database, name: str) -> dict[str, Any]:
    """Return the rows of a table by key, in the order of their insertion."""
    return dict(read_rows(database, ROW_TABLES[name], f"ORDER BY {quoted(POSITION.name)}"))


def read_transactions(database: Database, after: int, last: int) -> Iterator[Transaction]:
    """Yield the transactions between two numbers, without the first and with the last."""
    due = after
    statement = "SELECT number, term, at, data, sum FROM change WHERE number > ? AND number <= ? ORDER BY number"
    for rows in database.stream("change", statement, [after, last]):
        for row in rows:
            due += 1
            yield _transaction(database, ChangeRow(*row), due)
    if due != last:
        raise StoreDamagedError(database.location, f"change {due + 1} is missing")


def _transaction(database: Database, row: ChangeRow, due: int) -> Transaction:
    """Return the transaction of a row that should have a number."""
    if row.number != due:
        raise StoreDamagedError(database.location, f"change {due} is missing")
    if None in row or row != change_row(*row[:4]):
        raise StoreDamagedError(database.location, f"change {due} is damaged")
    try:
        return Transaction(row.number, row.term, row.at, decode_changes(row.data))
    except Exception as error:
        raise StoreDamagedError(database.location, f"change {due} cannot be decoded: {error!r}") from error


def read_meter(database: Database) -> UsageMeter:
    """Return a meter with the present usage, as of the last fold."""
    applications = cast("dict[str, ApplicationRow]", read_table(database, "application"))
    configuration = cast("dict[str, ConfigurationRow]", read_table(database, "configuration")).get("")
    stored = dict(read_rows(database, CURRENT_USAGE))
    return UsageMeter(applications, configuration and configuration.compiled, stored)


def copy_store(source: StoreLocation, target: StoreLocation) -> None:
    """Copy all durable changes and all rows to a new store, in a file or in PostgreSQL.

    The copy in a file is a backup. It is written in one transaction, so a file of a copy that was interrupted has no
    store.

    Args:
        source: the store, which a leader may be writing.
        target: a file or a schema without a store.

    Raises:
        RequestError: the target exists.
        StoreError: the store cannot be read, or the copy cannot be written.
    """
    with closing(database_at(source, is_reader=True)) as reader, closing(database_at(target)) as writer:
        reader.require_format()
        if writer.has_tables():
            raise RequestError("target", writer.location, "there is a store already", "id-in-use")
        with reader.transaction(reading=True), writer.transaction():
            _copy(reader, writer)


def _copy(reader: Database, writer: Database) -> None:
    """Copy all tables within a transaction."""
    leader = reader.read_leader()
    writer.create_tables()
    writer.run("DELETE FROM fold")
    for name, columns in ALL_TABLES.items():
        statement = f"SELECT {reader.selected(columns)} FROM {quoted(name)}"  # noqa: S608 - constants
        for rows in reader.stream(name, statement):
            writer.insert(name, columns, rows)
    writer.run("UPDATE leader SET term = ?, number = ?", [leader.term, leader.number])


def delete_usage(location: StoreLocation, before: int, *, clock: Clock = time.time) -> None:
    """Delete the usage before an instant, in milliseconds since 1970. Later queries for it are refused.

    Args:
        location: the path of a file, or the address of a database.
        before: the instant, which must not be in the future.
        clock: a function that returns the seconds since 1970; fractions are allowed.

    Raises:
        RequestError: the instant is in the future.
        StoreError: the store cannot be written.
    """
    now = stored_time("clock", clock())
    if before > now:
        instant, present = (time_text(one // 1000, places="seconds") for one in (before, now))
        raise RequestError("before", instant, f"usage after now, {present}, cannot be deleted")
    with closing(database_at(location)) as database:
        database.require_format()
        with database.transaction():
            database.run("UPDATE fold SET usage_since = ? WHERE usage_since < ?", [before, before])
            database.run('DELETE FROM usage WHERE "end" <= ?', [before])
