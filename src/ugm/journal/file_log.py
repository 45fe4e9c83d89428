"""The log in a journal file, for the processes of one machine.

The process that has locked the file leads. `FileLog` finds and reads the file, `FileLeadership` is the right to write
it, and `FileTail` reads the changes that another process adds.

A process that was stopped keeps its lock. If its record (`ugm.journal.leader_file`) allows it, a standby kills the
process and takes the lock.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, suppress
from math import inf
from pathlib import Path
from time import monotonic, sleep
from typing import Final, final

from ugm.journal.ack_marker import read_ack_marker
from ugm.journal.background import BackgroundCompaction
from ugm.journal.client_sessions import SessionTable
from ugm.journal.compaction import Compaction, RunExclusively, compact_connection, compact_file
from ugm.journal.compaction_process import CompactionTask
from ugm.journal.contents import DECODING_ERRORS, JournalContents, decoding_failure, open_contents, replay
from ugm.journal.disk_reserve import DiskReserve
from ugm.journal.errors import JournalDamagedError, JournalError, JournalHeldError
from ugm.journal.file_compaction import FileCompaction
from ugm.journal.file_use import resolve_path
from ugm.journal.file_writer import FileWriter
from ugm.journal.leader_file import LeaderFile, end_leader, read_leader
from ugm.journal.log import Candidate, LeaderRecord, Log, LogTail
from ugm.journal.migration import migrate
from ugm.journal.new_file import new_file
from ugm.journal.open_mark import mark_open
from ugm.journal.store import checksummed_rows, connect, create, has_content, transaction
from ugm.journal.store_reader import CHANGES_AT_ONCE, StoredChange, open_reader
from ugm.journal.writer_lock import WriterLock
from ugm.partition.event_codec import from_json
from ugm.partition.state import PartitionState

__all__ = ["FileLeadership", "FileLog", "FileTail"]

#: The maximum time that the system takes to release the locks of a process that has ended, in seconds.
_RELEASE_TIMEOUT: Final = 2.0
_PAUSE: Final = 0.01


@final
class FileLog(Log):
    """A journal file.

    Args:
        path: the file.

    Raises:
        RequestError: the argument is not a path.
        JournalError: the path does not lead to a regular file.
    """

    __slots__ = ()

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(resolve_path(path))

    def exists(self) -> bool:
        """Return whether the file exists and is not empty."""
        return has_content(self.location)

    def open_contents(self) -> AbstractContextManager[JournalContents]:
        """Open the file for reading, as it is now."""
        return open_contents(self.location)

    def tail(self) -> LogTail:
        """Open the file for following it."""
        return FileTail(self.location)

    def find_leader(self) -> LeaderRecord | None:
        """Return the leader, if it has a record."""
        return read_leader(self.location)

    def lead(self, candidate: Candidate, *, replacing: LeaderRecord | None = None) -> FileLeadership:
        """Lock the file; see `ugm.journal.log.Log.lead`."""
        return FileLeadership(self.location, self._lock(replacing), candidate)

    def _lock(self, replacing: LeaderRecord | None) -> WriterLock:
        try:
            return WriterLock.acquire(self.location)
        except JournalHeldError:
            if replacing is None or not end_leader(self.location, replacing.term):
                raise
        end = monotonic() + _RELEASE_TIMEOUT
        while monotonic() < end:
            with suppress(JournalHeldError):
                return WriterLock.acquire(self.location)
            sleep(_PAUSE)
        return WriterLock.acquire(self.location)

    def compact(self, *, usage_since: int | None) -> Compaction:
        """Compact the file, which no partition uses."""
        writer_lock = WriterLock.acquire(self.location)
        try:
            migrate(self.location)
            return compact_file(self.location, usage_since=usage_since)
        finally:
            writer_lock.release()

    def fill(self, contents: JournalContents) -> None:
        """Write the contents of another log to this new file; all logs store the same rows."""
        try:
            with new_file(Path(self.location)) as draft:
                _write_file(draft, contents)
        except (sqlite3.Error, OSError, JournalError) as error:
            raise JournalError(self.location, f"the copy cannot be written: {error}") from error

    def backup(self, target: Path) -> None:
        """Copy the file, as it is now."""
        try:
            with new_file(target) as draft, open_reader(self.location) as source:
                source.copy_to(draft)
        except (sqlite3.Error, OSError) as error:
            raise JournalError(self.location, f"the copy cannot be written: {error}") from error


@final
class FileLeadership:
    """The right to write a journal file.

    Args:
        path: the file.
        writer_lock: the lock of the file, which this process holds.
        candidate: this process, as others see it.
    """

    __slots__ = ("_connection", "_path", "_record", "_writer_lock")

    #: Set by `start_writing`.
    _connection: sqlite3.Connection

    def __init__(self, path: str, writer_lock: WriterLock, candidate: Candidate) -> None:
        self._path: Final = path
        self._writer_lock: Final = writer_lock
        try:
            self._record: Final = LeaderFile(path, candidate)
        except BaseException as error:
            # A finalizer would release it only when nothing refers to the traceback.
            writer_lock.release()
            if isinstance(error, OSError):
                raise JournalError(path, f"the record of its leader cannot be written: {error}") from error
            raise

    @property
    def term(self) -> int:
        """The number of this leadership; 0 if the journal never had a leader with an address."""
        return self._record.term

    def restore(self, state: PartitionState, sessions: SessionTable) -> tuple[int, int]:
        """Apply the file to an empty state; see `ugm.journal.log.Leadership.restore`."""
        path = self._path
        known = read_ack_marker(path)
        if has_content(path):
            migrate(path)
            with open_contents(path) as contents:
                return replay(contents, state, sessions=sessions)
        if known and known.number:
            raise JournalDamagedError(path, f"it is empty or missing, but {known.number} changes were acknowledged", 0)
        return 0, 0

    def start_writing(self, last: tuple[int, int]) -> FileWriter:
        """Open the file for writing, or create it."""
        path = self._path
        with ExitStack() as undo:
            try:
                if not has_content(path):
                    create(path)
                    self._writer_lock.lock_file()
                elif not os.access(path, os.W_OK):
                    raise JournalError(path, "it cannot be written: the file is read-only")
                connection = connect(path)
                undo.callback(connection.close)
                reserve = DiskReserve(path)
                marker = mark_open(path, connection, last[0], reserve.release)
                undo.callback(marker.close)
            except (sqlite3.Error, OSError) as error:
                raise JournalError(path, f"it cannot be written: {error}") from error
            writer = FileWriter(path, connection, marker, reserve, self._record)
            self._connection = connection
            undo.pop_all()
        return writer

    def require_in_place(self) -> None:
        """Check that the path still leads to the locked file."""
        self._writer_lock.require_in_place()

    def compact(self, run_exclusively: RunExclusively, *, usage_since: int | None) -> Compaction:
        """Compact the file. Changes wait until this is done."""

        def work() -> Compaction:
            self.require_in_place()
            return compact_connection(self._path, self._connection, usage_since=usage_since)

        return run_exclusively(work)

    def start_compaction(self, run_exclusively: RunExclusively, *, usage_since: int | None) -> BackgroundCompaction:
        """Begin to compact the file in the background."""
        self.require_in_place()
        task = CompactionTask(self._path, "", usage_since)
        compaction = FileCompaction(self._path, self._connection, run_exclusively)
        return BackgroundCompaction(task, self._path, lambda process: compaction.run(process.messages()))

    def release(self) -> None:
        """Release the lock."""
        self._record.resign()
        self._writer_lock.release()


@final
class FileTail:
    """The newest changes of a journal file; see `ugm.journal.log.LogTail`.

    The file is opened for each read. It is not opened if the ack marker shows that nothing is new.
    """

    __slots__ = ("_path",)

    def __init__(self, path: str) -> None:
        self._path: Final = path

    def last_number(self) -> int:
        """Return the number of the last acknowledged change."""
        mark = read_ack_marker(self._path)
        return mark.number if mark else 0

    def find_leader(self) -> LeaderRecord | None:
        """Return the leader, if it has a record."""
        return read_leader(self._path)

    def changes(self, after: int, *, acknowledged: bool = True, size: float = inf) -> Sequence[StoredChange] | None:
        """Return changes after *after*; None if they were compacted."""
        try:
            return self._changes(after, acknowledged=acknowledged, size=size)
        except OSError as error:
            raise JournalError(self._path, f"it cannot be read: {error}") from error
        except DECODING_ERRORS as error:
            raise JournalDamagedError(self._path, decoding_failure(error), after) from error

    def _changes(self, after: int, *, acknowledged: bool, size: float) -> Sequence[StoredChange] | None:
        mark = read_ack_marker(self._path)
        if not has_content(self._path) or (acknowledged and mark is not None and mark.number <= after):
            return []
        with open_reader(self._path) as reader:
            head = next(reader.rows("snapshot"), None)
            if head is not None and from_json(head)[0] > after and not reader.has_change(after + 1):
                return None
            found, is_all = _first(reader.changes(after), size)
            last = found[-1].number if found else after
            if mark is not None and last < mark.number and is_all:
                raise reader.damaged(f"it ends with change {last}, but {mark.number} were acknowledged")
            return found

    def close(self) -> None:
        """Do nothing: no file is open between two reads."""


def _first(changes: Iterable[StoredChange], size: float) -> tuple[list[StoredChange], bool]:
    """Return the first changes up to a size in bytes, and whether these are all."""
    found: list[StoredChange] = []
    for change in changes:
        found.append(change)
        size -= len(change.data)
        if size <= 0 or len(found) == CHANGES_AT_ONCE:
            return found, False
    return found, True


def _write_file(target: Path, contents: JournalContents) -> None:
    """Write the rows of a log to a new journal file."""
    create(str(target))
    tables: Iterable[tuple[str, Iterable[tuple[object, ...]]]] = (
        ("snapshot (position, data, sum) VALUES (?, ?, ?)", checksummed_rows(0, contents.stored_rows("snapshot"))),
        ("history (position, data, sum) VALUES (?, ?, ?)", checksummed_rows(0, contents.stored_rows("history"))),
        ("changes (number, at, data, sum) VALUES (?, ?, ?, ?)", contents.stored_changes()),
    )
    with closing(sqlite3.connect(target, isolation_level=None)) as connection, transaction(connection):
        for columns, rows in tables:
            connection.executemany(f"INSERT INTO {columns}", rows)
