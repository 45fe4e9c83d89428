"""The delay that the machine adds: a thread that only sleeps measures by how much it is woken too late.

A deadline cannot be kept while the process is stopped or waits for a processor. The time that this thread loses is
subtracted from the delay of a call.
"""

from __future__ import annotations

from collections import deque
from threading import Event, Thread
from time import monotonic
from typing import Final, Self

__all__ = ["Jitter"]

_STEP: Final = 0.01


class Jitter:
    """Measures delays while the block runs."""

    def __init__(self) -> None:
        self._delays: deque[tuple[float, float]] = deque(maxlen=20_000)
        self._stop = Event()
        self._last = monotonic()
        self._thread = Thread(target=self._measure, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _measure(self) -> None:
        while not self._stop.wait(_STEP):
            now = monotonic()
            delay = now - self._last - _STEP
            if delay > _STEP:
                self._delays.append((now, delay))
            self._last = now

    def between(self, began: float, ended: float) -> float:
        """Return the sum of the delays in an interval, including one that has not ended."""
        found = sum(delay for at, delay in tuple(self._delays) if began <= at <= ended + _STEP)
        return found + max(0.0, ended - self._last - 2 * _STEP)
