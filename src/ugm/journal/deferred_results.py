"""Deferred results: an operation runs at once, and its result is delivered when its change is durable.

If commits are shared, the thread of `ugm.journal.result_delivery` calls subscribers and completes futures. A result
that is durable already is delivered in the calling thread. A `FutureResult` completes a future. A `TaskResult` goes to
the `LoopMailbox` of its asyncio loop, because only the thread of the loop may complete it; without subscribers, it
needs no other thread. The mailbox wakes the loop once for many results: with 1,000 tasks this more than doubles the
operations per second.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from asyncio import AbstractEventLoop
from asyncio import Future as LoopFuture
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Any, Final, Generic, ParamSpec, TypeVar, final

from ugm.journal.change_queue import copy_of
from ugm.journal.errors import JournalError
from ugm.journal.result_delivery import ResultDelivery
from ugm.journal.transaction_log import Deferral, JournalTransactionLog

__all__ = ["FutureResult", "LoopMailbox", "TaskResult"]

_P = ParamSpec("_P")
_T = TypeVar("_T")


class _DeferredResult(Deferral, ABC, Generic[_T]):
    """The result of one operation."""

    __slots__ = ("_transaction_log", "error", "failure", "is_finished", "result")

    #: Not set if `error` is set.
    result: _T
    error: Exception | None
    #: The failure of the commit.
    failure: JournalError | None
    is_finished: bool

    def __init__(self, transaction_log: JournalTransactionLog) -> None:
        super().__init__()
        self.is_finished = False
        self._transaction_log: Final = transaction_log
        self.error = self.failure = None

    def run(self, operation: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> None:
        """Call an operation without waiting for the disk, and arrange the delivery of its result."""
        transaction_log = self._transaction_log
        before, delivery = transaction_log.deferral, self._delivery
        if delivery is not None:
            delivery.start()
        try:
            transaction_log.deferral = self
            try:
                self.result = operation(*args, **kwargs)
            except Exception as error:  # noqa: BLE001 - it is delivered
                self.error = error
            transaction_log.deferral = before
            if transaction_log.change_queue.is_durable(self.change):
                self.deliver()
            else:
                transaction_log.change_queue.when_durable(self.change, self)
        except BaseException:
            # Otherwise the next operation of this thread would not wait either.
            transaction_log.deferral = before
            transaction_log.release_locks()
            raise

    def __call__(self, failure: JournalError | None) -> None:
        """Let the result be delivered, or the failure of the commit."""
        self.failure = failure
        delivery = self._delivery
        if delivery is None:
            self.deliver()
        else:
            delivery.add(self)

    @property
    def _delivery(self) -> ResultDelivery | None:
        """The thread that delivers the result; None if any thread may."""
        return self._transaction_log.change_queue.result_delivery

    def deliver(self) -> None:
        """Call the subscribers with the events of the operation, and then give the caller the result."""
        if not self.is_finished:
            if self.failure is None:
                self._transaction_log.deliver(self)
            self.finish()

    def finish(self) -> None:
        """Give the caller the result; further calls do nothing."""
        if not self.is_finished:
            self._complete(copy_of(self.failure) if self.failure else self.error)
            self.is_finished = True

    @abstractmethod
    def _complete(self, error: Exception | None) -> None:
        """Give the caller the error, or the result if there is none."""


@final
class FutureResult(_DeferredResult[_T]):
    """A result that is delivered to a future."""

    __slots__ = ("future",)

    def __init__(self, transaction_log: JournalTransactionLog) -> None:
        super().__init__(transaction_log)
        self.future: Final[Future[_T]] = Future()
        self.future.set_running_or_notify_cancel()

    def _complete(self, error: Exception | None) -> None:
        # It is complete already if an earlier call was interrupted, or raised an exception of a callback.
        with suppress(InvalidStateError):
            if error is None:
                self.future.set_result(self.result)
            else:
                self.future.set_exception(error)


@final
class TaskResult(_DeferredResult[_T]):
    """A result that an asyncio task awaits."""

    __slots__ = ("_mailbox", "future")

    def __init__(self, transaction_log: JournalTransactionLog, mailbox: LoopMailbox) -> None:
        super().__init__(transaction_log)
        self._mailbox: Final = mailbox
        self.future: Final[LoopFuture[_T]] = mailbox.loop.create_future()

    @property
    def _delivery(self) -> ResultDelivery | None:
        # Putting a result into a mailbox takes no time.
        return super()._delivery if self._transaction_log.has_subscribers else None

    def _complete(self, error: Exception | None) -> None:
        """Put the result into the mailbox of the loop."""
        self.error = error
        self._mailbox.put(self)

    def complete(self) -> None:
        """Complete the future, in the thread of the loop; the task may have been cancelled."""
        if self.future.done():
            return
        if self.error is None:
            self.future.set_result(self.result)
        else:
            self.future.set_exception(self.error)


@final
class LoopMailbox:
    """The results that are on their way to an asyncio loop."""

    __slots__ = ("_is_scheduled", "_results", "loop")

    #: Invariant: if `_results` is not empty, the loop is going to call `_complete_all`.
    _is_scheduled: bool

    def __init__(self, loop: AbstractEventLoop) -> None:
        self.loop: Final = loop
        self._results: Final[deque[TaskResult[Any]]] = deque()
        self._is_scheduled = False

    def put(self, result: TaskResult[_T]) -> None:
        """Add a result, from any thread."""
        self._results.append(result)
        if not self._is_scheduled:
            self._schedule()

    def _schedule(self) -> None:
        try:
            self._is_scheduled = True
            # The second call completes what the first one has left if it is interrupted.
            self.loop.call_soon_threadsafe(self._complete_all)
            self.loop.call_soon_threadsafe(self._complete_all)
        except RuntimeError:
            # The loop is closed, so no task waits for the result.
            return
        except BaseException:
            self._is_scheduled = False
            raise

    def _complete_all(self) -> None:
        # The flag is cleared first, so that a result that arrives from now on schedules another call.
        self._is_scheduled = False
        results = self._results
        while results:
            results[0].complete()
            results.popleft()
