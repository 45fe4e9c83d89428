"""Long work that gives way to the thread that schedules.

The interpreter takes a thread that does not pause off every five milliseconds, wherever it is: also while it holds the
lock of a partition. Whoever wants a decision then waits for the lock, and after that for the interpreter once more. A
thread that pauses by itself, between two pieces and without the lock, keeps nobody waiting for longer than a piece.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from time import perf_counter, sleep
from typing import Final, TypeVar

__all__ = ["cooperatively"]

_T = TypeVar("_T")

#: Seconds of work between two pauses.
_WORK: Final = 0.001
#: Seconds of a pause: long enough for another thread to wake up.
_PAUSE: Final = 0.00002


def cooperatively(items: Iterable[_T]) -> Iterator[_T]:
    """Yield items, and pause now and then before the next."""
    worked_since = perf_counter()
    for item in items:
        if perf_counter() - worked_since > _WORK:
            sleep(_PAUSE)
            worked_since = perf_counter()
        yield item
