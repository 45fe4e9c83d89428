"""The lock that gives one process, and one partition in it, the right to write a journal file.

The problem: a file may have several names, and must have one writer under all of them. A file that does not exist yet
cannot be locked, but two processes must not create it at the same time.

The idea: two locks of the operating system, which end with the process. The first is on the journal itself, so it holds
for every name of the file (see `ugm.journal.file_use`). The second is on a file next to the journal, found by its name.
It decides which process may create the journal.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import ExitStack, suppress
from typing import Final, Self, final

from ugm.journal.ack_marker import read_ack_marker
from ugm.journal.disk_reserve import DiskReserve
from ugm.journal.errors import FILE_MOVED, JournalError, JournalHeldError
from ugm.journal.file_use import FileUse, identity_of, require_usable

__all__ = ["WriterLock"]


@final
class WriterLock:
    """The right to write a journal.

    Args:
        path: the journal, as `ugm.journal.file_use.resolve_path` returns it.

    Raises:
        JournalHeldError: another process has the lock, or another partition in this process.
        JournalError: the path does not lead to a regular file, or this system has no file locks.
        OSError: the file cannot be opened or locked.
        sqlite3.Error: the file next to it cannot be locked.
    """

    __slots__ = ("_connection", "_path", "_process", "_use")

    #: The transaction that locks the file next to the journal.
    _connection: sqlite3.Connection | None
    #: The locked file; None while no journal exists.
    _use: FileUse | None

    def __init__(self, path: str) -> None:
        self._path: Final = path
        self._process: Final = os.getpid()
        self._use = self._connection = None
        with ExitStack() as undo:
            undo.callback(self._unlock_file)
            # The journal is locked first: if another process writes it under another name, no files are created here.
            if self.lock_file():
                DiskReserve(path).release_if_needed_to_open()
            # Closed when the lock is released, and at the latest when it is garbage, after an interruption.
            self._connection = sqlite3.connect(f"{path}-lock", timeout=0, isolation_level=None, check_same_thread=False)
            undo.callback(self._connection.close)
            _lock_name(path, self._connection)
            self.lock_file()
            undo.pop_all()

    @classmethod
    def acquire(cls, path: str) -> Self:
        """Take the lock of a journal.

        Raises:
            JournalHeldError: another process has the lock, or another partition in this process.
            JournalError: the lock cannot be taken.
        """
        try:
            return cls(path)
        except (sqlite3.Error, OSError) as error:
            raise JournalError(path, f"it cannot be written: {error}") from error

    def lock_file(self) -> bool:
        """Lock the file that the path leads to now, and return whether there is one.

        Call it again after the file has been created.

        Raises:
            JournalHeldError: another process writes the file, or another partition in this process.
            OSError: the file cannot be opened or locked.
        """
        if self._use is not None and self._use.is_in_place:
            return True
        self._unlock_file()
        require_usable(self._path)
        if identity_of(self._path) is None:
            return False
        use = self._use = FileUse(self._path, write=True)
        try:
            use.lock()
        except JournalHeldError as error:
            raise JournalHeldError(self._path, error.holder or _last_writer(self._path, use.open_mark)) from None
        return True

    def require_in_place(self) -> None:
        """Check that the path still leads to the locked file.

        Raises:
            JournalError: the file was moved, replaced or deleted.
        """
        if self._use is not None and not self._use.is_in_place:
            raise JournalError(self._path, FILE_MOVED)

    def release(self) -> None:
        """Release the lock."""
        if self._connection is not None:
            self._connection.close()
        self._unlock_file()

    def __del__(self) -> None:
        # A connection is a part of a cycle, so without this, it would hold its lock for an unknown time. The use of the
        # file ends by itself.
        connection = getattr(self, "_connection", None)
        if connection is not None and os.getpid() == self._process:
            connection.close()

    def _unlock_file(self) -> None:
        use, self._use = self._use, None
        if use is not None:
            use.close()


def _lock_name(path: str, connection: sqlite3.Connection) -> None:
    """Lock the file next to a journal with SQLite, which can do so between processes and within one."""
    try:
        connection.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
            raise
        raise JournalHeldError(path, _last_writer(path, None)) from None


def _last_writer(path: str, open_mark: int | None) -> int | None:
    """Return the process that wrote the journal last; None if it is not known.

    Args:
        path: the journal.
        open_mark: the open mark of the journal. An ack marker with another one is of an earlier writer. None if it was
            not read; then any ack marker counts.
    """
    with suppress(JournalError):
        found = read_ack_marker(path)
        return found.process if found and open_mark in (None, found.open_mark) else None
    return None
