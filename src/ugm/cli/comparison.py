"""The comparison of several replays for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

import ugm.cli.wording as texts
from ugm.cli.output import counted, section, shown, table
from ugm.simulation import ReplayComparison, WaitingComparison

__all__ = ["render_comparison"]


def render_comparison(compared: ReplayComparison, console: Console, *, title: str, top: int = 8) -> None:
    """Print a comparison.

    Args:
        compared: the comparison.
        console: the destination.
        title: the first line.
        top: the maximum number of rows in each table.
    """
    names = [one.name for one in compared.variants]
    console.print(f"\n[bold]{shown(title)}[/bold]\n")
    console.print(table("", *names, rows=texts.comparison_rows(compared), right=names))
    for heading, listed in (("user", compared.users), ("group", compared.groups)):
        _changes(heading, listed, names, console, top)
    limits = texts.compared_limit_rows(compared)
    rows = table("queue", "limit for", "limit", *names, rows=limits[:top], right=names, folded=("queue", "limit"))
    section(console, "Limits that delayed jobs", rows, _more(limits[top:], "limit"))
    console.print()


def _changes(
    heading: str, listed: Sequence[WaitingComparison], names: Sequence[str], console: Console, top: int
) -> None:
    changed = texts.change_rows(listed)
    rows = table(heading, "jobs", *names, rows=(cells for _, cells in changed[:top]), right=("jobs", *names))
    same = len(listed) - len(changed)
    note = ", ".join(
        filter(None, [_more(changed[top:], heading), f"{counted(same, heading)} without a change" if same else ""])
    )
    section(console, f"Mean wait by {heading}, and its change from {names[0]}", rows, note)


def _more(rest: Sequence[object], noun: str) -> str:
    return counted(len(rest), f"more {noun}") if rest else ""
