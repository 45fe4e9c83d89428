"""Writing: changes are noted in their order, and committed one by one or several together.

A change is *noted* under the lock of the partition, which gives it its number and its instant. It is *durable* once the
commit that holds it has reached the disk; only then is anybody told of it.

If a commit fails, what was noted stays noted, and is in doubt: nobody was told that it holds, and it is tried again,
in its order, before anything further is done. Nothing can be built on what is in doubt, because every change is refused
until it is written. When the disk is full, space kept in reserve is given up first; from then on growth is refused
before anything has changed, and what gives back is written.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from threading import Condition, Lock, RLock, Thread, current_thread
from typing import Final, NamedTuple, final

from ugm.errors import RequestError
from ugm.journal.beside import Reserve, Witness
from ugm.journal.errors import JournalError
from ugm.journal.store import INSERT, Change, change

__all__ = ["Clock", "Writer", "milliseconds"]

#: Returns the milliseconds since 1970.
Clock = Callable[[], int]

_CLOSED: Final = "it has been closed"
_FULL: Final = "the disk is full, and only what gives back is accepted"


class _Waiting(NamedTuple):
    """Somebody who is told once a change is durable, or that it is in doubt."""

    number: int
    tell: Callable[[JournalError | None], None]


def milliseconds() -> int:
    """Return what the clock of the system says."""
    return time.time_ns() // 1_000_000


@final
class Writer:
    """The end of a journal at which changes are written.

    Args:
        path: the file, for errors.
        connection: what it is written through.
        witness: where it is noted what is acknowledged.
        reserve: space for when the disk is full.
        last: the last change that the journal has, and its instant.
        clock: what the time is.
        together: whether a thread commits what several callers have noted; otherwise the callers do.
    """

    __slots__ = (
        "_clock",
        "_connection",
        "_durable",
        "_failure",
        "_is_closed",
        "_news",
        "_noted",
        "_path",
        "_reserve",
        "_thread",
        "_waiting",
        "_witness",
        "_work_to_do",
        "_writing",
        "at",
        "number",
    )

    #: The last change that was noted, and its instant.
    number: int
    at: int
    #: Invariant: the changes behind `_durable`, up to `number`.
    _noted: list[Change]
    #: Why the last commit failed; None if it did not.
    _failure: JournalError | None

    def __init__(
        self,
        path: str,
        connection: sqlite3.Connection,
        witness: Witness,
        reserve: Reserve,
        last: tuple[int, int],
        clock: Clock,
        *,
        together: bool,
    ) -> None:
        self._path: Final = path
        self._connection: Final = connection
        self._witness: Final = witness
        self._reserve: Final = reserve
        self._clock: Final = clock
        self.number, self.at = last
        self._durable = self.number
        self._noted = []
        self._waiting: list[_Waiting] = []
        self._failure = None
        self._is_closed = False
        #: Held by whoever uses the connection.
        self._writing: Final = RLock()
        # One lock guards all that is noted: some wait for commits, and one for something to commit.
        guard = Lock()
        self._news: Final = Condition(guard)
        self._work_to_do: Final = Condition(guard)
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
        return self._is_closed

    # Noting

    def note(self, data: bytes) -> None:
        """Note what happened, under the lock of the partition."""
        with self._news:
            self.at = self.now()
            self.number += 1
            self._noted.append(change(self.number, self.at, data))
            if self._thread:
                self._work_to_do.notify()

    def now(self) -> int:
        """Return the instant; one that lies before what was noted last is held up until the clock has caught up.

        Raises:
            RequestError: the clock tells no milliseconds.
        """
        told = self._clock()
        if type(told) is not int:
            raise RequestError("clock", told, "expected whole milliseconds")
        return max(told, self.at)

    # Gates, under the lock of the partition

    def require_sound(self) -> None:
        """Make sure that nothing is in doubt.

        Raises:
            JournalError: something is, and cannot be written now either; or the journal is closed.
        """
        if self._is_closed:
            raise JournalError(self._path, _CLOSED)
        if self._failure is not None:
            self.flush()

    def require_room(self) -> None:
        """Make sure that there is room for more, too.

        Raises:
            JournalError: there is not.
        """
        self.require_sound()
        if not self._reserve.is_there:
            try:
                with self._writing:
                    self._reserve.keep()
            except OSError as error:
                raise JournalError(self._path, _FULL) from error

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
        with self._news:
            while self._durable < number:
                if self._failure is not None:
                    raise JournalError(*self._failure.args)
                self._news.wait()

    def when_durable(self, number: int, tell: Callable[[JournalError | None], None]) -> None:
        """Have somebody told once a change is durable, with None, or that it is in doubt, with the error."""
        with self._news:
            failure = self._failure
            if failure is None and self._durable < number:
                self._waiting.append(_Waiting(number, tell))
                return
        tell(failure if self._durable < number else None)

    def flush(self) -> None:
        """Commit all that is noted.

        Raises:
            JournalError: that failed; everything that is noted is in doubt.
        """
        with self._writing:
            batch = self._noted[:]
            failure = self._commit(batch) if batch else None
            with self._news:
                if failure is None and batch:
                    self._durable = batch[-1].number
                    del self._noted[: len(batch)]
                self._failure = failure
                told = [one for one in self._waiting if failure or one.number <= self._durable]
                self._waiting = [one for one in self._waiting if not failure and one.number > self._durable]
                self._news.notify_all()
                self._work_to_do.notify()
        for one in told:
            one.tell(failure)
        if failure is not None:
            raise failure

    def _commit(self, batch: list[Change]) -> JournalError | None:
        """Write changes and return why that failed, if it did."""
        try:
            try:
                self._insert(batch)
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_FULL or not self._reserve.give_up():
                    raise
                self._insert(batch)
            self._witness.note(batch[-1].number)
        except (sqlite3.Error, OSError) as error:
            reason = f"it cannot be written ({error}); what was asked for is in doubt until it can, ask again then"
            return JournalError(self._path, reason)
        return None

    def _insert(self, batch: list[Change]) -> None:
        connection = self._connection
        if len(batch) == 1:
            connection.execute(INSERT, batch[0])
            return
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(INSERT, batch)
            connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise

    def _work(self) -> None:
        """Commit what is noted, until the journal is closed; while one commit is on its way, the next gathers."""
        while True:
            with self._news:
                while not self._is_closed and (self._failure is not None or not self._noted):
                    self._work_to_do.wait()
                if self._is_closed:
                    return
            with suppress(JournalError):
                self.flush()

    # Other work on the file

    def alone(self, work: Callable[[sqlite3.Connection], None]) -> None:
        """Do something with the connection while nothing is committed; what was noted is durable before.

        Raises:
            JournalError: something is in doubt, or the journal is closed.
        """
        with self._writing:
            self.require_sound()
            self.flush()
            work(self._connection)

    def stop(self) -> None:
        """Take nothing more, under the lock of the partition."""
        with self._news:
            self._is_closed = True
            self._work_to_do.notify()

    def close(self) -> None:
        """Write what is noted, and let go of everything; after `stop`, and once.

        Raises:
            JournalError: something is in doubt, and could not be written now either.
        """
        if self._thread:
            self._thread.join()
        try:
            self.flush()
        finally:
            self._connection.close()
            self._witness.close()
