"""The ack marker: a small file next to a journal with the number of the last acknowledged change.

The problem: SQLite cannot tell a truncated log from a short one. If the end of its log is lost, the journal looks like
one that never had these changes. SQLite also finds the log by name: if the journal has several names, the log belongs
to one of them.

The idea: the number of the last acknowledged change is stored in a second file, `<journal>-witness`, after the change
has reached the disk. A journal that ends before this number has lost changes, and is refused. The same file
has the number of the session that wrote it (see `ugm.journal.session`). It tells under which name the journal was
opened last.

Invariant: the number in the marker never exceeds the last change on the disk.

The cost: one `write` of 52 bytes per commit, without `fsync`: the number has to survive the process, not the machine.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, NamedTuple, final
from zlib import crc32

from ugm.journal.errors import JournalDamagedError, JournalError
from ugm.journal.file_use import FileUse, sync_directory

__all__ = ["AckMark", "AckMarker", "read_ack_marker", "require_last_name", "require_same_name"]

#: The reason why a journal is refused whose last changes may be in the log of another name.
_OTHER_NAME: Final = (
    "it is in use under another name, or was not closed under another name; its last changes may be in the -wal file "
    "there. Use that name, or rename the -wal file and the ack marker (-witness) together with the journal"
)


class AckMark(NamedTuple):
    """The content of an ack marker."""

    #: The number of the last acknowledged change.
    number: int
    #: The process that wrote the marker.
    process: int
    #: The session in which it was written; None in markers written by versions without sessions.
    session: int | None


def read_ack_marker(path: str) -> AckMark | None:
    """Return the ack marker of the journal at a path; None if there is none (a backup has none).

    Raises:
        JournalDamagedError: the marker is damaged.
    """
    try:
        text = Path(_marker_path(path)).read_bytes()
    except FileNotFoundError:
        return None
    found = _decode(text)
    if found is None:
        raise JournalDamagedError(path, f"the ack marker {_marker_path(path)} is damaged", 0)
    return found


def _marker_path(path: str) -> str:
    return f"{path}-witness"


def _encode(number: int, process: int, session: int | None) -> bytes:
    content = b"%016x %016x" % (number, process)
    if session is not None:
        content += b" %08x" % session
    return b"%s %08x\n" % (content, crc32(content))


def _decode(text: bytes) -> AckMark | None:
    try:
        number, process, *sessions, _ = (int(part, 16) for part in text.split())
    except ValueError:
        return None
    found = AckMark(number, process, sessions[0] if sessions else None)
    return found if _encode(*found) == text else None


def require_last_name(path: str, use: FileUse) -> int:
    """Check that a journal is complete under this name, and return the number of its last session.

    An even number means that the journal was closed, so the file is complete. An odd number means that a process has
    the journal open, or died: the last changes are in the log next to the name under which it was opened. The ack
    marker next to that name has the same session number, because it was written first.

    Raises:
        JournalError: the last changes are in the log of another name.
        JournalDamagedError: the ack marker is damaged.
    """
    session = use.session
    while session & 1:
        mark = read_ack_marker(path)
        if mark is not None and mark.session == session:
            break
        # The journal may have been closed and opened again since its session was read.
        before, session = session, use.session
        if before == session:
            raise JournalError(path, _OTHER_NAME)
    return session


def require_same_name(path: str, use: FileUse, first_session: int) -> None:
    """Check that a journal was not written under another name since its session was *first_session*.

    Raises:
        JournalError: it was.
    """
    session = require_last_name(path, use)
    if session == first_session:
        return
    mark = read_ack_marker(path)
    if mark is None or mark.session is None or mark.session | 1 != session | 1:
        raise JournalError(path, _OTHER_NAME)


@final
class AckMarker:
    """The ack marker of an open journal.

    The session is synced to the disk, because the journal refers to it. The numbers are not.

    Args:
        path: the journal.
        number: the last change of the journal.
        session: the session that begins.
    """

    __slots__ = ("_file", "_process", "session")

    #: The session in the marker.
    session: Final[int]

    def __init__(self, path: str, number: int, session: int) -> None:
        self._process: Final = os.getpid()
        self.session = session
        # The file is renamed into place, so it is never empty.
        draft = Path(f"{_marker_path(path)}-new")
        with draft.open("wb") as file:
            file.write(_encode(number, self._process, session))
            file.flush()
            os.fsync(file.fileno())
        draft.replace(_marker_path(path))
        sync_directory(draft.parent)
        self._file: Final = Path(_marker_path(path)).open("r+b", buffering=0)  # noqa: SIM115 - closed by `close`

    def write(self, number: int) -> None:
        """Store the number of a change that has reached the disk."""
        self._file.seek(0)
        self._file.write(_encode(number, self._process, self.session))

    def close(self) -> None:
        """Close the file."""
        self._file.close()
