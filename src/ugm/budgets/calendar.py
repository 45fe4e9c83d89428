"""Periods of the calendar: days, weeks, months, quarters and years, in UTC or in a time zone.

Each period has an index. A period begins with the first second of its first day. If a time zone skips that midnight,
the period begins with the first later second; if the midnight occurs twice, with the first one. So a day may have 23 or
25 hours. A date that a zone skips as a whole is a period of 0 seconds.

The time of a call does not depend on the distance between the periods.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import date, tzinfo
from functools import lru_cache
from typing import Final, final

from ugm.configuration.schedules import DAY, EPOCH, LAST_DAY, NEVER, local_day, local_second, zone_of
from ugm.model import Period

__all__ = ["Calendar", "calendar_of", "date_text", "duration_text"]

#: The weekday of January 1, 1970: the number of days after a Monday.
_WEEKDAY: Final = 3
_MONTHS: Final = 12


class Calendar(ABC):
    """The periods of one kind."""

    __slots__ = ()

    @abstractmethod
    def index(self, second: int) -> int:
        """Return the index of the period of a second."""

    @abstractmethod
    def start(self, index: int) -> int:
        """Return the first second of a period; `NEVER` after the year 9999."""

    def end(self, index: int) -> int:
        """Return the first second of the next period."""
        return self.start(index + 1)

    @abstractmethod
    def day_of(self, second: int) -> date:
        """Return the date of a second."""


@final
class _Forever(Calendar):
    """One period without an end."""

    __slots__ = ()

    def index(self, second: int) -> int:  # noqa: ARG002 - there is one period
        return 0

    def start(self, index: int) -> int:
        return -NEVER if index <= 0 else NEVER

    def day_of(self, second: int) -> date:
        return date.fromordinal(EPOCH + second // DAY)


class _Dated(Calendar):
    """Periods that begin with a date."""

    __slots__ = ("_zone",)

    def __init__(self, zone: tzinfo) -> None:
        self._zone: Final = zone

    @abstractmethod
    def _index_of(self, day: date) -> int:
        """Return the index of the period of a date."""

    @abstractmethod
    def _first_day(self, index: int) -> int:
        """Return the ordinal of the first day of a period, as in `datetime.date`."""

    def day_of(self, second: int) -> date:
        return date.fromordinal(local_day(second, self._zone))

    def index(self, second: int) -> int:
        index = self._index_of(self.day_of(second))
        # A clock that is set back across midnight returns to the date before, whose period has ended.
        return index + 1 if second >= self.end(index) else index

    def start(self, index: int) -> int:
        return local_second(self._first_day(index), self._zone)


@final
class _Days(_Dated):
    __slots__ = ()

    def _index_of(self, day: date) -> int:
        return day.toordinal() - EPOCH

    def _first_day(self, index: int) -> int:
        return EPOCH + index


@final
class _Weeks(_Dated):
    __slots__ = ()

    def _index_of(self, day: date) -> int:
        return (day.toordinal() - EPOCH + _WEEKDAY) // 7

    def _first_day(self, index: int) -> int:
        return EPOCH + 7 * index - _WEEKDAY


@final
class _Months(_Dated):
    """Periods of some months each."""

    __slots__ = ("_length",)

    def __init__(self, zone: tzinfo, length: int) -> None:
        super().__init__(zone)
        self._length: Final = length

    def _index_of(self, day: date) -> int:
        return (day.year * _MONTHS + day.month - 1) // self._length

    def _first_day(self, index: int) -> int:
        year, month = divmod(index * self._length, _MONTHS)
        return date(year, month + 1, 1).toordinal() if year <= date.max.year else LAST_DAY + 1


@lru_cache(maxsize=256)
def calendar_of(period: Period, zone: str) -> Calendar:
    """Return the calendar of a kind of period in a time zone.

    Raises:
        RequestError: there is no such time zone.
    """
    found = zone_of(zone)
    match period:
        case Period.NONE:
            return _Forever()
        case Period.DAY:
            return _Days(found)
        case Period.WEEK:
            return _Weeks(found)
        case Period.MONTH:
            return _Months(found, 1)
        case Period.QUARTER:
            return _Months(found, 3)
        case Period.YEAR:
            return _Months(found, _MONTHS)


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
