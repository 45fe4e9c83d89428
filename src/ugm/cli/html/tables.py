"""Tables of the page: limits that delayed jobs, waiting times, rejected jobs, and all limits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import ugm.cli.wording as texts
from ugm.cli.html.marks import Markup, element, joined
from ugm.cli.html.plots import TimeAxis
from ugm.cli.output import counted
from ugm.cli.timed_rows import BUDGET_FIGURES, BUDGETS, THRESHOLDS, budget_rows, threshold_rows
from ugm.simulation import (
    LimitSummary,
    PreemptionReport,
    ReplayComparison,
    Report,
    UserImpact,
    WaitingComparison,
    WaitingTime,
)

__all__ = [
    "budget_table",
    "change_table",
    "compared_limit_table",
    "comparison_table",
    "delaying_table",
    "guarantee_table",
    "lending_table",
    "limit_table",
    "loan_table",
    "preemption_table",
    "reclaim_table",
    "rejection_table",
    "threshold_table",
    "waiting_table",
]

#: Rows that are visible at first; the others are collapsed.
_FIRST: Final = 12

#: The maximum number of rows in a table; ``--json`` has all of them.
_ROWS: Final = 1000

#: The number of users that are listed for one limit.
_NAMED: Final = 5


class _Column(NamedTuple):
    head: str
    #: The CSS class: numbers are right-aligned, long texts are wider, and the heads of bars are for screen readers.
    kind: str | None = None


_BARS: Final = _Column("bar", kind="bars")


def _numbers(heads: Iterable[str]) -> list[_Column]:
    return [_Column(head, kind="number") for head in heads]


def delaying_table(report: Report) -> Markup:
    """Return a table of the limits that delayed jobs, with the delayed users."""
    holding = texts.delaying_rows(report)
    longest = max((limit.delayed_seconds for limit, _ in holding), default=0)
    columns = (
        *map(_Column, texts.DELAYING[:2]),
        *_numbers(texts.DELAYING[2:]),
        _BARS,
        _Column("users and their waiting time", kind="long"),
    )
    rows = [(*cells, _bar(_parts(limit.users, longest)), _users(limit.users)) for limit, cells in holding]
    return _table("Limits that delayed jobs", columns, rows, "limit")


def _parts(hits: Sequence[UserImpact], longest: int) -> list[float]:
    """Return the share of each listed user, then that of all others."""
    named = [hit.seconds for hit in hits[:_NAMED]]
    return [texts.share_of(seconds, longest) for seconds in (*named, sum(hit.seconds for hit in hits[_NAMED:]))]


def _users(hits: Sequence[UserImpact]) -> str:
    named = [f"{hit.user} {texts.brief_time(hit.seconds)}" for hit in hits[:_NAMED]]
    others = hits[_NAMED:]
    rest = [f"{len(others):,} more {texts.brief_time(sum(hit.seconds for hit in others))}"] if others else []
    return ", ".join(named + rest)


def waiting_table(heading: str, figures: Sequence[tuple[str, WaitingTime]]) -> Markup:
    """Return a table of the waiting times of users or groups."""
    waiting = texts.waiting_rows(figures)
    longest = waiting[0][0].total if waiting else 0
    columns = (_Column(heading), *_numbers(texts.WAITING), _BARS)
    rows = [(*cells, _bar([texts.share_of(waits.total, longest)])) for waits, cells in waiting]
    idle = len(figures) - len(waiting)
    note = f"{counted(idle, heading)} without waiting." if idle else ""
    return _table(f"Waiting by {heading}", columns, rows, heading, note)


def comparison_table(compared: ReplayComparison) -> Markup:
    """Return a table with the figures of every replay side by side."""
    columns = (_Column("figure"), *_numbers(one.name for one in compared.variants))
    rows = texts.comparison_rows(compared)
    return _rows("Figures of every replay", columns, rows)


def change_table(compared: ReplayComparison, heading: str, listed: Sequence[WaitingComparison]) -> Markup:
    """Return a table of the users or groups whose mean waiting time differs; a bar shows the largest mean."""
    changed = texts.change_rows(listed)
    longest = max((waits.mean for one, _ in changed for waits in one.waits), default=0)
    columns = (_Column(heading), *_numbers(("jobs", *(one.name for one in compared.variants))), _BARS)
    rows = [
        (*cells, joined(*(_bar([texts.share_of(waits.mean, longest)]) for waits in one.waits)))
        for one, cells in changed
    ]
    same = len(listed) - len(changed)
    note = f"{counted(same, heading)} without a change." if same else ""
    return _table(f"Mean wait by {heading}", columns, rows, heading, note)


def compared_limit_table(compared: ReplayComparison) -> Markup:
    """Return a table of the limits that delayed jobs in any replay, with the time for which they did."""
    columns = (*map(_Column, ("queue", "limit for", "limit")), *_numbers(one.name for one in compared.variants))
    return _table("Limits that delayed jobs", columns, texts.compared_limit_rows(compared), "limit")


def preemption_table(reports: Mapping[str, PreemptionReport]) -> Markup:
    """Return a table with the figures of replays with and without preemption side by side."""
    columns = (_Column("figure"), *_numbers(reports))
    return _rows("Figures of every replay", columns, texts.preemption_rows(reports.values()))


def guarantee_table(title: str, names: Iterable[str], rows: Sequence[tuple[str, ...]]) -> Markup:
    """Return a table with one figure of each queue with a guarantee, in replays with these names."""
    columns = (*map(_Column, ("queue", "guaranteed")), *_numbers(names))
    return _table(title, columns, rows, "queue")


def lending_table(report: Report) -> Markup:
    """Return a table of the groups that borrowed or lent."""
    columns = (*map(_Column, texts.LENDING[:2]), *_numbers(texts.LENDING[2:]))
    return _table("Borrowed and lent by group", columns, texts.lending_rows(report), "group")


def loan_table(report: Report) -> Markup:
    """Return a table of what each group lent to each other group."""
    columns = (*map(_Column, texts.LOANS[:2]), *_numbers(texts.LOANS[2:]))
    return _table("Who borrowed from whom", columns, texts.loan_rows(report), "loan")


def reclaim_table(report: Report) -> Markup:
    """Return a table of the evictions by owner and borrower."""
    columns = (*map(_Column, texts.RECLAIMS[:2]), *_numbers(texts.RECLAIMS[2:]))
    return _table("Reclaimed by evictions", columns, texts.reclaim_rows(report), "pair")


def budget_table(report: Report, axis: TimeAxis) -> Markup:
    """Return a table of the accounts of budgets in each period."""
    columns = (*map(_Column, BUDGETS[:4]), *_numbers(BUDGET_FIGURES))
    return _table("Budgets by period", columns, budget_rows(report, axis.text), "period")


def threshold_table(report: Report, axis: TimeAxis) -> Markup:
    """Return a table of the crossed thresholds."""
    columns = (*map(_Column, THRESHOLDS[:3]), *_numbers(THRESHOLDS[3:5]), _Column(THRESHOLDS[5]))
    return _table("Thresholds crossed", columns, threshold_rows(report, axis.text), "crossing")


def rejection_table(report: Report) -> Markup:
    """Return a table of the jobs that can never start, with the reasons."""
    columns = (*_numbers(("jobs", "first")), _Column("why", kind="long"))
    return _table("Rejected jobs", columns, texts.reasons_of(report), "reason")


def limit_table(report: Report) -> Markup:
    """Return a table of all limits that apply to any job, with the peak usage."""
    columns = (
        *map(_Column, ("queue", "limit for")),
        *_numbers(("limit", "peak", "share", "delayed jobs", "rejected")),
        _BARS,
        _Column("set by"),
    )
    return _table("All limits", columns, [_limit_row(limit) for limit in texts.limits_by_peak(report)], "limit")


def _limit_row(limit: LimitSummary) -> tuple[str, ...]:
    share = texts.peak_share(limit)
    return (
        limit.queue_path,
        texts.whose(limit) + texts.holder(limit),
        texts.limit_value(limit),
        texts.brief_amount(limit.resource, limit.peak),
        texts.percent(share),
        f"{limit.delayed_jobs:,}" if limit.delayed_jobs else "",
        f"{limit.rejected:,}" if limit.rejected else "",
        _bar([share]),
        limit.place,
    )


def _bar(parts: Sequence[float]) -> Markup:
    """Draw a bar of several shares; screen readers skip it, because the table has the same numbers."""
    drawn, left = [], 0.0
    for number, part in enumerate(parts):
        if width := round(100 * part, 1):
            drawn.append(element("rect", class_=f"part{number}", x=round(left, 1), width=width, height=1))
        left += 100 * part
    return element("svg", *drawn, class_="bar", viewBox="0 0 100 1", preserveAspectRatio="none", aria_hidden="true")


def _table(title: str, columns: Sequence[_Column], rows: Sequence[Sequence[str]], noun: str, note: str = "") -> Markup:
    """Return a table, of which only the first rows are visible at first."""
    shown = rows[:_ROWS]
    parts = [_rows(title, columns, shown[:_FIRST])] if shown else []
    if more := shown[_FIRST:]:
        summary = element("summary", counted(len(more), f"more {noun}"))
        parts.append(element("details", summary, _rows(f"{title}, continued", columns, more)))
    if left := rows[_ROWS:]:
        note = f"{counted(len(left), f'more {noun}')} are in the output of --json. {note}".strip()
    if note or not rows:
        parts.append(element("p", note or "None.", class_="note"))
    return joined(*parts)


def _rows(title: str, columns: Sequence[_Column], rows: Iterable[Sequence[str]]) -> Markup:
    heads = [element("th", element("span", column.head), scope="col", class_=column.kind) for column in columns]
    body = [
        element("tr", *(element("td", cell, class_=column.kind) for column, cell in zip(columns, row, strict=True)))
        for row in rows
    ]
    table = element("table", element("thead", element("tr", *heads)), element("tbody", *body))
    # A scrollable table must be reachable with the keyboard.
    return element("div", table, class_="scroll", tabindex=0, role="region", aria_label=f"Table: {title}")
