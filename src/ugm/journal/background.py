"""A compaction in the background: a process computes the new state, and a thread of the leader receives it.

For a file, the thread stores the received rows in short steps (`ugm.journal.file_compaction`), because only the leader
may write the file. For PostgreSQL, the process stores them.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Final, final

from ugm.journal.compaction import Compaction
from ugm.journal.compaction_process import CompactionProcess, CompactionTask
from ugm.journal.errors import JournalError
from ugm.journal.threads import start_thread

__all__ = ["BackgroundCompaction"]


@final
class BackgroundCompaction:
    """A running compaction.

    Args:
        task: the task of the process.
        shown_location: the location for errors.
        store: stores what the process sends.
    """

    __slots__ = ("_process", "_store", "future")

    #: Gets the result, or a `JournalError`.
    future: Final[Future[Compaction]]

    def __init__(
        self, task: CompactionTask, shown_location: str, store: Callable[[CompactionProcess], Compaction]
    ) -> None:
        self._store: Final = store
        self.future = Future()
        self.future.set_running_or_notify_cancel()
        try:
            self._process: Final = CompactionProcess(task, shown_location)
        except OSError as error:
            raise JournalError(shown_location, f"it cannot be compacted: {error}") from error
        try:
            start_thread(self._run, f"compaction {shown_location}", shown_location)
        except BaseException:
            self._process.end()
            raise

    def _run(self) -> None:
        try:
            with self._process as process:
                result = self._store(process)
        except BaseException as error:  # noqa: BLE001 - the future raises it
            self.future.set_exception(error)
        else:
            self.future.set_result(result)

    def stop(self) -> None:
        """End the compaction, which then fails unless it is complete, and wait for its result."""
        self._process.kill()
        # Not for its thread, in which a callback of the future may make this call.
        wait([self.future])
