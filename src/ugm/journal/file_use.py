"""The file of a journal, identified by its device and inode instead of by a name.

The problem: one file can have several names (symbolic and hard links, bind mounts, `/proc/self/fd`), and a name can
change while the file is open. A lock that is found by name lets two writers in.

The idea: `FileUse.lock` locks one byte of the file itself, far after its end and after the bytes that SQLite locks. On
Linux the lock belongs to the descriptor (an "open file description lock"). On other systems it is a POSIX lock, which
belongs to the process. Both end with the process.

The difficulty: when a process closes *any* descriptor of a file, the system drops *all* POSIX locks that the process
has on that file, and SQLite uses such locks. So every use of a journal in this process shares the descriptors of its
file, and they are closed only when the last use has ended.

Invariant: `_FILES` has an entry for a device and inode exactly while this process uses that file.

An exception can interrupt the code that opens a journal, so that nobody closes the use. A use that is garbage ends by
itself: at once, or if its finalizer runs in the middle of a change of `_FILES`, with the next one.
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
from typing import Final, NamedTuple, final

from ugm.errors import RequestError
from ugm.journal.errors import JournalError, JournalHeldError
from ugm.operation_lock import OwnedLock

try:
    import fcntl
except ImportError:  # Windows
    HAS_FILE_LOCKS = False
else:
    HAS_FILE_LOCKS = True

__all__ = [
    "FileIdentity",
    "FileUse",
    "identity_of",
    "open_file_use",
    "require_usable",
    "resolve_path",
    "sync_directory",
]

#: The byte that is locked. SQLite locks some of the bytes from 2**30 on.
_LOCK_BYTE: Final = 2**62
#: The error numbers that mean that another process has the lock.
_TAKEN: Final = (errno.EACCES, errno.EAGAIN)
#: The beginning of every SQLite file.
_SQLITE: Final = b"SQLite format 3\0"
#: The number in the header of an SQLite file that `PRAGMA user_version` sets.
_OPEN_MARK: Final = slice(60, 64)


class FileIdentity(NamedTuple):
    """The numbers that identify a file on this machine, independent of its names."""

    device: int
    inode: int


def identity_of(path: str) -> FileIdentity | None:
    """Return the identity of the file that a name leads to; None if there is none."""
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return FileIdentity(found.st_dev, found.st_ino)


def require_usable(path: str) -> None:
    """Check that a name leads to a regular file, or to no file yet, and that this system can lock files.

    Raises:
        JournalError: it leads to a directory, a device, a pipe or a socket; or this system has no file locks.
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

    __slots__ = ("descriptors", "uses", "writable", "writer", "writer_path")

    #: All descriptors that were opened for the file. Reads use the first one.
    descriptors: list[int]
    #: The descriptor that may be locked; None if the file is only read.
    writable: int | None
    #: The uses of the file, by their object ids.
    uses: set[int]
    #: The use that has locked the file or is about to; None if there is none.
    writer: int | None
    #: The path under which this process writes the file; None if this process has not locked it.
    writer_path: str | None

    def __init__(self) -> None:
        self.descriptors = []
        self.writable = self.writer = self.writer_path = None
        self.uses = set()

    def end(self, use: int) -> None:
        """End a use; a second call does nothing."""
        if self.writer == use:
            self.writer_path = None
            if self.writable is not None:
                _unlock(self.writable)
            self.writer = None
        self.uses.discard(use)

    def close(self) -> None:
        """Close all descriptors."""
        # Each is forgotten first: its number may belong to another file when an interrupted call is repeated.
        while self.descriptors:
            with suppress(OSError):
                os.close(self.descriptors.pop())


#: Protects `_FILES`. A fork waits for this lock, so that the copy in the child is consistent.
_GUARD: Final = OwnedLock()
_FILES: Final[dict[FileIdentity, _File]] = {}
#: Files that nobody uses any more, until they are closed.
_ENDED: Final[list[_File]] = []
#: The uses that are garbage and have not ended yet, by the identities of their files.
_ABANDONED: Final[list[tuple[FileIdentity, int]]] = []


def _end_use(identity: FileIdentity, use: int) -> None:
    """End a use, and close the file after the last one; under `_GUARD`. A second call does nothing."""
    file = _FILES.get(identity)
    if file is None:
        return
    file.end(use)
    if not file.uses:
        # First, because an entry without descriptors could not be used.
        _ENDED.append(_FILES.pop(identity))
        _close_ended()


def _close_ended() -> None:
    """Close the files that nobody uses any more; under `_GUARD`."""
    while _ENDED:
        _ENDED[0].close()
        del _ENDED[0]


def _end_abandoned() -> None:
    """End the uses that are garbage, and what interruptions have left open; under `_GUARD`."""
    _close_ended()
    while _ABANDONED:
        # Finalizers append others meanwhile.
        identity, use = first = _ABANDONED[0]
        _end_use(identity, use)
        _ABANDONED.remove(first)


def _forget_files() -> None:
    """Close the files that a forked process has inherited: their locks belong to the parent and must end with it."""
    for file in (*_FILES.values(), *_ENDED):
        file.close()
    _FILES.clear()
    _ENDED.clear()
    _ABANDONED.clear()
    _GUARD.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_GUARD.acquire, after_in_parent=_GUARD.release, after_in_child=_forget_files)


def resolve_path(path: str | os.PathLike[str]) -> str:
    """Return the path of a journal without symbolic links: the files next to the journal are found by this name.

    If this process writes the file under another name, that name is returned.

    Raises:
        RequestError: the argument is not a path.
        JournalError: the path does not lead to a regular file.
    """
    try:
        resolved = str(Path(path).resolve())
        given, found = identity_of(os.fspath(path)), identity_of(resolved)
    except (TypeError, ValueError) as error:
        raise RequestError("path", path, f"expected the path of a file ({error})") from error
    except (RuntimeError, OSError) as error:
        # Such as a circle of symbolic links, in some versions of Python.
        raise JournalError(os.fspath(path), f"it cannot be read: {error}") from error
    require_usable(resolved)
    if given != found:
        # Such as /proc/self/fd/3 of a deleted file.
        raise JournalError(resolved, f"{os.fspath(path)} leads to a file that does not have this name")
    return _writer_path(resolved) or resolved


def _writer_path(path: str) -> str | None:
    """Return the path under which this process writes the file that a name leads to; None if it does not write it.

    A writer whose path no longer leads to its file does not count.
    """
    identity = identity_of(path)
    found = None if identity is None else _GUARD.hold(_path_of_writer, identity)
    return found if found is not None and identity_of(found) == identity else None


def _path_of_writer(identity: FileIdentity) -> str | None:
    _end_abandoned()
    file = _FILES.get(identity)
    return file.writer_path if file else None


def sync_directory(directory: Path) -> None:
    """Sync a directory, so that a rename in it is durable. Systems that cannot sync directories ignore it."""
    with suppress(OSError):
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@final
class FileUse:
    """A use of a journal's file by this process, for a reader or the writer. It ends at the latest when it is garbage.

    Args:
        path: the file, which exists.
        write: whether the file is going to be locked.

    Raises:
        JournalError: this system has no file locks, or the file is not a regular file.
        OSError: the file cannot be opened.
    """

    __slots__ = ("_file", "_is_open", "_path", "_process", "identity")

    identity: FileIdentity
    #: Whether the use has to be ended; missing if the construction was interrupted at its beginning.
    _is_open: bool

    def __init__(self, path: str, *, write: bool) -> None:
        self._is_open = False
        require_usable(path)
        self._path: Final = path
        self._process: Final = os.getpid()
        _GUARD.hold(self._open, write=write)

    def _open(self, *, write: bool) -> None:
        _end_abandoned()
        self.identity, self._file = _opened(self._path, write=write)
        self._is_open = True
        self._file.uses.add(id(self))

    @property
    def open_mark(self) -> int:
        """The open mark in the header of the file, see `ugm.journal.open_mark`; 0 if it is not an SQLite file.

        Raises:
            JournalError: the file cannot be read.
        """
        try:
            header = os.pread(self._file.descriptors[0], _OPEN_MARK.stop, 0)
        except OSError as error:
            raise JournalError(self._path, f"it cannot be read: {error.strerror}") from error
        return int.from_bytes(header[_OPEN_MARK], "big", signed=True) if header.startswith(_SQLITE) else 0

    @property
    def is_in_place(self) -> bool:
        """True if the path still leads to this file."""
        return identity_of(self._path) == self.identity

    def lock(self) -> None:
        """Lock the file until this use ends.

        Raises:
            JournalHeldError: another process has locked it, or another partition in this process.
            OSError: the file cannot be locked.
        """
        _GUARD.hold(self._lock)

    def _lock(self) -> None:
        _end_abandoned()
        file = self._file
        if file.writer is not None:
            raise JournalHeldError(self._path, self._process)
        if file.writable is None or not self._try_lock(file, file.writable):
            raise JournalHeldError(self._path, None)
        file.writer_path = self._path

    def _try_lock(self, file: _File, descriptor: int) -> bool:
        # First, so that an interrupted lock is released.
        file.writer = id(self)
        try:
            if _try_lock(descriptor):
                return True
        except OSError:
            file.writer = None
            raise
        file.writer = None
        return False

    def close(self) -> None:
        """End this use and release its lock; a second call does nothing, or continues an interrupted one."""
        if self._is_open and os.getpid() == self._process:
            _GUARD.hold(_end_use, self.identity, id(self))
            self._is_open = False

    def __del__(self) -> None:
        if getattr(self, "_is_open", False) and os.getpid() == self._process:
            _ABANDONED.append((self.identity, id(self)))
            if _GUARD.is_owned():
                # This finalizer has interrupted a change of `_FILES`. The next one ends the use.
                return
            try:
                if _GUARD.acquire(blocking=False):
                    _end_abandoned()
            finally:
                _GUARD.release_if_held()


@contextmanager
def open_file_use(path: str) -> Iterator[FileUse]:
    """Use a file for reading.

    Raises:
        JournalError: the file cannot be opened.
    """
    try:
        use = FileUse(path, write=False)
    except OSError as error:
        raise JournalError(path, f"it cannot be read: {error.strerror}") from error
    try:
        yield use
    finally:
        use.close()


def _opened(path: str, *, write: bool) -> tuple[FileIdentity, _File]:
    """Return the identity and entry of a file, with a descriptor that can be locked if *write* is set."""
    identity = identity_of(path)
    file = _FILES.get(identity) if identity else None
    if identity is not None and file is not None and (file.writable is not None or not write):
        return identity, file
    # O_NONBLOCK: opening would wait if a pipe had replaced the file.
    descriptor = os.open(path, (os.O_RDWR if write else os.O_RDONLY) | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        return _with_descriptor(descriptor, write=write)
    except BaseException:
        known = _FILES.get(_identity_of_descriptor(descriptor))
        if known is None:
            os.close(descriptor)
        elif descriptor not in known.descriptors:
            # To close it would drop the locks of other uses.
            known.descriptors.append(descriptor)
        raise


def _with_descriptor(descriptor: int, *, write: bool) -> tuple[FileIdentity, _File]:
    """Return the identity and entry of a file with one more descriptor. Every entry has one at any time."""
    identity = _identity_of_descriptor(descriptor)
    file = _FILES.get(identity) or _File()
    file.descriptors.append(descriptor)
    if write:
        file.writable = descriptor
    _FILES[identity] = file
    return identity, file


def _identity_of_descriptor(descriptor: int) -> FileIdentity:
    found = os.fstat(descriptor)
    return FileIdentity(found.st_dev, found.st_ino)


def _try_lock(descriptor: int) -> bool:
    """Lock the file of a descriptor, and return whether this succeeded."""
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
    """Set the lock of an open file description, and return whether this system has such locks."""
    if sys.platform != "linux":
        return False
    # struct flock: type, whence, start, length, process; with the padding of the platform.
    request = struct.pack("@hhqqi0q", kind, os.SEEK_SET, _LOCK_BYTE, 1, 0)
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, request)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOSYS):
            return False
        raise
    return True
