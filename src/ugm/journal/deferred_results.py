"""Answers that nobody waits for: an operation is called now, and its answer is given once its change is durable.

The thread that commits gives the answers of a whole batch. To a loop of asyncio it hands them over in one piece: every
call from another thread wakes the loop, and 1,000 tasks get more than twice as much done with one call for all of them.
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

from ugm.journal.errors import JournalError
from ugm.journal.outlet import Deferral, JournalOutlet

__all__ = ["FutureResult", "LoopMailbox", "TaskResult"]

_P = ParamSpec("_P")
_T = TypeVar("_T")


class _Answer(Deferral, ABC, Generic[_T]):
    """The answer of an operation, and who is told of it."""

    __slots__ = ("_outlet", "error", "is_given", "result")

    #: Missing if there is an error.
    result: _T
    error: Exception | None
    is_given: bool

    def __init__(self, outlet: JournalOutlet) -> None:
        super().__init__()
        self.is_given = False
        self._outlet: Final = outlet
        self.error = None

    def run(self, operation: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> None:
        """Call an operation without waiting for the disk, and have the answer given in time."""
        outlet = self._outlet
        before = outlet.deferral
        try:
            outlet.deferral = self
            try:
                self.result = operation(*args, **kwargs)
            except Exception as error:  # noqa: BLE001 - it is the answer
                self.error = error
            outlet.deferral = before
            outlet.writer.when_durable(self.written.change, self)
        except BaseException:
            # Otherwise the next operation of this thread would not wait either.
            outlet.deferral = before
            outlet.let_go()
            raise

    def __call__(self, failure: JournalError | None) -> None:
        """Give the answer, or say why it is in doubt; only the first time."""
        if self.is_given:
            return
        if failure is None:
            self._outlet.deliver(self)
        # Each caller raises an error of its own, with its own traceback.
        self.give(JournalError(*failure.args) if failure else self.error)
        self.is_given = True

    @abstractmethod
    def give(self, error: Exception | None) -> None:
        """Give the answer: the error, or the result."""


@final
class FutureResult(_Answer[_T]):
    """An answer that is given to a future."""

    __slots__ = ("future",)

    def __init__(self, outlet: JournalOutlet) -> None:
        super().__init__(outlet)
        self.future: Final[Future[_T]] = Future()
        self.future.set_running_or_notify_cancel()

    def give(self, error: Exception | None) -> None:
        """Give the answer to the future."""
        if error is None:
            self.future.set_result(self.result)
        else:
            self.future.set_exception(error)


@final
class TaskResult(_Answer[_T]):
    """An answer that a task waits for."""

    __slots__ = ("_mailbox", "future")

    def __init__(self, outlet: JournalOutlet, mailbox: LoopMailbox) -> None:
        super().__init__(outlet)
        self._mailbox: Final = mailbox
        self.future: Final[LoopFuture[_T]] = mailbox.loop.create_future()

    def give(self, error: Exception | None) -> None:
        """Have the loop give the answer."""
        self.error = error
        self._mailbox.put(self)

    def arrive(self) -> None:
        """Give the answer, in the thread of the loop; nobody may be waiting for it any more."""
        if self.future.done():
            return
        if self.error is None:
            self.future.set_result(self.result)
        else:
            self.future.set_exception(self.error)


@final
class LoopMailbox:
    """Answers on their way to a loop."""

    __slots__ = ("_answers", "_is_called", "loop")

    #: Invariant: if anything is in `_answers`, the loop has been called and has not come for it yet.
    _is_called: bool

    def __init__(self, loop: AbstractEventLoop) -> None:
        self.loop: Final = loop
        self._answers: Final[deque[TaskResult[Any]]] = deque()
        self._is_called = False

    def put(self, answer: TaskResult[_T]) -> None:
        """Take an answer, from any thread."""
        self._answers.append(answer)
        if not self._is_called:
            self._is_called = True
            # A loop that has been closed waits for nothing.
            with suppress(RuntimeError):
                self.loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        # First, so that whoever comes now calls again.
        self._is_called = False
        with suppress(IndexError):
            while True:
                self._answers.popleft().arrive()
