"""The disk under a journal: rows are written, then noted as acknowledged; and when it is full, room is made.

Space is kept in reserve while there is any, so that what gives back can be written when there is no more. Growth is
refused from then on, before anything has changed, until the reserve can be kept again.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from os import stat
from typing import Final, final

from ugm.journal.ack_marker import AckMarker
from ugm.journal.disk_reserve import DiskReserve
from ugm.journal.errors import JournalError
from ugm.journal.session import end_session
from ugm.journal.store import ChangeRow, bound_log, is_disk_full, write_changes
from ugm.journal.writer_lock import FILE_MOVED

__all__ = ["ChangeLog"]

_FULL: Final = "the disk is full, and only what gives back is accepted"


@final
class ChangeLog:
    """What a journal is written to; one thread at a time uses it.

    Args:
        path: the file, for errors.
        connection: what it is written through.
        witness: where it is noted what is acknowledged.
        reserve: space for when the disk is full.
    """

    __slots__ = ("_expected", "_marker", "_path", "_reserve", "_wal", "connection")

    connection: sqlite3.Connection

    def __init__(self, path: str, connection: sqlite3.Connection, marker: AckMarker, reserve: DiskReserve) -> None:
        self._path: Final = path
        self._marker: Final = marker
        self._reserve: Final = reserve
        self._wal: Final = f"{path}-wal"
        self._expected: Final = self._inodes()
        self.connection = connection
        if not reserve.is_available:
            # The disk may still be full: a log that has grown before that is known could not be moved to the file.
            self._bound_log(is_full=True)

    def _inodes(self) -> tuple[int, int]:
        """Return the inodes that the names of the journal and of its log lead to, 0 if one is missing.

        This is done before every commit, so it is written to be fast.
        """
        try:
            return stat(self._path).st_ino, stat(self._wal).st_ino  # noqa: PTH116 - three times as fast as a Path
        except OSError:
            return 0, 0

    @property
    def has_reserve(self) -> bool:
        """Whether space is kept in reserve."""
        return self._reserve.is_available

    def restore_reserve(self) -> None:
        """Keep space in reserve.

        Raises:
            JournalError: there is not so much.
        """
        try:
            self._reserve.fill()
        except OSError as error:
            raise JournalError(self._path, _FULL) from error
        self._bound_log(is_full=False)

    def commit(self, rows: Sequence[ChangeRow]) -> JournalError | None:
        """Write changes and return why that failed, if it did."""
        if self._inodes() != self._expected:
            # SQLite would write to files that nobody finds any more.
            return JournalError(self._path, FILE_MOVED)
        try:
            try:
                write_changes(self.connection, rows)
            except sqlite3.OperationalError as error:
                if not is_disk_full(error):
                    raise
                self._release_reserve()
                write_changes(self.connection, rows)
            self._marker.write(rows[-1][0])
        except (sqlite3.Error, OSError, MemoryError) as error:
            reason = f"it cannot be written ({error}); what was asked for is in doubt until it can, ask again then"
            return JournalError(self._path, reason)
        return None

    def _release_reserve(self) -> None:
        """Give up the reserve, and leave it to the file rather than to its log."""
        self._reserve.release()
        self._bound_log(is_full=True)

    def _bound_log(self, *, is_full: bool) -> None:
        with suppress(sqlite3.Error):
            bound_log(self.connection, is_full=is_full)

    def close(self) -> None:
        """Let go of the files."""
        end_session(self.connection, self._marker)
