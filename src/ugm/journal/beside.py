"""The small files beside a journal: who writes it, what was acknowledged, and space kept in reserve.

SQLite takes what it finds at the end of its log for what there is: a log that has lost its end reads like one that
never had it. So the number of the last change that was acknowledged is noted beside it, after the change has reached
the disk. A journal that ends before that has lost something, and is not opened.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final, NamedTuple, Self, final
from zlib import crc32

from ugm.errors import RequestError
from ugm.journal.errors import JournalDamagedError, JournalError, JournalHeldError
from ugm.journal.inode import FileUse, identity_of, require_usable, written_as

__all__ = [
    "NOT_IN_PLACE",
    "Hold",
    "Reserve",
    "Witness",
    "place_of",
    "require_home",
    "require_same_home",
    "sync_folder",
    "witnessed",
]

#: Why a journal is not used whose path does not lead to its file any more.
NOT_IN_PLACE: Final = "the file was moved, replaced or deleted while it was open; move it back, or open it again"
#: Why a journal is not read whose last changes may be elsewhere.
_ELSEWHERE: Final = (
    "it is in use under another name, or was not closed under another name; its last changes may be in the -wal file "
    "there. Use that name, or rename the -wal and -witness files together with the journal"
)

#: What is kept free for giving back when the disk is full: thousands of releases.
_KEPT: Final = 5 * 2**18
#: More than what SQLite and the note of what was acknowledged take until the first change is written.
_TO_OPEN: Final = 2**17


def place_of(path: str | os.PathLike[str]) -> str:
    """Return the path of a journal without links: the files beside it are found by that name.

    If this process writes the file under another name, that name is returned.

    Raises:
        RequestError: it is not a path.
        JournalError: it does not lead to a regular file.
    """
    try:
        place = str(Path(path).resolve())
        found, resolved = identity_of(os.fspath(path)), identity_of(place)
    except (TypeError, ValueError) as error:
        raise RequestError("path", path, f"expected the path of a file ({error})") from error
    except (RuntimeError, OSError) as error:
        # Such as a circle of symbolic links, in some versions of Python.
        raise JournalError(os.fspath(path), f"it cannot be read: {error}") from error
    require_usable(place)
    if found != resolved:
        # Such as /proc/self/fd/3 of a file that has been deleted.
        raise JournalError(place, f"{os.fspath(path)} leads to a file that does not have this name")
    return written_as(place) or place


def sync_folder(folder: Path) -> None:
    """Make a new name last, where a system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


class Witnessed(NamedTuple):
    """What a witness says."""

    #: The last change that was acknowledged.
    number: int
    #: The process that wrote last.
    holder: int
    #: The session in which it wrote (see `ugm.journal.session`); None if the note is older than sessions.
    session: int | None


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


def _line(number: int, holder: int, session: int | None) -> bytes:
    content = b"%016x %016x" % (number, holder)
    if session is not None:
        content += b" %08x" % session
    return b"%s %08x\n" % (content, crc32(content))


def _read_line(text: bytes) -> Witnessed | None:
    try:
        number, holder, *sessions, _ = (int(part, 16) for part in text.split())
    except ValueError:
        return None
    found = Witnessed(number, holder, sessions[0] if sessions else None)
    return found if _line(*found) == text else None


def require_home(path: str, use: FileUse) -> int:
    """Make sure that a journal is complete under this name, and return the number of its last session.

    An even number means that the journal was closed: its file has everything. An odd number means that a writer has it
    open, or died: the log beside the name under which it was opened has the last changes. The note beside that name has
    the same number, and was written first.

    Raises:
        JournalError: another name has the last changes.
        JournalDamagedError: the note cannot be read.
    """
    session = use.session
    while session & 1:
        known = witnessed(path)
        if known is not None and known.session == session:
            break
        # It may have been closed and opened between the two looks.
        before, session = session, use.session
        if before == session:
            raise JournalError(path, _ELSEWHERE)
    return session


def require_same_home(path: str, use: FileUse, began: int) -> None:
    """Make sure that a journal was not used under another name since its session was looked up.

    Raises:
        JournalError: it was.
    """
    session = require_home(path, use)
    if session == began:
        return
    known = witnessed(path)
    if known is None or known.session is None or known.session | 1 != session | 1:
        raise JournalError(path, _ELSEWHERE)


@final
class Witness:
    """The note of what was acknowledged, and of the session that does so.

    The session is synced, because the journal refers to it. The numbers are not: they have to survive the process, and
    must never run ahead of the disk.

    Args:
        path: the journal.
        number: the last change that it has.
        session: the session that begins.
    """

    __slots__ = ("_file", "_holder", "session")

    #: The session that is noted.
    session: Final[int]

    def __init__(self, path: str, number: int, session: int) -> None:
        self._holder: Final = os.getpid()
        self.session = session
        # It is never there without a line in it.
        draft = Path(f"{_witness(path)}-new")
        with draft.open("wb") as file:
            file.write(_line(number, self._holder, session))
            file.flush()
            os.fsync(file.fileno())
        draft.replace(_witness(path))
        sync_folder(draft.parent)
        self._file: Final = Path(_witness(path)).open("r+b", buffering=0)  # noqa: SIM115 - closed by `close`

    def note(self, number: int) -> None:
        """Note that a change has reached the disk."""
        self._file.seek(0)
        self._file.write(_line(number, self._holder, self.session))

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


@final
class Hold:
    """The right to write a journal: locks of the operating system, which end with the process.

    One lock is on the file itself, whatever name leads to it. The other is on a file beside it, found by its name: it
    decides who may make a journal that does not exist yet.

    Raises:
        JournalHeldError: another process has it, or another part of this one.
        JournalError: the path does not lead to a regular file, or this system has no file locks.
        OSError: the file cannot be opened or locked.
        sqlite3.Error: the file beside it cannot be locked.
    """

    __slots__ = ("_connection", "_path", "_use")

    #: The lock on the file; None as long as there is no file.
    _use: FileUse | None

    def __init__(self, path: str) -> None:
        self._path: Final = path
        self._use = None
        with ExitStack() as undo:
            undo.callback(self._unlock_file)
            # First, so that nothing is made beside a file that another process writes under another name.
            if self.lock_file():
                Reserve(path).make_room_to_open()
            self._connection: Final = _locked_beside(path)
            undo.callback(self._connection.close)
            self.lock_file()
            undo.pop_all()

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

    def lock_file(self) -> bool:
        """Lock the file that the path leads to now, and return whether there is one.

        To be called again when it has been made.

        Raises:
            JournalHeldError: another process writes it, or another part of this one.
            OSError: it cannot be opened or locked.
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
            raise JournalHeldError(self._path, error.holder or _holder(self._path, use.session)) from None
        return True

    def require_in_place(self) -> None:
        """Make sure that the path still leads to the file that is locked.

        Raises:
            JournalError: the file was moved, replaced or deleted.
        """
        if self._use is not None and not self._use.is_in_place:
            raise JournalError(self._path, NOT_IN_PLACE)

    def release(self) -> None:
        """Give the right up."""
        self._connection.close()
        self._unlock_file()

    def _unlock_file(self) -> None:
        use, self._use = self._use, None
        if use is not None:
            use.close()


def _locked_beside(path: str) -> sqlite3.Connection:
    """Lock the file beside a journal: SQLite can do that on every system, between processes and within one."""
    connection = sqlite3.connect(f"{path}-lock", timeout=0, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as error:
        connection.close()
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
            raise
        raise JournalHeldError(path, _holder(path, None)) from None
    return connection


def _holder(path: str, session: int | None) -> int | None:
    """Return the process that wrote last, if it did so in a session (None for any)."""
    with suppress(JournalDamagedError, OSError):
        found = witnessed(path)
        return found.holder if found and session in (None, found.session) else None
    return None


@final
class Reserve:
    """Space on the disk that is given up when nothing else is left, so that what is given back can still be written."""

    __slots__ = ("_journal", "_path", "is_there")

    #: Whether the space is kept.
    is_there: bool

    def __init__(self, path: str) -> None:
        self._journal: Final = path
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
            _write(self._path, _KEPT)
        except OSError:
            self._path.unlink(missing_ok=True)
            raise
        self.is_there = True

    def make_room_to_open(self) -> None:
        """Give the space up if the disk has not even as much as opening the journal takes."""
        if not self.is_there:
            return
        probe = Path(f"{self._journal}-new")
        try:
            _write(probe, _TO_OPEN)
        except OSError:
            self.give_up()
        finally:
            probe.unlink(missing_ok=True)

    def give_up(self) -> bool:
        """Free the space, and say whether there was any."""
        was_there, self.is_there = self.is_there, False
        self._path.unlink(missing_ok=True)
        return was_there


def _write(path: Path, size: int) -> None:
    """Make a file of a size that takes its space on the disk."""
    with path.open("wb") as file:
        file.write(bytes(size))
        file.flush()
        os.fsync(file.fileno())
