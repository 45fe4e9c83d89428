"""The journal of an open partition: its operations other than those of the partition."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Final, final

from ugm.errors import RequestError
from ugm.journal.compaction import Compaction, compact_connection
from ugm.journal.errors import JournalError
from ugm.journal.store import has_content
from ugm.journal.store_reader import open_reader
from ugm.journal.usage import By, Period, UsageRow, usage
from ugm.journal.writer import Writer
from ugm.journal.writer_lock import WriterLock
from ugm.operation_lock import OperationLock

__all__ = ["Journal"]


@final
class Journal:
    """The journal of a `JournaledPartition`.

    Any number of threads may use it while others use the partition.
    """

    __slots__ = ("_is_released", "_lock", "_writer", "_writer_lock", "path")

    #: The file.
    path: str

    def __init__(self, path: str, writer_lock: WriterLock, lock: OperationLock, writer: Writer) -> None:
        self.path = path
        self._writer_lock: Final = writer_lock
        self._lock: Final = lock
        self._writer: Final = writer
        self._is_released = False

    @property
    def number(self) -> int:
        """The number of the last change; the first is 1."""
        return self._writer.number

    @property
    def is_closed(self) -> bool:
        """Return whether the journal was closed."""
        return self._writer.is_closed

    def close(self) -> None:
        """Write all pending changes and release the file; a second call does nothing.

        All deferred results are delivered. The partition can still be read, but refuses every change. In a process that
        was forked from the one that opened the journal, this method does nothing.

        Raises:
            JournalError: a change that was not acknowledged could not be written.
        """
        if self._is_released or self._writer.is_in_fork:
            return
        self._writer.require_not_writing()
        try:
            self._lock.run(self._writer.stop)
            self._writer.close()
        except JournalError:
            self._release()
            raise
        except BaseException:
            # The next call continues.
            self._writer.release_if_held()
            raise
        self._release()

    def _release(self) -> None:
        self._writer_lock.release()
        self._is_released = True

    def backup(self, path: str | Path) -> None:
        """Write a copy of all acknowledged changes to a new file, while the partition is in use.

        Raises:
            RequestError: the file exists already.
            JournalError: the copy cannot be written.
        """
        target = Path(path)
        if target.exists():
            raise RequestError("path", str(path), "the file exists already")
        if has_content(f"{target}-wal"):
            # SQLite would read it as the WAL of the copy.
            raise RequestError("path", str(path), f"there is {target}-wal of another journal; move it away first")
        self._writer_lock.require_in_place()
        try:
            with open_reader(self.path) as source:
                source.copy_to(target)
        except (sqlite3.Error, OSError) as error:
            target.unlink(missing_ok=True)
            raise JournalError(self.path, f"the copy cannot be written: {error}") from error

    def compact(self, *, usage_since: int | None = None) -> Compaction:
        """Replace the changes by the state of the partition that they led to.

        Opening the journal takes less time afterwards. Usage over time stays available. Changes of the partition wait
        until the compaction is done. It takes time and memory in proportion to the file.

        Args:
            usage_since: delete usage before this instant, in milliseconds since 1970; None to delete none.

        Raises:
            JournalError: a change is in doubt, or the disk is full; the file has not changed.
        """
        results: list[Compaction] = []

        def work(connection: sqlite3.Connection) -> None:
            self._writer_lock.require_in_place()
            results.append(compact_connection(self.path, connection, usage_since=usage_since))

        self._writer.require_not_writing()
        try:
            self._writer.run_exclusively(work)
        except BaseException:
            self._writer.release_if_held()
            raise
        return results[0]

    def usage(
        self,
        by: By,
        *,
        since: int | None = None,
        until: int | None = None,
        period: Period | None = None,
        zone: str = "UTC",
    ) -> tuple[UsageRow, ...]:
        """Return the usage between two instants, at most until now; see `ugm.journal.usage`."""
        self._writer_lock.require_in_place()
        return usage(self.path, by, since=since, until=until, period=period, zone=zone, clock=self._writer.now)
