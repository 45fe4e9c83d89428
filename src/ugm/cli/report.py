"""The report of a replay for a terminal of at least 80 columns; plain text in a file or pipe."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ugm.cli.tables import counted, section, shown, table
from ugm.cli.wording import brief_amount, brief_time, most, percent, reasons_of, share_of, whose
from ugm.identity import WILDCARD
from ugm.simulation.report import LimitSummary, Report, UserImpact, WaitingTime

__all__ = ["brief_amount", "brief_time", "render"]

_BAR_WIDTH: Final = 14

#: The share of a limit at which a bar has the warning colour.
_NEAR: Final = 0.8


def render(report: Report, console: Console, *, title: str, seconds: float, top: int = 8) -> None:
    """Print a report.

    Args:
        report: the report.
        console: the destination.
        title: the first line.
        seconds: the duration of the replay.
        top: the most rows of each table.
    """
    console.print(f"\n[bold]{shown(title)}[/bold]\n")
    console.print(_summary(report, seconds))
    total = sum(limit.held_seconds for limit in report.limits)
    # The limits are sorted by their effect.
    holding = [limit for limit in report.limits if limit.held_seconds or limit.held_jobs]
    section(console, "Limits that held jobs", _holding_table(holding[:top], total), _more(holding[top:], "limit"))
    full = sorted(report.limits, key=lambda limit: -share_of(limit.peak, limit.limit))
    bars = _peak_table(full[:top], ascii_only=console.options.ascii_only)
    section(console, "Peak usage against limit", bars, _more(full[top:], "limit"))
    for heading, figures in (("user", report.users), ("group", report.groups)):
        waiting = [(name, waits) for name, waits in figures if waits.delayed]
        rest = len(figures) - len(waiting)
        idle = f"{counted(rest, heading)} without waiting" if rest else ""
        note = ", ".join(filter(None, [_more(waiting[top:], heading), idle]))
        section(console, f"Waiting by {heading}", _waiting_table(heading, waiting[:top]), note)
    if report.rejections:
        reasons = reasons_of(report.rejections)
        rejections = _rejection_table(reasons[:top])
        section(console, "Rejected, because they can never start", rejections, _more(reasons[top:], "reason"))
    console.print()


def _summary(report: Report, seconds: float) -> Table:
    waiting = report.waiting
    rows = Table.grid(padding=(0, 2))
    rows.add_column(style="dim", min_width=9)
    rows.add_column()
    states = [f"{report.started:,} started", f"{report.rejected:,} rejected", f"{report.held:,} still waiting"]
    rows.add_row("jobs", f"{report.read:,} read: {', '.join(states)}")
    share = percent(share_of(waiting.delayed, waiting.jobs))
    rows.add_row(
        "delayed", f"{waiting.delayed:,} jobs, {share} of those started; at most {report.most_held:,} at one time"
    )
    rows.add_row(
        "waiting", f"mean {brief_time(waiting.mean)}, p95 {brief_time(waiting.p95)}, longest {brief_time(waiting.max)}"
    )
    rate = report.decisions / seconds if seconds else 0.0
    rows.add_row("replay", f"{report.decisions:,} decisions in {seconds:.1f} s, {rate:,.0f} a second")
    sound = "[green]clean[/green]" if report.is_clean else f"[red]{shown('; '.join(report.findings))}[/red]"
    rows.add_row("verify", sound)
    return rows


def _holding_table(limits: Sequence[LimitSummary], total: int) -> Table:
    right = ("most", "jobs", "share", "held for")
    rows = table("queue", "limit for", *right, "mostly", right=right, folded=("queue", "mostly"))
    for limit in limits:
        rows.add_row(
            shown(limit.queue_path),
            shown(whose(limit)),
            shown(most(limit)),
            f"{limit.held_jobs:,}",
            percent(share_of(limit.held_seconds, total)),
            brief_time(limit.held_seconds),
            shown(_first(limit.users)),
        )
    return rows


def _peak_table(limits: Sequence[LimitSummary], *, ascii_only: bool) -> Table:
    right = ("share", "peak")
    rows = table("queue", "limit for", "", *right, "of", right=right, folded=("queue",))
    for limit in limits:
        share = share_of(limit.peak, limit.limit)
        holder = f" [dim]({shown(limit.peak_name)})[/dim]" if limit.limit_name == WILDCARD != limit.peak_name else ""
        rows.add_row(
            shown(limit.queue_path),
            shown(whose(limit)) + holder,
            _bar(share, ascii_only=ascii_only),
            percent(share),
            brief_amount(limit.resource, limit.peak),
            shown(most(limit)),
        )
    return rows


def _bar(share: float, *, ascii_only: bool) -> Text:
    filled = min(int(share * _BAR_WIDTH), _BAR_WIDTH)
    colour = "red" if share >= 1 else "yellow" if share >= _NEAR else "green"
    full, empty = (
        ("#", "-") if ascii_only else ("\N{BOX DRAWINGS HEAVY HORIZONTAL}", "\N{BOX DRAWINGS LIGHT HORIZONTAL}")
    )
    # Without colours, as in a file, the empty part must use another character.
    return Text.assemble((full * filled, colour), (empty * (_BAR_WIDTH - filled), "bright_black"))


def _waiting_table(heading: str, figures: Sequence[tuple[str, WaitingTime]]) -> Table:
    numbers = ("jobs", "delayed", "mean", "p95", "longest", "in total")
    rows = table(heading, *numbers, right=numbers)
    for name, waiting in figures:
        times = (waiting.mean, waiting.p95, waiting.max, waiting.total)
        rows.add_row(shown(name), f"{waiting.jobs:,}", f"{waiting.delayed:,}", *map(brief_time, times))
    return rows


def _rejection_table(reasons: Sequence[tuple[int, int, str]]) -> Table:
    rows = table("jobs", "first", "why", right=("jobs", "first"), folded=("why",))
    for jobs, first, reason in reasons:
        rows.add_row(f"{jobs:,}", str(first), shown(reason))
    return rows


def _first(users: Sequence[UserImpact]) -> str:
    others = f" +{len(users) - 1:,}" if len(users) > 1 else ""
    return users[0].user + others


def _more(rest: Sequence[object], noun: str) -> str:
    return f"{counted(len(rest), noun)} more" if rest else ""
