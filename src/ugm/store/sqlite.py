"""A store in an SQLite file, for the processes of one machine.

The leader holds SQLite's exclusive lock of a second file, ``-lock``, as long as it lives; the system releases the lock
with the process. So the store itself can be read by others, while one process writes it. The store is one file when it
is closed; SQLite keeps the last changes in a file next to it, ``-wal``. Symbolic links are resolved; other names of a
file are not supported.
"""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import ClassVar, Final, final
from urllib.parse import quote

from ugm.store.database import (
    ROWS_AT_ONCE,
    TYPES,
    ChangeRow,
    Database,
    LeaderRecord,
    StoreError,
    StoreHeldError,
    names_of,
    quoted,
)
from ugm.store.row_tables import SqlColumn, SqlRow

#: The maximum time that SQLite waits for a lock of another process, in seconds.
_LOCK_TIMEOUT: Final = 10
#: The maximum time that a killed process takes to end, in seconds.
_END_TIMEOUT: Final = 5.0
#: The application id in the header of the file.
_MAGIC: Final = 0x75676D73
#: The position of the start time in ``/proc/<pid>/stat``, counted after the name of the program.
_START_TIME: Final = 19
#: What follows from each append.
_NEW_NUMBER: Final = "UPDATE leader SET number = new.number, renewed_at = {now}"


@final
class SqliteDatabase(Database):
    """A connection to an SQLite file.

    Args:
        path: the file.
        is_reader: whether the connection only reads.
    """

    errors: ClassVar[tuple[type[Exception], ...]] = (sqlite3.Error, OverflowError)
    #: SQLite has no other use for the base class of its errors.
    damage: ClassVar[type[Exception]] = sqlite3.DatabaseError
    types: ClassVar[Mapping[str, str]] = {kind: names[0] for kind, names in TYPES.items()}
    now: ClassVar[str] = "CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)"
    begin: ClassVar[str] = "BEGIN IMMEDIATE"
    begin_reading: ClassVar[str] = "BEGIN"
    elements: ClassVar[str] = "json_each(?)"
    more_tables: ClassVar[Sequence[str]] = (
        f"PRAGMA application_id = {_MAGIC}",
        f"CREATE TRIGGER append AFTER INSERT ON change BEGIN {_NEW_NUMBER.format(now=now)}; END",
    )

    _connection: sqlite3.Connection | None
    #: The identity of the file of the connection.
    _opened: tuple[int, int] | None
    #: Holds the lock of the leader.
    _lock: sqlite3.Connection | None

    def __init__(self, path: str | os.PathLike[str], *, is_reader: bool = False) -> None:
        self._path: Final = Path(os.path.realpath(path))
        self._is_reader: Final = is_reader
        self._lock = self._opened = None
        super().__init__(str(self._path))

    # Connecting

    def _connected(self) -> sqlite3.Connection:
        if self._connection is None:
            mode = "ro" if self._is_reader else "rwc"
            self._connection = sqlite3.connect(
                f"file://{quote(os.fsencode(self._path))}?mode={mode}",
                uri=True,
                timeout=_LOCK_TIMEOUT,
                isolation_level=None,
                check_same_thread=False,
            )
            self._opened = self._identify()
            if not self._is_reader:
                self._connection.execute("PRAGMA journal_mode = WAL").fetchone()
                self._connection.execute("PRAGMA synchronous = FULL")
        return self._connection

    def close(self) -> None:
        """Close the connection, and release the lock."""
        self.reset()
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.close()

    # Statements

    def run(self, statement: str, values: Sequence[object] = ()) -> list[SqlRow]:
        """Run a statement and return its rows."""
        with self.translated_errors():
            return self._connected().execute(statement, values).fetchall()

    def stream(self, name: str, statement: str, values: Sequence[object] = ()) -> Iterator[list[SqlRow]]:  # noqa: ARG002 - for PostgreSQL
        """Yield the rows of a query in parts."""
        with self.translated_errors():
            cursor = self._connected().execute(statement, values)
            while rows := cursor.fetchmany(ROWS_AT_ONCE):
                yield rows

    def insert(self, table: str, columns: Sequence[SqlColumn], rows: Sequence[SqlRow], more: str = "") -> None:
        """Insert many rows."""
        marks = ", ".join("?" * len(columns))
        statement = f"INSERT INTO {quoted(table)} ({names_of(columns)}) VALUES ({marks}){more}"  # noqa: S608 - constants
        with self.translated_errors():
            self._connected().executemany(statement, rows)

    def append(self, term: int, rows: Sequence[ChangeRow]) -> bool:
        """Append changes durably, in one statement, unless the term is over or another change is the last one.

        A trigger updates the leader.
        """
        marks = ", ".join(["(?, ?, ?, ?, ?)"] * len(rows))
        statement = (
            f"INSERT INTO change SELECT * FROM (VALUES {marks}) "  # noqa: S608 - constants
            "WHERE EXISTS (SELECT 1 FROM leader WHERE term = ? AND number = ?)"
        )
        with self.translated_errors():
            values = [*chain.from_iterable(rows), term, rows[0].number - 1]
            is_appended = bool(self._connected().execute(statement, values).rowcount)
        if self._identify() != self._opened:
            raise StoreError(self.location, "the file was moved, replaced or deleted while it was open; move it back")
        return is_appended

    def _identify(self) -> tuple[int, int] | None:
        """Return the identity of the file at the path; None if there is none."""
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino

    # The file

    def has_tables(self) -> bool:
        """Return whether the store exists, without creating the file."""
        if self._identify() is None or (self._connection is None and not self._path.stat().st_size):
            return False
        return bool(self.run("SELECT 1 FROM sqlite_schema WHERE name = 'store'"))

    # Leaders

    @property
    def process(self) -> str:
        """This process, by its id and the time of its start."""
        return f"{os.getpid()} {_started(os.getpid())}"

    def try_lock(self) -> bool:
        """Lock the second file, and return whether this succeeded."""
        return self._lock is not None or self._take_lock(0)

    def _take_lock(self, timeout: float) -> bool:
        lock = sqlite3.connect(f"{self._path}-lock", timeout=timeout, isolation_level=None, check_same_thread=False)
        try:
            lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            lock.close()
            if error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
                return False
            raise StoreError(self.location, f"it cannot be locked: {error}") from error
        self._lock = lock
        return True

    def end_leader(self, leader: LeaderRecord) -> None:
        """Kill the process that leads, because a stopped process keeps its locks, and lock the file.

        Raises:
            StoreHeldError: the process cannot be killed.
        """
        if self._lock is None:
            process, started = map(int, leader.process.split())
            # The id may belong to another process now.
            if process != os.getpid() and started and started == _started(process):
                with suppress(OSError):
                    os.kill(process, signal.SIGKILL)
            if not self._take_lock(_END_TIMEOUT):
                raise StoreHeldError(self.location, leader.holder)


def _started(process: int) -> int:
    """Return when a process was started, in ticks since the start of the machine; 0 if the system does not tell."""
    try:
        text = Path(f"/proc/{process}/stat").read_text("utf-8", "replace")
    except OSError:
        return 0
    return int(text.rpartition(")")[2].split()[_START_TIME])
