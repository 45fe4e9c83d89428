"""The disk under a journal: rows are written, then noted as acknowledged; and when it is full, room is made.

Space is kept in reserve while there is any, so that what gives back can be written when there is no more. Growth is
refused from then on, before anything has changed, until the reserve can be kept again.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, final

from ugm.journal.beside import Reserve, Witness
from ugm.journal.errors import JournalError
from ugm.journal.store import ChangeRow, bound_log, write_changes

__all__ = ["Disk"]

_FULL: Final = "the disk is full, and only what gives back is accepted"
#: What SQLite says when the disk is full: for the file or its log, and for the index of the log.
_NO_ROOM: Final = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE)


@final
class Disk:
    """What a journal is written to; one thread at a time uses it.

    Args:
        path: the file, for errors.
        connection: what it is written through.
        witness: where it is noted what is acknowledged.
        reserve: space for when the disk is full.
    """

    __slots__ = ("_path", "_reserve", "_witness", "connection")

    connection: sqlite3.Connection

    def __init__(self, path: str, connection: sqlite3.Connection, witness: Witness, reserve: Reserve) -> None:
        self._path: Final = path
        self._witness: Final = witness
        self._reserve: Final = reserve
        self.connection = connection

    @property
    def has_room(self) -> bool:
        """Whether space is kept in reserve."""
        return self._reserve.is_there

    def make_room(self) -> None:
        """Keep space in reserve.

        Raises:
            JournalError: there is not so much.
        """
        try:
            self._reserve.keep()
        except OSError as error:
            raise JournalError(self._path, _FULL) from error
        with suppress(sqlite3.Error):
            bound_log(self.connection, is_full=False)

    def commit(self, rows: Sequence[ChangeRow]) -> JournalError | None:
        """Write changes and return why that failed, if it did."""
        try:
            try:
                write_changes(self.connection, rows)
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode not in _NO_ROOM:
                    raise
                self._give_up_room()
                write_changes(self.connection, rows)
            self._witness.note(rows[-1][0])
        except (sqlite3.Error, OSError, MemoryError) as error:
            reason = f"it cannot be written ({error}); what was asked for is in doubt until it can, ask again then"
            return JournalError(self._path, reason)
        return None

    def _give_up_room(self) -> None:
        """Give up the reserve, and leave it to the file rather than to its log."""
        self._reserve.give_up()
        with suppress(sqlite3.Error):
            bound_log(self.connection, is_full=True)

    def close(self) -> None:
        """Let go of the files."""
        self.connection.close()
        self._witness.close()
