"""Reads the file of a journal as it is at one moment, while another process may be writing it."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote
from zlib import crc32

from ugm.journal.ack_marker import require_last_name, require_same_name
from ugm.journal.errors import JournalDamagedError, JournalError
from ugm.journal.file_use import open_file_use
from ugm.journal.store import LOCK_TIMEOUT, MAGIC, has_content, row_checksum

__all__ = ["CHANGES_AT_ONCE", "StoreReader", "StoredChange", "open_reader", "read_format"]

#: Errors of SQLite that do not mean that the file is damaged: whole categories, and single errors of other categories.
_UNAVAILABLE: Final = (
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_NOMEM,
)
_UNAVAILABLE_NOW: Final = (
    sqlite3.SQLITE_IOERR_SHMSIZE,
    sqlite3.SQLITE_IOERR_SHMOPEN,
    sqlite3.SQLITE_IOERR_SHMMAP,
    sqlite3.SQLITE_IOERR_SHMLOCK,
    sqlite3.SQLITE_IOERR_LOCK,
    sqlite3.SQLITE_IOERR_RDLOCK,
    sqlite3.SQLITE_IOERR_WRITE,
    sqlite3.SQLITE_IOERR_NOMEM,
)


#: The maximum number of changes that a follower reads at once.
CHANGES_AT_ONCE: Final = 2000


class StoredChange(NamedTuple):
    """A row of the table of changes, without its checksum."""

    number: int
    #: In milliseconds since 1970. Never less than that of the change before.
    at: int
    data: bytes


@contextmanager
def open_reader(path: str) -> Iterator[StoreReader]:
    """Open a journal for reading, without changing the file.

    Raises:
        JournalError: the file is not a journal, or its last changes are in the WAL of another name.
        JournalDamagedError: the journal is damaged.
    """
    with open_file_use(path) as use:
        open_mark = require_last_name(path, use)
        try:
            connection = sqlite3.connect(
                _address(path, open_mark), uri=True, timeout=LOCK_TIMEOUT, isolation_level=None
            )
        except sqlite3.Error as error:
            raise JournalError(path, f"it cannot be read: {error}") from error
        with closing(connection):
            reader = StoreReader(path, connection)
            try:
                reader.begin()
                if not open_mark & 1 and _is_wal_old(open_mark, reader.open_mark) and use.open_mark == open_mark:
                    raise JournalError(path, f"{path}-wal is older than the file; move it away to use the file")
                yield reader
            except JournalDamagedError:
                # A process that writes the file under another name would look like damage.
                require_same_name(path, use, open_mark)
                raise
            require_same_name(path, use, open_mark)


def _is_wal_old(in_file: int, in_wal: int) -> bool:
    """Return whether the WAL next to a closed journal is from before the file was last written.

    A process that dies while it closes a journal may leave a WAL whose content the file has already. If the file is
    then written under another name, SQLite must not read that WAL into it.
    """
    return not in_wal & 1 and in_wal != in_file


def _address(path: str, open_mark: int) -> str:
    """Return the URI under which SQLite reads a file."""
    address = f"file://{quote(os.fsencode(path))}?mode=ro"
    # In a read-only directory SQLite cannot create the files with which readers and writers coordinate.
    if not open_mark & 1 and not has_content(f"{path}-wal") and not os.access(Path(path).parent, os.W_OK):
        address += "&immutable=1"
    return address


def read_format(path: str) -> int:
    """Return the version of the tables of a journal.

    Raises:
        JournalError: the file is not a journal.
        JournalDamagedError: the journal is damaged.
    """
    with open_reader(path) as reader:
        return reader.version


class StoreReader:
    """A read transaction on the file of a journal."""

    __slots__ = ("_connection", "_path", "_readable", "version")

    #: The version of the tables.
    version: int

    def __init__(self, path: str, connection: sqlite3.Connection) -> None:
        self._path: Final = path
        self._connection: Final = connection
        #: The last change that was read.
        self._readable = 0
        self.version = 0

    def begin(self) -> None:
        """Begin the transaction, and check that the file is a journal."""
        with self._translated_errors():
            self._connection.execute("BEGIN")
            [magic] = self._connection.execute("PRAGMA application_id").fetchone()
            if magic != MAGIC:
                raise JournalError(self._path, "this is not a ugm journal")
            rows = self._connection.execute("SELECT version, sum FROM version").fetchall()
            if len(rows) != 1 or rows[0][1] != row_checksum(rows[0][0], b"version"):
                raise self.damaged("the version cannot be read")
            self.version = rows[0][0]

    @property
    def open_mark(self) -> int:
        """The open mark, from the file and its WAL together."""
        with self._translated_errors():
            [found] = self._connection.execute("PRAGMA user_version").fetchone()
        return int(found)

    def copy_to(self, target: Path) -> None:
        """Write everything to a new file, which is a closed journal without other files.

        Raises:
            sqlite3.Error: the file cannot be written.
        """
        with closing(sqlite3.connect(target, isolation_level=None)) as copy:
            self._connection.backup(copy)
            # The copy is closed, whatever the original is.
            copy.execute("PRAGMA user_version = 0")

    def check(self) -> None:
        """Let SQLite check the structure of the file.

        Raises:
            JournalDamagedError: the structure is damaged.
        """
        with self._translated_errors():
            [found] = self._connection.execute("PRAGMA quick_check(1)").fetchone()
        if found != "ok":
            raise self.damaged(" ".join(found.split()))

    def rows(self, table: str) -> Iterator[bytes]:
        """Yield the rows of the snapshot or of the history.

        Raises:
            JournalDamagedError: a row is damaged, or missing between others.
        """
        with self._translated_errors():
            select = f"SELECT position, data, sum FROM {table} ORDER BY position"  # noqa: S608 - a constant
            for due, (position, data, checksum) in enumerate(self._connection.execute(select)):
                if type(data) is not bytes or position != due or checksum != row_checksum(position, data):
                    raise self.damaged(f"row {due} of the {table} is damaged")
                yield data

    def has_change(self, number: int) -> bool:
        """Return whether the table of changes has a number."""
        with self._translated_errors():
            return bool(self._connection.execute("SELECT 1 FROM changes WHERE number = ?", (number,)).fetchall())

    def changes(self, after: int) -> Iterator[StoredChange]:
        """Yield all changes after *after*, without gaps.

        Raises:
            JournalDamagedError: a change is damaged, or missing between others.
        """
        self._readable = after
        with self._translated_errors():
            select = "SELECT number, at, data, sum FROM changes WHERE number > ? ORDER BY number"
            for number, at, data, checksum in self._connection.execute(select, (after,)):
                if number != self._readable + 1:
                    raise self.damaged(f"change {self._readable + 1} is missing")
                # The checksum of `change_row`, inlined because there may be millions of changes.
                if type(data) is not bytes or checksum != crc32(data, crc32(b"%d %d" % (number, at))):
                    raise self.damaged(f"change {number} is damaged")
                yield StoredChange(number, at, data)
                self._readable = number

    def damaged(self, reason: str) -> JournalDamagedError:
        """Return the error for damage that was found after the last change that was read."""
        return JournalDamagedError(self._path, reason, self._readable)

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        """Raise errors of SQLite as `JournalError`, or as `JournalDamagedError` if the file is damaged."""
        try:
            yield
        except (sqlite3.Error, TypeError, ValueError, OverflowError) as error:
            code = getattr(error, "sqlite_errorcode", 0)
            if code & 0xFF in _UNAVAILABLE or code in _UNAVAILABLE_NOW:
                raise JournalError(self._path, f"it cannot be read: {error}") from error
            raise self.damaged(f"the database cannot be read: {error}") from error
