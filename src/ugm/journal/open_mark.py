"""The open mark: a number in a journal file that shows whether the file was closed, and under which name it is open.

The problem: SQLite keeps the last changes in a WAL file, and finds this file by name. If the journal has two names (a
hard link, a bind mount) or is renamed while it is open, the WAL is found under one of them only. Read under the other
name, the journal would lack its last changes, or show pages of different moments.

The idea: a process that opens the journal for writing draws a random odd number. It writes the number to the ack marker
of the name first, and then to the header of the file, before it writes anything else. To close the journal it moves the
whole WAL to the file first, and then makes the number in the header even. So:

- An even mark: the file is complete under every name. Journals of versions without open marks have 0.
- An odd mark: the last changes are in the WAL of the name whose ack marker has the same mark. Under any other name the
  journal is refused.

The cost: three writes when a journal is opened and three when it is closed, none in between.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from random import SystemRandom
from typing import Final

from ugm.journal.ack_marker import AckMarker, read_ack_marker
from ugm.journal.disk_reserve import DiskReserve
from ugm.journal.file_use import open_file_use
from ugm.journal.store import connect, is_disk_full, truncate_wal

__all__ = ["mark_closed", "mark_open", "open_for_maintenance"]

#: The largest mark that fits in the header.
_LARGEST: Final = 2**31 - 1
_RANDOM: Final = SystemRandom()


def mark_open(path: str, connection: sqlite3.Connection, number: int, free_space: Callable[[], object]) -> AckMarker:
    """Mark a journal as open under a name, and return its ack marker.

    If the journal was not closed before, its mark stays. Then the header does not change, which is important on a full
    disk.

    Args:
        path: the journal, which is locked.
        connection: the connection through which it is written.
        number: the last change of the journal.
        free_space: a function that is called before a second attempt if the disk is full.

    Raises:
        JournalError: the file cannot be read.
        OSError: the ack marker cannot be written.
        sqlite3.Error: the journal cannot be written.
    """
    with open_file_use(path) as use:
        before = use.open_mark
    open_mark = before if before & 1 else _RANDOM.randrange(3, _LARGEST, 2)
    try:
        marker = AckMarker(path, number, open_mark)
    except OSError:
        # A failed compaction may have left a large WAL; see `ugm.journal.compaction`.
        with suppress(sqlite3.Error):
            truncate_wal(connection)
        free_space()
        marker = AckMarker(path, number, open_mark)
    try:
        [known] = connection.execute("PRAGMA user_version").fetchone()
        if known != open_mark:
            _with_retry(free_space, lambda: connection.execute(f"PRAGMA user_version = {open_mark}"))
        # If the disk has too little space for this as well, the WAL stays as it is for now.
        with suppress(sqlite3.OperationalError):
            _with_retry(free_space, lambda: truncate_wal(connection))
    except BaseException:
        marker.close()
        raise
    return marker


def _with_retry(free_space: Callable[[], object], work: Callable[[], object]) -> None:
    """Call *work*, and call it again after *free_space* if the disk is full."""
    try:
        work()
    except sqlite3.OperationalError as error:
        if not is_disk_full(error):
            raise
        free_space()
        work()


def mark_closed(connection: sqlite3.Connection, marker: AckMarker) -> None:
    """Close a journal. The file is complete then, unless a reader or a full disk prevents this.

    Both are harmless: the journal stays marked as open, and is complete under the same name.
    """
    with suppress(sqlite3.Error):
        # The WAL is moved before the header changes: SQLite writes the header first, so other pages could be missing.
        if truncate_wal(connection):
            # The header may change only when the WAL is gone as well.
            connection.execute("PRAGMA wal_autocheckpoint = 0").fetchall()
            connection.execute(f"PRAGMA user_version = {marker.open_mark - 1}")
    connection.close()
    marker.close()


@contextmanager
def open_for_maintenance(path: str) -> Iterator[sqlite3.Connection]:
    """Open a locked journal to work on the whole file, and close it afterwards.

    Raises:
        JournalError: the file cannot be read.
        OSError: the ack marker cannot be written.
        sqlite3.Error: the journal cannot be written.
    """
    mark = read_ack_marker(path)
    with closing(connect(path)) as connection:
        marker = mark_open(path, connection, mark.number if mark else 0, DiskReserve(path).release)
        try:
            yield connection
        finally:
            mark_closed(connection, marker)
