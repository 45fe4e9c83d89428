"""Usage over time, computed from a journal.

Amounts are resource-milliseconds: base units times milliseconds, as exact integers. A thousandth of a core for one
second is 1,000 of them.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

from ugm._json_values import Json
from ugm.budgets.calendar import Calendar, calendar_of
from ugm.budgets.calendar import Period as CalendarPeriod
from ugm.errors import RequestError, number_text
from ugm.identity import canonical_path, is_below
from ugm.journal.change_queue import stored_time
from ugm.journal.locations import LogLocation, log_at
from ugm.journal.log import Log
from ugm.journal.usage_intervals import UsageInterval, usage_intervals
from ugm.partition.clock import Clock

__all__ = ["Grouping", "Period", "UsageRow", "format_seconds", "usage"]

#: The subjects of the sums.
Grouping: TypeAlias = Literal["user", "group", "queue", "application", "elastic-group", "quota-node"]
#: The calendar periods of the sums.
Period: TypeAlias = Literal["day", "week", "month", "year"]

_SUBJECTS: Final[Mapping[Grouping, Callable[[UsageInterval], Sequence[str | None]]]] = {
    "user": lambda interval: (interval.user,),
    "group": lambda interval: (interval.first_group if interval.group is None else interval.group,),
    "queue": lambda interval: (interval.queue_path,),
    "application": lambda interval: (interval.application_id,),
    "elastic-group": lambda interval: _owners(interval, "elastic group"),
    "quota-node": lambda interval: _owners(interval, "quota node"),
}


def _owners(interval: UsageInterval, kind: str) -> Sequence[str | None]:
    """Return the owners of a kind: each also counts the usage below it."""
    return [name for of_kind, name in interval.owners if of_kind == kind] or [None]


class UsageRow(NamedTuple):
    """The usage of one subject between two instants: of a user, a queue, an elastic group and so on."""

    #: None for usage of users without groups, or that is charged to no node.
    name: str | None
    #: In seconds since 1970; the end is not included.
    begin: float
    end: float
    #: Resource-milliseconds, by resource.
    amounts: Mapping[str, int]

    def __repr__(self) -> str:
        amounts = ", ".join(f"{name!r}: {number_text(amount)}" for name, amount in self.amounts.items())
        return f"UsageRow(name={self.name!r}, begin={self.begin}, end={self.end}, amounts={{{amounts}}})"

    def to_dict(self) -> dict[str, Json]:
        """Return the row for JSON, with exact resource-seconds as strings."""
        amounts = {name: format_seconds(amount) for name, amount in self.amounts.items()}
        return {"name": self.name, "begin": self.begin, "end": self.end, "resource_seconds": amounts}


def format_seconds(amount: int, digits: int = 3) -> str:
    """Format milliseconds as seconds, exactly unless the number has hundreds of digits.

    Args:
        amount: the amount.
        digits: 6 for thousandths of milliseconds.

    >>> format_seconds(3_600_250), format_seconds(2000), format_seconds(1_500_000, 6)
    ('3600.25', '2', '1.5')
    """
    whole, rest = divmod(amount, 10**digits)
    text = number_text(whole)
    return f"{text}.{rest:0{digits}}".rstrip("0") if rest and text.isdecimal() else text


def usage(
    path: LogLocation,
    by: Grouping,
    *,
    since: float | None = None,
    until: float | None = None,
    period: Period | None = None,
    zone: str = "UTC",
    queue: str = "root",
    clock: Clock = time.time,
) -> tuple[UsageRow, ...]:
    """Return the usage between two instants from a journal, which another process may be writing.

    The function takes time proportional to the journal.

    Args:
        path: the location of the journal; see `ugm.journal.open_partition`.
        by: the subjects of the sums. The queue of an application is the one in which it was placed. Usage that no limit
            assigns to a group counts for the first group of its user. An elastic group includes the groups below. The
            nodes of quota trees are named ``tree/node``; they are those of the group of an application and not those
            that hold its allocations. Both are known for models that the configuration declares.
        since: the first instant, in seconds since 1970; None for the first for which usage is known.
        until: the end of the range, which is not included; None, or a time in the future, stands for now.
        period: the period of each sum: a day, week (from Monday), month or year of the calendar; None for one sum.
        zone: the time zone of the calendar. A day may have 23 or 25 hours.
        queue: only usage in and below this queue counts.
        clock: a function that returns the seconds since 1970; fractions are allowed.

    Returns:
        Rows sorted by period, then by name; subjects and resources without usage are left out.

    Raises:
        RequestError: an argument is invalid, or usage at the first instant is no longer known.
        JournalError: the journal cannot be read.
    """
    now = stored_time("clock", clock())
    return usage_of_log(log_at(path), by, since=since, until=until, period=period, zone=zone, queue=queue, now=now)


def usage_of_log(
    log: Log,
    by: Grouping,
    *,
    since: float | None,
    until: float | None,
    period: Period | None,
    zone: str,
    queue: str,
    now: int,
) -> tuple[UsageRow, ...]:
    """Return the usage between two instants from a log, at a time in milliseconds; see `usage`."""
    if by not in get_args(Grouping):
        raise RequestError("by", by, f"expected one of {', '.join(get_args(Grouping))}")
    calendar, path = _calendar(period, zone), canonical_path(queue)
    begin = None if since is None else stored_time("since", since)
    end = None if until is None else stored_time("until", until)
    with log.open_contents() as contents:
        known = contents.start.usage_since
        if begin is not None and begin < known:
            raise RequestError("since", since, f"usage before {known / 1000} is no longer known")
        intervals = [one for one in usage_intervals(contents, now) if is_below(one.queue_path, path)]
    first = min((interval.begin for interval in intervals), default=known) if begin is None else begin
    last = max([now, *(interval.end for interval in intervals)])
    bounds = _bounds(first, last if end is None else min(end, last), calendar)
    return _summed(intervals, _SUBJECTS[by], bounds)


def _calendar(period: Period | None, zone: str) -> Calendar:
    if period is not None and period not in get_args(Period):
        raise RequestError("period", period, f"expected one of {', '.join(get_args(Period))}")
    return calendar_of(CalendarPeriod(period or "none"), zone)


def _bounds(first: int, last: int, calendar: Calendar) -> list[int]:
    """Return the beginnings of all periods, and the end of the last one, in milliseconds."""
    bounds = [first]
    index = calendar.index(first // 1000)
    while (bound := calendar.end(index) * 1000) < last:
        bounds.append(bound)
        index += 1
    return [*bounds, max(first, last)]


def _summed(
    intervals: Sequence[UsageInterval], subjects: Callable[[UsageInterval], Sequence[str | None]], bounds: Sequence[int]
) -> tuple[UsageRow, ...]:
    sums: dict[tuple[int, bool, str], dict[str, int]] = {}
    for interval in intervals:
        names = subjects(interval)
        index = max(0, bisect_right(bounds, interval.begin) - 1)
        while index < len(bounds) - 1 and bounds[index] < interval.end:
            time = min(interval.end, bounds[index + 1]) - max(interval.begin, bounds[index])
            if time > 0:
                for name in names:
                    total = sums.setdefault((index, name is None, name or ""), {})
                    for resource, amount in interval.usage.items():
                        total[resource] = total.get(resource, 0) + amount * time
            index += 1
    return tuple(
        UsageRow(None if is_none else name, begin / 1000, end / 1000, dict(sorted(amounts.items())))
        for (index, is_none, name), amounts in sorted(sums.items())
        for begin, end in [bounds[index : index + 2]]
    )
