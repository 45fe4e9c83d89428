"""The journal of an open partition: backup, compaction, usage over time, and closing."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Final, final

from ugm.errors import ReentrantCallError, RequestError
from ugm.journal.background import BackgroundCompaction
from ugm.journal.change_queue import ChangeQueue, stored_time
from ugm.journal.compaction import Compaction
from ugm.journal.errors import JournalError
from ugm.journal.inspection import backup
from ugm.journal.locations import LogLocation
from ugm.journal.log import Leadership, Log
from ugm.journal.usage import Grouping, Period, UsageRow, usage_of_log
from ugm.operation_lock import OperationLock, OwnedLock

__all__ = ["Journal"]


@final
class Journal:
    """The journal of a `JournaledPartition`.

    Any number of threads may use it while others use the partition.
    """

    __slots__ = ("_change_queue", "_closing", "_compaction", "_is_released", "_leadership", "_lock", "_log", "path")

    #: The last compaction in the background.
    _compaction: BackgroundCompaction | None
    #: The file, or the location of the database.
    path: str

    def __init__(self, log: Log, leadership: Leadership, lock: OperationLock, change_queue: ChangeQueue) -> None:
        self.path = log.location
        self._log: Final = log
        self._leadership: Final = leadership
        self._lock: Final = lock
        self._change_queue: Final = change_queue
        #: Held by the thread that closes the journal, or starts a compaction.
        self._closing: Final = OwnedLock()
        self._is_released = False
        self._compaction = None

    @property
    def number(self) -> int:
        """The number of the last change; the first is 1."""
        return self._change_queue.number

    @property
    def is_closed(self) -> bool:
        """True if the journal was closed."""
        return self._change_queue.is_closed

    def close(self) -> None:
        """Write all pending changes and release the file; a second call does nothing.

        If the first call was interrupted, the second one continues. All deferred results are delivered. The partition
        can still be read, but refuses every change. In a process that was forked from the one that opened the journal,
        this method does nothing.

        Raises:
            JournalError: a change that was not acknowledged could not be written.
            ReentrantCallError: a signal handler or finalizer has interrupted this thread while it closes the journal.
        """
        if self._change_queue.is_in_fork:
            return
        if self._is_released:
            # The first call may have been interrupted, or deliver results in another thread.
            self._change_queue.deliver_results()
            return
        self._require_not_interrupted()
        try:
            self._lock.run(self._change_queue.stop)
            failure = self._closing.hold(self._write_and_release)
            # Without the lock, because a subscriber in another thread may close the journal, too.
            self._change_queue.deliver_results()
        except BaseException:
            # The next call continues.
            self._change_queue.release_if_held()
            raise
        if failure is not None:
            raise failure

    def _require_not_interrupted(self) -> None:
        self._change_queue.require_not_writing()
        if self._closing.is_owned():
            raise ReentrantCallError

    def _write_and_release(self) -> JournalError | None:
        """Write all pending changes and release the file, unless another thread has done so; return the failure."""
        failure: JournalError | None = None
        if not self._is_released:
            if self._compaction is not None:
                # Its next step fails, because the queue accepts nothing more.
                self._compaction.stop()
            try:
                self._change_queue.close()
            except JournalError as error:
                failure = error
            self._leadership.release()
            self._is_released = True
        return failure

    def backup(self, target: LogLocation) -> None:
        """Write a copy of all acknowledged changes to a new journal, while the partition is in use; see `backup`."""
        self._leadership.require_in_place()
        backup(self._log, target)

    def compact(self, *, usage_since: float | None = None) -> Compaction:
        """Replace the changes by the state of the partition that they led to.

        Opening the journal takes less time afterwards. Usage over time stays available. Changes of the
        partition wait until the compaction of a file is done. It takes time and memory proportional to the file.

        Args:
            usage_since: delete usage before this instant, in seconds since 1970; None to delete none.

        Raises:
            JournalError: a change is in doubt, or the disk is full; the file has not changed.
        """
        self._change_queue.require_not_writing()
        try:
            return self._leadership.compact(self._change_queue.run_exclusively, usage_since=_stored(usage_since))
        except BaseException:
            self._change_queue.release_if_held()
            raise

    def compact_in_background(self, *, usage_since: float | None = None) -> Future[Compaction]:
        """Compact the journal while the partition is in use, as `compact` does.

        A second process computes, which needs as much memory as this one. Changes wait for a few milliseconds at most.
        The file does not become smaller; later changes reuse its space. Closing the journal ends the compaction.

        Args:
            usage_since: as for `compact`.

        Returns:
            The future result. It raises a `JournalError` if the journal cannot be read or written; its contents have
            not changed then.

        Raises:
            RequestError: a compaction is in progress.
            JournalError: the journal is closed, or the process cannot be started.
        """
        self._require_not_interrupted()
        return self._closing.hold(self._start_compaction, usage_since)

    def _start_compaction(self, usage_since: float | None) -> Future[Compaction]:
        running = self._compaction
        if running is not None and not running.future.done():
            raise RequestError("compaction", "running", "a compaction is in progress", "state-conflict")
        since = _stored(usage_since)
        compaction = self._leadership.start_compaction(self._change_queue.run_exclusively, usage_since=since)
        self._compaction = compaction
        return compaction.future

    def usage(
        self,
        by: Grouping,
        *,
        since: float | None = None,
        until: float | None = None,
        period: Period | None = None,
        zone: str = "UTC",
        queue: str = "root",
    ) -> tuple[UsageRow, ...]:
        """Return the usage between two instants, at most until now; see `ugm.journal.usage`."""
        self._leadership.require_in_place()
        now = self._change_queue.now()
        return usage_of_log(self._log, by, since=since, until=until, period=period, zone=zone, queue=queue, now=now)


def _stored(since: float | None) -> int | None:
    """Return the first instant for which usage is kept in milliseconds."""
    return None if since is None else stored_time("usage_since", since)
