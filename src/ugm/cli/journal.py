"""The commands for journals: ``ugm journal verify|show|compact|export`` and ``ugm usage``.

The exit status is 1 if the journal is damaged, in use or cannot be written.
"""

from __future__ import annotations

import csv
import json
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from functools import wraps
from pathlib import Path
from typing import Any, Final, ParamSpec, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import click
from rich.console import Console
from rich.table import Table

from ugm import UgmError
from ugm.cli.output import exit_with_error, print_json
from ugm.cli.times import instant, local, with_instants
from ugm.journal import UsageRow, compact, export, inspect, usage
from ugm.journal.usage import By, Period, format_seconds

__all__ = ["journal", "usage_command"]

_P = ParamSpec("_P")

#: The units of tables: the name, and the resource-milliseconds in an hour of it.
_HOURS: Final = {"vcore": ("core", 3_600_000 * 1000), "memory": ("GiB", 3_600_000 * 2**30)}

_FILE: Final = click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
_JSON: Final = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def _with_errors(command: Callable[_P, None]) -> Callable[_P, None]:
    """Print the errors of a command, and exit with status 1."""

    @wraps(command)
    def run(*args: _P.args, **kwargs: _P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except UgmError as error:
            exit_with_error(error)

    return run


@click.group("journal")
def journal() -> None:
    """Verify, show, compact or export the journal of a partition."""


@journal.command("verify")
@_FILE
@_JSON
@_with_errors
def verify_command(*, file: Path, as_json: bool) -> None:
    """Read FILE to the end, rebuild its state, and verify all sums.

    The command does not change FILE. A partition may be using the journal.
    """
    found = inspect(file)
    if as_json:
        print_json({"file": str(file), "sound": True, **_with_instants(found.to_dict())})
    else:
        click.echo(f"{file}: {found.number} changes, no problems found")


@journal.command("show")
@_FILE
@click.option(
    "--last",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Also print the last N changes.",
)
@_JSON
@_with_errors
def show_command(*, file: Path, last: int, as_json: bool) -> None:
    """Print a summary of the state in FILE, and its last changes."""
    found = inspect(file)
    changes = list(deque((entry for entry in export(file) if "events" in entry), maxlen=last))
    if as_json:
        print_json({**_with_instants(found.to_dict()), "changes": list(map(_with_instants, changes))})
        return
    click.echo(f"last change {found.number} at {instant(found.at)}, compacted up to {found.compacted}")
    click.echo(f"{found.applications} applications with {found.allocations} allocations in {found.queues} queues")
    for change in changes:
        events = ", ".join(_brief(event) for event in change["events"])
        click.echo(f"{change['number']} {instant(change['at'])} {events}")


def _brief(event: dict[str, Any]) -> str:
    """Return the kind of an event, and the id of its main object."""
    about = event.get("allocation", {}).get("allocation_id") or event.get("application_id") or event.get("name")
    return f"{event['event']} {about or event.get('queue_path') or ''}".rstrip()


@journal.command("compact")
@_FILE
@click.option("--forget-usage-before", "before", metavar="DATE", help="Delete the usage records before this date.")
@_JSON
@_with_errors
def compact_command(*, file: Path, before: str | None, as_json: bool) -> None:
    """Replace the changes in FILE by the state that they lead to.

    No partition may be using the journal; a running partition compacts its journal itself.
    """
    done = compact(file, usage_since=None if before is None else _read_instant(before, UTC))
    if as_json:
        print_json({"file": str(file), **done._asdict()})
    else:
        click.echo(f"{file}: {done.changes} changes in {done.snapshot_rows + done.history_rows} rows")


@journal.command("export")
@_FILE
@_with_errors
def export_command(*, file: Path) -> None:
    """Print the content of FILE as one JSON object per line: first the initial state, then every change.

    If FILE is damaged, the readable part is printed.
    """
    for entry in export(file):
        click.echo(json.dumps(_with_instants(entry), separators=(",", ":")))


@click.command("usage", short_help="Print the usage in a period.")
@_FILE
@click.option("--by", type=click.Choice(get_args(By)), required=True, help="The kind of the sums.")
@click.option("--since", metavar="DATE", help="The start of the period, such as 2026-10-01 or 2026-10-01T08:00.")
@click.option("--until", metavar="DATE", help="The end of the period, exclusive.  [default: now]")
@click.option("--per", "period", type=click.Choice(get_args(Period)), help="Print a sum for each calendar interval.")
@click.option("--zone", default="UTC", show_default=True, help="The time zone of dates and of the calendar.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "csv", "json"]),
    default="table",
    show_default=True,
    help="The output format.",
)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@_with_errors
def usage_command(
    *,
    file: Path,
    by: By,
    since: str | None,
    until: str | None,
    period: Period | None,
    zone: str,
    form: str,
    as_json: bool,
) -> None:
    """Print the usage in a period, from the journal FILE.

    Tables show hours, rounded to thousandths, and times in the time zone. CSV and JSON contain exact resource-seconds
    in base units, and times in UTC.
    """
    where = _zone(zone)
    first, last = (None if text is None else _read_instant(text, where) for text in (since, until))
    lines = usage(file, by, since=first, until=last, period=period, zone=zone)
    _FORMS["json" if as_json else form](lines, by, where)


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise click.BadParameter(f"unknown time zone {name!r}", param_hint="--zone") from None


def _read_instant(text: str, zone: tzinfo) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(f"expected a date such as 2026-10-01 or 2026-10-01T08:00, found {text!r}") from None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=zone)).timestamp() * 1000)


def _with_instants(entry: Mapping[str, object]) -> dict[str, object]:
    return with_instants(entry, "at", "begin", "end")


def _print_table(lines: Sequence[UsageRow], by: By, zone: ZoneInfo) -> None:
    found = {resource for line in lines for resource in line.amounts}
    resources = [*(name for name in _HOURS if name in found), *sorted(found.difference(_HOURS))]
    table = Table(title=f"usage by {by}, in hours")
    for heading in ("from", "until", by):
        table.add_column(heading)
    for resource in resources:
        table.add_column(_HOURS.get(resource, (resource, 0))[0], justify="right")
    for line in lines:
        amounts = [_hours(resource, line.amounts.get(resource, 0)) for resource in resources]
        table.add_row(local(line.begin, zone), local(line.end, zone), line.name or "none", *amounts)
    Console().print(table)


def _hours(resource: str, amount: int) -> str:
    """Format hours with three decimals, rounded half up; integers keep the result exact."""
    _, unit = _HOURS.get(resource, ("", 3_600_000))
    thousandths = (2000 * amount + unit) // (2 * unit)
    return f"{thousandths // 1000:,}.{thousandths % 1000:03}"


def _print_csv(lines: Sequence[UsageRow], by: By, _zone: ZoneInfo) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["from", "until", by, "resource", "resource_seconds"])
    for line in lines:
        for resource, amount in line.amounts.items():
            times = instant(line.begin), instant(line.end)
            writer.writerow([*times, line.name or "", resource, format_seconds(amount)])


def _print_json(lines: Sequence[UsageRow], by: By, _zone: ZoneInfo) -> None:
    print_json({"by": by, "lines": [_with_instants(line.to_dict()) for line in lines]})


_FORMS: Final = {"table": _print_table, "csv": _print_csv, "json": _print_json}
