"""Tables of the page: what held jobs, who waited, what was rejected, and all limits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from ugm.cli.html.marks import Markup, element, joined
from ugm.cli.tables import counted
from ugm.cli.wording import brief_amount, brief_time, most, percent, reasons_of, share_of, whose
from ugm.identity import WILDCARD
from ugm.simulation import LimitSummary, Report, UserImpact, WaitingTime

__all__ = ["holding_table", "limit_table", "rejection_table", "waiting_table"]

#: Rows that are seen at once; the others are opened.
_FIRST: Final = 12

#: Rows that a page can bear; a program reads all of them from ``--json``.
_ROWS: Final = 1000

#: Users who are named for one limit.
_NAMED: Final = 5


class _Column(NamedTuple):
    head: str
    #: Numbers are at the right, long texts have room, and the heads of bars are only read out.
    kind: str | None = None


_BARS: Final = _Column("bar", kind="bars")


def holding_table(report: Report) -> Markup:
    """Say which limit held whom, and for how long."""
    limits = [limit for limit in report.limits if limit.held_seconds or limit.held_jobs]
    total = sum(limit.held_seconds for limit in limits)
    longest = max((limit.held_seconds for limit in limits), default=0)
    columns = (
        *map(_Column, ("queue", "limit for")),
        *(_Column(head, kind="number") for head in ("most", "jobs", "share", "held for")),
        _BARS,
        _Column("whom, and how long", kind="long"),
    )
    rows = [
        (
            limit.queue_path,
            whose(limit),
            most(limit),
            f"{limit.held_jobs:,}",
            percent(share_of(limit.held_seconds, total)),
            brief_time(limit.held_seconds),
            _bar(_parts(limit.users, longest)),
            _whom(limit.users),
        )
        for limit in limits
    ]
    return _table("Limits that held jobs", columns, rows, "limit")


def _parts(hits: Sequence[UserImpact], longest: int) -> list[float]:
    """Return the share of each of the users who are named, then that of all others."""
    named = [hit.seconds for hit in hits[:_NAMED]]
    return [share_of(seconds, longest) for seconds in (*named, sum(hit.seconds for hit in hits[_NAMED:]))]


def _whom(hits: Sequence[UserImpact]) -> str:
    named = [f"{hit.user} {brief_time(hit.seconds)}" for hit in hits[:_NAMED]]
    others = hits[_NAMED:]
    rest = [f"{len(others):,} more {brief_time(sum(hit.seconds for hit in others))}"] if others else []
    return ", ".join(named + rest)


def waiting_table(heading: str, figures: Sequence[tuple[str, WaitingTime]]) -> Markup:
    """Say how long the jobs of each user or group waited."""
    waiting = [(name, waits) for name, waits in figures if waits.delayed]
    longest = waiting[0][1].total if waiting else 0
    numbers = ("jobs", "delayed", "mean", "p95", "longest", "in total")
    columns = (_Column(heading), *(_Column(head, kind="number") for head in numbers), _BARS)
    rows = [
        (
            name,
            f"{waits.jobs:,}",
            f"{waits.delayed:,}",
            *map(brief_time, (waits.mean, waits.p95, waits.max, waits.total)),
            _bar([share_of(waits.total, longest)]),
        )
        for name, waits in waiting
    ]
    idle = len(figures) - len(waiting)
    note = f"{counted(idle, heading)} without waiting." if idle else ""
    return _table(f"Waiting by {heading}", columns, rows, heading, note)


def rejection_table(report: Report) -> Markup:
    """Say which jobs can never start, and why."""
    columns = (_Column("jobs", kind="number"), _Column("first", kind="number"), _Column("why", kind="long"))
    rows = [(f"{jobs:,}", str(first), reason) for jobs, first, reason in reasons_of(report.rejections)]
    return _table("Rejected jobs", columns, rows, "reason")


def limit_table(report: Report) -> Markup:
    """Put each limit that a job met beside the peak of the usage under it."""
    numbers = ("peak", "share", "held jobs", "rejected")
    columns = (
        *map(_Column, ("queue", "limit for")),
        _Column("most", kind="number"),
        *(_Column(head, kind="number") for head in numbers),
        _BARS,
        _Column("set by"),
    )
    limits = sorted(report.limits, key=lambda limit: -share_of(limit.peak, limit.limit))
    rows = [_limit_row(limit) for limit in limits]
    return _table("All limits", columns, rows, "limit")


def _limit_row(limit: LimitSummary) -> tuple[str, ...]:
    share = share_of(limit.peak, limit.limit)
    holder = f" ({limit.peak_name})" if limit.limit_name == WILDCARD != limit.peak_name else ""
    return (
        limit.queue_path,
        whose(limit) + holder,
        most(limit),
        brief_amount(limit.resource, limit.peak),
        percent(share),
        f"{limit.held_jobs:,}" if limit.held_jobs else "",
        f"{limit.rejected:,}" if limit.rejected else "",
        _bar([share]),
        limit.place,
    )


def _bar(parts: Sequence[float]) -> Markup:
    """Draw shares of one bar, side by side; the numbers next to it say the same."""
    drawn, left = [], 0.0
    for number, part in enumerate(parts):
        if width := round(100 * part, 1):
            drawn.append(element("rect", class_=f"part{number}", x=round(left, 1), width=width, height=1))
        left += 100 * part
    return element("svg", *drawn, class_="bar", viewBox="0 0 100 1", preserveAspectRatio="none", aria_hidden="true")


def _table(title: str, columns: Sequence[_Column], rows: Sequence[Sequence[str]], noun: str, note: str = "") -> Markup:
    """Return a table, of which long ones are to be opened."""
    shown = rows[:_ROWS]
    parts = [_rows(title, columns, shown[:_FIRST])] if shown else []
    if more := shown[_FIRST:]:
        summary = element("summary", f"{counted(len(more), noun)} more")
        parts.append(element("details", summary, _rows(f"{title}, continued", columns, more)))
    if left := rows[_ROWS:]:
        note = f"{counted(len(left), noun)} beyond these are left to --json. {note}".strip()
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
    # What may have to be scrolled must be within reach of the keyboard.
    return element("div", table, class_="scroll", tabindex=0, role="region", aria_label=f"Table: {title}")
