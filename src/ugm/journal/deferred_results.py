"""Deferred results: an operation runs at once, and its result is delivered when its change is durable.

The thread that commits delivers the results of all changes of a commit. A `FutureResult` completes a future. A
`TaskResult` first goes to the `LoopMailbox` of its asyncio loop, because only the thread of the loop may complete it.
The mailbox wakes the loop once for many results: with 1,000 tasks this more than doubles the operations per second.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from asyncio import AbstractEventLoop
from asyncio import Future as LoopFuture
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final, Generic, ParamSpec, TypeVar, final

from ugm.journal.change_queue import copy_of
from ugm.journal.errors import JournalError
from ugm.journal.transaction_log import Deferral, JournalTransactionLog

__all__ = ["FutureResult", "LoopMailbox", "TaskResult"]

_P = ParamSpec("_P")
_T = TypeVar("_T")


class _DeferredResult(Deferral, ABC, Generic[_T]):
    """The result of one operation."""

    __slots__ = ("_transaction_log", "error", "is_delivered", "result")

    #: Not set if `error` is set.
    result: _T
    error: Exception | None
    is_delivered: bool

    def __init__(self, transaction_log: JournalTransactionLog) -> None:
        super().__init__()
        self.is_delivered = False
        self._transaction_log: Final = transaction_log
        self.error = None

    def run(self, operation: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> None:
        """Call an operation without waiting for the disk, and arrange the delivery of its result."""
        transaction_log = self._transaction_log
        before = transaction_log.deferral
        try:
            transaction_log.deferral = self
            try:
                self.result = operation(*args, **kwargs)
            except Exception as error:  # noqa: BLE001 - it is delivered
                self.error = error
            transaction_log.deferral = before
            transaction_log.change_queue.when_durable(self.change, self)
        except BaseException:
            # Otherwise the next operation of this thread would not wait either.
            transaction_log.deferral = before
            transaction_log.release_locks()
            raise

    def __call__(self, failure: JournalError | None) -> None:
        """Deliver the result, or the failure of the commit; further calls do nothing."""
        if self.is_delivered:
            return
        if failure is None:
            self._transaction_log.deliver(self)
        self.deliver(copy_of(failure) if failure else self.error)
        self.is_delivered = True

    @abstractmethod
    def deliver(self, error: Exception | None) -> None:
        """Deliver the error, or the result if there is none."""


@final
class FutureResult(_DeferredResult[_T]):
    """A result that is delivered to a future."""

    __slots__ = ("future",)

    def __init__(self, transaction_log: JournalTransactionLog) -> None:
        super().__init__(transaction_log)
        self.future: Final[Future[_T]] = Future()
        self.future.set_running_or_notify_cancel()

    def deliver(self, error: Exception | None) -> None:
        """Complete the future."""
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

    def deliver(self, error: Exception | None) -> None:
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
            self._is_scheduled = True
            # The loop is closed, so no task waits for the result.
            with suppress(RuntimeError):
                self.loop.call_soon_threadsafe(self._complete_all)

    def _complete_all(self) -> None:
        # The flag is cleared first, so that a result that arrives from now on schedules another call.
        self._is_scheduled = False
        with suppress(IndexError):
            while True:
                self._results.popleft().complete()
