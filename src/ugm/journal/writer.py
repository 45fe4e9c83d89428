"""Writing: changes are noted in their order, and committed one by one or several together.

A change is *noted* under the lock of the partition, which gives it its number and its instant. It is *durable* once the
commit that holds it has reached the disk; only then is anybody told of it.

If a commit fails, what was noted stays noted, and is in doubt: nobody was told that it holds, and it is tried again,
in its order, before anything further is done. Nothing can be built on what is in doubt, because every change is refused
until it is written.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from threading import Condition, Lock, Thread, current_thread
from typing import Final, TypeAlias, final

from ugm.errors import ReentrantCallError, RequestError
from ugm.journal.change_log import ChangeLog
from ugm.journal.errors import JournalError
from ugm.journal.store import ChangeRow, change_row
from ugm.operation_lock import OwnedLock

__all__ = ["Clock", "DurabilityCallback", "Writer", "milliseconds"]

_LOGGER: Final = logging.getLogger(__name__)

#: Returns the milliseconds since 1970.
Clock = Callable[[], int]
#: Is called once a change is durable, with None, or when it is in doubt, with the error. After an interruption it may
#: be called once more, and has to ignore that.
DurabilityCallback: TypeAlias = Callable[[JournalError | None], None]

#: The last millisecond of the year 9999, the last one that calendars know.
_LAST_INSTANT: Final = 253_402_300_799_999
_CLOSED: Final = "it has been closed"


def milliseconds() -> int:
    """Return what the clock of the system says."""
    return time.time_ns() // 1_000_000


@final
class _Wait:
    """A thread that waits until it is told."""

    __slots__ = ("_failure", "_told")

    def __init__(self) -> None:
        self._failure: JournalError | None = None
        self._told: Final = Lock()
        self._told.acquire()

    def __call__(self, failure: JournalError | None) -> None:
        self._failure = failure
        # Told twice if the first call was interrupted.
        with suppress(RuntimeError):
            self._told.release()

    def outcome(self) -> JournalError | None:
        """Return what is told, as soon as it is."""
        self._told.acquire()
        return self._failure


@final
class Writer:
    """The end of a journal at which changes are written.

    Args:
        path: the file, for errors.
        disk: what it is written to.
        last: the last change that the journal has, and its instant.
        clock: what the time is.
        together: whether a thread commits what several callers have noted; otherwise the callers do.
    """

    __slots__ = (
        "_clock",
        "_due",
        "_durable",
        "_failure",
        "_guard",
        "_instant",
        "_is_idle",
        "_log",
        "_noted",
        "_process",
        "_refusal",
        "_thread",
        "_waiting",
        "_work_to_do",
        "_writing",
        "at",
        "number",
        "path",
    )

    #: The last change that was noted, and its instant.
    number: int
    at: int
    #: The instant of the change that is under way.
    _instant: int
    #: Invariant: the changes behind `_durable`, up to `number`.
    _noted: list[ChangeRow]
    #: Who is told, and of which change.
    _waiting: list[tuple[int, DurabilityCallback]]
    #: The callbacks that are due, with their argument.
    _due: list[tuple[DurabilityCallback, JournalError | None]]
    #: Why the last commit failed; None if it did not.
    _failure: JournalError | None
    #: Why nothing more is taken, ever; None if it is.
    _refusal: str | None
    #: Whether the thread that commits sleeps until it is notified.
    _is_idle: bool

    def __init__(
        self,
        path: str,
        log: ChangeLog,
        last: tuple[int, int],
        clock: Clock,
        *,
        together: bool,
    ) -> None:
        self.path: Final = path
        self._log: Final = log
        self._clock: Final = clock
        self._process: Final = os.getpid()
        self.number, self.at = last
        self._instant, self._durable = self.at, self.number
        self._noted = []
        self._waiting = []
        self._due = []
        self._failure = self._refusal = None
        self._is_idle = False
        #: Held by whoever uses the disk.
        self._writing: Final = OwnedLock()
        #: Held for moments: what is noted, who waits, and how far it is durable, change together.
        self._guard: Final = OwnedLock()
        self._work_to_do: Final = Condition(self._guard)
        self._thread: Final = Thread(target=self._work, name=f"journal {path}", daemon=True) if together else None
        if self._thread:
            self._thread.start()

    @property
    def is_shared(self) -> bool:
        """Whether several callers share a commit."""
        return self._thread is not None

    @property
    def is_closed(self) -> bool:
        """Whether nothing more is taken."""
        return self._refusal == _CLOSED

    @property
    def is_in_fork(self) -> bool:
        """Whether this is the copy that a forked process has: the file and the thread belong to the other one."""
        return os.getpid() != self._process

    # Gates, under the lock of the partition but for the first

    def require_owner(self) -> None:
        """Make sure that this is the process that opened the journal.

        Raises:
            JournalError: it was forked from that.
        """
        if self.is_in_fork:
            raise JournalError(self.path, f"it belongs to process {self._process}, from which this one was forked")

    def require_not_writing(self) -> None:
        """Make sure that this thread is not in the middle of a call of the writer.

        Such a call would wait for the thread that commits, and that thread for a lock of the interrupted call.

        Raises:
            ReentrantCallError: it is.
        """
        if self._guard.is_owned() or self._writing.is_owned():
            raise ReentrantCallError

    def require_writable(self) -> None:
        """Make sure that nothing is in doubt, and that a change can be noted.

        Raises:
            JournalError: something is, and cannot be written now either; or nothing more is taken.
            RequestError: the clock tells no milliseconds.
        """
        if self._refusal is not None:
            raise JournalError(self.path, self._refusal)
        if self._failure is not None:
            self.flush()
        # Now, because a clock that fails must not do so when everything has changed.
        self._instant = self.now()

    def require_space(self) -> None:
        """Make sure that there is room for more, too.

        Raises:
            JournalError: there is not.
        """
        self.require_writable()
        if not self._log.has_reserve:
            with self._writing:
                self._log.restore_reserve()

    def now(self) -> int:
        """Return the instant; one that lies before what was noted last is held up until the clock has caught up.

        Raises:
            RequestError: the clock tells no milliseconds.
        """
        told = self._clock()
        if type(told) is not int or told > _LAST_INSTANT:
            raise RequestError("clock", told, "expected whole milliseconds, before the year 10000")
        return max(told, self.at)

    # Noting, under the lock of the partition

    def append(self, data: bytes) -> None:
        """Note what happened, at the instant when it was found that it may."""
        number, at = self.number + 1, self._instant
        row = change_row(number, at, data)
        with self._guard:
            # From here on the change is going to be written.
            self._noted.append(row)
            self.number, self.at = number, at
            if self._is_idle:
                self._work_to_do.notify()

    def has_appended(self, before: int) -> bool:
        """Return whether a change was noted behind *before*, in a call that may have been interrupted."""
        with self._guard:
            last = self._noted[-1][0] if self._noted else self._durable
            if last <= before:
                return False
            # The call may have been interrupted before it said so.
            self.number, self.at = last, max(self.at, self._instant)
            self._work_to_do.notify()
            return True

    def let_go(self) -> None:
        """Release the locks that this thread still holds after an exception."""
        for lock in (self._guard, self._writing):
            while lock.is_owned():
                lock.release()

    # Committing

    def acknowledge(self, number: int) -> None:
        """Return once a change is durable.

        Raises:
            JournalError: it is in doubt.
        """
        if self._durable >= number:
            return
        # Whoever is told by the thread that commits may ask for more; nobody else would commit that.
        if self._thread in (None, current_thread()) and self._failure is None:
            self.flush()
            return
        wait = _Wait()
        self.when_durable(number, wait)
        failure = wait.outcome()
        if failure is not None:
            raise JournalError(*failure.args)

    def when_durable(self, number: int, tell: DurabilityCallback) -> None:
        """Have somebody told once a change is durable, or that it is in doubt."""
        if self._durable >= number:
            tell(None)
            return
        with self._guard:
            failure = self._failure
            if failure is None and self._durable < number:
                self._waiting.append((number, tell))
                return
        tell(failure if self._durable < number else None)

    def flush(self) -> None:
        """Commit all that is noted.

        An interruption leaves what is noted in the list, and the next call commits it, once more if need be.

        Raises:
            JournalError: that failed; everything that is noted is in doubt.
        """
        with self._writing:
            batch = self._noted[:]
            failure = self._log.commit(batch) if batch else None
            with self._guard:
                if failure is None and batch:
                    self._durable = batch[-1][0]
                    del self._noted[: len(batch)]
                self._failure = failure
                self._sort_out_waiting(failure)
                self._work_to_do.notify()
        self._notify()
        if failure is not None:
            raise failure

    def _sort_out_waiting(self, failure: JournalError | None) -> None:
        """Move the callbacks for changes that are durable now, or in doubt, to those that are due."""
        self._due += [(tell, failure) for number, tell in self._waiting if failure or number <= self._durable]
        self._waiting = [] if failure else [one for one in self._waiting if one[0] > self._durable]

    def _notify(self) -> None:
        """Call everybody on the list. A call that is interrupted is repeated by the next flush."""
        while self._due:
            tell, failure = first = self._due[0]
            try:
                tell(failure)
            except Exception:
                _LOGGER.exception("a callback for a durable change failed")
            with suppress(ValueError):
                self._due.remove(first)

    def _work(self) -> None:
        """Commit what is noted, until the journal is closed; while one commit is on its way, the next gathers."""
        while True:
            with self._guard:
                self._is_idle = True
                while not self.is_closed and (self._failure is not None or not self._noted):
                    self._work_to_do.wait()
                self._is_idle = False
                if self.is_closed:
                    return
            with suppress(JournalError):
                self.flush()

    # Other work on the file

    def run_exclusively(self, work: Callable[[sqlite3.Connection], None]) -> None:
        """Do something with the connection while nothing is committed; what was noted is durable before.

        Raises:
            JournalError: something is in doubt, or nothing more is taken.
        """
        self.require_owner()
        with self._writing:
            if self._refusal is not None:
                raise JournalError(self.path, self._refusal)
            self.flush()
            work(self._log.connection)

    def stop(self) -> None:
        """Take nothing more, under the lock of the partition."""
        with self._guard:
            self._refusal = _CLOSED
            self._work_to_do.notify()

    def close(self) -> None:
        """Write what is noted, and let go of everything; after `stop`, and once.

        Raises:
            JournalError: something is in doubt, and could not be written now either.
        """
        # Whoever is told by the thread that commits may close; that thread ends by itself.
        if self._thread is not None and self._thread is not current_thread():
            self._thread.join()
        try:
            self.flush()
        finally:
            self._log.close()
