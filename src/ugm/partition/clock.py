"""The clock of a partition: seconds since 1970, rounded down, which never go back.

The problem: a call may need the time in several places, for example for each allocation of a gang, and a journal stamps
the change as well. Different readings within one call would make its result depend on the speed of the machine, and
could not be replayed.

The idea: each call has one reading. If a quota model or a schedule depends on the time, every call reads the clock when
it begins, and passes the reading to them first. Otherwise only a call that needs the time reads the clock, once: for a
promised duration, a plan, or the timer of a reduction. A partition with a journal takes the reading that stamps the
change, which it stores in milliseconds.

Invariant: a reading is never earlier than the one before. If the source goes back, the clock stands still until the
source has passed the last reading.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Protocol, TypeAlias, final

from ugm.errors import RequestError

__all__ = ["Clock", "PartitionClock", "TimeSource", "require_time", "seconds"]

#: Returns the seconds since 1970, for example `time.time`. Fractions are allowed.
Clock: TypeAlias = Callable[[], float]

#: The first and the last second that `datetime` supports, in the years 1 and 9999.
_FIRST: Final = -62_135_596_800
_LAST: Final = 253_402_300_799


def seconds() -> int:
    """Return the time of the system clock, in whole seconds since 1970."""
    return time.time_ns() // 1_000_000_000


def require_time(argument: str, value: object) -> float:
    """Return a time in seconds since 1970 that `datetime` supports, after checking it."""
    # Comparisons with NaN are false.
    if isinstance(value, (int, float)) and not isinstance(value, bool) and _FIRST <= value < _LAST + 1:
        return value
    raise RequestError(argument, value, "expected seconds since 1970, before the year 10000")


class TimeSource(Protocol):
    """The object that stamps the changes of a partition, for example the queue of changes of a journal."""

    def second(self) -> int:
        """Return the time now, for a query."""
        ...

    def second_of_change(self) -> int:
        """Return the time that stamps the current change."""
        ...


@final
class PartitionClock:
    """The time of one partition; used under its lock.

    Args:
        read: returns the seconds since 1970.
    """

    __slots__ = ("_of_change", "_of_query", "is_read_first", "latest")

    #: The last reading.
    latest: int
    #: Whether every call reads the clock when it begins.
    is_read_first: bool

    def __init__(self, read: Clock = seconds) -> None:
        if not callable(read):
            raise RequestError("clock", read, "expected a function that returns seconds")
        self._of_query = self._of_change = read
        self.latest = _FIRST
        self.is_read_first = False

    def follow(self, source: TimeSource) -> None:
        """Take the time from the object that stamps the changes."""
        self._of_query, self._of_change = source.second, source.second_of_change

    def now(self, *, changes: bool) -> int:
        """Return the reading of the current call.

        Args:
            changes: whether the call is a change, which a journal stamps.

        Raises:
            RequestError: the clock returned an unusable value.
        """
        return self.latest if self.is_read_first else self.read(changes=changes)

    def read(self, *, changes: bool) -> int:
        """Read the clock for the current call, once; see `now`."""
        now = self._of_change() if changes else self._of_query()
        if type(now) is not int:
            now = int(require_time("clock", now) // 1)
        if self.latest <= now <= _LAST:
            self.latest = now
            return now
        require_time("clock", now)
        return self.latest
