"""Usage over time: a table of intervals that the leader keeps, and sums over them.

In an interval, an application used constant amounts. It ends when an allocation of the application is granted, released
or resized, or when another configuration counts it for other groups of elastic quotas or nodes of quota trees. Nothing
is sampled, so sums over intervals are exact. A terminating allocation counts until it is released; a pending one does
not count.

An interval is stored with the total of its usage, in resource-milliseconds: base units times milliseconds, as exact
integers. A thousandth of a core for one second is 1,000 of them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias, final, get_args

from ugm._json_values import Json
from ugm.budgets.budget import calendar_of
from ugm.errors import RequestError, number_text, time_text
from ugm.identity import canonical_path, is_below
from ugm.model import Claim, ReportingModel
from ugm.model import Period as CalendarPeriod
from ugm.partition.config.compiled import CompiledConfig
from ugm.partition.engine.transaction import require_time
from ugm.partition.rows import Allocation, AllocationState, ApplicationRow, Change
from ugm.resources import Resource

#: The subjects of the sums.
Grouping: TypeAlias = Literal["user", "group", "queue", "application", "elastic-group", "quota-node"]
#: The calendar periods of the sums.
Period: TypeAlias = Literal["day", "week", "month", "year"]
#: Kinds and names of owners of limits in declared quota models.
Owners: TypeAlias = tuple[tuple[str, str], ...]


class UsageInterval(NamedTuple):
    """The usage of an application in a time in which its owners were the same."""

    application_id: str
    user: str
    queue_path: str
    #: The group that the usage was charged to; None for none.
    group: str | None
    #: In milliseconds since 1970; the end is after the beginning, and not part of the interval.
    begin: int
    end: int
    #: Resource-milliseconds, by resource.
    amounts: Mapping[str, int]
    #: From the group or leaf upward.
    owners: Owners = ()
    #: The first group of the user, to which reports assign usage that is charged to no group.
    first_group: str | None = None

    def part(self, begin: int, end: int) -> UsageInterval:
        """Return the part of the interval between two instants. The amounts of adjacent parts add up to the total."""
        length, first, last = self.end - self.begin, begin - self.begin, end - self.begin
        shares = {name: amount * last // length - amount * first // length for name, amount in self.amounts.items()}
        return self._replace(begin=begin, end=end, amounts=shares)


class UsageRow(NamedTuple):
    """The usage of one subject between two instants: of a user, a queue, an elastic group and so on."""

    #: None for usage of users without groups, or that is charged to no node.
    name: str | None
    #: In seconds since 1970; the end is not included.
    begin: float
    end: float
    #: Resource-milliseconds, by resource.
    amounts: Mapping[str, int]

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


def stored_time(argument: str, seconds: float) -> int:
    """Return a time in milliseconds, as a store keeps it, after checking it.

    >>> stored_time("clock", 1.001)
    1001
    """
    return round(require_time(argument, seconds) * 1000)


# From changes to intervals


class CurrentUsage(NamedTuple):
    """The usage of an application since the end of its last interval."""

    #: When that was, in milliseconds since 1970.
    since: int
    amounts: dict[str, int]
    owners: Owners

    def add(self, usage: Resource, sign: int) -> None:
        """Add amounts in place, or subtract them if *sign* is -1; a leader calls it thousands of times per second."""
        amounts = self.amounts
        for name, amount in usage.amounts.items():
            total = amounts.get(name, 0) + sign * amount
            if total:
                amounts[name] = total
            else:
                amounts.pop(name, None)


@final
class UsageMeter:
    """Turns changes into intervals.

    Args:
        applications: the applications before the first change.
        compiled: the configuration in force then.
        current: the usage of the applications.
    """

    def __init__(
        self,
        applications: Mapping[str, ApplicationRow],
        compiled: CompiledConfig | None,
        current: Mapping[str, CurrentUsage],
    ) -> None:
        #: The declared models in force, without claims; they only tell the owners of a claim.
        self._models = _models_of(compiled)
        #: The applications whose stored usage is no longer right.
        self.changed: Final[set[str]] = set()
        #: The applications and their usage by id.
        self._applications: Final = dict(applications)
        self.current: Final[dict[str, CurrentUsage]] = {}
        for name in applications:
            since, amounts, owners = current[name]
            self.current[name] = CurrentUsage(since, dict(amounts), owners)

    def process(self, changes: Iterable[Change], at: int) -> list[UsageInterval]:
        """Return the intervals that a list of changes at an instant ends."""
        ended: list[UsageInterval] = []
        for table, key, old, new, _ in changes:
            if table == "allocation":
                self._change((new or old).application_id, _held(old), _held(new), at, ended)
            elif table == "application":
                self._change_application(key, new, at, ended)
            elif table == "configuration":
                self._change_models(new and new.compiled, at, ended)
        return ended

    def _change(
        self, name: str, before: Resource | None, after: Resource | None, at: int, ended: list[UsageInterval]
    ) -> None:
        if name in self.current and before is not after and before != after:
            self._end(name, at, ended)
            for usage, sign in ((before, -1), (after, 1)):
                if usage is not None:
                    self.current[name].add(usage, sign)

    def _change_application(self, name: str, new: ApplicationRow | None, at: int, ended: list[UsageInterval]) -> None:
        self.changed.add(name)
        if new is None:
            self._end(name, at, ended)
            del self.current[name], self._applications[name]
            return
        self._applications[name] = new
        if name not in self.current:
            self.current[name] = CurrentUsage(at, {}, self._owners(new))

    def _change_models(self, compiled: CompiledConfig | None, at: int, ended: list[UsageInterval]) -> None:
        """End the intervals of applications that have other owners in the models of another configuration."""
        self._models = _models_of(compiled)
        for name, row in self._applications.items():
            owners = self._owners(row)
            if owners != self.current[name].owners:
                self._end(name, at, ended)
                self.current[name] = self.current[name]._replace(owners=owners)

    def _owners(self, row: ApplicationRow) -> Owners:
        claim = Claim("", row.application_id, Resource(), row.queue_path, row.user, row.tags)
        return tuple(owner for model in self._models for owner in model.owners(claim))

    def _end(self, name: str, at: int, ended: list[UsageInterval]) -> None:
        row, (since, amounts, owners) = self._applications[name], self.current[name]
        self.changed.add(name)
        if at <= since:
            return
        self.current[name] = CurrentUsage(at, amounts, owners)
        if amounts:
            subject = name, row.user.name, row.queue_path, row.group or None
            first_group = row.user.groups[0] if row.user.groups else None
            totals = {resource: amount * (at - since) for resource, amount in amounts.items()}
            ended.append(UsageInterval(*subject, since, at, totals, owners, first_group))

    def finish(self, at: int) -> list[UsageInterval]:
        """Return the intervals that have not ended, up to an instant."""
        ended: list[UsageInterval] = []
        for name in self.current:
            self._end(name, at, ended)
        return ended


def _models_of(compiled: CompiledConfig | None) -> list[ReportingModel]:
    models = (definition.build() for definition in (() if compiled is None else compiled.models))
    return [model for model in models if isinstance(model, ReportingModel)]


def _held(allocation: Allocation | None) -> Resource | None:
    """Return the usage that counts; None for none."""
    return None if allocation is None or allocation.state is AllocationState.PENDING else allocation.usage


# Reports


class UsageQuery(NamedTuple):
    """A question about usage; see `ugm.store.usage_of`."""

    by: Grouping
    #: In seconds since 1970; None for the first instant of which usage is known, and for now.
    since: float | None = None
    until: float | None = None
    period: Period | int | None = None
    zone: str = "UTC"
    queue: str = "root"
    #: Only the rows of these subjects; None for all.
    names: Collection[str] | None = None

    @property
    def column(self) -> str | None:
        """The column of the table of usage that has the names of the subjects; None if there is none."""
        return _COLUMNS.get(self.by)

    @property
    def begin(self) -> int | None:
        """The first instant, in milliseconds since 1970."""
        return None if self.since is None else stored_time("since", self.since)

    def rows(self, intervals: Iterable[UsageInterval], known: int, now: int) -> tuple[UsageRow, ...]:
        """Return the answer.

        Args:
            intervals: all intervals that overlap the time of the query.
            known: the first instant at which usage is known.
            now: the time; the sums end then, or with the last interval.

        Raises:
            RequestError: an argument is invalid, or usage at the first instant was deleted.
        """
        if self.by not in get_args(Grouping):
            raise RequestError("by", self.by, f"expected one of {', '.join(get_args(Grouping))}")
        if type(self.period) is not int and self.period not in _PERIODS:
            raise RequestError("period", self.period, f"expected one of {', '.join(get_args(Period))}, or seconds")
        path = canonical_path(self.queue)
        begin = self.begin
        if begin is not None and begin < known:
            given = time_text(begin // 1000, places="seconds")
            # Rounded up, so that a query for it succeeds.
            known_since = time_text(-(-known // 1000), places="seconds")
            raise RequestError("since", given, f"usage before {known_since} is no longer known")
        found = [one for one in intervals if is_below(one.queue_path, path)]
        first = min((one.begin for one in found), default=known) if begin is None else begin
        last = max([now, *(one.end for one in found)])
        end = last if self.until is None else min(stored_time("until", self.until), last)
        return _summed(found, self._named, self._bounds(first, end))

    def _named(self, interval: UsageInterval) -> Sequence[str | None]:
        """Return the subjects of an interval that the query asks for."""
        subjects = self._subjects(interval)
        return subjects if self.names is None else [name for name in subjects if name in self.names]

    def _subjects(self, interval: UsageInterval) -> Sequence[str | None]:
        if self.column is not None:
            return (getattr(interval, self.column),)
        if self.by == "group":
            return (interval.first_group if interval.group is None else interval.group,)
        # Each owner also counts the usage below it.
        kind = self.by.replace("-", " ")
        return [name for of_kind, name in interval.owners if of_kind == kind] or [None]

    def _bounds(self, first: int, last: int) -> list[int]:
        """Return the beginnings of all periods, and the end of the last one, in milliseconds.

        Raises:
            RequestError: the zone is invalid, or there are too many periods.
        """
        if isinstance(self.period, int):
            step = self.period * 1000
            if step <= 0 or (last - first) // step > _MOST_PERIODS:
                raise RequestError("period", self.period, f"expected at most {_MOST_PERIODS} periods")
            return [first, *range((first // step + 1) * step, last, step), max(first, last)]
        calendar = calendar_of(CalendarPeriod(self.period or "none"), self.zone)
        bounds, index = [first], calendar.index(first // 1000)
        while (bound := calendar.end(index) * 1000) < last:
            bounds.append(bound)
            index += 1
        return [*bounds, max(first, last)]


#: The columns with the names of subjects.
_COLUMNS: Final[Mapping[str, str]] = {"user": "user", "queue": "queue_path", "application": "application_id"}
#: No period, and all periods of the calendar.
_PERIODS: Final = (None, *get_args(Period))
#: The maximum number of periods of some seconds.
_MOST_PERIODS: Final = 10_000


def _summed(
    intervals: Sequence[UsageInterval], subjects: Callable[[UsageInterval], Sequence[str | None]], bounds: Sequence[int]
) -> tuple[UsageRow, ...]:
    sums: dict[tuple[int, bool, str], dict[str, int]] = {}
    for interval in intervals:
        names = subjects(interval)
        if not names:
            continue
        index = max(0, bisect_right(bounds, interval.begin) - 1)
        while index < len(bounds) - 1 and bounds[index] < interval.end:
            begin, end = max(interval.begin, bounds[index]), min(interval.end, bounds[index + 1])
            if begin < end:
                part = interval.part(begin, end)
                for name in names:
                    total = sums.setdefault((index, name is None, name or ""), {})
                    for resource, amount in part.amounts.items():
                        total[resource] = total.get(resource, 0) + amount
            index += 1
    return tuple(
        UsageRow(None if is_none else name, begin / 1000, end / 1000, dict(sorted(amounts.items())))
        for (index, is_none, name), amounts in sorted(sums.items())
        for begin, end in [bounds[index : index + 2]]
    )
