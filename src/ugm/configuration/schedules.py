"""Schedules: the hours, days and dates at which an entry of a schedule applies.

A schedule is a pure function of the second, so no timer is needed, and a replay gets the same result. All times are
local times of the time zone of the entry. A local time that the zone skips is the first later second; one that occurs
twice is the first of both. Spans are half-open: an entry applies from the second of its beginning on, up to the second
before its end.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Final, NamedTuple, final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from ugm.configuration.scheduler import ScheduledLimit
from ugm.errors import RequestError

#: The end of a period that does not end: after the year 9999.
NEVER: Final = 2**63

#: The seconds of a day.
DAY: Final = 86400
#: The ordinal of January 1, 1970, in `datetime.date`.
EPOCH: Final = date(1970, 1, 1).toordinal()
#: The ordinal of December 31, 9999.
LAST_DAY: Final = date.max.toordinal()
#: The last second that is supported: in every time zone it is before the year 10000.
LAST_SECOND: Final = (LAST_DAY - EPOCH) * DAY - 1
_DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_MINUTES: Final = 24 * 60
#: The number of days in which every window of a week begins.
_WEEK: Final = 8
_FORMATS: Final = ("%Y-%m-%d", "%Y-%m-%dT%H:%M")


class _Hours(NamedTuple):
    """A span of a day, in minutes after midnight; it may end on the next day."""

    begin: int
    end: int


@final
class ScheduleEntry(NamedTuple):
    """The times at which one entry of a schedule applies."""

    #: The days on which the hours begin; 0 is Monday.
    days: frozenset[int]
    hours: _Hours
    #: The first second, and the second after the last one.
    first: int
    last: int
    zone: tzinfo

    def applies(self, second: int) -> bool:
        """Return whether the entry applies at a second."""
        if not self.first <= second < self.last:
            return False
        today = local_day(second, self.zone)
        return any(begin <= second < end for begin, end in self._windows(today - 1, today + 1))

    def next_change(self, second: int) -> int:
        """Return the next second at which the entry may begin or end; `NEVER` if there is none."""
        if second < self.first:
            return self.first
        if second >= self.last:
            return NEVER
        today = local_day(second, self.zone)
        bounds = (bound for window in self._windows(today - 1, today + _WEEK) for bound in window)
        return min((self.last, *(bound for bound in bounds if bound > second)))

    def _windows(self, first_day: int, last_day: int) -> Iterator[tuple[int, int]]:
        """Yield the spans that begin on some days, which are ordinals as in `datetime.date`."""
        for day in range(first_day, min(last_day, LAST_DAY) + 1):
            if (day - 1) % 7 in self.days:
                yield self._second(day, self.hours.begin), self._second(day, self.hours.end)

    def _second(self, day: int, minutes: int) -> int:
        later, minute = divmod(minutes, _MINUTES)
        return local_second(day + later, self.zone, minute * 60)


def parse_entry(entry: ScheduledLimit) -> ScheduleEntry:
    """Return the times of an entry.

    Raises:
        RequestError: a value is invalid. The argument is the name of the attribute.
    """
    try:
        zone = zone_of(entry.zone)
    except RequestError as error:
        raise RequestError("zone", entry.zone, error.reason) from error
    first = _instant("start", entry.start, zone, -NEVER)
    last = _instant("until", entry.until, zone, NEVER)
    if first >= last:
        raise RequestError("until", entry.until, f"it is not after the beginning ({entry.start})")
    return ScheduleEntry(_parse_days(entry.days), _parse_hours(entry.hours), first, last, zone)


def _parse_days(text: str) -> frozenset[int]:
    """Return the numbers of days in a list such as ``mon-fri,sun``; all days if it is empty."""
    if not text:
        return frozenset(range(7))
    found: set[int] = set()
    for part in text.lower().split(","):
        first, dash, last = (piece.strip() for piece in part.partition("-"))
        if first not in _DAYS or (dash and last not in _DAYS):
            raise RequestError("days", text, f"expected days such as mon-fri or sat,sun (days: {', '.join(_DAYS)})")
        begin = _DAYS.index(first)
        length = (_DAYS.index(last) - begin) % 7 if dash else 0
        found.update((begin + step) % 7 for step in range(length + 1))
    return frozenset(found)


def _parse_hours(text: str) -> _Hours:
    """Return the span of a text such as ``22:00-06:00``; the whole day if it is empty."""
    if not text:
        return _Hours(0, _MINUTES)
    begin, end = (_minutes(piece.strip()) for piece in (text.partition("-")[0], text.partition("-")[2]))
    if begin is None or end is None or begin in (_MINUTES, end):
        raise RequestError("hours", text, "expected a span of hours such as 08:00-18:00 or 22:00-06:00")
    return _Hours(begin, end if end > begin else end + _MINUTES)


def _minutes(text: str) -> int | None:
    """Return the minutes after midnight of a text such as ``08:30``, up to ``24:00``."""
    hour, colon, minute = text.partition(":")
    is_valid = colon and len(hour) == len(minute) == 2 and (hour + minute).isascii() and (hour + minute).isdecimal()  # noqa: PLR2004 - digits
    if not is_valid or int(minute) >= 60:  # noqa: PLR2004 - minutes of an hour
        return None
    found = int(hour) * 60 + int(minute)
    return found if found <= _MINUTES else None


def _instant(field: str, text: str, zone: tzinfo, default: int) -> int:
    """Return the second of a date, or of a date with a time."""
    if not text:
        return default
    for layout in _FORMATS:
        try:
            found = datetime.strptime(text, layout)  # noqa: DTZ007 - the zone is applied below
        except ValueError:
            continue
        if len(text) == len(found.strftime(layout)):
            day = date(found.year, found.month, found.day).toordinal()
            return local_second(day, zone, found.hour * 3600 + found.minute * 60)
    raise RequestError(field, text, "expected a date such as 2026-12-24, or with a time, 2026-12-24T18:00")


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


def local_day(second: int, zone: tzinfo) -> int:
    """Return the ordinal of the date of a second in a zone, as in `datetime.date`."""
    if zone is UTC:
        return EPOCH + second // DAY
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
    return (ordinal - EPOCH) * DAY + time if zone is UTC else _wall_second(ordinal, zone, time)


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
