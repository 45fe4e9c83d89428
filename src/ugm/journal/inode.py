"""The file of a journal, identified by its device and inode instead of by a name.

The problem: one file can have several names (symbolic and hard links, bind mounts, `/proc/self/fd`), and a name can
change while the file is open. A lock that is found by name lets two writers in.

The idea: `FileUse.lock` locks one byte of the file itself, far behind its end and behind the bytes that SQLite locks.
On Linux the lock belongs to the descriptor (an "open file description lock"). Elsewhere it is a POSIX lock, which
belongs to the process. Both end with the process.

The difficulty: when a process closes *any* descriptor of a file, the system drops *all* POSIX locks that the process
has on that file, and SQLite uses such locks. So every use of a journal in this process shares the descriptors of its
file, and they are closed only when the last use has ended.

Invariant: `_FILES` has an entry for a device and inode exactly while this process uses that file.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Final, NamedTuple, final

from ugm.journal.errors import JournalError, JournalHeldError

try:
    import fcntl
except ImportError:  # Windows
    HAS_FILE_LOCKS = False
else:
    HAS_FILE_LOCKS = True

__all__ = ["FileUse", "Identity", "file_use", "identity_of", "require_usable", "written_as"]

#: The byte that is locked. SQLite locks some of the bytes from 2**30 on.
_LOCK_BYTE: Final = 2**62
#: How the system says that the lock is taken.
_TAKEN: Final = (errno.EACCES, errno.EAGAIN)
#: Where the header of an SQLite file has the number that `PRAGMA user_version` sets, and its size.
_SESSION_OFFSET: Final = 60
_SESSION_SIZE: Final = 4


class Identity(NamedTuple):
    """What identifies a file on this machine, whatever its name."""

    device: int
    inode: int


def identity_of(path: str) -> Identity | None:
    """Return the identity of the file that a name leads to; None if there is none."""
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return Identity(found.st_dev, found.st_ino)


def require_usable(path: str) -> None:
    """Make sure that a name leads to a regular file, or to nothing yet, and that this system can lock files.

    Raises:
        JournalError: it leads to a directory, a device, a pipe or a socket; or there are no file locks.
    """
    if not HAS_FILE_LOCKS:
        raise JournalError(path, "journals need POSIX file locks, which this system does not have (no module fcntl)")
    try:
        mode = Path(path).stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise JournalError(path, f"it cannot be read: {error.strerror}") from error
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "a special file")
        raise JournalError(path, f"it is {kind}; expected a regular file")


_KINDS: Final = {
    stat.S_IFDIR: "a directory",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
}


@final
class _File:
    """A file that this process uses."""

    __slots__ = ("descriptors", "uses", "writable", "written_as")

    #: All descriptors that were opened for it; the first is used for reading.
    descriptors: list[int]
    #: The one that may be locked; None if it is only read.
    writable: int | None
    uses: int
    #: The path under which this process writes it; None if this process has not locked it.
    written_as: str | None

    def __init__(self) -> None:
        self.descriptors = []
        self.writable = None
        self.uses = 0
        self.written_as = None

    def close(self) -> None:
        """Close all descriptors."""
        for descriptor in self.descriptors:
            with suppress(OSError):
                os.close(descriptor)


#: Held for moments: what this process has open. A fork waits for it, so that the copy in the child is consistent.
_GUARD: Final = Lock()
_FILES: Final[dict[Identity, _File]] = {}


def _forget_files() -> None:
    """Close what a forked process has inherited: the locks belong to its parent, and must not outlive it."""
    for file in _FILES.values():
        file.close()
    _FILES.clear()
    _GUARD.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_GUARD.acquire, after_in_parent=_GUARD.release, after_in_child=_forget_files)


def written_as(path: str) -> str | None:
    """Return the path under which this process writes the file that a name leads to; None if it does not write it.

    A writer whose path no longer leads to its file does not count.
    """
    identity = identity_of(path)
    with _GUARD:
        file = _FILES.get(identity) if identity else None
        found = file.written_as if file else None
    return found if found is not None and identity_of(found) == identity else None


@final
class FileUse:
    """One use of a journal's file in this process, made by `file_use` or for as long as the journal is open.

    Args:
        path: the file, which exists.
        write: whether it is going to be locked.

    Raises:
        JournalError: this system has no file locks, or the file is not a regular one.
        OSError: the file cannot be opened.
    """

    __slots__ = ("_file", "_has_lock", "_is_open", "_path", "_process", "identity")

    identity: Final[Identity]

    def __init__(self, path: str, *, write: bool) -> None:
        require_usable(path)
        self._path: Final = path
        self._process: Final = os.getpid()
        self._has_lock = False
        with _GUARD:
            self.identity, self._file = _opened(path, write=write)
            self._file.uses += 1
        self._is_open = True

    @property
    def session(self) -> int:
        """The number of the last session, as the file has it now; see `ugm.journal.session`."""
        data = os.pread(self._file.descriptors[0], _SESSION_SIZE, _SESSION_OFFSET)
        return int.from_bytes(data, "big", signed=True)

    @property
    def is_in_place(self) -> bool:
        """Whether the path still leads to this file."""
        return identity_of(self._path) == self.identity

    def lock(self) -> None:
        """Take the right to write the file; it ends with this use.

        Raises:
            JournalHeldError: another process has it, or another part of this one.
            OSError: the file cannot be locked.
        """
        file = self._file
        with _GUARD:
            if file.written_as is not None:
                raise JournalHeldError(self._path, self._process)
            if file.writable is None or not _locked(file.writable):
                raise JournalHeldError(self._path, None)
            self._has_lock = True
            file.written_as = self._path

    def close(self) -> None:
        """End this use, and give up the lock that it has taken; once more is harmless."""
        if not self._is_open or os.getpid() != self._process:
            return
        self._is_open = False
        file = self._file
        with _GUARD:
            if self._has_lock and file.writable is not None:
                file.written_as = None
                _unlock(file.writable)
            file.uses -= 1
            if not file.uses:
                file.close()
                del _FILES[self.identity]


@contextmanager
def file_use(path: str) -> Iterator[FileUse]:
    """Use a file for reading.

    Raises:
        JournalError: it cannot be opened.
    """
    try:
        use = FileUse(path, write=False)
    except OSError as error:
        raise JournalError(path, f"it cannot be read: {error.strerror}") from error
    try:
        yield use
    finally:
        use.close()


def _opened(path: str, *, write: bool) -> tuple[Identity, _File]:
    """Return the entry of a file, with a descriptor that can be locked if it is to be written."""
    identity = identity_of(path)
    file = _FILES.get(identity) if identity else None
    if identity is not None and file is not None and (file.writable is not None or not write):
        return identity, file
    # Without waiting: a pipe may have taken the place of the file.
    descriptor = os.open(path, (os.O_RDWR if write else os.O_RDONLY) | os.O_NONBLOCK | os.O_NOCTTY)
    found = os.fstat(descriptor)
    identity = Identity(found.st_dev, found.st_ino)
    file = _FILES.setdefault(identity, _File())
    file.descriptors.append(descriptor)
    if write:
        file.writable = descriptor
    return identity, file


def _locked(descriptor: int) -> bool:
    """Lock the file of a descriptor, and return whether that was possible."""
    try:
        if not _lock_description(descriptor, fcntl.F_WRLCK):
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _LOCK_BYTE)
    except OSError as error:
        if error.errno in _TAKEN:
            return False
        raise
    return True


def _unlock(descriptor: int) -> None:
    with suppress(OSError):
        if not _lock_description(descriptor, fcntl.F_UNLCK):
            fcntl.lockf(descriptor, fcntl.LOCK_UN, 1, _LOCK_BYTE)


def _lock_description(descriptor: int, kind: int) -> bool:
    """Change the lock of an open file description, and return whether this system has such locks."""
    if sys.platform != "linux":
        return False
    # struct flock: type, whence, start, length, process; the padding is that of the platform.
    request = struct.pack("@hhqqi0q", kind, os.SEEK_SET, _LOCK_BYTE, 1, 0)
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, request)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOSYS):
            return False
        raise
    return True
