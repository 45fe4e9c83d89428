"""The queue of changes in front of a log: they are appended in their order, and committed one by one or in groups.

The problem: a commit takes much longer than a change in memory, and may fail after the change was made.

The idea: a change is *appended* under the lock of the partition, which gives it its number and its instant. It is
*durable* when the commit that contains it has reached the disk. Only then do its callers get their answer. Changes that
are appended during a commit share the next one.

Invariant: the appended changes that are not durable yet are kept in their order. If a commit fails, they stay there and
are *in doubt*. They are committed before any further change is accepted, so no change builds on one in doubt.

The cost: one commit for each change. If commits are shared, a caller waits for at most two commits.

The loop of a leader appends one change at a time with `ChangeQueue.send`, which passes it to the log without waiting.
`ChangeQueue.receive` takes the answer. If the log cannot do this, or the answer is not a success, the thread commits.
Any other use of the log waits for the answer first.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from contextlib import suppress
from threading import Condition, Lock
from typing import Final, TypeAlias, TypeVar, final

from ugm.errors import ReentrantCallError
from ugm.journal.errors import JournalError
from ugm.journal.file_writer import ChangeRow, change_row
from ugm.journal.log import LogWriter, SentCommit
from ugm.journal.result_delivery import ResultDelivery
from ugm.journal.threads import start_thread
from ugm.operation_lock import OwnedLock
from ugm.partition.clock import Clock, require_time

__all__ = ["ChangeQueue", "DurabilityCallback", "copy_of", "milliseconds", "stored_time"]

_T = TypeVar("_T")

_LOGGER: Final = logging.getLogger(__name__)

#: A function that is called with None when a change is durable, or with the error when it is in doubt. All commits wait
#: for it, so it must return at once, without a call of the partition or of a subscriber. If commits are not shared, the
#: calling thread calls it, and it may call subscribers. It must ignore a second call, which may happen after an
#: interruption.
DurabilityCallback: TypeAlias = Callable[[JournalError | None], None]

#: The time between two looks at an answer that does not arrive, in seconds.
_ANSWER_PAUSE: Final = 1.0
#: The time until the thread tries again after an unexpected error, in seconds.
_RETRY: Final = 0.1
#: How often a callback that raises is called.
_ATTEMPTS: Final = 8


def milliseconds() -> int:
    """Return the time of the system clock, in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def stored_time(argument: str, seconds: float) -> int:
    """Return a time in milliseconds, as a journal stores it, after checking it.

    >>> stored_time("clock", 1.001)
    1001
    """
    return round(require_time(argument, seconds) * 1000)


def copy_of(failure: JournalError) -> JournalError:
    """Return an equal error: each caller raises its own, with its own traceback."""
    return type(failure)(*failure.args)


@final
class _Waiter:
    """A thread that waits until a change is durable or in doubt."""

    __slots__ = ("_failure", "_notified")

    def __init__(self) -> None:
        self._failure: JournalError | None = None
        self._notified: Final = Lock()
        self._notified.acquire()

    def __call__(self, failure: JournalError | None) -> None:
        self._failure = failure
        # It is released already if the first call was interrupted.
        with suppress(RuntimeError):
            self._notified.release()

    def wait(self) -> JournalError | None:
        """Wait for the call, and return its argument."""
        self._notified.acquire()
        return self._failure


@final
class ChangeQueue:
    """The queue of changes in front of a log.

    Args:
        path: the location of the log.
        log: the log to which changes are committed.
        last: the number and the instant of the last change in the journal.
        clock: returns the seconds since 1970.
        group_commit: whether a thread commits the changes of several callers; otherwise each caller commits its own.
    """

    __slots__ = (
        "_appended",
        "_callbacks",
        "_clock",
        "_due",
        "_durable",
        "_failure",
        "_guard",
        "_instant",
        "_is_idle",
        "_latest",
        "_log",
        "_process",
        "_sent",
        "_thread",
        "_work_to_do",
        "_writing",
        "at",
        "is_closed",
        "number",
        "path",
        "result_delivery",
    )

    #: The number and the instant of the last appended change.
    number: int
    at: int
    #: The instant of the change that is being made.
    _instant: int
    #: The last reading of the clock.
    _latest: int
    #: Invariant: the changes after `_durable`, up to `number`.
    _appended: list[ChangeRow]
    #: The callbacks, with the numbers of their changes.
    _callbacks: list[tuple[int, DurabilityCallback]]
    #: The callbacks that are due, with their argument.
    _due: list[tuple[DurabilityCallback, JournalError | None]]
    #: The error of the last commit; None if it succeeded.
    _failure: JournalError | None
    #: Whether the journal was closed, so that no more changes are accepted.
    is_closed: bool
    #: Whether the committing thread sleeps until it is notified.
    _is_idle: bool
    #: The number of the first appended change, and its commit, if it was sent to the log and has no answer yet.
    _sent: tuple[int, SentCommit] | None

    def __init__(
        self,
        path: str,
        log: LogWriter,
        last: tuple[int, int],
        clock: Clock,
        *,
        group_commit: bool,
    ) -> None:
        self.path: Final = path
        self._log: Final[LogWriter] = log
        self._clock: Final = clock
        self._process: Final = os.getpid()
        self.number, self.at = last
        self._instant = self._latest = self.at
        self._durable = self.number
        self._appended = []
        self._callbacks = []
        self._due = []
        self._failure = self._sent = None
        self.is_closed = self._is_idle = False
        #: Held by the thread that uses the log.
        self._writing: Final = OwnedLock()
        #: Protects `_appended`, `_callbacks` and `_durable`; never held during a commit.
        self._guard: Final = OwnedLock()
        self._work_to_do: Final = Condition(self._guard)
        #: Delivers deferred results; None if each caller commits its own changes.
        self.result_delivery: Final = ResultDelivery(path) if group_commit else None
        self._thread: Final = start_thread(self._work, f"journal {path}", path) if group_commit else None

    @property
    def is_group_commit(self) -> bool:
        """True if a thread commits the changes of several callers."""
        return self._thread is not None

    @property
    def is_in_fork(self) -> bool:
        """True if this is a copy in a forked process: the file and the thread belong to the parent."""
        return os.getpid() != self._process

    # Conditions of a change; all but the first two are checked under the lock of the partition

    def require_owner(self) -> None:
        """Check that this process opened the journal.

        Raises:
            JournalError: it was forked from the process that did.
        """
        if self.is_in_fork:
            raise JournalError(self.path, f"it belongs to process {self._process}, from which this one was forked")

    def require_not_writing(self) -> None:
        """Check that this thread is not inside a call of the queue, interrupted by a signal handler or finalizer.

        A nested call would wait for the committing thread, and that thread for a lock of the interrupted call.

        Raises:
            ReentrantCallError: the thread is inside such a call.
        """
        if self._guard.is_owned() or self._writing.is_owned():
            raise ReentrantCallError

    def prepare(self, *, needs_space: bool, retry: bool = True) -> None:
        """Prepare for the next change: write changes in doubt, if any, and read the clock.

        Args:
            needs_space: whether disk space must be reserved for later releases.
            retry: whether to try to write changes in doubt; otherwise they are an error.

        Raises:
            JournalError: a change is in doubt, and cannot be written now either; or the journal is closed, or the disk
                is full.
            RequestError: the clock returned an unusable value.
        """
        self._require_open()
        failure = self._failure
        if failure is not None:
            if not retry:
                raise copy_of(failure)
            self.flush()
        # The clock is read before the change is made: if it fails, nothing has changed yet.
        self._instant = self.now()
        if needs_space and not self._log.has_reserve:
            with self._writing:
                self._log.restore_reserve()

    def require_ready(self, *, needs_space: bool) -> None:
        """Check what `prepare` checks, but do not retry, and do not read the clock if all is well.

        A leader makes many changes before it appends them together, after `stamp`.

        Raises:
            JournalError: a change is in doubt, the journal is closed, or the disk is full.
        """
        if self.is_closed or self._failure is not None or (needs_space and not self._log.has_reserve):
            self.prepare(needs_space=needs_space, retry=False)

    def stamp(self, at: int | None) -> None:
        """Set the instant of the next change.

        Args:
            at: a time that `now` has returned; None for the time now.

        Raises:
            RequestError: the clock returned an unusable value.
        """
        self._instant = self.now() if at is None else max(at, self.at)

    def _require_open(self) -> None:
        if self.is_closed:
            raise JournalError(self.path, "it has been closed")

    def now(self) -> int:
        """Return the time of the clock in milliseconds, or the last one that was returned if the clock was set back.

        Raises:
            RequestError: the clock returned an unusable value.
        """
        self._latest = max(stored_time("clock", self._clock()), self._latest)
        return self._latest

    def second(self) -> int:
        """Return `now` in seconds, rounded down."""
        return self.now() // 1000

    def second_of_change(self) -> int:
        """Return the instant of the change that is being made in seconds, rounded down."""
        return self._instant // 1000

    # Appending, under the lock of the partition

    def append(self, data: bytes) -> None:
        """Append a change, with the instant that was read by `prepare`."""
        number, at = self.number + 1, self._instant
        row = change_row(number, at, data)
        with self._guard:
            # After this line the change is going to be written, whatever interrupts the call.
            self._appended.append(row)
            self.number, self.at = number, at
            if self._is_idle:
                self._work_to_do.notify()

    def has_appended(self, before: int) -> bool:
        """Return whether a change after *before* was appended, in a call that may have been interrupted."""
        # A query calls this too, and does not call `release_if_held`, which would release the lock of a call that the
        # query has interrupted.
        return self._guard.hold(self._find_appended, before)

    def _find_appended(self, before: int) -> bool:
        last = self._appended[-1][0] if self._appended else self._durable
        if last <= before:
            return False
        # The call may have been interrupted before it stored the number.
        self.number, self.at = last, max(self.at, self._instant)
        self._work_to_do.notify()
        return True

    def release_if_held(self) -> None:
        """Release the locks that this thread still holds after an exception."""
        for lock in (self._guard, self._writing):
            while lock.is_owned():
                lock.release()

    # Committing

    def wait_until_durable(self, number: int) -> None:
        """Wait until a change is durable.

        Raises:
            JournalError: the change is in doubt.
        """
        if self._durable >= number:
            return
        if self._thread is None and self._failure is None:
            self.flush()
            return
        waiter = _Waiter()
        self.when_durable(number, waiter)
        failure = waiter.wait()
        if failure is not None:
            raise copy_of(failure)

    def is_durable(self, number: int) -> bool:
        """Return whether a change has reached the disk."""
        return self._durable >= number

    def when_durable(self, number: int, callback: DurabilityCallback) -> None:
        """Call a function when a change is durable or in doubt; at once if it is already."""
        if self._durable >= number:
            callback(None)
            return
        with self._guard:
            failure = self._failure
            if failure is None and self._durable < number:
                self._callbacks.append((number, callback))
                return
        callback(failure if self._durable < number else None)

    def flush(self) -> None:
        """Commit all appended changes.

        An interruption leaves the changes in the list, and the next call commits them, a second time if necessary.

        Raises:
            JournalError: the commit failed, and the changes are in doubt.
        """
        with self._writing:
            if self._sent is not None:
                self._await_answer()
            batch = self._appended[:]
            failure = self._log.commit(batch) if batch else None
            with self._guard:
                if failure is None and batch:
                    self._durable = batch[-1][0]
                    del self._appended[: len(batch)]
                self._failure = failure
                if self._callbacks:
                    self._collect_due_callbacks(failure)
                self._work_to_do.notify()
        self._notify()
        if failure is not None:
            raise failure

    # Committing without waiting, by the loop of a leader

    def send(self, data: bytes, callback: DurabilityCallback, watch: Callable[[SentCommit], bool]) -> None:
        """Append a change, and send it to the log without waiting for the answer.

        If the log is in use, cannot do this, or has other changes to commit, the thread commits.

        Args:
            data: the change. Its instant is that of `stamp`.
            callback: as for `when_durable`; called by the thread that receives the answer.
            watch: makes the loop call `receive` when the answer can be received, and returns whether it will. It is
                called while the log is locked, so it must not call the queue.
        """
        try:
            self._append_for_loop(data, callback)
            if not self._try_to_send(watch):
                self._wake()
        except BaseException:
            # The next `receive` lets the thread commit the change, if it was appended.
            self.release_if_held()
            raise

    def _append_for_loop(self, data: bytes, callback: DurabilityCallback) -> None:
        """Append a change, and its callback in the same step: the thread may commit the change at any time then."""
        number, at = self.number + 1, self._instant
        row = change_row(number, at, data)
        with self._guard:
            failure = self._failure
            if failure is None:
                self._callbacks.append((number, callback))
            self._appended.append(row)
            self.number, self.at = number, at
        if failure is not None:
            callback(failure)

    def _try_to_send(self, watch: Callable[[SentCommit], bool]) -> bool:
        """Send the appended change, and return whether the loop will receive the answer."""
        if not self._writing.acquire(blocking=False):
            return False
        is_watched = False
        if self._failure is None and self._sent is None and len(self._appended) == 1:
            row = self._appended[0]
            commit = self._log.send(row)
            if commit is not None:
                self._sent = row[0], commit
                is_watched = commit.is_sent and watch(commit)
        self._writing.release()
        return is_watched

    def receive(self) -> bool:
        """Take the answer to the change that `send` has sent, if it has arrived, without waiting.

        Return False if no answer is awaited.
        """
        try:
            if self._sent is None:
                self._continue()
                return False
            # Another thread that uses the log takes the answer itself.
            if self._writing.acquire(blocking=False):
                self._take_answer(0)
                self._writing.release()
                self._notify()
        except BaseException:
            self.release_if_held()
            raise
        return True

    def _continue(self) -> None:
        """Continue what an interrupted call of the loop has left."""
        if self._due:
            self._notify()
        if self._appended:
            self._wake()

    def _await_answer(self) -> None:
        """Wait for the answer to the change that was sent, if any; called with `_writing`."""
        while self._sent is not None:
            self._take_answer(_ANSWER_PAUSE)

    def _take_answer(self, timeout: float) -> None:
        """Take the answer to the change that was sent; called with `_writing`. A repeated call has the same effect."""
        if self._sent is None:
            return
        number, commit = self._sent
        is_durable = commit.result(timeout)
        if is_durable is None:
            return
        if is_durable:
            with self._guard:
                self._durable = number
                self._collect_due_callbacks(None)
                if self._appended and self._appended[0][0] == number:
                    del self._appended[0]
        else:
            # The thread commits the change again, and finds the cause.
            self._wake()
        self._sent = None

    def _wake(self) -> None:
        """Wake the thread that commits."""
        with self._guard:
            self._work_to_do.notify()

    def _collect_due_callbacks(self, failure: JournalError | None) -> None:
        """Move the callbacks of changes that are durable now, or in doubt, to `_due`."""
        durable, callbacks = self._durable, self._callbacks
        self._due += [(callback, failure) for number, callback in callbacks if failure or number <= durable]
        self._callbacks = [] if failure else [waiting for waiting in callbacks if waiting[0] > durable]

    def _notify(self) -> None:
        """Call the callbacks that are due. The next `flush` repeats a call that was interrupted."""
        attempts = 0
        while True:
            try:
                callback, failure = first = self._due[0]
            except IndexError:
                # There are no more; another thread may have called the last one.
                return
            try:
                callback(failure)
            except Exception:
                attempts += 1
                if attempts < _ATTEMPTS:
                    # Memory may have been exhausted.
                    continue
                _LOGGER.exception("a callback for a durable change failed")
            attempts = 0
            with suppress(ValueError):
                self._due.remove(first)

    def _work(self) -> None:
        """Commit appended changes until the journal is closed. During one commit, changes gather for the next."""
        while not self.is_closed:
            try:
                self._commit_until_closed()
            except BaseException as error:  # noqa: BLE001 - without this thread, every change would wait for ever
                self._recover(error)

    def _commit_until_closed(self) -> None:
        while not self.is_closed:
            # What an interrupted round has left.
            self._notify()
            with self._guard:
                self._wait_for_work()
            if not self.is_closed:
                # The callers get the error. The next change tries again.
                with suppress(JournalError):
                    self.flush()

    def _wait_for_work(self) -> None:
        self._is_idle = True
        while not self.is_closed and (self._failure is not None or not self._appended):
            self._work_to_do.wait()
        self._is_idle = False

    def _recover(self, error: BaseException) -> None:
        """Continue after an unexpected error. The changes are still there, and the next attempt may succeed."""
        with suppress(BaseException):
            self.release_if_held()
            with self._guard:
                self._collect_due_callbacks(self._failure)
            _LOGGER.error("a commit failed in an unexpected way", exc_info=error)
            time.sleep(_RETRY)

    # Other work on the log

    @property
    def term(self) -> int:
        """The term of this leader; 0 if terms are not counted."""
        return self._log.term

    def renew(self) -> None:
        """Record in the log that this process is active; it waits for a commit that is going on.

        Raises:
            JournalError: the record cannot be written now.
        """
        with self._writing:
            self._await_answer()
        # The callers of a change do not wait for the renewal.
        self._notify()
        try:
            with self._writing:
                self._await_answer()
                self._require_open()
                self._log.renew()
        finally:
            self._notify()

    def run_exclusively(self, work: Callable[[], _T]) -> _T:
        """Call a function while no change is committed; all changes are durable before the call.

        Raises:
            JournalError: a change is in doubt, or the journal is closed.
        """
        self.require_owner()
        with self._writing:
            self._require_open()
            self.flush()
            return work()

    def stop(self) -> None:
        """Accept no more changes; called under the lock of the partition."""
        with self._guard:
            self.is_closed = True
            self._work_to_do.notify()

    def close(self) -> None:
        """Commit the appended changes and close the log, after `stop`; by one thread at a time.

        After an interruption, a second call continues.

        Raises:
            JournalError: a change is in doubt, and cannot be written now either; the log is closed.
        """
        if self._thread is not None:
            self._thread.join()
        try:
            self.flush()
        except JournalError:
            self._log.close()
            raise
        self._log.close()

    def deliver_results(self) -> None:
        """Deliver the deferred results that are left, after `close`."""
        if self.result_delivery is not None:
            self.result_delivery.close()
