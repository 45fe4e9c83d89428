"""The journal of an open partition: what can be done with it beside the partition."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Final, final

from ugm.errors import RequestError
from ugm.journal.compaction import Compaction, compacted
from ugm.journal.errors import JournalError
from ugm.journal.store import exists, open_reader
from ugm.journal.usage import By, Period, UsageRow, usage
from ugm.journal.writer import Writer
from ugm.journal.writer_lock import WriterLock
from ugm.operation_lock import OperationLock

__all__ = ["Journal"]


@final
class Journal:
    """The journal of a `JournaledPartition`.

    Any number of threads may use it, while others use the partition.
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
        """Whether nothing more is written."""
        return self._writer.is_closed

    def close(self) -> None:
        """Write what is under way, and let others open the file; once more is harmless.

        Promises that are open are kept first. The partition can still be read; every change of it is refused. In a
        process that was forked from the one which opened the journal, nothing happens.

        Raises:
            JournalError: something that was not acknowledged could not be written.
        """
        if self._writer.is_in_fork:
            return
        if self._is_released:
            return
        self._writer.require_not_writing()
        try:
            self._lock.run(self._writer.stop)
            self._writer.close()
        except JournalError:
            self._release()
            raise
        except BaseException:
            # The next call goes on.
            self._writer.let_go()
            raise
        self._release()

    def _release(self) -> None:
        self._writer_lock.release()
        self._is_released = True

    def backup(self, path: str | Path) -> None:
        """Write a copy of everything that is acknowledged now into a new file, while the partition is in use.

        Raises:
            RequestError: there is a file already.
            JournalError: the copy cannot be written.
        """
        target = Path(path)
        if target.exists():
            raise RequestError("path", str(path), "there is a file already")
        if exists(f"{target}-wal"):
            # SQLite would read it as the log of the copy.
            raise RequestError("path", str(path), f"there is {target}-wal of another journal; move it away first")
        self._writer_lock.require_in_place()
        try:
            with open_reader(self.path) as source:
                source.copy_to(target)
        except (sqlite3.Error, OSError) as error:
            target.unlink(missing_ok=True)
            raise JournalError(self.path, f"the copy cannot be written: {error}") from error

    def compact(self, *, usage_since: int | None = None) -> Compaction:
        """Put the state of the partition in the place of the changes that led to it.

        Opening takes less time then. What is known of usage over time stays the same. Changes are held up until it is
        done. Takes time and memory in the size of the file: all that is known of usage is put in order.

        Args:
            usage_since: forget who used what before this instant, in milliseconds since 1970; None to forget nothing.

        Raises:
            JournalError: something is in doubt, or there is no room; the file has not changed.
        """
        made: list[Compaction] = []

        def work(connection: sqlite3.Connection) -> None:
            self._writer_lock.require_in_place()
            made.append(compacted(self.path, connection, usage_since=usage_since))

        self._writer.require_not_writing()
        try:
            self._writer.run_exclusively(work)
        except BaseException:
            self._writer.let_go()
            raise
        return made[0]

    def usage(
        self,
        by: By,
        *,
        since: int | None = None,
        until: int | None = None,
        period: Period | None = None,
        zone: str = "UTC",
    ) -> tuple[UsageRow, ...]:
        """Return who used how much between two instants; as `ugm.journal.usage`, up to now."""
        self._writer_lock.require_in_place()
        return usage(self.path, by, since=since, until=until, period=period, zone=zone, clock=self._writer.now)
