"""The sections of the report of a replay, and of a comparison of replays: tables of texts and bars.

The terminal and the page show the same sections. A column is omitted where it has no room or no use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from ugm.cli.output import (
    amount_time,
    brief_time,
    counted,
    holder,
    limit_value,
    peak_share,
    percent,
    share_of,
    whose,
)
from ugm.model import BUDGET
from ugm.partition.answers.thresholds import used_share
from ugm.resources import brief_amount
from ugm.simulation import BudgetUse
from ugm.simulation.gauges import RESERVATION
from ugm.simulation.report import (
    LimitComparison,
    LimitSummary,
    ReplayComparison,
    Report,
    ResourceUse,
    UserImpact,
    WaitingComparison,
    WaitingTime,
)

#: The number of users that are listed for one limit.
_NAMED: Final = 5


class Bars(NamedTuple):
    """Bars below each other, each of which is a sequence of shares."""

    bars: tuple[tuple[float, ...], ...]


Cell: TypeAlias = str | Bars


class Column(NamedTuple):
    """A column of a table."""

    head: str
    #: Returns the cell of an item.
    value: Callable[[Any], Cell]
    #: Numbers are aligned to the right. Names are wrapped if a terminal is narrow, and long texts are wide on a page.
    kind: Literal["text", "number", "name", "long", "bars"] = "text"
    #: Where it is shown; None for both.
    only: Literal["page", "terminal"] | None = None


class Section(NamedTuple):
    """A section with a table, which has a row for each item."""

    name: str
    heading: str
    #: What a row is about.
    noun: str
    columns: Sequence[Column]
    items: Sequence[Any]
    note: str = ""


def _number(head: str, value: Callable[[Any], str], only: Literal["page"] | None = None) -> Column:
    return Column(head, value, "number", only)


def _bars(value: Callable[[Any], Bars], only: Literal["page"] | None = "page") -> Column:
    return Column("bar", value, "bars", only)


def report_sections(report: Report, text: Callable[[int], str]) -> Iterator[Section]:
    """Yield the sections of a report.

    Args:
        report: the report of a replay.
        text: formats a second of the workload.
    """
    yield _delaying(report)
    yield _peaks(report)
    yield _waiting("user", report.users)
    yield _waiting("group", report.groups)
    if report.lending:
        yield _lending(report)
    if report.lending or report.reclaims:
        columns = (
            Column("reclaimed by", lambda one: one.owner),
            Column("from", lambda one: one.borrower),
            _number("jobs", lambda one: f"{one.jobs:,}"),
            _number("lost run time", lambda one: brief_time(one.lost_seconds)),
        )
        yield Section("reclaims", "Reclaimed by evictions", "pair", columns, report.reclaims)
    if report.budgets:
        yield Section("budgets", "Budgets, those that ran out first", "period", _budget_columns(text), report.budgets)
    if report.rejections:
        reasons = (
            _number("jobs", lambda reason: f"{reason[1]:,}"),
            _number("first", lambda reason: str(reason[2])),
            Column("why", lambda reason: reason[0], "long"),
        )
        yield Section("rejected", "Rejected, because they can never start", "reason", reasons, _reasons(report))


def comparison_sections(compared: ReplayComparison) -> Iterator[Section]:
    """Yield the sections of a comparison after its figures."""
    names = list(compared.reports)
    for heading, listed in (("user", compared.users), ("group", compared.groups)):
        changed = [one for one in listed if len(set(one.waiting)) > 1]
        longest = max((waits.mean for one in changed for waits in one.waiting), default=0)
        same = len(listed) - len(changed)
        title = f"Mean wait by {heading}, and its change from {names[0]}"
        columns = (
            Column(heading, lambda one: one.name),
            _number("jobs", lambda one: f"{max(waits.jobs for waits in one.waiting):,}"),
            *(_number(name, partial(_changed_wait, number)) for number, name in enumerate(names)),
            _bars(partial(_means, longest)),
        )
        note = f"{counted(same, heading)} without a change" if same else ""
        yield Section(f"{heading}s", title, heading, columns, changed, note)
    columns = (
        Column("queue", lambda one: one.queue_path, "name"),
        Column("limit for", whose),
        Column("limit", _compared_values, "name"),
        *(_number(name, partial(_delayed_time, number)) for number, name in enumerate(names)),
    )
    yield Section("limits", "Limits that delayed jobs", "limit", columns, compared.limits)


def summary(report: Report) -> list[tuple[str, str]]:
    """Return the counts and the waiting times of the jobs, with headings."""
    waiting = report.waiting
    states = f"{report.started:,} started, {report.rejected:,} rejected, {report.still_waiting:,} still waiting"
    share = percent(share_of(waiting.delayed, waiting.jobs))
    rows = [
        ("jobs", f"{report.submitted:,} submitted: {states}"),
        ("delayed", f"{waiting.delayed:,} jobs, {share} of those started; at most {report.most_waiting:,} at one time"),
        ("waiting", _times(waiting)),
    ]
    if report.logged is not None:
        rows.append(("logged", f"{_times(report.logged)}, according to the log"))
    in_use = [f"{use.resource} {percent(use.share)}" for use in report.utilization if use.share is not None]
    if in_use:
        rows.append(("in use", f"{', '.join(in_use)} of the cluster"))
    return rows


def _times(waiting: WaitingTime) -> str:
    return f"mean {brief_time(waiting.mean)}, p95 {brief_time(waiting.p95)}, longest {brief_time(waiting.max)}"


def comparison_figures(compared: ReplayComparison) -> tuple[list[Column], list[tuple[str, ...]]]:
    """Return the columns and rows of a table with a figure of every replay in each row."""
    reports = list(compared.reports.values())
    rows = [
        ("jobs started", *(f"{one.started:,}" for one in reports)),
        ("rejected", *(f"{one.rejected:,}" for one in reports)),
        ("still waiting", *(f"{one.still_waiting:,}" for one in reports)),
        ("delayed", *(f"{one.waiting.delayed:,}" for one in reports)),
        ("mean wait", *(brief_time(one.waiting.mean) for one in reports)),
        ("p95 of waits", *(brief_time(one.waiting.p95) for one in reports)),
        ("longest wait", *(brief_time(one.waiting.max) for one in reports)),
        ("most waiting", *(f"{one.most_waiting:,}" for one in reports)),
        *_utilization_rows(reports),
        ("self-check", *("clean" if one.is_clean else "findings" for one in reports)),
    ]
    if any(one.logged for one in reports):
        logged = ("" if one.logged is None else brief_time(one.logged.mean) for one in reports)
        rows.insert(5, ("mean in the log", *logged))
    names = ("figure", *compared.reports)
    return [Column(name, itemgetter(n), "number" if n else "text") for n, name in enumerate(names)], rows


def _utilization_rows(reports: Sequence[Report]) -> Iterator[tuple[str, ...]]:
    sides = [{use.resource: use for use in report.utilization} for report in reports]
    for resource in sorted({name for side in sides for name in side}):
        yield (f"{resource} in use", *(_in_use(side.get(resource)) for side in sides))


def _in_use(use: ResourceUse | None) -> str:
    if use is None:
        return ""
    return brief_amount(use.resource, round(use.mean)) if use.share is None else percent(use.share)


def _changed_wait(number: int, one: WaitingComparison) -> str:
    """Return the mean wait of a replay, with its change from the first one."""
    mean = brief_time(one.waiting[number].mean)
    return f"{mean} ({_signed(one.changes[number])})" if number else mean


def _signed(seconds: float) -> str:
    return "=" if not round(seconds) else f"{'-' if seconds < 0 else '+'}{brief_time(abs(seconds))}"


def _means(longest: float, one: WaitingComparison) -> Bars:
    return Bars(tuple((share_of(waits.mean, longest),) for waits in one.waiting))


def _compared_values(one: LimitComparison) -> str:
    # The values of a limit may differ between configurations.
    return " / ".join(dict.fromkeys("none" if value is None else limit_value(one, value) for value in one.limits))


def _delayed_time(number: int, one: LimitComparison) -> str:
    return brief_time(one.delayed_seconds[number])


def _delaying(report: Report) -> Section:
    limits = [limit for limit in report.limits if limit.delayed_seconds or limit.delayed_jobs]
    total = sum(limit.delayed_seconds for limit in report.limits)
    longest = max((limit.delayed_seconds for limit in limits), default=0)
    columns = (
        Column("queue", lambda limit: limit.queue_path, "name"),
        Column("limit for", whose),
        _number("limit", lambda limit: limit_value(limit, limit.limit)),
        _number("jobs", lambda limit: f"{limit.delayed_jobs:,}"),
        _number("share", lambda limit: percent(share_of(limit.delayed_seconds, total))),
        _number("delayed for", lambda limit: brief_time(limit.delayed_seconds)),
        _bars(lambda limit: _parts(limit.users, longest)),
        Column("users and their waiting time", lambda limit: _users(limit.users), "long", "page"),
        Column("mostly", lambda limit: _first(limit.users), "name", "terminal"),
    )
    return Section("delays", "Limits that delayed jobs", "limit", columns, limits)


def _parts(hits: Sequence[UserImpact], longest: int) -> Bars:
    """Return the share of each listed user, then that of all others."""
    seconds = (*(hit.seconds for hit in hits[:_NAMED]), sum(hit.seconds for hit in hits[_NAMED:]))
    return Bars((tuple(share_of(each, longest) for each in seconds),))


def _users(hits: Sequence[UserImpact]) -> str:
    named = [f"{hit.user} {brief_time(hit.seconds)}" for hit in hits[:_NAMED]]
    others = hits[_NAMED:]
    rest = [f"{len(others):,} more {brief_time(sum(hit.seconds for hit in others))}"] if others else []
    return ", ".join(named + rest)


def _first(users: Sequence[UserImpact]) -> str:
    return users[0].user + (f" +{len(users) - 1:,}" if len(users) > 1 else "")


def _waiting(heading: str, figures: Sequence[tuple[str, WaitingTime]]) -> Section:
    waiting = [(name, waits) for name, waits in figures if waits.delayed]
    longest = waiting[0][1].total if waiting else 0
    columns = (
        Column(heading, itemgetter(0)),
        _number("jobs", lambda one: f"{one[1].jobs:,}"),
        _number("delayed", lambda one: f"{one[1].delayed:,}"),
        _number("mean", lambda one: brief_time(one[1].mean)),
        _number("p95", lambda one: brief_time(one[1].p95)),
        _number("longest", lambda one: brief_time(one[1].max)),
        _number("in total", lambda one: brief_time(one[1].total)),
        _bars(lambda one: Bars(((share_of(one[1].total, longest),),))),
    )
    idle = len(figures) - len(waiting)
    note = f"{counted(idle, heading)} without waiting" if idle else ""
    return Section(f"{heading}s", f"Waiting by {heading}", heading, columns, waiting, note)


def _lending(report: Report) -> Section:
    lending = report.lending
    has_several_kinds = len({one.kind for one in lending}) > 1
    columns = (
        Column("group", lambda one: f"{one.kind} {one.limit_name}" if has_several_kinds else one.limit_name, "name"),
        Column("resource", lambda one: one.resource),
        _number("guaranteed", lambda one: brief_amount(one.resource, one.guaranteed)),
        _number("peak", lambda one: brief_amount(one.resource, one.peak)),
        _number("borrowed", lambda one: amount_time(one.resource, one.borrowed)),
    )
    borrowing = [one for one in lending if one.borrowed]
    return Section("lending", "Borrowed beyond the guarantee", "group", columns, borrowing)


def _budget_columns(text: Callable[[int], str]) -> list[Column]:
    return [
        Column("budget", lambda one: one.budget, "name"),
        Column("owner", lambda one: one.owner, "name"),
        Column("period until", lambda one: "the end" if one.end is None else text(one.end), "name"),
        Column("ran out", lambda one: "" if one.ran_out is None else text(one.ran_out), "name"),
        _number("limit", lambda one: amount_time(one.resource, round(one.limit)) or f"0 {one.resource}"),
        _number("used", lambda one: amount_time(one.resource, round(one.settled)) or "0"),
        _number("share", _budget_share),
        _number("denied jobs", lambda one: f"{one.denied_jobs:,}" if one.denied_jobs else ""),
    ]


def _budget_share(one: BudgetUse) -> str:
    return percent(float(used_share(one.settled, one.limit)))


def _reasons(report: Report) -> list[tuple[str, int, int]]:
    """Return the reasons, each with the number of rejected jobs and the first of them, the most jobs first."""
    found: dict[str, tuple[int, int]] = {}
    for rejection in report.rejections:
        jobs, first = found.get(rejection.reason, (0, rejection.first_job))
        found[rejection.reason] = jobs + rejection.jobs, min(first, rejection.first_job)
    return sorted(((reason, *jobs) for reason, jobs in found.items()), key=lambda row: (-row[1], row[2]))


def _peaks(report: Report) -> Section:
    """Return all limits except budgets, which have no peak; the one with the highest share of use first."""
    limits: Iterable[LimitSummary] = (one for one in report.limits if one.kind not in (BUDGET, RESERVATION))
    columns = (
        Column("queue", lambda limit: limit.queue_path, "name"),
        Column("limit for", lambda limit: whose(limit) + holder(limit)),
        _bars(lambda limit: Bars(((peak_share(limit),),)), None),
        _number("share", lambda limit: percent(peak_share(limit))),
        _number("peak", lambda limit: brief_amount(limit.resource, limit.peak)),
        Column("of", lambda limit: limit_value(limit, limit.limit)),
        _number("delayed jobs", lambda limit: f"{limit.delayed_jobs:,}" if limit.delayed_jobs else "", "page"),
        _number("rejected", lambda limit: f"{limit.rejected:,}" if limit.rejected else "", "page"),
        Column("set by", lambda limit: limit.place, only="page"),
    )
    highest = sorted(limits, key=lambda limit: -peak_share(limit))
    return Section("limits", "Peak usage and limits", "limit", columns, highest)
