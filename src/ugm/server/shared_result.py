"""A costly result that many requests share, so that computing it takes a bounded part of the time of the server."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from time import perf_counter
from typing import Final, Generic, TypeVar, final

__all__ = ["SharedResult"]

_T = TypeVar("_T")

#: The pause after computing a result, as a multiple of the time that it took.
_PAUSE: Final = 10


@final
class SharedResult(Generic[_T]):
    """The newest result of a function.

    After a computation of t seconds, the next one begins 10 t later at the earliest, so computing takes at most a tenth
    of the time.

    Args:
        clock: returns a time in seconds.
    """

    __slots__ = ("_clock", "_lock", "_newest")

    #: When a result may be computed again, and the newest one.
    _newest: tuple[float, _T] | None

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self._clock: Final = clock
        #: Held while a result is computed, so that all threads share it.
        self._lock: Final = Lock()
        self._newest = None

    def read(self, compute: Callable[[], _T]) -> _T:
        """Return the newest result, or compute another one if the pause is over."""
        with self._lock:
            began = self._clock()
            if self._newest is None or began >= self._newest[0]:
                result, ended = compute(), self._clock()
                self._newest = ended + _PAUSE * (ended - began), result
            return self._newest[1]
