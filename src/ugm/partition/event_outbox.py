"""Notification of subscribers: events are collected under the lock and delivered after it has been released."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable
from typing import Final, TypeAlias, final

from ugm.errors import RequestError
from ugm.operation_lock import OwnedLock, Step
from ugm.partition.events import Event, Subscriber

__all__ = ["EventOutbox", "Notifier"]

_LOGGER: Final = logging.getLogger(__name__)

#: The number of the first event, and the events of one operation.
_Batch: TypeAlias = tuple[int, tuple[Event, ...]]


#: A batch is delivered again this many times if memory or the stack was exhausted; then the subscriber has failed.
_ATTEMPTS: Final = 8


@final
class EventOutbox:
    """The events that have happened and were not delivered yet, and their subscribers.

    Every event has a number. Each is delivered at least once, in the order of the numbers, by one thread at a time: a
    batch leaves the list when all subscribers have returned. If a delivery is interrupted, the next operation delivers
    the same batch again, with the same numbers.

    Args:
        subscribers: the functions that are called with each batch.
        undo: the undo list of the current operation.
    """

    __slots__ = ("_batches", "_current", "_delivery", "_exhausted", "_subscribers", "_undo")

    #: The number of the first event of the current operation, and its events. Replaced by one assignment.
    _current: tuple[int, list[Event]]

    def __init__(self, subscribers: Iterable[Subscriber], undo: list[Step]) -> None:
        self._subscribers: Final = tuple(subscribers)
        for subscriber in self._subscribers:
            if not callable(subscriber):
                raise RequestError("subscribers", subscriber, "expected something that can be called")
        self._undo: Final = undo
        self._current = (1, [])
        self._batches: Final[deque[_Batch]] = deque()
        #: Held by the thread that delivers.
        self._delivery: Final = OwnedLock()
        #: How many times in a row the first batch was not delivered for want of memory or stack.
        self._exhausted = 0

    @property
    def current(self) -> list[Event]:
        """The events of the current operation."""
        return self._current[1]

    @property
    def last(self) -> int:
        """The number of the last event that was published."""
        return self._current[0] - 1

    def add(self, event: Event) -> None:
        """Note an event, under the lock."""
        events = self._current[1]
        if not events:
            self._undo.append((self._forget, ()))
        events.append(event)

    def _forget(self) -> None:
        self._current = (self._current[0], [])

    def publish(self) -> None:
        """Let the events of the current operation be delivered, under the lock, once the operation is committed."""
        first, events = self._current
        if not events:
            return
        if self._subscribers:
            # If it is interrupted after this line, the same batch is added once more.
            self._batches.append((first, tuple(events)))
        self._current = (first + len(events), [])

    def deliver(self, last: int | None = None) -> None:
        """Deliver all events up to the number *last*, by default all that are published; without the lock.

        What a subscriber itself causes is delivered after it has returned.
        """
        if not self._batches or self._delivery.is_owned():
            return
        try:
            with self._delivery:
                self._deliver(last)
        except BaseException:
            self._delivery.let_go()
            raise

    def _deliver(self, last: int | None) -> None:
        batches = self._batches
        while batches and (last is None or batches[0][0] <= last):
            self._call(*batches[0])
            batches.popleft()
            self._exhausted = 0

    def _call(self, first: int, events: tuple[Event, ...]) -> None:
        for subscriber in self._subscribers:
            try:
                subscriber(first, events)
            except Exception as error:
                if isinstance(error, (MemoryError, RecursionError)) and self._exhausted < _ATTEMPTS:
                    # The subscriber may not even have been called, so the batch stays.
                    self._exhausted += 1
                    raise
                _LOGGER.exception("a subscriber failed on %d events from number %d on", len(events), first)


@final
class Notifier:
    """The outlet of a partition in memory that has subscribers."""

    __slots__ = ("_outbox",)

    def __init__(self, outbox: EventOutbox) -> None:
        self._outbox: Final = outbox

    def require_ready(self) -> None:
        """Any process may change what it has in memory."""

    def prepare(self, *, grows: bool) -> None:
        """Nothing has to be prepared."""

    def write(self) -> None:
        """Nothing is written."""

    def is_written(self) -> bool:
        """Nothing is written."""
        return False

    def publish(self) -> None:
        """Hand the events of the current operation to the subscribers."""
        self._outbox.publish()

    def conclude(self, written: object) -> None:  # noqa: ARG002
        """Notify the subscribers."""
        self._outbox.deliver()

    def let_go(self) -> None:
        """No lock is held outside of the delivery, which releases its own."""
