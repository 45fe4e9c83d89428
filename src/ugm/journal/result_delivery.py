"""The delivery of deferred results, in a thread of its own.

The problem: whoever delivers a result calls subscribers and the callbacks of futures. They may take long, call the
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
        """Call the subscribers with the events of the operation, and then `settle`; a second call does nothing."""
        ...

    def settle(self) -> None:
        """Give the caller the result; a second call does nothing."""
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
        #: Has an element for every result that was added, and one when the journal is closed.
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
        if self._thread is None:
            self._guard.hold(self._start)

    def _start(self) -> None:
        # After an interruption there may be two threads, which do no harm.
        if self._thread is None:
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

    def _deliver_all(self) -> None:
        """Deliver the results in the list, possibly together with another thread."""
        results = self._results
        while True:
            try:
                result = results[0]
            except IndexError:
                return
            result.deliver()
            self._remove(result)

    def _remove(self, result: Result) -> None:
        # Another thread may have removed it.
        with suppress(ValueError):
            self._results.remove(result)

    def _work(self) -> None:
        while not self._is_closed or self._results:
            try:
                self._wake.get()
                self._deliver_all()
            except BaseException as error:  # noqa: BLE001 - subscribers and callbacks may raise anything
                self._settle_first(error)

    def _settle_first(self, error: BaseException) -> None:
        """Give up the delivery of events for a result. The next operation of the partition repeats it."""
        with suppress(BaseException):
            _LOGGER.error("the delivery of a result failed", exc_info=error)
            result = self._results[0]
            result.settle()
            self._remove(result)
            # The results behind it have to be delivered as well.
            self._wake.put(None)
