"""Periods of the calendar: days, weeks, months, quarters and years, in UTC or in a time zone.

Each period has an index. A period begins with the first second of its first day. If a time zone skips that midnight,
the period begins with the first later second; if the midnight occurs twice, with the first one. So a day may have 23 or
25 hours. A date that a zone skips as a whole is a period of 0 seconds.

The time of a call does not depend on the distance between the periods.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, tzinfo
from functools import lru_cache
from typing import Final, final

from ugm.configuration.schedules import DAY, EPOCH, LAST_DAY, NEVER, local_day, local_second, zone_of
from ugm.model import Period

__all__ = ["Calendar", "calendar_of", "date_text", "duration_text"]

#: The weekday of January 1, 1970: the number of days after a Monday.
_WEEKDAY: Final = 3
_MONTHS: Final = 12


class Calendar:
    """The periods of one kind in a time zone.

    Args:
        zone: the time zone.
        index_of: returns the index of the period of a date.
        first_day: returns the ordinal of the first day of a period, as in `datetime.date`.
    """

    def __init__(self, zone: tzinfo, index_of: Callable[[date], int], first_day: Callable[[int], int]) -> None:
        self._zone: Final = zone
        self._index_of: Final = index_of
        self._first_day: Final = first_day

    def day_of(self, second: int) -> date:
        """Return the date of a second."""
        return date.fromordinal(local_day(second, self._zone))

    def index(self, second: int) -> int:
        """Return the index of the period of a second."""
        index = self._index_of(self.day_of(second))
        # A clock that is set back across midnight returns to the date before, whose period has ended.
        return index + 1 if second >= self.end(index) else index

    def start(self, index: int) -> int:
        """Return the first second of a period; `NEVER` after the year 9999."""
        return local_second(self._first_day(index), self._zone)

    def end(self, index: int) -> int:
        """Return the first second of the next period."""
        return self.start(index + 1)


@final
class _Forever(Calendar):
    """One period without an end."""

    def index(self, second: int) -> int:  # noqa: ARG002 - there is one period
        return 0

    def start(self, index: int) -> int:
        return -NEVER if index <= 0 else NEVER


def _months(zone: tzinfo, length: int) -> Calendar:
    """Return periods of some months each."""

    def first_day(index: int) -> int:
        year, month = divmod(index * length, _MONTHS)
        return date(year, month + 1, 1).toordinal() if year <= date.max.year else LAST_DAY + 1

    return Calendar(zone, lambda day: (day.year * _MONTHS + day.month - 1) // length, first_day)


@lru_cache(maxsize=256)
def calendar_of(period: Period, zone: str) -> Calendar:
    """Return the calendar of a kind of period in a time zone.

    Raises:
        RequestError: there is no such time zone.
    """
    found = zone_of(zone)
    if period is Period.NONE:
        return _Forever(found, date.toordinal, int)
    if period is Period.DAY:
        return Calendar(found, lambda day: day.toordinal() - EPOCH, lambda index: EPOCH + index)
    if period is Period.WEEK:
        first = EPOCH - _WEEKDAY
        return Calendar(found, lambda day: (day.toordinal() - first) // 7, lambda index: first + 7 * index)
    return _months(found, {Period.MONTH: 1, Period.QUARTER: 3, Period.YEAR: _MONTHS}[period])


def date_text(day: date) -> str:
    """Return a date for a reader.

    >>> date_text(date(2026, 12, 1))
    'December 1, 2026'
    """
    return f"{day:%B} {day.day}, {day.year}"


def duration_text(seconds: int) -> str:
    """Return a duration for a reader, rounded up to its largest unit.

    >>> duration_text(10_799), duration_text(45), duration_text(200_000)
    ('3 h', '45 s', '3 days')
    """
    for unit, size, least in (("days", DAY, DAY + 1), ("h", 3600, 3600), ("min", 60, 60)):
        if seconds >= least:
            return f"{-(-seconds // size)} {unit}"
    return f"{seconds} s"
