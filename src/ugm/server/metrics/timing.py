"""The duration of decisions as a histogram, in the form of a Prometheus metric.

A program that wants durations to be measured wraps the operations of a partition, and calls the wrapped functions.
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

#: Upper bounds of the buckets, in nanoseconds: from a microsecond to a tenth of a second.
_BOUNDS: Final = (*(factor * 10**power for power in range(3, 8) for factor in (1, 2, 5)), 10**8)


class TimingSnapshot(NamedTuple):
    """A histogram of durations at one moment."""

    #: Pairs (upper bound in seconds, number of durations up to it), ascending; the last bound is infinite.
    buckets: tuple[tuple[float, int], ...]
    #: The sum of all durations, in seconds.
    total: float


@final
class DecisionTimes:
    """Measures the durations of wrapped operations.

    >>> times = DecisionTimes()
    >>> allocate = times.timed(lambda *arguments: "the decision")
    >>> allocate("app-1-0", "app-1", {})
    'the decision'
    >>> times.read().buckets[-1]
    (inf, 1)
    """

    def __init__(self) -> None:
        self._lock: Final = Lock()
        #: One for each bucket; the last is for durations above all bounds.
        self._counts: Final = [0] * (len(_BOUNDS) + 1)
        self._total = 0

    def timed(self, operation: Callable[_P, _T]) -> Callable[_P, _T]:
        """Wrap an operation so that its duration is measured, even if it raises."""

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
        """Return the durations so far as a histogram."""
        with self._lock:
            counts, total = list(self._counts), self._total
        ends = [bound / 10**9 for bound in _BOUNDS] + [float("inf")]
        return TimingSnapshot(tuple((end, sum(counts[: at + 1])) for at, end in enumerate(ends)), total / 10**9)
