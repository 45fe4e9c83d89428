"""Sessions: from opening a journal for writing until it is closed, under one name.

The problem: SQLite keeps the last changes in a log beside the file, and finds that log by name. If a file has two names
(a hard link, a bind mount of the file) or is renamed while it is open, the log is found under one of them only. Read
under the other name, the journal would lack its last changes, or show pages of different moments.

The idea: the header of the file says whether it was closed. Each session has a random odd number. It is noted in the
file `-witness` beside the name first, and then written to the header, before anything else is. When the journal is
closed, everything is moved to the file first, and then the number in the header becomes even. So:

- An even number: the file has everything, whatever its name. Journals from before there were sessions have 0.
- An odd number: the last changes are beside the name whose `-witness` has the same number. Under any other name the
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
from ugm.journal.store import connect, is_disk_full, truncate_log

__all__ = ["begin_session", "end_session", "open_for_maintenance"]

#: The largest number that the header takes.
_LARGEST: Final = 2**31 - 1
_RANDOM: Final = SystemRandom()


def begin_session(
    path: str, connection: sqlite3.Connection, number: int, free_space: Callable[[], object]
) -> AckMarker:
    """Begin to write a journal under a name, and return the note of what is acknowledged.

    A session that was not ended is continued, so nothing has to be written on a full disk.

    Args:
        path: the journal, which is locked.
        connection: what it is written through.
        number: the last change that it has.
        free_space: called if the disk is full, before a second attempt.

    Raises:
        JournalError: the file cannot be read.
        OSError: the note cannot be written.
        sqlite3.Error: the journal cannot be written.
    """
    with open_file_use(path) as use:
        before = use.session
    session = before if before & 1 else _RANDOM.randrange(3, _LARGEST, 2)
    try:
        marker = AckMarker(path, number, session)
    except OSError:
        # First truncate a log that a failed compaction has left; see `ugm.journal.compaction`.
        with suppress(sqlite3.Error):
            truncate_log(connection)
        free_space()
        marker = AckMarker(path, number, session)
    try:
        [known] = connection.execute("PRAGMA user_version").fetchone()
        if known != session:
            _with_room(free_space, lambda: connection.execute(f"PRAGMA user_version = {session}"))
        # If there is no room for that either, the log stays as it is until there is.
        with suppress(sqlite3.OperationalError):
            _with_room(free_space, lambda: truncate_log(connection))
    except BaseException:
        marker.close()
        raise
    return marker


def _with_room(free_space: Callable[[], object], work: Callable[[], object]) -> None:
    """Do something, and once more with more room if the disk is full."""
    try:
        work()
    except sqlite3.OperationalError as error:
        if not is_disk_full(error):
            raise
        free_space()
        work()


def end_session(connection: sqlite3.Connection, marker: AckMarker) -> None:
    """Close a journal: the file alone has everything then, unless a reader or the disk prevents that.

    Both are harmless. The session stays open then, and is continued when the journal is opened again.
    """
    with suppress(sqlite3.Error):
        # In this order: SQLite moves the header first, so what comes with it could still be missing.
        if truncate_log(connection):
            # The header may say so only when the log has gone, too.
            connection.execute("PRAGMA wal_autocheckpoint = 0").fetchall()
            connection.execute(f"PRAGMA user_version = {marker.session - 1}")
    connection.close()
    marker.close()


@contextmanager
def open_for_maintenance(path: str) -> Iterator[sqlite3.Connection]:
    """Open a journal that is locked, for work on the whole of it.

    Raises:
        JournalError: the file cannot be read.
        OSError: the note of what is acknowledged cannot be written.
        sqlite3.Error: the journal cannot be written.
    """
    known = read_ack_marker(path)
    with closing(connect(path)) as connection:
        marker = begin_session(path, connection, known.number if known else 0, DiskReserve(path).release)
        try:
            yield connection
        finally:
            end_session(connection, marker)
