"""Output of the commands: tables and JSON on the standard output, errors on the standard error, and numbers for people.

Times are ISO 8601 in UTC for programs, and local time for people. Durations, shares and amounts for people are rounded.
Text from files is a cell or a heading of a `table` or passes through `shown`, so that neither rich nor the terminal
interprets it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterable
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final, Literal, NoReturn
from zoneinfo import ZoneInfo

import click
from rich.console import Console
from rich.markup import escape as escape_markup
from rich.table import Table
from rich.text import Text

from ugm._json_values import JsonMapping, JsonObject
from ugm.errors import printable, time_text
from ugm.identity import ROOT, WILDCARD, TrackingType
from ugm.model import BUDGET
from ugm.resources import brief_amount
from ugm.simulation.report import LimitComparison, LimitSummary

#: The exit status if a file has problems, or a server does not answer.
PROBLEMS: Final = 1

#: The share of a limit at which a bar has the warning colour.
_NEAR: Final = 0.8

#: More characters than any line of a table has.
_UNLIMITED: Final = 1_000_000

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def exit_with_error(error: object, *, status: int = PROBLEMS) -> NoReturn:
    """Print an error, and end the process."""
    click.echo(str(error), err=True)
    sys.exit(status)


def print_data(text: str) -> None:
    """Print a text for programs."""
    # Without *color*, a pipe would get no control sequences, which names may contain.
    click.echo(text, nl=False, color=True)


def print_json(value: object) -> None:
    """Print a value as indented JSON."""
    click.echo(json.dumps(value, indent=2))


def print_result(fields: object, text: str, *, as_json: bool) -> None:
    """Print a result for programs as JSON, or for people as a line of text."""
    if as_json:
        print_json(fields)
    else:
        click.echo(text)


def instant(seconds: float) -> str | None:
    """Format a time for JSON and CSV; None for a time that `datetime` does not support.

    >>> instant(1_793_484_000.25), instant(10**12)
    ('2026-10-31T22:00:00.250Z', None)
    """
    moment = _moment(seconds)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z") if moment else None


def local(seconds: float, zone: ZoneInfo) -> str:
    """Format a time in a time zone, with seconds unless they are 0.

    >>> local(1_793_484_000.25, ZoneInfo("Europe/Berlin")), local(1_793_484_007, ZoneInfo("UTC"))
    ('2026-10-31 23:00+01:00', '2026-10-31 22:00:07+00:00')
    """
    moment = _moment(seconds, zone)
    if moment is None:
        return time_text(int(seconds))
    return moment.isoformat(sep=" ", timespec="seconds" if moment.second else "minutes")


def _moment(seconds: float, zone: tzinfo = UTC) -> datetime | None:
    try:
        return (_EPOCH + timedelta(milliseconds=round(seconds * 1000))).astimezone(zone)
    except OverflowError:
        return None


def with_instants(fields: JsonMapping, *names: str) -> JsonObject:
    """Format the times of an object for JSON; a time of 0 stands for none and becomes null.

    Args:
        fields: the object, with times in seconds.
        names: the fields that are times; they may be missing.
    """
    texts = {name: instant(fields[name]) if fields[name] else None for name in names if name in fields}
    return {**fields, **texts}


def shown(text: str) -> str:
    """Escape a text, so that it is printed literally."""
    return escape_markup(printable(text))


def bar(share: float, width: int, *, ascii_only: bool = False) -> Text:
    """Return a bar that shows a share of a limit; its colour warns from `_NEAR` on."""
    filled = min(int(share * width), width)
    colour = "red" if share >= 1 else "yellow" if share >= _NEAR else "green"
    full, empty = (
        ("#", "-") if ascii_only else ("\N{BOX DRAWINGS HEAVY HORIZONTAL}", "\N{BOX DRAWINGS LIGHT HORIZONTAL}")
    )
    # Without colours, as in a file, the empty part must use another character.
    return Text.assemble((full * filled, colour), (empty * (width - filled), "bright_black"))


def counted(number: int, noun: str) -> str:
    """Format a number with a noun.

    >>> counted(1, "job"), counted(1200, "job"), counted(2, "more job")
    ('1 job', '1,200 jobs', '2 more jobs')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def table(
    *columns: str,
    rows: Iterable[Iterable[str | Text]],
    right: Collection[str] = (),
    folded: Collection[str] = (),
    title: str | None = None,
) -> Table:
    """Return a table of literal texts; if the terminal is too narrow, only the *folded* columns are wrapped."""
    made = Table(title=title, title_justify="left", title_style="bold", box=None, header_style="dim", pad_edge=False)
    made.padding = (0, 2, 0, 0)
    for column in columns:
        justify: Literal["left", "right"] = "right" if column in right else "left"
        folds = column in folded
        made.add_column(
            _literal(column), justify=justify, no_wrap=not folds, min_width=8 if folds else None, overflow="fold"
        )
    for row in rows:
        made.add_row(*map(_literal, row))
    return made


def print_unbroken(found: Table) -> None:
    """Print a table with lines as long as its cells; the terminal wraps or scrolls longer ones."""
    width = Console(width=_UNLIMITED).measure(found).maximum
    Console(width=max(Console().width, width)).print(found)


def _literal(cell: str | Text) -> Text:
    return cell if isinstance(cell, Text) else Text(printable(cell))


def section(console: Console, heading: str, rows: Table, note: str = "") -> None:
    """Print a heading and a table with a note; without rows, print only the note, or ``none``."""
    console.print(f"\n[bold]{shown(heading)}[/bold]")
    if rows.row_count:
        console.print(rows)
    if note or not rows.row_count:
        console.print(f"  [dim]{note or 'none'}[/dim]", highlight=False)


# Durations, shares and amounts

#: The number of seconds from which hours are omitted.
_LONG: Final = 100 * 86400


def brief_time(seconds: float) -> str:
    """Format a duration in at most two units.

    >>> brief_time(41.3), brief_time(750), brief_time(11_100), brief_time(200_000), brief_time(10**9)
    ('41s', '12m 30s', '3h 05m', '2d 07h', '11,574d')
    """
    whole = round(seconds)
    if whole >= _LONG:
        return f"{whole // 86400:,}d"
    for size, unit, part, smaller in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if whole >= size:
            return f"{whole // size}{unit} {whole % size // part:02}{smaller}"
    return f"{whole}s"


def amount_of(resource: str | None, amount: int) -> str:
    """Format an amount with its unit.

    >>> amount_of("vcore", 2500), amount_of("memory", 2**30), amount_of(None, 3)
    ('2.5 vcore', '1Gi', '3 jobs')
    """
    # The suffix of an amount of memory is its unit.
    return brief_amount(resource, amount) + {None: " jobs", "memory": ""}.get(resource, f" {resource}")


def amount_time(resource: str | None, amount: int) -> str:
    """Format an amount times seconds.

    >>> amount_time("vcore", 5_400_000), amount_time("memory", 3600 * 2**30), amount_time("gpu", 0)
    ('1.5 vcore h', '1Gi h', '')
    """
    if not amount:
        return ""
    if resource == "memory":
        return f"{brief_amount(resource, round(amount / 3600))} h"
    return f"{amount / (3_600_000 if resource == 'vcore' else 3600):,.1f} {resource} h"


def share_of(part: float, whole: float) -> float:
    """Return the quotient of a part and the whole; 0 if the whole is 0."""
    return part / whole if whole else 0.0


def percent(share: float) -> str:
    """Format a share.

    >>> percent(0.5), percent(0.034), percent(0.0)
    ('50%', '3.4%', '0%')
    """
    return f"{share:.1%}" if 0 < share < 0.1 else f"{share:.0%}"  # noqa: PLR2004 - small shares need a digit more


def whose(limit: LimitSummary | LimitComparison) -> str:
    """Return the subject of a limit."""
    if limit.kind != TrackingType.QUEUE:
        return f"{limit.kind} {limit.limit_name}".rstrip()
    return "the cluster" if limit.queue_path == ROOT and limit.resource is not None else "the queue"


def holder(limit: LimitSummary) -> str:
    """Return the name with the peak usage of a limit that applies to several names; empty for other limits."""
    return f" ({limit.peak_name})" if limit.limit_name == WILDCARD != limit.peak_name else ""


def limit_value(limit: LimitSummary | LimitComparison, value: int) -> str:
    """Format a value of a limit with its unit."""
    return (amount_time if limit.kind == BUDGET else amount_of)(limit.resource, value)


def peak_share(limit: LimitSummary) -> float:
    """Return the peak usage of a limit as a share of the limit."""
    return share_of(limit.peak, limit.limit)
