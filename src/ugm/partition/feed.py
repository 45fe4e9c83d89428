"""From the books to those who follow them: events are collected under the lock and told after it has been released."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from threading import Lock
from types import TracebackType
from typing import Final, final

from ugm.errors import RequestError
from ugm.partition.events import Event, Subscriber

__all__ = ["Feed", "TellingLock"]

_LOGGER: Final = logging.getLogger(__name__)


@final
class Feed:
    """The events that have happened and were not told yet, and whom to tell."""

    __slots__ = ("_first", "_subscribers", "_untold")

    def __init__(self, subscribers: Iterable[Subscriber]) -> None:
        self._subscribers: Final = tuple(subscribers)
        for subscriber in self._subscribers:
            if not callable(subscriber):
                raise RequestError("subscribers", subscriber, "expected something that can be called")
        self._untold: list[Event] = []
        #: The number of the first event that was not told yet.
        self._first = 1

    @property
    def is_followed(self) -> bool:
        """Whether there is anybody to tell."""
        return bool(self._subscribers)

    def add(self, event: Event) -> None:
        """Note an event, under the lock."""
        self._untold.append(event)

    def take(self) -> tuple[int, tuple[Event, ...]]:
        """Return what was not told yet, with the number of the first, under the lock."""
        first, events = self._first, tuple(self._untold)
        self._first += len(events)
        self._untold.clear()
        return first, events

    def tell(self, first: int, events: tuple[Event, ...]) -> None:
        """Tell all subscribers, without the lock."""
        for subscriber in self._subscribers:
            try:
                subscriber(first, events)
            except Exception:
                _LOGGER.exception("a subscriber failed on %d events from number %d on", len(events), first)


@final
class TellingLock:
    """A lock that tells what happened under it as soon as it is released.

    A partition that somebody follows has this in the place of a plain lock. So no operation has to think of telling,
    and a partition that nobody follows pays nothing.
    """

    __slots__ = ("_feed", "_lock")

    def __init__(self, feed: Feed) -> None:
        self._feed: Final = feed
        self._lock: Final = Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        first, events = self._feed.take()
        self._lock.release()
        if events:
            self._feed.tell(first, events)
