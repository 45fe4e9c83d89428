"""Usage over time: who used how much of what between two instants, from a journal.

Amounts are resource-milliseconds: base units times milliseconds, whole numbers, exact. A thousandth of a core for one
second is 1,000 of them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from os import PathLike
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from ugm.errors import RequestError, number_text
from ugm.journal.contents import open_contents
from ugm.journal.file_use import resolve_path
from ugm.journal.usage_intervals import UsageInterval, usage_intervals
from ugm.journal.writer import Clock, milliseconds

__all__ = ["By", "Period", "UsageRow", "format_seconds", "usage"]

#: Whose usage is summed up.
By: TypeAlias = Literal["user", "group", "queue", "application"]
#: How long each sum is.
Period: TypeAlias = Literal["day", "week", "month", "year"]

_NAMES: Final[Mapping[By, Callable[[UsageInterval], str | None]]] = {
    "user": lambda span: span.user,
    "group": lambda span: span.group,
    "queue": lambda span: span.queue_path,
    "application": lambda span: span.application_id,
}


class UsageRow(NamedTuple):
    """What one user, group, queue or application used between two instants."""

    #: None for what is charged to no group.
    name: str | None
    #: In milliseconds since 1970; the end is no part of it.
    begin: int
    end: int
    #: Resource-milliseconds, by resource.
    amounts: Mapping[str, int]

    def __repr__(self) -> str:
        amounts = ", ".join(f"{name!r}: {number_text(amount)}" for name, amount in self.amounts.items())
        return f"UsageRow(name={self.name!r}, begin={self.begin}, end={self.end}, amounts={{{amounts}}})"

    def to_dict(self) -> dict[str, Any]:
        """Return the line for JSON, with exact resource-seconds as texts."""
        told = {name: format_seconds(amount) for name, amount in self.amounts.items()}
        return {"name": self.name, "begin": self.begin, "end": self.end, "resource_seconds": told}


def format_seconds(milliseconds: int) -> str:
    """Write milliseconds as seconds: exactly, but for numbers of hundreds of digits.

    >>> seconds(3_600_250), seconds(2000)
    ('3600.25', '2')
    """
    whole, rest = divmod(milliseconds, 1000)
    text = number_text(whole)
    return f"{text}.{rest:03}".rstrip("0") if rest and text.isdecimal() else text


def usage(
    path: str | PathLike[str],
    by: By,
    *,
    since: int | None = None,
    until: int | None = None,
    period: Period | None = None,
    zone: str = "UTC",
    clock: Clock = milliseconds,
) -> tuple[UsageRow, ...]:
    """Return who used how much between two instants; another process may be writing the journal.

    Takes time in the size of the journal.

    Args:
        path: the journal.
        by: whose usage is summed up. A queue is the one that an application was placed in.
        since: the first instant, in milliseconds since 1970; None for the first that is known.
        until: the instant behind the last. What lies behind the present is left out: nobody has used it yet.
        period: a sum for each day, week (from Monday), month or year of the calendar; None for one sum.
        zone: whose calendar. Days of 23 or 25 hours count as what they are.
        clock: what the time is, in milliseconds since 1970.

    Returns:
        By period, then by name; without what was not used.

    Raises:
        RequestError: an argument cannot be used, or it is no longer known who used what at the first instant.
        JournalError: the journal cannot be read.
    """
    if by not in get_args(By):
        raise RequestError("by", by, f"expected one of {', '.join(get_args(By))}")
    calendar = _zone(zone)
    now = clock()
    with open_contents(resolve_path(path)) as contents:
        known = contents.start.usage_since
        if since is not None and since < known:
            raise RequestError("since", since, f"it is no longer known who used what before {known}")
        found = list(usage_intervals(contents, now))
    first = min((span.begin for span in found), default=known) if since is None else since
    last = max([now, *(span.end for span in found)])
    bounds = _bounds(first, last if until is None else min(until, last), period, calendar)
    return _summed(found, _NAMES[by], bounds)


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise RequestError("zone", name, "there is no such time zone") from error


def _bounds(first: int, last: int, period: Period | None, zone: ZoneInfo) -> list[int]:
    """Return where each sum begins, and where the last one ends."""
    if period is not None and period not in get_args(Period):
        raise RequestError("period", period, f"expected one of {', '.join(get_args(Period))}")
    bounds = [first]
    if period is not None:
        day = datetime.fromtimestamp(first // 1000, zone)
        while (bound := _instant(day := _next(day, period))) < last:
            bounds.append(bound)
    return [*bounds, max(first, last)]


def _next(moment: datetime, period: Period) -> datetime:
    """Return the beginning of the next period; the calendar knows how long a day is."""
    day = moment.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
    if period == "day":
        return day + timedelta(days=1)
    if period == "week":
        return day + timedelta(days=7 - day.weekday())
    if period == "year":
        return day.replace(year=day.year + 1, month=1, day=1)
    return (day.replace(day=1) + timedelta(days=31)).replace(day=1)


def _instant(moment: datetime) -> int:
    return int(moment.timestamp()) * 1000


def _summed(
    found: Sequence[UsageInterval], require_name: Callable[[UsageInterval], str | None], bounds: Sequence[int]
) -> tuple[UsageRow, ...]:
    sums: dict[tuple[int, bool, str], dict[str, int]] = {}
    for span in found:
        name = require_name(span)
        index = max(0, bisect_right(bounds, span.begin) - 1)
        while index < len(bounds) - 1 and bounds[index] < span.end:
            time = min(span.end, bounds[index + 1]) - max(span.begin, bounds[index])
            if time > 0:
                total = sums.setdefault((index, name is None, name or ""), {})
                for resource, amount in span.usage.items():
                    total[resource] = total.get(resource, 0) + amount * time
            index += 1
    return tuple(
        UsageRow(None if is_none else name, bounds[index], bounds[index + 1], dict(sorted(amounts.items())))
        for (index, is_none, name), amounts in sorted(sums.items())
    )
