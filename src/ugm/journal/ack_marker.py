"""The ack marker: a small file next to a journal with the number of the last acknowledged change.

The problem: SQLite keeps the last changes in a WAL file next to the journal, and cannot tell a truncated WAL from a
short one. If the end of the WAL is lost, the journal looks like one that never had these changes. SQLite also finds the
WAL by name: if the journal has several names, the WAL belongs to one of them.

The idea: the number of the last acknowledged change is stored in a second file, `<journal>-acked`, after the change
has reached the disk. A journal that ends before this number has lost changes, and is refused. The second file also
contains the open mark of the journal (see `ugm.journal.open_mark`), which shows under which name it was opened last.

Invariant: the number in the marker never exceeds the last change on the disk.

The cost: one `write` of 52 bytes per commit, without a sync: the number has to survive the process, not the machine.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, NamedTuple, final
from zlib import crc32

from ugm.journal.errors import JournalDamagedError, JournalError
from ugm.journal.file_use import FileUse, sync_directory

__all__ = ["AckMark", "AckMarker", "read_ack_marker", "require_last_name", "require_same_name"]

#: The reason why a journal is refused whose last changes may be in the WAL of another name.
_OTHER_NAME: Final = (
    "it is in use under another name, or was not closed under another name; its last changes may be in the -wal file "
    "there. Use that name, or rename the -wal file and the ack marker (-acked) together with the journal"
)
#: How often the marker is read before it counts as damaged: a read may coincide with a write.
_ATTEMPTS: Final = 5


class AckMark(NamedTuple):
    """The content of an ack marker."""

    #: The number of the last acknowledged change.
    number: int
    #: The process that wrote the marker.
    process: int
    #: The open mark of the journal; None in ack markers of versions without open marks.
    open_mark: int | None


def read_ack_marker(path: str) -> AckMark | None:
    """Return the ack marker of the journal at a path; None if there is none (a backup has none).

    Raises:
        JournalError: the marker cannot be read now.
        JournalDamagedError: the marker is damaged.
    """
    for _ in range(_ATTEMPTS):
        try:
            text = Path(_marker_path(path)).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise JournalError(path, f"the ack marker {_marker_path(path)} cannot be read: {error.strerror}") from error
        found = _decode(text)
        if found is not None:
            return found
    raise JournalDamagedError(path, f"the ack marker {_marker_path(path)} is damaged", 0)


def _marker_path(path: str) -> str:
    return f"{path}-acked"


def _encode(number: int, process: int, open_mark: int | None) -> bytes:
    content = b"%016x %016x" % (number, process)
    if open_mark is not None:
        content += b" %08x" % open_mark
    return b"%s %08x\n" % (content, crc32(content))


def _decode(text: bytes) -> AckMark | None:
    try:
        number, process, *marks, _ = (int(part, 16) for part in text.split())
    except ValueError:
        return None
    found = AckMark(number, process, marks[0] if marks else None)
    return found if _encode(*found) == text else None


def require_last_name(path: str, use: FileUse) -> int:
    """Check that a journal is complete under this name, and return its open mark.

    An even mark means that the journal was closed, so the file is complete. An odd mark means that a process has the
    journal open, or died while it was open: the last changes are in the WAL next to the name under which it was opened.
    The ack marker next to that name has the same open mark, because it was written first.

    Raises:
        JournalError: the last changes are in the WAL of another name, or a file cannot be read now.
        JournalDamagedError: the ack marker is damaged.
    """
    open_mark = use.open_mark
    while open_mark & 1:
        mark = read_ack_marker(path)
        if mark is not None and mark.open_mark == open_mark:
            break
        # The journal may have been closed and opened again since its mark was read.
        before, open_mark = open_mark, use.open_mark
        if before == open_mark:
            raise JournalError(path, _OTHER_NAME)
    return open_mark


def require_same_name(path: str, use: FileUse, first_mark: int) -> None:
    """Check that a journal was not written under another name since it had the open mark *first_mark*.

    Raises:
        JournalError: it was, or a file cannot be read now.
    """
    open_mark = require_last_name(path, use)
    if open_mark == first_mark:
        return
    mark = read_ack_marker(path)
    if mark is None or mark.open_mark is None or mark.open_mark | 1 != open_mark | 1:
        raise JournalError(path, _OTHER_NAME)


@final
class AckMarker:
    """The ack marker of an open journal.

    The open mark is synced to the disk, because the journal refers to it. The numbers are not.

    Args:
        path: the journal.
        number: the last change of the journal.
        open_mark: the open mark of the journal.

    Raises:
        OSError: the file cannot be written; the writer of the journal reports this as a `JournalError`.
    """

    __slots__ = ("_file", "_process", "open_mark")

    #: The open mark in the file.
    open_mark: Final[int]

    def __init__(self, path: str, number: int, open_mark: int) -> None:
        self._process: Final = os.getpid()
        self.open_mark = open_mark
        # The file is renamed into place, so it is never empty.
        draft = Path(f"{_marker_path(path)}-new")
        with draft.open("wb") as file:
            file.write(_encode(number, self._process, open_mark))
            file.flush()
            os.fsync(file.fileno())
        draft.replace(_marker_path(path))
        sync_directory(draft.parent)
        self._file: Final = Path(_marker_path(path)).open("r+b", buffering=0)  # noqa: SIM115 - closed by `close`

    def write(self, number: int) -> None:
        """Store the number of a change that has reached the disk."""
        os.pwrite(self._file.fileno(), _encode(number, self._process, self.open_mark), 0)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
