"""Periods of the calendar: days, weeks, months, quarters and years, in UTC or in a time zone.

Each period has an index. A period begins with the first second of its first day. If a time zone skips that midnight,
the period begins with the first later second; if the midnight occurs twice, with the first one. So a day may have 23 or
25 hours. A date that a zone skips as a whole is a period of 0 seconds.

The time of a call does not depend on the distance between the periods.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import UTC, date, datetime, timedelta, tzinfo
from enum import StrEnum
from functools import lru_cache
from typing import Final, final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from ugm.errors import RequestError

__all__ = [
    "LAST_DAY",
    "LAST_SECOND",
    "NEVER",
    "Calendar",
    "Period",
    "calendar_of",
    "date_text",
    "duration_text",
    "local_day",
    "local_second",
    "zone_of",
]

#: The end of a period that does not end: after the year 9999.
NEVER: Final = 2**63

_DAY: Final = 86400
#: The ordinal of January 1, 1970, in `datetime.date`.
_EPOCH: Final = date(1970, 1, 1).toordinal()
#: The ordinal of December 31, 9999.
LAST_DAY: Final = date.max.toordinal()
#: The last second that is supported: in every time zone it is before the year 10000.
LAST_SECOND: Final = (LAST_DAY - _EPOCH) * _DAY - 1
#: The weekday of January 1, 1970: the number of days after a Monday.
_WEEKDAY: Final = 3
_MONTHS: Final = 12


class Period(StrEnum):
    """The time after which the amount of a budget is renewed."""

    #: Never.
    NONE = "none"
    DAY = "day"
    #: From Monday.
    WEEK = "week"
    MONTH = "month"
    QUARTER = "quarter"
    YEAR = "year"


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
        return date.fromordinal(_EPOCH + second // _DAY)


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


def local_day(second: int, zone: tzinfo) -> int:
    """Return the ordinal of the date of a second in a zone, as in `datetime.date`."""
    if zone is UTC:
        return _EPOCH + second // _DAY
    return datetime.fromtimestamp(min(second, LAST_SECOND), zone).toordinal()


def local_second(ordinal: int, zone: tzinfo, time: int = 0) -> int:
    """Return the second of a time of a date in a zone, or the first later one if the zone skips it.

    Args:
        ordinal: the date; `NEVER` is returned for one after the year 9999.
        zone: the time zone.
        time: the seconds from midnight to the time that a wall clock shows. The first of two such seconds counts.
    """
    if ordinal > LAST_DAY:
        return NEVER
    return (ordinal - _EPOCH) * _DAY + time if zone is UTC else _wall_second(ordinal, zone, time)


@lru_cache(maxsize=4096)
def _wall_second(ordinal: int, zone: tzinfo, time: int) -> int:
    wall = datetime.combine(date.fromordinal(ordinal), datetime.min.time(), zone) + timedelta(seconds=time)
    late, early = int(wall.timestamp()), int(wall.replace(fold=1).timestamp())
    if early >= late:
        # It exists; if it exists twice, `late` is the first of both.
        return late
    # The clock is set forward from before midnight at a second after `early`, up to `late`.
    naive = wall.replace(tzinfo=None)
    while late - early > 1:
        middle = (early + late) // 2
        local = datetime.fromtimestamp(middle, zone).replace(tzinfo=None)
        early, late = (early, middle) if local >= naive else (middle, late)
    return late


@final
class _Days(_Dated):
    __slots__ = ()

    def _index_of(self, day: date) -> int:
        return day.toordinal() - _EPOCH

    def _first_day(self, index: int) -> int:
        return _EPOCH + index


@final
class _Weeks(_Dated):
    __slots__ = ()

    def _index_of(self, day: date) -> int:
        return (day.toordinal() - _EPOCH + _WEEKDAY) // 7

    def _first_day(self, index: int) -> int:
        return _EPOCH + 7 * index - _WEEKDAY


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


def zone_of(name: str) -> tzinfo:
    """Return a time zone.

    Raises:
        RequestError: there is no such time zone.
    """
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError, TypeError) as error:
        raise RequestError("zone", name, "there is no such time zone") from error


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
    for unit, size, least in (("days", _DAY, _DAY + 1), ("h", 3600, 3600), ("min", 60, 60)):
        if seconds >= least:
            return f"{-(-seconds // size)} {unit}"
    return f"{seconds} s"
