"""The file of a journal: an SQLite database in which every row carries a checksum.

Three tables. `changes` has what happened, one row for all that happened in one go, numbered without gaps. `snapshot`
has the state of the partition before the first of them, if the journal has been compacted; its first row says after
which change that was, and how many rows there are. `history` has what is kept of the time before that: who used what,
and which configurations were in force.

A row is read only if its checksum agrees, and numbers have to follow each other; so whatever is read is what was
written. Nothing here knows what the rows say.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias
from urllib.parse import quote
from zlib import crc32

from ugm.journal.ack_marker import require_last_name, require_same_name
from ugm.journal.errors import JournalDamagedError, JournalError
from ugm.journal.file_use import open_file_use, sync_directory

__all__ = [
    "FORMAT",
    "Change",
    "ChangeRow",
    "StoreReader",
    "bound_log",
    "change_row",
    "checksummed_rows",
    "connect",
    "create",
    "exists",
    "format_version",
    "is_disk_full",
    "open_reader",
    "row_checksum",
    "transaction",
    "truncate_log",
    "write_changes",
]

#: The version of the tables that this ugm writes.
FORMAT: Final = 2
#: What the head of the file says: a journal of ugm.
_MAGIC: Final = 0x75676D6A
#: How long a writer waits for readers that take a moment, in seconds.
_PATIENCE: Final = 10

#: How many pages the log may have before they are moved to the file. Few, because the space that is kept in reserve has
#: to hold them in the end.
_LOG_PAGES: Final = 200
#: The same when the disk is full: what is left is for the file then. Each commit costs more, and how many succeed does
#: not depend on what the log had when the disk became full.
_FULL_LOG_PAGES: Final = 1
#: The largest log that is kept after a checkpoint. One transaction may need more: a compaction, a large gang.
_LOG_SIZE: Final = 2**20

#: How many changes one statement writes at most: every SQLite takes 999 values, and a change has four.
_AT_ONCE: Final = 200

_TABLES: Final = """
    CREATE TABLE version (version INTEGER NOT NULL, sum INTEGER NOT NULL);
    CREATE TABLE changes (number INTEGER PRIMARY KEY, at INTEGER NOT NULL, data BLOB NOT NULL, sum INTEGER NOT NULL);
    CREATE TABLE snapshot (position INTEGER PRIMARY KEY, data BLOB NOT NULL, sum INTEGER NOT NULL);
    CREATE TABLE history (position INTEGER PRIMARY KEY, data BLOB NOT NULL, sum INTEGER NOT NULL);
"""


#: What SQLite says when the disk is full: for the file or its log, and for the index of the log.
_NO_ROOM: Final = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE)
#: What SQLite says where the file may be well: kinds of errors, and single ones of another kind.
_OUT_OF_REACH: Final = (
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_NOMEM,
)
_OUT_OF_REACH_NOW: Final = (
    sqlite3.SQLITE_IOERR_SHMSIZE,
    sqlite3.SQLITE_IOERR_SHMOPEN,
    sqlite3.SQLITE_IOERR_SHMMAP,
    sqlite3.SQLITE_IOERR_SHMLOCK,
    sqlite3.SQLITE_IOERR_LOCK,
    sqlite3.SQLITE_IOERR_RDLOCK,
    sqlite3.SQLITE_IOERR_WRITE,
    sqlite3.SQLITE_IOERR_NOMEM,
)


#: A row of the table of changes: number, instant, data and checksum.
ChangeRow: TypeAlias = tuple[int, int, bytes, int]


class Change(NamedTuple):
    """What happened in one go; a row of the table without its checksum."""

    number: int
    #: When, in milliseconds since 1970. Never less than that of the change before.
    at: int
    data: bytes


def change_row(number: int, at: int, data: bytes) -> ChangeRow:
    """Return the row of a change, with its checksum."""
    return number, at, data, crc32(data, crc32(b"%d %d" % (number, at)))


def row_checksum(position: int, data: bytes) -> int:
    """Return the checksum of any other row."""
    return crc32(data, crc32(b"%d" % position))


# Writing


def create(path: str) -> None:
    """Make an empty journal; a file is there once everything is in it.

    Raises:
        JournalError: the log of another journal is in the way.
        OSError: it cannot be made.
        sqlite3.Error: the same.
    """
    if exists(f"{path}-wal"):
        # SQLite would read it as the log of the new file.
        raise JournalError(path, f"it is empty or missing, but {path}-wal has changes; move that file away first")
    draft = Path(f"{path}-new")
    draft.unlink(missing_ok=True)
    with closing(sqlite3.connect(draft, isolation_level=None)) as connection:
        connection.executescript(f"PRAGMA application_id = {_MAGIC}; BEGIN; {_TABLES}")
        connection.execute("INSERT INTO version VALUES (?, ?)", (FORMAT, row_checksum(FORMAT, b"version")))
        connection.execute("COMMIT")
    draft.replace(path)
    sync_directory(draft.parent)


def connect(path: str) -> sqlite3.Connection:
    """Open a file for writing; what is committed has reached the disk.

    Raises:
        sqlite3.Error: it cannot be opened, or is no database.
    """
    connection = sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL").fetchone()
    connection.execute("PRAGMA synchronous = FULL")
    # Some builds of SQLite overwrite what is deleted. On a full disk there is no room in the log for that.
    connection.execute("PRAGMA secure_delete = OFF").fetchall()
    connection.execute(f"PRAGMA journal_size_limit = {_LOG_SIZE}").fetchall()
    bound_log(connection, is_full=False)
    return connection


def bound_log(connection: sqlite3.Connection, *, is_full: bool) -> None:
    """Set how far the log may grow. On a full disk it is made as small as possible: the space is for the file then.

    Raises:
        sqlite3.Error: the log cannot be moved to the file.
    """
    pages = _FULL_LOG_PAGES if is_full else _LOG_PAGES
    connection.execute(f"PRAGMA wal_autocheckpoint = {pages}").fetchall()
    if is_full:
        truncate_log(connection)


def truncate_log(connection: sqlite3.Connection) -> bool:
    """Move all of the log to the file, free its space, and return whether that was possible.

    Does not wait for readers: as long as they read, the log has to stay.

    Raises:
        sqlite3.Error: the log cannot be moved to the file.
    """
    connection.execute("PRAGMA busy_timeout = 0").fetchall()
    try:
        [is_busy, _, _] = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    finally:
        connection.execute(f"PRAGMA busy_timeout = {_PATIENCE * 1000}").fetchall()
    return not is_busy


def is_disk_full(error: sqlite3.Error) -> bool:
    """Return whether SQLite says that the disk is full."""
    return getattr(error, "sqlite_errorcode", 0) in _NO_ROOM


def write_changes(connection: sqlite3.Connection, rows: Sequence[ChangeRow]) -> None:
    """Write changes, all of them or none. Those that are there already, because nobody knew, are written once more.

    One statement writes many: other threads go on while SQLite is at work, and between two statements it has to wait
    for one of them to make way again. Beside a thread that computes all the time, a commit of 100 changes takes 7 ms
    this way, and 36 ms with one statement for each change.

    Raises:
        sqlite3.Error: that failed; nothing is written.
    """
    if connection.in_transaction:
        # Left by a call that was interrupted.
        connection.execute("ROLLBACK")
    if len(rows) <= _AT_ONCE:
        connection.execute(_insert(len(rows)), tuple(chain.from_iterable(rows)))
        return
    with transaction(connection):
        for first in range(0, len(rows), _AT_ONCE):
            part = rows[first : first + _AT_ONCE]
            connection.execute(_insert(len(part)), tuple(chain.from_iterable(part)))


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit everything that the block does, or nothing of it if the block or the commit fails.

    Raises:
        sqlite3.Error: it cannot be begun or committed.
    """
    try:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")


@cache
def _insert(count: int) -> str:
    return "REPLACE INTO changes VALUES (?, ?, ?, ?)" + ", (?, ?, ?, ?)" * (count - 1)


# Reading


@contextmanager
def open_reader(path: str) -> Iterator[StoreReader]:
    """Read a file as it is at one moment, without changing anything of it; another process may be writing it.

    Raises:
        JournalError: it is no journal, or of another version.
        JournalDamagedError: it is damaged.
    """
    with open_file_use(path) as use:
        session = require_last_name(path, use)
        try:
            connection = sqlite3.connect(_address(path, session), uri=True, timeout=_PATIENCE, isolation_level=None)
        except sqlite3.Error as error:
            raise JournalError(path, f"cannot be read: {error}") from error
        with closing(connection):
            found = StoreReader(path, connection)
            try:
                found.begin()
                if not session & 1 and _is_log_old(session, found.session) and use.session == session:
                    raise JournalError(path, f"{path}-wal is older than the file; move it away to use the file")
                yield found
            except JournalDamagedError:
                # Somebody who writes it under another name would look like damage.
                require_same_name(path, use, session)
                raise
            require_same_name(path, use, session)


def _is_log_old(in_file: int, in_log: int) -> bool:
    """Return whether the log beside a closed journal is from before the file was last written.

    A process that dies while it closes a journal may leave a log behind, whose content the file has already. If the
    file is written under another name then, SQLite must not read that log into it.
    """
    return not in_log & 1 and in_log != in_file


def _address(path: str, session: int) -> str:
    """Return the address under which SQLite reads a file."""
    address = f"file://{quote(os.fsencode(path))}?mode=ro"
    # In a folder that may not be written SQLite cannot make the files by which readers and writers know of each other.
    if not session & 1 and not exists(f"{path}-wal") and not os.access(Path(path).parent, os.W_OK):
        address += "&immutable=1"
    return address


def format_version(path: str) -> int:
    """Return the version of the tables of a file.

    Raises:
        JournalError: it is no journal.
        JournalDamagedError: it is damaged.
    """
    with open_reader(path) as found:
        return found.version


class StoreReader:
    """One look at a journal."""

    __slots__ = ("_connection", "_path", "_readable", "version")

    #: The version of its tables.
    version: int

    def __init__(self, path: str, connection: sqlite3.Connection) -> None:
        self._path: Final = path
        self._connection: Final = connection
        #: The last change that was read.
        self._readable = 0
        self.version = 0

    def begin(self) -> None:
        """Hold on to the file as it is now, and find out whether it is a journal."""
        with self._telling():
            self._connection.execute("BEGIN")
            [magic] = self._connection.execute("PRAGMA application_id").fetchone()
            if magic != _MAGIC:
                raise JournalError(self._path, "this is no journal of ugm")
            rows = self._connection.execute("SELECT version, sum FROM version").fetchall()
            if len(rows) != 1 or rows[0][1] != row_checksum(rows[0][0], b"version"):
                raise self.damaged("the version cannot be read")
            self.version = rows[0][0]

    @property
    def session(self) -> int:
        """The number of the last session, as the file and its log together have it."""
        with self._telling():
            [found] = self._connection.execute("PRAGMA user_version").fetchone()
        return int(found)

    def copy_to(self, target: Path) -> None:
        """Write all of it into a new file, which is closed and needs no files beside it.

        Raises:
            sqlite3.Error: it cannot be written.
        """
        with closing(sqlite3.connect(target, isolation_level=None)) as copy:
            self._connection.backup(copy)
            # The session is that of the original.
            copy.execute("PRAGMA user_version = 0")

    def check(self) -> None:
        """Have the database look for damage of its own kind."""
        with self._telling():
            [found] = self._connection.execute("PRAGMA quick_check(1)").fetchone()
        if found != "ok":
            raise self.damaged(" ".join(found.split()))

    def rows(self, table: str) -> Iterator[bytes]:
        """Yield the rows of the snapshot or of the history.

        Raises:
            JournalDamagedError: one of them is damaged, or missing between others.
        """
        with self._telling():
            select = f"SELECT position, data, sum FROM {table} ORDER BY position"  # noqa: S608 - a name of ours
            for due, (position, data, told) in enumerate(self._connection.execute(select)):
                if type(data) is not bytes or position != due or told != row_checksum(position, data):
                    raise self.damaged(f"row {due} of the {table} is damaged")
                yield data

    def changes(self, after: int) -> Iterator[Change]:
        """Yield all changes; the first has to be that behind *after*.

        Raises:
            JournalDamagedError: one of them is damaged, or missing between others.
        """
        self._readable = after
        with self._telling():
            select = "SELECT number, at, data, sum FROM changes ORDER BY number"
            for number, at, data, told in self._connection.execute(select):
                if number != self._readable + 1:
                    raise self.damaged(f"change {self._readable + 1} is missing")
                # What `change_row` does, spelt out: there may be millions.
                if type(data) is not bytes or told != crc32(data, crc32(b"%d %d" % (number, at))):
                    raise self.damaged(f"change {number} is damaged")
                yield Change(number, at, data)
                self._readable = number

    def damaged(self, reason: str) -> JournalDamagedError:
        """Return the error for damage that was found now."""
        return JournalDamagedError(self._path, reason, self._readable)

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Tell of what SQLite cannot read as of damage."""
        try:
            yield
        except (sqlite3.Error, TypeError, ValueError, OverflowError) as error:
            code = getattr(error, "sqlite_errorcode", 0)
            if code & 0xFF in _OUT_OF_REACH or code in _OUT_OF_REACH_NOW:
                raise JournalError(self._path, f"it cannot be read: {error}") from error
            raise self.damaged(f"the database cannot be read: {error}") from error


def checksummed_rows(first: int, data: Iterable[bytes]) -> Iterator[tuple[int, bytes, int]]:
    """Yield rows for the snapshot or the history, from position *first* on."""
    for position, record in enumerate(data, first):
        yield position, record, row_checksum(position, record)


def exists(path: str) -> bool:
    """Return whether a file is there and has anything in it."""
    return Path(path).exists() and Path(path).stat().st_size > 0
