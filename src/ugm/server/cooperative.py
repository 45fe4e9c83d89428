"""Cooperative iteration: long work that yields the interpreter to the thread of the scheduler.

The interpreter switches threads every five milliseconds, wherever the running thread is, even if it holds the lock of a
partition. Another thread that needs a decision then waits for the lock, and afterwards again for the interpreter. A
thread that pauses voluntarily, between two items and without the lock, delays other threads by one item at most.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from time import perf_counter, sleep
from typing import Final, TypeVar

__all__ = ["cooperatively"]

_T = TypeVar("_T")

#: Seconds of work between two pauses.
_WORK_SECONDS: Final = 0.001
#: Seconds of a pause: long enough for another thread to wake up.
_PAUSE_SECONDS: Final = 0.00002


def cooperatively(items: Iterable[_T]) -> Iterator[_T]:
    """Yield items, with a short pause after each millisecond of work."""
    worked_since = perf_counter()
    for item in items:
        if perf_counter() - worked_since > _WORK_SECONDS:
            sleep(_PAUSE_SECONDS)
            worked_since = perf_counter()
        yield item
