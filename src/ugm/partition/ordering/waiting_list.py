"""The waiting list: pending requests that wait until something is released or a limit is raised.

A program polls with `WaitingList.wake`, waits in a thread with `WaitingList.wait`, or in a task with
`WaitingList.woken`. `ugm.partition.ordering.wake_search` finds the requests that fit.

A request that was woken and is still pending at the next call counts as declined, and its room as free. So the next
call wakes others that fit without it. It is woken again when something has been released.
"""

from __future__ import annotations

import asyncio
from math import inf
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Final, final

from ugm.arguments import require_seconds
from ugm.engine_lock import EngineLock
from ugm.partition.engine.application import ChangeMarks
from ugm.partition.engine.transaction import Transactions
from ugm.partition.ordering.reservations import Reservations
from ugm.partition.ordering.wake_search import WakeSearch
from ugm.partition.rows import AllocationRequest

#: The system does not accept a wait of any length, so long waits are repeated.
_LONGEST_WAIT: Final = 86400.0


@final
class WakeEvent:
    """A flag that threads can wait for, like `threading.Event`, which an interruption cannot block.

    `threading.Event` guards itself with a lock that an exception at the wrong instruction leaves held. A change of the
    partition sets the event, so every later change would wait forever. Here each waiting thread has a queue of its own,
    whose ``put`` is one atomic call.
    """

    def __init__(self) -> None:
        self._is_set = False
        #: The queues of the threads that wait.
        self._waiting: Final[dict[SimpleQueue[None], None]] = {}

    def is_set(self) -> bool:
        """Return whether the event is set."""
        return self._is_set

    def set(self) -> None:
        """Set the event, and wake the threads that wait."""
        self._is_set = True
        for queue in list(self._waiting):
            queue.put(None)

    def clear(self) -> None:
        """Reset the event."""
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the event is set, or for some seconds, and return whether it was set."""
        queue: SimpleQueue[None] = SimpleQueue()
        # Before the event is looked at, so that no call of `set` is missed.
        self._waiting[queue] = None
        try:
            if not self._is_set:
                queue.get(timeout=None if timeout is None else max(timeout, 0))
        except Empty:
            return self._is_set
        finally:
            del self._waiting[queue]
        return True


@final
class WaitingList:
    """The pending requests of a partition that wait; `ugm.Partition.waiting_list` returns it.

    Any number of threads may use it. A woken request that is still pending at the next call, of any thread, counts as
    declined, and may be woken again.

    Attributes:
        event: is set when a waiting request may fit, or a new request waits; a call of `wake` clears it.
    """

    def __init__(
        self,
        search: WakeSearch,
        reservations: Reservations,
        lock: EngineLock,
        transactions: Transactions,
        marks: ChangeMarks,
    ) -> None:
        self._search: Final = search
        self._reservations: Final = reservations
        self._lock: Final = lock
        self._transactions: Final = transactions
        self.event: Final = WakeEvent()
        self.event.set()
        #: The tasks that wait.
        self._loops: Final[dict[asyncio.Future[None], asyncio.AbstractEventLoop]] = {}
        marks.notify = self._notify

    @property
    def tests(self) -> int:
        """The number of requests that were compared with all their limits so far."""
        return self._search.tests

    def until_change(self) -> int | None:
        """Return the number of seconds until limits may change by a schedule, at most a day; None if they never do."""
        return self._search.until_change()

    # Calls of programs

    def wake(self) -> tuple[AllocationRequest, ...]:
        """Return the pending requests that can fit now, in scheduling order: those that a pass would grant.

        The partition grants nothing by this. Allocate the requests, in any order, or decline them by doing nothing. If
        an exception interrupts the call, the next call wakes them.
        """
        try:
            self.event.clear()
            if self._reservations.are_enabled:
                return self._transactions.run(self._wake_with_reservations)
            return self._lock.run(self._search.run)
        except BaseException:
            self._search.is_outdated = True
            self._notify()
            raise

    def wait(self, timeout: float | None = None) -> tuple[AllocationRequest, ...]:
        """Wait in a thread until some requests can fit, and return them.

        Args:
            timeout: the number of seconds after which an empty result is returned; None to wait forever. Changes that
                wake no request do not extend it.

        Raises:
            RequestError: *timeout* is not a number of seconds.
        """
        end = inf if timeout is None else monotonic() + require_seconds("timeout", timeout)
        while True:
            woken = self.wake()
            if woken:
                return woken
            left = end - monotonic()
            if left <= 0:
                return ()
            pause = self.until_change()
            self.event.wait(min(left, _LONGEST_WAIT if pause is None else pause))

    async def woken(self) -> tuple[AllocationRequest, ...]:
        """Wait in a task until some requests can fit, and return them."""
        loop = asyncio.get_running_loop()
        while True:
            changed = loop.create_future()
            # Before the call of `wake`, so that no change is missed.
            self._loops[changed] = loop
            try:
                woken = self.wake()
                if woken:
                    return woken
                await asyncio.wait({changed}, timeout=self.until_change())
            finally:
                self._loops.pop(changed, None)

    def _notify(self) -> None:
        """Wake the threads and tasks that wait."""
        self.event.set()
        if self._loops:
            for changed, loop in list(self._loops.items()):
                try:
                    loop.call_soon_threadsafe(_finish, changed)
                except RuntimeError:
                    # A loop that another thread has closed has no task to wake. A `RecursionError` is another matter.
                    if not loop.is_closed():
                        raise

    def _wake_with_reservations(self) -> tuple[AllocationRequest, ...]:
        try:
            self._reservations.begin_trial()
            woken = self._search.run(reserving=True)
            self._reservations.end_trial()
        except BaseException:
            self._reservations.abandon_trial()
            raise
        return woken


def _finish(changed: asyncio.Future[None]) -> None:
    if not changed.done():
        changed.set_result(None)
