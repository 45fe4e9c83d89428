"""The writer of a journal file: commits rows to the table of changes, and stores their last number in the ack marker.

The problem: on a full disk a release cannot be written, although it would free quota.

The idea: some space is reserved (see `ugm.journal.disk_reserve`). If a commit finds the disk full, this space is freed
and the commit is tried again. From then on `FileWriter.has_reserve` is false and operations that take quota are
refused, until the space can be reserved again.

Invariant: the ack marker is written after the commit, so it never names a change that is not on the disk.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from itertools import chain
from os import stat
from typing import Final, Protocol, TypeAlias, final
from zlib import crc32

from ugm.journal.ack_marker import AckMarker
from ugm.journal.disk_reserve import DiskReserve
from ugm.journal.errors import FILE_MOVED, JournalError
from ugm.journal.open_mark import mark_closed
from ugm.journal.store import is_disk_full, limit_wal, transaction

__all__ = ["ChangeRow", "FileWriter", "change_row"]

#: The number, the instant in milliseconds since 1970, the data and the checksum of a change. All logs store equal rows,
#: so changes can be copied from one log to another.
ChangeRow: TypeAlias = tuple[int, int, bytes, int]

#: The maximum number of rows in one statement: SQLite allows at least 999 parameters, and a row has four.
_ROWS_PER_STATEMENT: Final = 200


def change_row(number: int, at: int, data: bytes) -> ChangeRow:
    """Return the row of a change, with its checksum.

    >>> change_row(1, 0, b"[]")
    (1, 0, b'[]', 2460976467)
    """
    return number, at, data, crc32(data, crc32(b"%d %d" % (number, at)))


class RenewedRecord(Protocol):
    """The record by which other processes know this one as the leader; `ugm.journal.leader_file.LeaderFile`."""

    @property
    def is_renewed(self) -> bool:
        """True if other processes watch this one."""
        ...

    @property
    def term(self) -> int:
        """The number of this leadership."""
        ...

    def renew(self) -> None:
        """Record that the leader is active."""
        ...

    def renew_if_due(self) -> None:
        """Record that the leader is active, unless this was recorded a moment ago."""
        ...


@final
class FileWriter:
    """Writes a journal file; a `ugm.journal.log.LogWriter`. One thread at a time uses it.

    Args:
        path: the journal.
        connection: the connection through which it is written.
        marker: the file with the number of the last acknowledged change.
        reserve: the disk space that is released when the disk is full.
        record: the record of this process as the leader.
    """

    __slots__ = ("_expected", "_marker", "_path", "_record", "_reserve", "_wal", "connection")

    connection: sqlite3.Connection

    def __init__(
        self,
        path: str,
        connection: sqlite3.Connection,
        marker: AckMarker,
        reserve: DiskReserve,
        record: RenewedRecord,
    ) -> None:
        self._path: Final = path
        self._record: Final = record
        self._marker: Final = marker
        self._reserve: Final = reserve
        self._wal: Final = f"{path}-wal"
        self._expected: Final = self._inodes()
        self.connection = connection
        if not reserve.is_available:
            # The disk may still be full. A WAL that grows before this is known could not be moved to the file.
            self._limit_wal(is_disk_full=True)

    def _inodes(self) -> tuple[int, int]:
        """Return the inodes of the journal and of its WAL file; 0 for both if one is missing.

        This function is called before every commit, so it has to be fast.
        """
        try:
            return stat(self._path).st_ino, stat(self._wal).st_ino  # noqa: PTH116 - three times as fast as a Path
        except OSError:
            return 0, 0

    @property
    def has_reserve(self) -> bool:
        """True if disk space is reserved for releases."""
        return self._reserve.is_available

    def restore_reserve(self) -> None:
        """Reserve disk space for releases again.

        Raises:
            JournalError: the disk has too little space.
        """
        try:
            self._reserve.fill()
        except OSError as error:
            raise JournalError(self._path, "the disk is full; only releases are accepted") from error
        self._limit_wal(is_disk_full=False)

    def commit(self, rows: Sequence[ChangeRow]) -> JournalError | None:
        """Write rows durably, and return the error if this fails.

        Nothing is raised, because the writer passes the same error to every waiting caller.
        """
        if self._inodes() != self._expected:
            # SQLite would write to files that have lost their names.
            return JournalError(self._path, FILE_MOVED)
        try:
            try:
                self._write(rows)
            except sqlite3.OperationalError as error:
                if not is_disk_full(error):
                    raise
                self._reserve.release()
                self._limit_wal(is_disk_full=True)
                self._write(rows)
            self._marker.write(rows[-1][0])
            # A leader that always commits has no other time to renew its record.
            if self._record.is_renewed:
                self._record.renew_if_due()
        except (sqlite3.Error, OSError, MemoryError) as error:
            # A MemoryError has no text.
            cause = str(error) or type(error).__name__
            doubt = "it is uncertain whether the change was stored; repeat the call later"
            return JournalError(self._path, f"it cannot be written ({cause}); {doubt}")
        return None

    def send(self, row: ChangeRow) -> None:
        """Do nothing: SQLite always waits for the disk."""

    def _write(self, rows: Sequence[ChangeRow]) -> None:
        """Insert rows, all of them or none. Rows that an interrupted commit has written already are replaced.

        One statement inserts many rows. SQLite releases the interpreter lock for each statement, and a thread that
        computes all the time gives it back late. With such a thread, a commit of 100 changes takes 7 ms this way, and
        36 ms with one statement for each change.
        """
        connection = self.connection
        if connection.in_transaction:
            # An interrupted call has left the transaction open.
            connection.execute("ROLLBACK")
        if len(rows) <= _ROWS_PER_STATEMENT:
            connection.execute(_insert(len(rows)), tuple(chain.from_iterable(rows)))
            return
        with transaction(connection):
            for first in range(0, len(rows), _ROWS_PER_STATEMENT):
                part = rows[first : first + _ROWS_PER_STATEMENT]
                connection.execute(_insert(len(part)), tuple(chain.from_iterable(part)))

    def _limit_wal(self, *, is_disk_full: bool) -> None:
        with suppress(sqlite3.Error):
            limit_wal(self.connection, is_disk_full=is_disk_full)

    @property
    def term(self) -> int:
        """The number of this leadership; 0 if terms are not counted."""
        return self._record.term

    def renew(self) -> None:
        """Record that the leader is active."""
        try:
            self._record.renew()
        except OSError as error:
            raise JournalError(self._path, f"the record of its leader cannot be written: {error}") from error

    def close(self) -> None:
        """Mark the journal as closed, and close its files."""
        mark_closed(self.connection, self._marker)


@cache
def _insert(count: int) -> str:
    return "REPLACE INTO changes VALUES (?, ?, ?, ?)" + ", (?, ?, ?, ?)" * (count - 1)
