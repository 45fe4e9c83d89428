"""Building blocks of the reports: sections with a heading, and tables that fit the terminal.

All text from files passes through `shown`, so that neither rich nor the terminal interprets it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from rich.console import Console
from rich.markup import escape as escape_markup
from rich.table import Table

from ugm.errors import printable

__all__ = ["counted", "section", "shown", "table"]


def shown(text: str) -> str:
    """Escape a text, so that it is printed literally."""
    return escape_markup(printable(text))


def counted(number: int, noun: str) -> str:
    """Format a number with a noun.

    >>> counted(1, "job"), counted(1200, "job")
    ('1 job', '1,200 jobs')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def table(*columns: str, right: Iterable[str] = (), folded: Iterable[str] = ()) -> Table:
    """Return an empty table; if the terminal is too narrow, only the *folded* columns are wrapped."""
    made = Table(box=None, header_style="dim", padding=(0, 2, 0, 0), pad_edge=False)
    for column in columns:
        justify: Literal["left", "right"] = "right" if column in right else "left"
        folds = column in folded
        made.add_column(column, justify=justify, no_wrap=not folds, min_width=8 if folds else None, overflow="fold")
    return made


def section(console: Console, heading: str, rows: Table, note: str = "") -> None:
    """Print a heading and a table with a note; without rows, print only the note, or ``none``."""
    console.print(f"\n[bold]{heading}[/bold]")
    if rows.row_count:
        console.print(rows)
    if note or not rows.row_count:
        console.print(f"  [dim]{note or 'none'}[/dim]", highlight=False)
