"""The small files beside a journal: who writes it, what was acknowledged, and space kept in reserve.

SQLite takes what it finds at the end of its log for what there is: a log that has lost its end reads like one that
never had it. So the number of the last change that was acknowledged is noted beside it, after the change has reached
the disk. A journal that ends before that has lost something, and is not opened.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, Self, final
from zlib import crc32

from ugm.journal.errors import JournalDamagedError, JournalError, JournalHeldError

__all__ = ["Hold", "Reserve", "Witness", "place_of", "witnessed"]

#: What is kept free for giving back when the disk is full: thousands of releases.
_KEPT: Final = 2**20


def place_of(path: str | os.PathLike[str]) -> str:
    """Return the one name of a journal, whatever links lead to it: what is beside it is found by that name."""
    return str(Path(path).resolve())


class Witnessed(NamedTuple):
    """What a witness says."""

    #: The last change that was acknowledged.
    number: int
    #: The process that wrote last.
    holder: int


def witnessed(path: str) -> Witnessed | None:
    """Return what was acknowledged of the journal at a path; None where nothing is noted, as beside a backup.

    Raises:
        JournalDamagedError: the note cannot be read.
    """
    try:
        text = Path(_witness(path)).read_bytes()
    except FileNotFoundError:
        return None
    found = _read_line(text)
    if found is None:
        reason = f"the note of what was acknowledged, {_witness(path)}, is damaged"
        raise JournalDamagedError(path, reason, 0)
    return found


def _witness(path: str) -> str:
    return f"{path}-witness"


def _line(number: int, holder: int) -> bytes:
    told = b"%016x %016x" % (number, holder)
    return b"%s %08x\n" % (told, crc32(told))


def _read_line(text: bytes) -> Witnessed | None:
    try:
        number, holder, _ = (int(part, 16) for part in text.split())
    except ValueError:
        return None
    return Witnessed(number, holder) if _line(number, holder) == text else None


@final
class Witness:
    """The note of what was acknowledged. Not synced: it has to survive a process, and never runs ahead of the disk."""

    __slots__ = ("_file", "_holder")

    def __init__(self, path: str, number: int) -> None:
        self._holder: Final = os.getpid()
        # It is never there without a line in it.
        draft = Path(f"{_witness(path)}-new")
        draft.write_bytes(_line(number, self._holder))
        draft.replace(_witness(path))
        self._file: Final = Path(_witness(path)).open("r+b", buffering=0)  # noqa: SIM115 - closed by `close`

    def note(self, number: int) -> None:
        """Note that a change has reached the disk."""
        self._file.seek(0)
        self._file.write(_line(number, self._holder))

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


@final
class Hold:
    """The right to write a journal: a lock of the operating system, which ends with the process.

    Raises:
        JournalHeldError: somebody else has it.
    """

    __slots__ = ("_connection",)

    def __init__(self, path: str) -> None:
        # SQLite knows how to lock a file on every system, between processes and within one.
        self._connection: Final = sqlite3.connect(
            f"{path}-lock", timeout=0, isolation_level=None, check_same_thread=False
        )
        try:
            self._connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            self._connection.close()
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise
            raise JournalHeldError(path, _holder(path)) from None

    @classmethod
    def on(cls, path: str) -> Self:
        """Take the right to write a journal.

        Raises:
            JournalHeldError: somebody else has it.
            JournalError: there is no place for the lock.
        """
        try:
            return cls(path)
        except (sqlite3.Error, OSError) as error:
            raise JournalError(path, f"it cannot be written: {error}") from error

    def release(self) -> None:
        """Give the right up."""
        self._connection.close()


def _holder(path: str) -> int | None:
    with suppress(JournalDamagedError, ValueError):
        found = witnessed(path)
        return found and found.holder
    return None


@final
class Reserve:
    """Space on the disk that is given up when nothing else is left, so that what is given back can still be written."""

    __slots__ = ("_path", "is_there")

    #: Whether the space is kept.
    is_there: bool

    def __init__(self, path: str) -> None:
        self._path: Final = Path(f"{path}-reserve")
        self.is_there = self._path.exists() and self._path.stat().st_size == _KEPT

    def keep(self) -> None:
        """Keep the space.

        Raises:
            OSError: there is not so much.
        """
        if self.is_there:
            return
        try:
            with self._path.open("wb") as file:
                file.write(bytes(_KEPT))
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            self._path.unlink(missing_ok=True)
            raise
        self.is_there = True

    def give_up(self) -> bool:
        """Free the space, and say whether there was any."""
        was_there, self.is_there = self.is_there, False
        self._path.unlink(missing_ok=True)
        return was_there
