"""The sections of the report of a replay, and of a comparison of replays: tables of texts and bars.

The terminal and the page show the same sections. A column is omitted where it has no room or no use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Final, Literal, NamedTuple, TypeAlias

from ugm.cli.output import (
    amount_of,
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
from ugm.resources import brief_amount
from ugm.simulation import BudgetUse, Crossing
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

__all__ = [
    "Bars",
    "Cell",
    "Column",
    "Section",
    "comparison_figures",
    "comparison_sections",
    "report_sections",
    "summary",
]

#: The number of users that are listed for one limit.
_NAMED: Final = 5


class Bars(NamedTuple):
    """Bars below each other, each of which is a sequence of shares."""

    bars: tuple[tuple[float, ...], ...]


Cell: TypeAlias = str | Bars


class Column(NamedTuple):
    """A column of a table."""

    head: str
    #: Numbers are aligned to the right. Names are wrapped if a terminal is narrow, and long texts are wide on a page.
    kind: Literal["text", "number", "name", "long", "bars"] = "text"
    #: Where it is shown; None for both.
    only: Literal["page", "terminal"] | None = None


class Section(NamedTuple):
    """A section with a table."""

    name: str
    heading: str
    #: What a row is about.
    noun: str
    columns: Sequence[Column]
    rows: Sequence[tuple[Cell, ...]]
    note: str = ""


def _numbers(*heads: str) -> list[Column]:
    return [Column(head, "number") for head in heads]


def _bars(only: Literal["page"] | None = "page") -> Column:
    return Column("bar", "bars", only)


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
        columns = (Column("reclaimed by"), Column("from"), *_numbers("jobs", "lost run time"))
        reclaims = [(one.owner, one.borrower, f"{one.jobs:,}", brief_time(one.lost_seconds)) for one in report.reclaims]
        yield Section("reclaims", "Reclaimed by evictions", "pair", columns, reclaims)
    if report.budgets:
        columns = (
            *(Column(head, "name") for head in ("budget", "owner", "period until", "ran out")),
            *_numbers(*_BUDGET_FIGURES),
        )
        rows = [_budget_row(one, text) for one in report.budgets]
        yield Section("budgets", "Budgets, those that ran out first", "period", columns, rows)
    if report.crossings:
        heads = (Column("when"), Column("limit", "name"), Column("threshold"), *_numbers("used", "of"))
        crossings = [_crossing_row(one, text) for one in report.crossings]
        yield Section("thresholds", "Thresholds crossed", "crossing", (*heads, Column("exhausted at")), crossings)
    if report.rejections:
        columns = (*_numbers("jobs", "first"), Column("why", "long"))
        yield Section("rejected", "Rejected, because they can never start", "reason", columns, _reasons(report))


def comparison_sections(compared: ReplayComparison) -> Iterator[Section]:
    """Yield the sections of a comparison after its figures."""
    names = [one.name for one in compared.variants]
    for heading, listed in (("user", compared.users), ("group", compared.groups)):
        changed = [one for one in listed if len(set(one.waits)) > 1]
        longest = max((waits.mean for one in changed for waits in one.waits), default=0)
        same = len(listed) - len(changed)
        title = f"Mean wait by {heading}, and its change from {names[0]}"
        rows: list[tuple[Cell, ...]] = [(*_change_row(one), _means(one, longest)) for one in changed]
        columns = (Column(heading), *_numbers("jobs", *names), _bars())
        note = f"{counted(same, heading)} without a change" if same else ""
        yield Section(f"{heading}s", title, heading, columns, rows, note)
    columns = (Column("queue", "name"), Column("limit for"), Column("limit", "name"), *_numbers(*names))
    yield Section("limits", "Limits that delayed jobs", "limit", columns, [*map(_compared_limit, compared.limits)])


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
    reports = [one.report for one in compared.variants]
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
        ("usage and wait", *(_correlation(one) for one in reports)),
        ("self-check", *("clean" if one.is_clean else "findings" for one in reports)),
    ]
    if any(one.logged for one in reports):
        logged = ("" if one.logged is None else brief_time(one.logged.mean) for one in reports)
        rows.insert(5, ("mean in the log", *logged))
    return [Column("figure"), *_numbers(*(one.name for one in compared.variants))], rows


def _utilization_rows(reports: Sequence[Report]) -> Iterator[tuple[str, ...]]:
    sides = [{use.resource: use for use in report.utilization} for report in reports]
    for resource in sorted({name for side in sides for name in side}):
        yield (f"{resource} in use", *(_in_use(side.get(resource)) for side in sides))


def _in_use(use: ResourceUse | None) -> str:
    if use is None:
        return ""
    return brief_amount(use.resource, round(use.mean)) if use.share is None else percent(use.share)


def _correlation(report: Report) -> str:
    found = report.usage_correlation
    return "" if found is None else f"{found:+.2f}"


def _change_row(one: WaitingComparison) -> tuple[str, ...]:
    first, *others = one.waits
    changed = (
        f"{brief_time(waits.mean)} ({_signed(change)})" for waits, change in zip(others, one.changes[1:], strict=True)
    )
    return one.name, f"{max(waits.jobs for waits in one.waits):,}", brief_time(first.mean), *changed


def _signed(seconds: float) -> str:
    return "=" if not round(seconds) else f"{'-' if seconds < 0 else '+'}{brief_time(abs(seconds))}"


def _means(one: WaitingComparison, longest: float) -> Bars:
    return Bars(tuple((share_of(waits.mean, longest),) for waits in one.waits))


def _compared_limit(one: LimitComparison) -> tuple[str, ...]:
    limit = next(limit for limit in one.limits if limit is not None)
    # The values of a limit may differ between configurations.
    values = dict.fromkeys("none" if limit is None else limit_value(limit) for limit in one.limits)
    return one.queue_path, whose(limit), " / ".join(values), *map(brief_time, one.delayed_seconds)


def _delaying(report: Report) -> Section:
    limits = [limit for limit in report.limits if limit.delayed_seconds or limit.delayed_jobs]
    total = sum(limit.delayed_seconds for limit in report.limits)
    longest = max((limit.delayed_seconds for limit in limits), default=0)
    columns = (
        *(Column("queue", "name"), Column("limit for"), *_numbers("limit", "jobs", "share", "delayed for"), _bars()),
        *(Column("users and their waiting time", "long", "page"), Column("mostly", "name", "terminal")),
    )
    rows = [
        (
            *(limit.queue_path, whose(limit), limit_value(limit), f"{limit.delayed_jobs:,}"),
            *(percent(share_of(limit.delayed_seconds, total)), brief_time(limit.delayed_seconds)),
            *(_parts(limit.users, longest), _users(limit.users), _first(limit.users)),
        )
        for limit in limits
    ]
    return Section("delays", "Limits that delayed jobs", "limit", columns, rows)


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
    columns = (Column(heading), *_numbers("jobs", "delayed", "mean", "p95", "longest", "in total"), _bars())
    rows: list[tuple[Cell, ...]] = [
        (
            *(name, f"{waits.jobs:,}", f"{waits.delayed:,}"),
            *map(brief_time, (waits.mean, waits.p95, waits.max, waits.total)),
            Bars(((share_of(waits.total, longest),),)),
        )
        for name, waits in waiting
    ]
    idle = len(figures) - len(waiting)
    note = f"{counted(idle, heading)} without waiting" if idle else ""
    return Section(f"{heading}s", f"Waiting by {heading}", heading, columns, rows, note)


def _lending(report: Report) -> Section:
    has_several_kinds = len({one.kind for one in report.lending}) > 1
    rows = [
        (
            f"{one.kind} {one.name}" if has_several_kinds else one.name,
            one.resource,
            brief_amount(one.resource, one.guaranteed),
            brief_amount(one.resource, one.peak),
            amount_time(one.resource, one.borrowed),
        )
        for one in report.lending
        if one.borrowed
    ]
    columns = (Column("group", "name"), Column("resource"), *_numbers("guaranteed", "peak", "borrowed"))
    return Section("lending", "Borrowed beyond the guarantee", "group", columns, rows)


_BUDGET_FIGURES: Final = ("limit", "used", "share", "denied jobs")


def _budget_row(one: BudgetUse, text: Callable[[int], str]) -> tuple[str, ...]:
    share = float(Fraction(one.settled) / one.limit) if one.limit > 0 else float(one.settled > 0)
    return (
        one.budget,
        one.owner,
        "the end" if one.end is None else text(one.end),
        "" if one.ran_out is None else text(one.ran_out),
        amount_time(one.resource, round(one.limit)) or f"0 {one.resource}",
        amount_time(one.resource, round(one.settled)) or "0",
        percent(share),
        f"{one.denied_jobs:,}" if one.denied_jobs else "",
    )


def _crossing_row(one: Crossing, text: Callable[[int], str]) -> tuple[str, ...]:
    crossed = one.crossed
    amount_text = amount_time if crossed.kind == BUDGET else amount_of
    used, limit = (amount_text(crossed.resource, round(amount)) for amount in (crossed.used, crossed.limit))
    return (
        text(one.second),
        f"{crossed.kind} {crossed.name}" + (f" in {crossed.place}" if crossed.place != crossed.name else ""),
        f"{'at or above' if crossed.rising else 'below'} {crossed.threshold}%",
        used or "0",
        limit,
        "" if one.exhausted is None else text(one.exhausted),
    )


def _reasons(report: Report) -> list[tuple[str, str, str]]:
    """Return the number of rejected jobs, the first of them and the reason for each reason, the most jobs first."""
    found: dict[str, tuple[int, int]] = {}
    for rejection in report.rejections:
        jobs, first = found.get(rejection.reason, (0, rejection.first_job))
        found[rejection.reason] = jobs + rejection.jobs, min(first, rejection.first_job)
    rows = sorted(found.items(), key=lambda row: (-row[1][0], row[1][1]))
    return [(f"{jobs:,}", str(first), reason) for reason, (jobs, first) in rows]


def _peaks(report: Report) -> Section:
    """Return all limits except budgets, which have no peak; the one with the highest share of use first."""
    limits: Iterable[LimitSummary] = (one for one in report.limits if one.kind not in (BUDGET, RESERVATION))
    columns = (
        *(Column("queue", "name"), Column("limit for"), _bars(None), *_numbers("share", "peak"), Column("of")),
        *(
            Column("delayed jobs", "number", "page"),
            Column("rejected", "number", "page"),
            Column("set by", only="page"),
        ),
    )
    rows = [
        (
            *(
                limit.queue_path,
                whose(limit) + holder(limit),
                Bars(((peak_share(limit),),)),
                percent(peak_share(limit)),
            ),
            *(brief_amount(limit.resource, limit.peak), limit_value(limit)),
            *(f"{limit.delayed_jobs:,}" if limit.delayed_jobs else "", f"{limit.rejected:,}" if limit.rejected else ""),
            limit.place,
        )
        for limit in sorted(limits, key=lambda limit: -peak_share(limit))
    ]
    return Section("limits", "Peak usage and limits", "limit", columns, rows)
