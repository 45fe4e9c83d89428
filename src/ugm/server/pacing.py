"""A limit for the working time of the server, so that clients that read without a pause leave most of it to others.

The interpreter runs one thread at a time, so a scheduler in the same process gets what the server leaves.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, final

__all__ = ["WorkPacer"]


@final
class WorkPacer:
    """A token bucket of working time.

    Args:
        share: the part of the time that continuous work may take.
        burst: seconds of work that are not delayed after idle time.
        clock: returns the time in seconds.

    >>> now = 0.0
    >>> pacer = WorkPacer(0.5, 1.0, clock=lambda: now)
    >>> pacer.spend(0.8), pacer.delay()
    (None, 0.0)
    >>> pacer.spend(0.8), round(pacer.delay(), 3)
    (None, 1.2)
    >>> now = 1.5
    >>> pacer.delay()
    0.0
    """

    __slots__ = ("_at", "_burst", "_clock", "_credit", "_share")

    def __init__(self, share: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._share: Final = share
        self._burst: Final = burst
        self._clock: Final = clock
        self._credit = burst
        self._at = clock()

    def spend(self, seconds: float) -> None:
        """Note time that work took."""
        self._refill()
        self._credit -= seconds

    def delay(self) -> float:
        """Return the seconds to wait before more work."""
        self._refill()
        return max(0.0, -self._credit / self._share)

    def _refill(self) -> None:
        now = self._clock()
        self._credit = min(self._burst, self._credit + (now - self._at) * self._share)
        self._at = now
