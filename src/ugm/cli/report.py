"""The report of a replay for a terminal of at least 80 columns; plain text in a file or pipe."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

import ugm.cli.wording as texts
from ugm.cli.html.plots import TimeAxis
from ugm.cli.output import bar, counted, section, shown, table
from ugm.cli.timed_rows import BUDGET_FIGURES, BUDGETS, THRESHOLDS, budget_rows, threshold_rows
from ugm.errors import printable
from ugm.simulation.report import LimitSummary, Report, UserImpact

__all__ = ["render"]

_BAR_WIDTH: Final = 14


def render(
    report: Report, console: Console, *, title: str, seconds: float, start: int | None = None, top: int = 8
) -> None:
    """Print a report.

    Args:
        report: the report.
        console: the destination.
        title: the first line.
        seconds: the duration of the replay.
        start: the start of the log in seconds since 1970; None if it is unknown.
        top: the maximum number of rows in each table.
    """
    console.print(f"\n[bold]{shown(title)}[/bold]\n")
    console.print(_summary(report, seconds))
    holding = texts.delaying_rows(report)
    section(console, "Limits that delayed jobs", _holding_table(holding[:top]), _more(holding[top:], "limit"))
    full = texts.limits_by_peak(report)
    bars = _peak_table(full[:top], ascii_only=console.options.ascii_only)
    section(console, "Peak usage and limits", bars, _more(full[top:], "limit"))
    for heading, figures in (("user", report.users), ("group", report.groups)):
        waiting = texts.waiting_rows(figures)
        rest = len(figures) - len(waiting)
        idle = f"{counted(rest, heading)} without waiting" if rest else ""
        note = ", ".join(filter(None, [_more(waiting[top:], heading), idle]))
        rows = table(heading, *texts.WAITING, rows=(cells for _, cells in waiting[:top]), right=texts.WAITING)
        section(console, f"Waiting by {heading}", rows, note)
    if report.lending:
        _lending(report, console, top)
    _budgets(report, console, start, top)
    if report.rejections:
        reasons = texts.reasons_of(report)
        rejections = table("jobs", "first", "why", rows=reasons[:top], right=("jobs", "first"), folded=("why",))
        section(console, "Rejected, because they can never start", rejections, _more(reasons[top:], "reason"))
    console.print()


def _lending(report: Report, console: Console, top: int) -> None:
    """Print what groups borrowed, from which groups, and what they reclaimed."""
    groups, loans, reclaims = texts.lending_rows(report), texts.loan_rows(report), texts.reclaim_rows(report)
    columns = texts.LENDING
    rows = table(*columns, rows=groups[:top], right=columns[2:], folded=columns[:1])
    section(console, "Borrowed beyond the guarantee", rows, _more(groups[top:], "group"))
    rows = table(*texts.LOANS, rows=loans[:top], right=texts.LOANS[2:])
    section(console, "Who borrowed from whom", rows, _more(loans[top:], "loan"))
    rows = table(*texts.RECLAIMS, rows=reclaims[:top], right=texts.RECLAIMS[2:])
    section(console, "Reclaimed by evictions", rows, _more(reclaims[top:], "pair"))


def _budgets(report: Report, console: Console, start: int | None, top: int) -> None:
    """Print who would have run out of budgets, and which thresholds were crossed."""
    text = TimeAxis(0, start).text
    if report.budgets:
        found = budget_rows(report, text)
        rows = table(*BUDGETS, rows=found[:top], right=BUDGET_FIGURES, folded=BUDGETS)
        section(console, "Budgets, those that ran out first", rows, _more(found[top:], "period"))
    if report.crossings:
        found = threshold_rows(report, text)
        rows = table(*THRESHOLDS, rows=found[:top], right=THRESHOLDS[3:5], folded=THRESHOLDS[1:2])
        section(console, "Thresholds crossed", rows, _more(found[top:], "crossing"))


def _summary(report: Report, seconds: float) -> Table:
    rows = Table.grid(padding=(0, 2))
    rows.add_column(style="dim", min_width=10)
    rows.add_column()
    for heading, text in texts.summary(report):
        rows.add_row(heading, text)
    rate = report.decisions / seconds if seconds else 0.0
    rows.add_row("replay", f"{report.decisions:,} decisions in {seconds:.1f} s, {rate:,.0f} per second")
    sound = "[green]clean[/green]" if report.is_clean else f"[red]{shown('; '.join(report.findings))}[/red]"
    rows.add_row("self-check", sound)
    return rows


def _holding_table(holding: Sequence[tuple[LimitSummary, tuple[str, ...]]]) -> Table:
    columns = (*texts.DELAYING, "mostly")
    rows = [(*cells, _first(limit.users)) for limit, cells in holding]
    return table(*columns, rows=rows, right=texts.DELAYING[2:], folded=("queue", "mostly"))


def _peak_table(limits: Sequence[LimitSummary], *, ascii_only: bool) -> Table:
    right = ("share", "peak")
    rows = [_peak_row(limit, ascii_only=ascii_only) for limit in limits]
    return table("queue", "limit for", "", *right, "of", rows=rows, right=right, folded=("queue",))


def _peak_row(limit: LimitSummary, *, ascii_only: bool) -> tuple[str | Text, ...]:
    share = texts.peak_share(limit)
    return (
        limit.queue_path,
        Text.assemble(printable(texts.whose(limit)), (printable(texts.holder(limit)), "dim")),
        bar(share, _BAR_WIDTH, ascii_only=ascii_only),
        texts.percent(share),
        texts.brief_amount(limit.resource, limit.peak),
        texts.limit_value(limit),
    )


def _first(users: Sequence[UserImpact]) -> str:
    others = f" +{len(users) - 1:,}" if len(users) > 1 else ""
    return users[0].user + others


def _more(rest: Sequence[object], noun: str) -> str:
    return counted(len(rest), f"more {noun}") if rest else ""
