"""The delivery of deferred results, in a thread of its own.

The problem: the delivery of a result calls subscribers and the callbacks of futures. They may take long, call the
partition, close the journal, or raise anything. The thread that commits must not wait for them, because they may wait
for a commit themselves.

The idea: the thread that commits only puts the results of a commit into a list. A second thread delivers them, in their
order.

Invariant: a result stays in the list until it has been delivered. So after an exception from outside, the next delivery
continues with the same result, which ignores a second one.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import Final, Protocol, final

from ugm.journal.threads import start_thread
from ugm.operation_lock import OwnedLock

__all__ = ["Result", "ResultDelivery"]

_LOGGER: Final = logging.getLogger(__name__)


class Result(Protocol):
    """A result that is ready to be delivered."""

    def deliver(self) -> None:
        """Call the subscribers with the events of the operation, and then `finish`.

        A later call does nothing; two threads may call it at once.
        """
        ...

    def finish(self) -> None:
        """Give the caller the result; a later call does nothing; two threads may call it at once."""
        ...


@final
class ResultDelivery:
    """Delivers the results of one journal.

    Args:
        path: the location of the journal, for errors and the name of the thread.
    """

    __slots__ = ("_guard", "_is_closed", "_path", "_results", "_thread", "_wake")

    def __init__(self, path: str) -> None:
        self._path: Final = path
        self._results: Final[deque[Result]] = deque()
        #: Gets an element for each result that is added, for each failure, and when the journal is closed.
        self._wake: Final[SimpleQueue[None]] = SimpleQueue()
        #: Protects the start of the thread.
        self._guard: Final = OwnedLock()
        self._thread: Thread | None = None
        self._is_closed = False

    def start(self) -> None:
        """Start the thread, unless it runs; called before the first operation whose result is deferred.

        Raises:
            JournalError: the thread cannot be started.
        """
        if self._thread is None or not self._thread.is_alive():
            self._guard.hold(self._start)

    def _start(self) -> None:
        # After an interruption there may be two threads, which do no harm.
        if self._thread is None or not self._thread.is_alive():
            self._thread = start_thread(self._work, f"results {self._path}", self._path)

    def add(self, result: Result) -> None:
        """Let the thread deliver a result; from any thread, without waiting unless the journal is closed."""
        self._results.append(result)
        self._wake.put(None)
        if self._is_closed:
            # The thread may have ended.
            self._deliver_all()

    def close(self) -> None:
        """Deliver all results that are left in this thread, and end the other one."""
        self._is_closed = True
        self._wake.put(None)
        self._deliver_all()

    def _deliver_all(self, handle: Callable[[Result, BaseException], None] | None = None) -> None:
        """Deliver the results in the list, possibly together with another thread.

        Args:
            handle: called if the delivery of a result raises; None to raise the exception.
        """
        results = self._results
        while True:
            try:
                result = results[0]
            except IndexError:
                return
            try:
                result.deliver()
            except BaseException as error:
                if handle is None:
                    raise
                handle(result, error)
            # Another thread may have removed it.
            with suppress(ValueError):
                results.remove(result)

    def _work(self) -> None:
        while not self._is_closed or self._results:
            try:
                self._deliver_until_closed()
            except BaseException:  # noqa: BLE001 - without this thread, every promise would stay open
                # The same result is tried again.
                with suppress(BaseException):
                    self._wake.put(None)

    def _deliver_until_closed(self) -> None:
        while not self._is_closed or self._results:
            self._wake.get()
            self._deliver_all(self._give_up)

    @staticmethod
    def _give_up(result: Result, error: BaseException) -> None:
        """Finish a result whose events were not delivered. The next operation of the partition delivers them."""
        with suppress(BaseException):
            _LOGGER.error("the delivery of a result failed", exc_info=error)
        result.finish()
