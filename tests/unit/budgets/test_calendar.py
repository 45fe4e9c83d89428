"""Periods: compared with the calendar of the standard library over 400 years, in UTC and in time zones."""

from __future__ import annotations

import calendar as standard
from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

import pytest

from ugm import RequestError
from ugm.budgets import Period
from ugm.budgets.budget import calendar_of
from ugm.configuration.schedules import NEVER

FIRST, LAST = date(1700, 1, 1), date(2100, 1, 1)
ZONES = (
    "Europe/Berlin",
    "America/New_York",
    "America/Sao_Paulo",  # its clocks went forward at midnight
    "America/Havana",  # its clocks go back to midnight
    "America/Toronto",  # in 1919 its clocks went forward from 23:30 to 00:30
    "Asia/Beirut",
    "Australia/Lord_Howe",  # its clocks move by half an hour
    "Africa/Cairo",
)


def begins(period: Period, day: date) -> bool:
    """Return whether a period begins on a date, by the standard library."""
    match period:
        case Period.WEEK:
            return standard.weekday(day.year, day.month, day.day) == standard.MONDAY
        case Period.MONTH:
            return day.day == 1
        case Period.QUARTER:
            return day.day == 1 and day.month % 3 == 1
        case Period.YEAR:
            return (day.month, day.day) == (1, 1)
    return True


def _check_zone(name: str, step: int) -> None:
    calendar, zone = calendar_of(Period.DAY, name), ZoneInfo(name)
    for ordinal in range(FIRST.toordinal(), LAST.toordinal(), step):
        index = ordinal - date(1970, 1, 1).toordinal()
        start = calendar.start(index)
        before, at = (datetime.fromtimestamp(second, zone).date().toordinal() for second in (start - 1, start))
        assert before < ordinal <= at
        assert calendar.index(start) == index + at - ordinal
        assert calendar.index(start - 1) == index + before - ordinal


@pytest.mark.parametrize("name", ZONES)
def test_400_years_in_zones(name: str) -> None:
    """A day begins with the first second whose local date is not earlier; a sample of days."""
    _check_zone(name, 97)


@pytest.mark.deep
@pytest.mark.parametrize("period", [Period.WEEK, Period.MONTH, Period.QUARTER, Period.YEAR])
@pytest.mark.parametrize("name", ZONES)
def test_longer_periods_of_400_years_in_zones(name: str, period: Period) -> None:
    """A longer period begins with its first day, and the seconds on both sides have its index and the one before."""
    days, calendar = calendar_of(Period.DAY, name), calendar_of(period, name)
    ordinals = (day for day in range(FIRST.toordinal(), LAST.toordinal()) if begins(period, date.fromordinal(day)))
    starts = [days.start(ordinal - date(1970, 1, 1).toordinal()) for ordinal in ordinals]
    first = calendar.index(starts[0])

    for number, start in enumerate(starts, first):
        assert calendar.start(number) == start
        assert (calendar.index(start - 1), calendar.index(start)) == (number - 1, number)


@pytest.mark.parametrize(
    ("name", "day", "start", "hours"),
    [
        ("Europe/Berlin", date(2026, 3, 29), "2026-03-28T23:00", 23),
        ("Europe/Berlin", date(2026, 10, 25), "2026-10-24T22:00", 25),
        ("America/Sao_Paulo", date(2018, 11, 4), "2018-11-04T03:00", 23),
        ("America/Havana", date(2025, 11, 2), "2025-11-02T04:00", 25),
        ("America/Toronto", date(1919, 3, 31), "1919-03-31T04:30", 23.5),
        ("Pacific/Apia", date(2011, 12, 30), "2011-12-30T10:00", 0),
    ],
)
def test_days_of_other_lengths(name: str, day: date, start: str, hours: float) -> None:
    """A midnight that does not exist is the first later second; one that occurs twice is the first."""
    calendar = calendar_of(Period.DAY, name)
    index = day.toordinal() - date(1970, 1, 1).toordinal()

    assert datetime.fromtimestamp(calendar.start(index), UTC).isoformat() == f"{start}:00+00:00"
    assert calendar.end(index) - calendar.start(index) == hours * 3600


def test_periods_without_an_end() -> None:
    """A budget without a period has one, and the last period of the calendar does not end."""
    assert calendar_of(Period.NONE, "UTC").end(calendar_of(Period.NONE, "UTC").index(0)) == NEVER
    for period in (Period.DAY, Period.WEEK, Period.MONTH, Period.QUARTER, Period.YEAR):
        for zone in ("UTC", "Pacific/Kiritimati"):
            calendar = calendar_of(period, zone)
            assert calendar.end(calendar.index(253_402_300_799)) == NEVER


@pytest.mark.parametrize("zone", ["Mars/Olympus", "", "../etc/passwd", "Europe/Berlin\0"])
def test_unknown_zones(zone: str) -> None:
    """A zone has to exist."""
    with pytest.raises(RequestError, match="there is no such time zone"):
        calendar_of(Period.DAY, zone)
