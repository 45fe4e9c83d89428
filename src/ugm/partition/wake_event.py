"""An event for threads that an interruption cannot block.

The problem: `threading.Event` guards itself with a lock that an exception at the wrong instruction leaves held.
Changes of a partition set the event while they hold the lock of the partition, so every later change would wait for
ever.

The idea: nothing is locked. Each waiting thread has a queue of its own, whose `put` is one atomic call.

Invariant: a thread that waits is registered before it looks at the event for the last time, and the event is set before
the registered threads are woken. So either the thread sees that the event is set, or it is woken.
"""

from __future__ import annotations

from queue import Empty, SimpleQueue
from typing import Final, final

__all__ = ["WakeEvent"]


@final
class WakeEvent:
    """A flag that threads can wait for, like `threading.Event`."""

    __slots__ = ("_is_set", "_waiting")

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
        if self._waiting:
            for queue in list(self._waiting):
                if queue.empty():
                    queue.put(None)

    def clear(self) -> None:
        """Reset the event."""
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the event is set, or for some seconds, and return whether it was set."""
        if self._is_set:
            return True
        queue: SimpleQueue[None] = SimpleQueue()
        try:
            self._waiting[queue] = None
            if not self._is_set:
                queue.get(timeout=None if timeout is None else max(timeout, 0))
        except Empty:
            return self._is_set
        finally:
            self._waiting.pop(queue, None)
        return True
