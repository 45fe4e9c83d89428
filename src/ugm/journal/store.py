"""The file of a journal: an SQLite database in which every row has a checksum.

The database has four tables. `version` has the version of the format. `changes` has one row for each change, numbered
without gaps. `snapshot` has the state of the partition before the first of these changes, if the journal has been
compacted; its first row has the number of the change before, and the number of rows. `history` has data about the time
before the snapshot: usage over time, and the configurations that were in force.

A row is read only if its checksum is valid, and the numbers have to follow each other. So the rows that are read are
the rows that were written. This module does not interpret the data of a row.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final
from zlib import crc32

from ugm.journal.errors import JournalError
from ugm.journal.file_use import sync_directory

__all__ = [
    "FORMAT",
    "LOCK_TIMEOUT",
    "MAGIC",
    "checksummed_rows",
    "connect",
    "create",
    "has_content",
    "is_disk_full",
    "limit_wal",
    "row_checksum",
    "transaction",
    "truncate_wal",
]

#: The version of the tables that this ugm writes.
FORMAT: Final = 2
#: The application id in the header of the file.
MAGIC: Final = 0x75676D6A
#: The maximum time that SQLite waits for a lock of another process, in seconds.
LOCK_TIMEOUT: Final = 10

#: The number of pages in the WAL after which they are moved to the file. It is small because the reserved disk space
#: has to suffice for moving them.
_WAL_PAGES: Final = 200
#: The same on a full disk, where the space is needed for the file. Each commit costs more, but the space that is left
#: does not depend on the size of the WAL when the disk became full.
_WAL_PAGES_ON_FULL_DISK: Final = 1
#: The size to which the WAL file is truncated after its pages were moved. One transaction may need more: a compaction,
#: a large gang.
_WAL_SIZE: Final = 2**20

_TABLES: Final = """
    CREATE TABLE version (version INTEGER NOT NULL, sum INTEGER NOT NULL);
    CREATE TABLE changes (number INTEGER PRIMARY KEY, at INTEGER NOT NULL, data BLOB NOT NULL, sum INTEGER NOT NULL);
    CREATE TABLE snapshot (position INTEGER PRIMARY KEY, data BLOB NOT NULL, sum INTEGER NOT NULL);
    CREATE TABLE history (position INTEGER PRIMARY KEY, data BLOB NOT NULL, sum INTEGER NOT NULL);
"""

#: The errors of SQLite on a full disk: for the file or its WAL, and for the index of the WAL.
_DISK_FULL: Final = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE)


def has_content(path: str) -> bool:
    """Return whether a file exists and is not empty.

    Raises:
        JournalError: this cannot be found out, for example because the name is too long.
    """
    try:
        return Path(path).stat().st_size > 0
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise JournalError(path, f"it cannot be read: {error.strerror}") from error


def create(path: str) -> None:
    """Create an empty journal. The file gets its name when it is complete.

    Raises:
        JournalError: there is a WAL file of another journal with this name.
        OSError: the file cannot be created.
        sqlite3.Error: the database cannot be written.
    """
    if has_content(f"{path}-wal"):
        # SQLite would read it as the WAL of the new file.
        raise JournalError(path, f"it is empty or missing, but {path}-wal has changes; move that file away first")
    draft = Path(f"{path}-new")
    draft.unlink(missing_ok=True)
    with closing(sqlite3.connect(draft, isolation_level=None)) as connection:
        connection.executescript(f"PRAGMA application_id = {MAGIC}; BEGIN; {_TABLES}")
        connection.execute("INSERT INTO version VALUES (?, ?)", (FORMAT, row_checksum(FORMAT, b"version")))
        connection.execute("COMMIT")
    draft.replace(path)
    sync_directory(draft.parent)


def connect(path: str) -> sqlite3.Connection:
    """Open a journal for writing, with durable commits.

    Raises:
        sqlite3.Error: the file cannot be opened, or is not a database.
    """
    connection = sqlite3.connect(path, timeout=LOCK_TIMEOUT, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL").fetchone()
    connection.execute("PRAGMA synchronous = FULL")
    # Some builds of SQLite overwrite deleted rows. On a full disk the WAL has no space for that.
    connection.execute("PRAGMA secure_delete = OFF").fetchall()
    connection.execute(f"PRAGMA journal_size_limit = {_WAL_SIZE}").fetchall()
    limit_wal(connection, is_disk_full=False)
    return connection


def limit_wal(connection: sqlite3.Connection, *, is_disk_full: bool) -> None:
    """Set the size of the WAL. On a full disk it is as small as possible, because the file needs the space.

    Raises:
        sqlite3.Error: the WAL cannot be moved to the file.
    """
    pages = _WAL_PAGES_ON_FULL_DISK if is_disk_full else _WAL_PAGES
    connection.execute(f"PRAGMA wal_autocheckpoint = {pages}").fetchall()
    if is_disk_full:
        truncate_wal(connection)


def truncate_wal(connection: sqlite3.Connection) -> bool:
    """Move the whole WAL to the file and free its space, and return whether this was possible.

    The function does not wait for readers. While they read, the WAL has to stay.

    Raises:
        sqlite3.Error: the WAL cannot be moved to the file.
    """
    connection.execute("PRAGMA busy_timeout = 0").fetchall()
    try:
        [is_busy, _, _] = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    finally:
        connection.execute(f"PRAGMA busy_timeout = {LOCK_TIMEOUT * 1000}").fetchall()
    return not is_busy


def is_disk_full(error: sqlite3.Error) -> bool:
    """Return whether an error means that the disk is full."""
    return getattr(error, "sqlite_errorcode", 0) in _DISK_FULL


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit the statements of the block, or none of them if the block or the commit fails.

    Raises:
        sqlite3.Error: the transaction cannot be begun or committed.
    """
    try:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")


def row_checksum(position: int, data: bytes) -> int:
    """Return the checksum of a row of the snapshot or of the history."""
    return crc32(data, crc32(b"%d" % position))


def checksummed_rows(first: int, data: Iterable[bytes]) -> Iterator[tuple[int, bytes, int]]:
    """Yield rows for the snapshot or the history, from position *first* on."""
    for position, record in enumerate(data, first):
        yield position, record, row_checksum(position, record)
