"""The report of a replay, or of a comparison, for a terminal of at least 80 columns; plain text in a file or pipe."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ugm.cli.output import bar, counted, section, shown, table
from ugm.cli.report.plots import TimeAxis
from ugm.cli.report.sections import (
    Bars,
    Cell,
    Section,
    comparison_figures,
    comparison_sections,
    report_sections,
    summary,
)
from ugm.simulation import ReplayComparison, Report

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
    _print(console, title, _summary(report, seconds), report_sections(report, TimeAxis(0, start).text), top)


def render_comparison(compared: ReplayComparison, console: Console, *, title: str, top: int = 8) -> None:
    """Print a comparison; for the arguments see `render`."""
    columns, rows = comparison_figures(compared)
    names = [column.head for column in columns[1:]]
    _print(console, title, table("", *names, rows=rows, right=names), comparison_sections(compared), top)


def _print(console: Console, title: str, figures: Table, sections: Iterable[Section], top: int) -> None:
    console.print(f"\n[bold]{shown(title)}[/bold]\n")
    console.print(figures)
    for one in sections:
        more = len(one.items) - top
        note = ", ".join(filter(None, (counted(more, f"more {one.noun}") if more > 0 else "", one.note)))
        section(console, one.heading, _table(one, top, ascii_only=console.options.ascii_only), note)
    console.print()


def _table(one: Section, top: int, *, ascii_only: bool) -> Table:
    columns = [column for column in one.columns if column.only != "page"]
    heads = ["" if column.kind == "bars" else column.head for column in columns]
    right = [column.head for column in columns if column.kind == "number"]
    folded = [column.head for column in columns if column.kind in {"name", "long"}]
    rows = [[_cell(column.value(item), ascii_only=ascii_only) for column in columns] for item in one.items[:top]]
    return table(*heads, rows=rows, right=right, folded=folded)


def _cell(cell: Cell, *, ascii_only: bool) -> str | Text:
    return bar(cell.bars[0][0], _BAR_WIDTH, ascii_only=ascii_only) if isinstance(cell, Bars) else cell


def _summary(report: Report, seconds: float) -> Table:
    rows = Table.grid(padding=(0, 2))
    rows.add_column(style="dim", min_width=10)
    rows.add_column()
    for heading, text in summary(report):
        rows.add_row(heading, text)
    rate = report.decisions / seconds if seconds else 0.0
    rows.add_row("replay", f"{report.decisions:,} decisions in {seconds:.1f} s, {rate:,.0f} per second")
    sound = "[green]clean[/green]" if report.is_clean else f"[red]{shown('; '.join(report.findings))}[/red]"
    rows.add_row("self-check", sound)
    return rows
