"""How long decisions take, for those who want to know: counted in classes, as a metric shows it.

Nothing is measured unless a program asks for it: it wraps the operations that it calls, and calls the wrapped ones.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from threading import Lock
from time import perf_counter_ns
from typing import Final, NamedTuple, ParamSpec, TypeVar, final

__all__ = ["DecisionTimes", "TimingSnapshot"]

_P = ParamSpec("_P")
_T = TypeVar("_T")

#: Upper ends of the classes, in nanoseconds: from a microsecond to a tenth of a second.
_BOUNDS: Final = (*(factor * 10**power for power in range(3, 8) for factor in (1, 2, 5)), 10**8)


class TimingSnapshot(NamedTuple):
    """What was measured so far."""

    #: (upper end in seconds, how many took no longer), ascending; the last end is infinite.
    classes: tuple[tuple[float, int], ...]
    #: All of it together, in seconds.
    total: float


@final
class DecisionTimes:
    """The times that calls of wrapped operations took.

    >>> times = DecisionTimes()
    >>> allocate = times.timed(lambda *arguments: "whatever `Partition.allocate` answers")
    >>> allocate("app-1-0", "app-1", {})
    'whatever `Partition.allocate` answers'
    >>> times.read().classes[-1]
    (inf, 1)
    """

    __slots__ = ("_counts", "_lock", "_total")

    def __init__(self) -> None:
        self._lock: Final = Lock()
        #: One for every class, the last for what took longer than all bounds.
        self._counts: Final = [0] * (len(_BOUNDS) + 1)
        self._total = 0

    def timed(self, operation: Callable[_P, _T]) -> Callable[_P, _T]:
        """Return an operation that does the same and is measured, also when it raises."""

        def measured(*args: _P.args, **kwargs: _P.kwargs) -> _T:
            start = perf_counter_ns()
            try:
                return operation(*args, **kwargs)
            finally:
                self._add(perf_counter_ns() - start)

        return measured

    def _add(self, nanoseconds: int) -> None:
        with self._lock:
            self._counts[bisect_left(_BOUNDS, nanoseconds)] += 1
            self._total += nanoseconds

    def read(self) -> TimingSnapshot:
        """Return what was measured so far."""
        with self._lock:
            counts, total = list(self._counts), self._total
        ends = [bound / 10**9 for bound in _BOUNDS] + [float("inf")]
        return TimingSnapshot(tuple((end, sum(counts[: at + 1])) for at, end in enumerate(ends)), total / 10**9)
