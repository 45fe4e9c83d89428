"""A compaction in the background: a process computes the new state, and a thread of the leader receives it.

For a file, the thread stores the received rows in short steps (`ugm.journal.file_compaction`), because only the leader
may write the file. For PostgreSQL, the process stores them.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError, wait
from contextlib import suppress
from typing import Final, final

from ugm.journal.compaction import Compaction
from ugm.journal.compaction_process import CompactionProcess, CompactionTask
from ugm.journal.errors import JournalError
from ugm.journal.threads import start_thread

__all__ = ["BackgroundCompaction"]

#: The time between two looks at the thread, in seconds.
_PAUSE: Final = 0.1


@final
class BackgroundCompaction:
    """A running compaction.

    Args:
        task: the task of the process.
        shown_location: the location for errors.
        store: stores what the process sends.
    """

    __slots__ = ("_location", "_process", "_store", "_thread", "future")

    #: Gets the result, or a `JournalError`.
    future: Final[Future[Compaction]]

    def __init__(
        self, task: CompactionTask, shown_location: str, store: Callable[[CompactionProcess], Compaction]
    ) -> None:
        self._store: Final = store
        self._location: Final = shown_location
        self.future = Future()
        self.future.set_running_or_notify_cancel()
        try:
            self._process: Final = CompactionProcess(task, shown_location)
        except OSError as error:
            raise JournalError(shown_location, f"it cannot be compacted: {error}") from error
        try:
            self._thread: Final = start_thread(self._run, f"compaction {shown_location}", shown_location)
        except BaseException:
            self._process.end()
            raise

    def _run(self) -> None:
        try:
            self.future.set_result(self._result())
        except BaseException as error:  # noqa: BLE001 - the future raises it, unless a callback of it does
            with suppress(InvalidStateError):
                self.future.set_exception(error)

    def _result(self) -> Compaction:
        with self._process as process:
            return self._store(process)

    def stop(self) -> None:
        """End the compaction, which then fails unless it is complete, and wait for its result."""
        self._process.kill()
        # Not for the end of its thread, in which a callback of the future may make this call.
        while self._thread.is_alive() and not self.future.done():
            wait([self.future], _PAUSE)
        if not self.future.done():
            self._process.end()
            self.future.set_exception(JournalError(self._location, "it cannot be compacted: the thread has ended"))
