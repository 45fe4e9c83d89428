"""The database of a store: one SQL layer for SQLite and PostgreSQL, and the errors of stores.

Nearly all statements are the same for both databases, because they are written with ``?`` for values and without the
name of a schema. `Database` runs them. Its subclasses are the dialects: how to connect, the names of types, the append,
and the insertion of many rows. `SYSTEM_TABLES` are the tables besides those of rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, ClassVar, Final, NamedTuple
from zlib import crc32

from ugm.errors import OutageError
from ugm.store.row_tables import CURRENT_USAGE, ROW_TABLES, USAGE, RowTable, SqlColumn, SqlRow, to_json


class StoreError(OutageError):
    """A store cannot be used, or cannot be written now.

    Attributes:
        path: the file, or the address of the database without the password.
        reason: the problem, as the end of a sentence.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path: Final = path
        self.reason: Final = reason

    def __str__(self) -> str:
        return f"store {self.path}: {self.reason}"


class StoreDamagedError(StoreError):
    """The content of a store differs from what was written. The store is not used at all."""

    # The code of all damage of stored data.
    code = "store-damaged"


class StoreHeldError(StoreError):
    """A store is open for writing in another process, or twice in this process.

    Attributes:
        holder: the name of the leader, for people; empty if it is unknown.
    """

    def __init__(self, path: str, holder: str) -> None:
        super().__init__(path, f"{holder or 'another process'} has it open for writing")
        self.args: tuple[object, ...] = (path, holder)
        self.holder: Final = holder


class StoreDeposedError(StoreError):
    """Another process leads now. This process can never write the store again.

    A change in doubt took effect only if the new leader found it.

    Attributes:
        term: the term of the other leader.
    """

    def __init__(self, path: str, term: int) -> None:
        super().__init__(path, f"another process has become the leader, in term {term}")
        self.args: tuple[object, ...] = (path, term)
        self.term: Final = term


#: The version of the tables. Other versions are refused.
FORMAT: Final = 2
#: The number of rows that are read or copied at once.
ROWS_AT_ONCE: Final = 10_000

#: The position of a row, which follows from the change that has inserted it. Tables are read in this order.
POSITION: Final = SqlColumn("position", "bigint")


def _columns(text: str) -> tuple[SqlColumn, ...]:
    """Return columns of their names and kinds."""
    return tuple(SqlColumn(*each.split(" ", 1)) for each in text.split(", "))


#: The columns of the tables besides those of rows.
SYSTEM_TABLES: Final[Mapping[str, tuple[SqlColumn, ...]]] = {
    "store": _columns("format bigint"),
    # One row: the last leader, and the last change.
    "leader": _columns(
        "is_only key, term bigint, number bigint, holder text, address text, process text, renewed_at bigint"
    ),
    # The changes that are kept. The numbers have no gaps.
    "change": _columns("number key, term bigint, at bigint, data bytes, sum bigint"),
    # One row: the last change of which the tables of rows know, and the first instant of which usage is known.
    "fold": _columns("number bigint, at bigint, usage_since bigint"),
    # See `ugm.store.usage`.
    "usage": USAGE.columns,
    "current_usage": (SqlColumn("application_id", "text key"), *CURRENT_USAGE.columns[1:]),
}
#: The columns of the tables that a copy of a store has, too. The leader and the format are not copied.
ALL_TABLES: Final[Mapping[str, tuple[SqlColumn, ...]]] = {
    **{name: SYSTEM_TABLES[name] for name in ("change", "fold", "usage", "current_usage")},
    **{name: (POSITION, *table.columns) for name, table in ROW_TABLES.items()},
}


#: The types of the kinds of columns in SQLite and in PostgreSQL.
TYPES: Final[Mapping[str, tuple[str, str]]] = {
    "key": ("INTEGER PRIMARY KEY", "bigint PRIMARY KEY"),
    "text key": ("TEXT PRIMARY KEY", "text PRIMARY KEY"),
    "text": ("TEXT", "text"),
    "bigint": ("INTEGER", "bigint"),
    "boolean": ("INTEGER", "boolean"),
    "json": ("TEXT", "jsonb"),
    "bytes": ("BLOB", "bytea"),
}


class ChangeRow(NamedTuple):
    """A row of the table of changes."""

    number: int
    term: int
    #: In milliseconds since 1970. Never less than that of the change before.
    at: int
    data: bytes
    sum: int


class LeaderRecord(NamedTuple):
    """The process that leads, as it is recorded in the store."""

    term: int
    #: The number of the last change.
    number: int
    #: For people.
    holder: str
    #: Where clients reach the process; empty if they cannot, or if it has ended.
    address: str
    #: The process of a file, by its id and the time of its start; empty in PostgreSQL.
    process: str
    #: When it was last active, in milliseconds since 1970.
    renewed_at: int
    #: The seconds since then.
    silent_for: float


def change_row(number: int, term: int, at: int, data: bytes) -> ChangeRow:
    """Return a row with its checksum."""
    return ChangeRow(number, term, at, data, crc32(data, crc32(b"%d %d %d" % (number, term, at))))


def quoted(name: str) -> str:
    """Return a name as an identifier of SQL."""
    return f'"{name}"'


def names_of(columns: Sequence[SqlColumn]) -> str:
    """Return the names of columns for a statement."""
    return ", ".join(quoted(column.name) for column in columns)


class Database(ABC):
    """A connection to a database, which is opened when it is needed; one thread at a time uses it.

    Every method raises a `StoreError` if the database is not available, and a `StoreDamagedError` if it is damaged.

    Args:
        location: the path or the address, for people.
    """

    #: The errors of its driver.
    errors: ClassVar[tuple[type[Exception], ...]]
    #: The one that means that the stored data are damaged.
    damage: ClassVar[type[Exception]]
    #: The types of the kinds of columns.
    types: ClassVar[Mapping[str, str]]
    #: The time of the system clock in milliseconds since 1970, as an expression.
    now: ClassVar[str]
    #: The statements that begin a transaction to write, and one that reads everything at one moment.
    begin: ClassVar[str]
    begin_reading: ClassVar[str]
    #: The elements of a JSON list, as a table with the column ``value``.
    elements: ClassVar[str]
    #: The end of an expression that reads JSON as text.
    json_as_text: ClassVar[str] = ""
    #: Statements that follow the creation of the tables.
    more_tables: ClassVar[Sequence[str]] = ()
    #: The time for which a failed commit is repeated, in seconds.
    patience: float = 0.0
    #: The time that a leader with an address has for another connection, in seconds.
    reconnect_time: ClassVar[float] = 0.0

    #: The connection of the driver; None if it has to be opened.
    _connection: Any = None

    def __init__(self, location: str) -> None:
        self.location: Final = location

    # The dialect

    @abstractmethod
    def run(self, statement: str, values: Sequence[object] = ()) -> list[SqlRow]:
        """Run a statement and return its rows."""

    @abstractmethod
    def stream(self, name: str, statement: str, values: Sequence[object] = ()) -> Iterator[list[SqlRow]]:
        """Yield the rows of a query in parts, within a transaction.

        Args:
            name: a name for the query.
            statement: the query.
            values: its values.
        """

    @abstractmethod
    def insert(self, table: str, columns: Sequence[SqlColumn], rows: Sequence[SqlRow], more: str = "") -> None:
        """Insert many rows.

        Args:
            table: the table.
            columns: its columns.
            rows: the rows.
            more: the end of the statement.
        """

    @abstractmethod
    def append(self, term: int, rows: Sequence[ChangeRow]) -> bool:
        """Append changes durably; return False if the term is over, or if another change is the last one."""

    @abstractmethod
    def has_tables(self) -> bool:
        """Return whether the store exists."""

    @abstractmethod
    def try_lock(self) -> bool:
        """Lock the store for this process and return whether this succeeded. The lock ends with the process."""

    @abstractmethod
    def end_leader(self, leader: LeaderRecord) -> None:
        """Prevent a silent leader from holding locks, before or after the term was raised."""

    @property
    def process(self) -> str:
        """This process for `LeaderRecord.process`."""
        return ""

    def reset(self) -> None:
        """Close the connection; the next statement opens another one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(*self.errors):
                connection.close()

    def close(self) -> None:
        """Close the connection, and release the lock."""
        self.reset()

    # Common

    @contextmanager
    def translated_errors(self) -> Iterator[None]:
        """Raise errors of the driver as errors of a store."""
        try:
            yield
        except self.errors as error:
            kind = StoreDamagedError if type(error) is self.damage else StoreError
            raise kind(self.location, f"it cannot be used: {' '.join(str(error).split())}") from error

    def selected(self, columns: Sequence[SqlColumn]) -> str:
        """Return columns for a query, so that JSON is read as text."""
        return ", ".join(quoted(name) + (self.json_as_text if kind == "json" else "") for name, kind in columns)

    @contextmanager
    def transaction(self, *, reading: bool = False) -> Iterator[None]:
        """Commit the statements of the block, or none of them if the block or the commit fails."""
        try:
            self.run(self.begin_reading if reading else self.begin)
            yield
            self.run("COMMIT")
        except BaseException:
            # The state of the transaction is unknown, also after an interruption.
            self.reset()
            raise

    def upsert(self, table: RowTable, rows: Sequence[SqlRow]) -> None:
        """Insert rows, or update those whose keys exist; existing rows keep their positions."""
        columns = ALL_TABLES[table.name]
        names = [quoted(column.name) for column in columns if column.name not in (POSITION.name, table.key)]
        updates = ", ".join(f"{name} = excluded.{name}" for name in names)
        self.insert(table.name, columns, rows, f" ON CONFLICT ({quoted(table.key)}) DO UPDATE SET {updates}")

    def delete(self, table: RowTable, keys: Sequence[str]) -> None:
        """Delete the rows with some keys."""
        if keys:
            condition = f"{quoted(table.key)} IN (SELECT value FROM {self.elements})"  # noqa: S608 - a constant
            self.run(f"DELETE FROM {quoted(table.name)} WHERE {condition}", [to_json(keys)])  # noqa: S608 - constants

    def create(self) -> None:
        """Create the tables, unless they exist, and check their version."""
        if not self.has_tables():
            with self.transaction():
                self.create_tables()
        self.require_format()

    def create_tables(self) -> None:
        """Create the tables within a transaction."""
        if self.has_tables():
            return
        for name, columns in SYSTEM_TABLES.items():
            self.run(f"CREATE TABLE {name} ({', '.join(map(self._column, columns))})")
        for name, table in ROW_TABLES.items():
            own = (f"{self._column(column)} {'UNIQUE' * (column.name == table.key)}" for column in table.columns)
            key = f"{quoted(POSITION.name)} {self.types['key']}"
            self.run(f"CREATE TABLE {quoted(name)} ({', '.join((key, *own))})")
        self.run('CREATE INDEX usage_end ON usage ("end")')
        for statement in self.more_tables:
            self.run(statement)
        self.run("INSERT INTO store VALUES (?)", [FORMAT])
        self.run("INSERT INTO leader VALUES (1, 0, 0, '', '', '', 0)")
        self.run("INSERT INTO fold VALUES (0, 0, 0)")

    def _column(self, column: SqlColumn) -> str:
        return f"{quoted(column.name)} {self.types[column.kind]}"

    def require_format(self) -> None:
        """Check the version of the tables.

        Raises:
            StoreError: there is no store, or its version is another one.
        """
        if not self.has_tables():
            raise StoreError(self.location, "there is no store")
        [found] = self.only_row("SELECT format FROM store", "version of the tables")
        if found != FORMAT:
            raise StoreError(self.location, f"its format version is {found}; expected {FORMAT}")

    def only_row(self, statement: str, name: str) -> SqlRow:
        """Return the row of a table that has exactly one.

        Raises:
            StoreDamagedError: it is missing, or there are several.
        """
        found = self.run(statement)
        if len(found) != 1 or None in found[0]:
            raise StoreDamagedError(self.location, f"the {name} is missing or damaged")
        return found[0]

    # Leaders

    def read_leader(self) -> LeaderRecord:
        """Return the last leader."""
        columns = f"term, number, holder, address, process, renewed_at, {self.now} - renewed_at"
        row = self.only_row(f"SELECT {columns} FROM leader", "leader")  # noqa: S608 - a constant
        return LeaderRecord._make((*row[:-1], max(0.0, row[-1] / 1000)))

    def renew(self, term: int) -> None:
        """Record that the leader of a term is active.

        Raises:
            StoreDeposedError: another process leads.
        """
        if not self.run(f"UPDATE leader SET renewed_at = {self.now} WHERE term = ? RETURNING term", [term]):  # noqa: S608 - a constant
            raise StoreDeposedError(self.location, self.read_leader().term)

    def lead(self, holder: str, address: str, replaced: LeaderRecord | None) -> LeaderRecord:
        """Become the leader by raising the term, and return the record.

        Raises:
            StoreHeldError: another process leads.
        """
        self.create()
        found = self.read_leader()
        if replaced is None:
            is_active = found.address and found.silent_for < self.reconnect_time
            if is_active or not self.try_lock():
                raise StoreHeldError(self.location, found.holder)
            found = self.read_leader()
        elif found.term == replaced.term:
            self.end_leader(found)
        raised = self.run(
            f"UPDATE leader SET renewed_at = {self.now}, term = term + 1, holder = ?, address = ?, process = ? "  # noqa: S608 - a constant
            "WHERE term = ? RETURNING term",
            [holder, address, self.process, (replaced or found).term],
        )
        if not raised:
            raise StoreHeldError(self.location, self.read_leader().holder)
        if replaced is not None:
            self.end_leader(replaced)
        return self.read_leader()
