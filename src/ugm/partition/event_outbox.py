"""Delivery of events to subscribers: collected under the lock of the partition, delivered after its release."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable
from typing import Final, TypeAlias, final

from ugm.arguments import require_items
from ugm.errors import RequestError
from ugm.operation_lock import OwnedLock
from ugm.partition.events import Event, Subscriber

__all__ = ["EventOutbox"]

_LOGGER: Final = logging.getLogger(__name__)

#: The number of the first event, and the events of one operation.
_Batch: TypeAlias = tuple[int, tuple[Event, ...]]

#: How often a batch is delivered again after memory or the stack was exhausted, until the subscriber counts as failed.
_ATTEMPTS: Final = 8


@final
class EventOutbox:
    """The batches of events that are not delivered yet, and their subscribers.

    Every event has a number. Each is delivered at least once, in the order of the numbers, by one thread at a time. A
    batch leaves the outbox when all subscribers have returned. If a delivery is interrupted, the next operation
    delivers the same batch again, with the same numbers.

    Args:
        subscribers: the functions that are called with each batch.

    Raises:
        RequestError: the subscribers are not several objects, or one is not callable.
    """

    __slots__ = ("_batches", "_delivery", "_due", "_exhausted", "_subscribers", "has_subscribers")

    def __init__(self, subscribers: Iterable[Subscriber]) -> None:
        self._subscribers: Final[tuple[Subscriber, ...]] = require_items("subscribers", subscribers)
        for subscriber in self._subscribers:
            if not callable(subscriber):
                raise RequestError("subscribers", subscriber, "expected a callable")
        self.has_subscribers: Final = bool(self._subscribers)
        self._batches: Final[deque[_Batch]] = deque()
        #: Held by the thread that delivers.
        self._delivery: Final = OwnedLock()
        #: How many times in a row the first batch was not delivered for lack of memory or stack.
        self._exhausted = 0
        #: The last event that a subscriber itself has caused; written by the thread that delivers.
        self._due = 0

    def add(self, first: int, events: tuple[Event, ...]) -> None:
        """Add the events of an operation that is final, numbered from *first*; the caller holds the lock."""
        self._batches.append((first, events))

    def deliver(self, last: int) -> None:
        """Deliver all batches that begin at most with the event number *last*; without the lock of the partition.

        Events that a subscriber itself causes are delivered after it has returned.
        """
        if not self._batches:
            return
        if self._delivery.is_owned():
            # A subscriber of this thread has called the partition. The delivery in progress continues up to here.
            self._due = max(self._due, last)
            return
        try:
            with self._delivery:
                self._deliver(last)
        except BaseException:
            self._delivery.release_if_held()
            raise

    def _deliver(self, last: int) -> None:
        batches = self._batches
        while batches and batches[0][0] <= max(last, self._due):
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
                _LOGGER.exception("subscriber %r failed on %d events from number %d on", subscriber, len(events), first)
