"""The commands that look after a journal: ``ugm journal verify|show|compact|export`` and ``ugm usage``.

Exit statuses as for the other commands: 1 when the journal is damaged, held or cannot be written.
"""

from __future__ import annotations

import csv
import json
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import Any, Final, ParamSpec, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import click
from rich.console import Console
from rich.table import Table

from ugm import UgmError
from ugm.cli.times import instant, local, with_instants
from ugm.journal import UsageRow, compact, export, inspect, usage
from ugm.journal.usage import By, Period, format_seconds

__all__ = ["journal", "usage_command"]

_P = ParamSpec("_P")

_PROBLEMS: Final = 1
#: How what people read is counted: the unit, and how many of its resource-milliseconds make one hour of it.
_HOURS: Final = {"vcore": ("core", 3_600_000 * 1000), "memory": ("GiB", 3_600_000 * 2**30)}

_FILE: Final = click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
_JSON: Final = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def _telling(command: Callable[_P, None]) -> Callable[_P, None]:
    """Print what is wrong, and end with the status for it."""

    @wraps(command)
    def run(*args: _P.args, **kwargs: _P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except UgmError as error:
            click.echo(str(error), err=True)
            sys.exit(_PROBLEMS)

    return run


@click.group("journal")
def journal() -> None:
    """Look after the journal of a partition."""


@journal.command("verify")
@_FILE
@_JSON
@_telling
def verify_command(*, file: Path, as_json: bool) -> None:
    """Read FILE to the end, rebuild what it keeps, and check that everything adds up.

    Changes nothing; a partition may be using the journal.
    """
    found = inspect(file)
    if as_json:
        _print({"file": str(file), "sound": True, **_with_instants(found.to_dict())})
    else:
        click.echo(f"{file}: {found.number} changes, everything adds up")


@journal.command("show")
@_FILE
@click.option("--last", type=click.IntRange(min=0), default=0, metavar="CHANGES", help="Print so many changes, too.")
@_JSON
@_telling
def show_command(*, file: Path, last: int, as_json: bool) -> None:
    """Print what FILE keeps, and its last changes."""
    found = inspect(file)
    changes = list(deque((told for told in export(file) if "events" in told), maxlen=last))
    if as_json:
        _print({**_with_instants(found.to_dict()), "changes": list(map(_with_instants, changes))})
        return
    click.echo(f"last change {found.number} at {instant(found.at)}, compacted up to {found.compacted}")
    click.echo(f"{found.applications} applications with {found.allocations} allocations in {found.queues} queues")
    for told in changes:
        events = ", ".join(_brief(event) for event in told["events"])
        click.echo(f"{told['number']} {instant(told['at'])} {events}")


def _brief(event: dict[str, Any]) -> str:
    """Return the kind of an event, and the first thing that it is about."""
    about = event.get("allocation", {}).get("allocation_id") or event.get("application_id") or event.get("name")
    return f"{event['event']} {about or event.get('queue_path') or ''}".rstrip()


@journal.command("compact")
@_FILE
@click.option("--forget-usage-before", "before", metavar="DATE", help="Forget who used what before this date.")
@_JSON
@_telling
def compact_command(*, file: Path, before: str | None, as_json: bool) -> None:
    """Put the state that FILE keeps in the place of the changes that led to it.

    No partition may be using the journal; one that does compacts its own.
    """
    done = compact(file, usage_since=None if before is None else _read_instant(before, UTC))
    if as_json:
        _print({"file": str(file), **done._asdict()})
    else:
        click.echo(f"{file}: {done.changes} changes in {done.snapshot_rows + done.history_rows} rows")


@journal.command("export")
@_FILE
@_telling
def export_command(*, file: Path) -> None:
    """Print everything that can be read in FILE, as one JSON object a line.

    First the state that its changes begin with, then every change. If FILE is damaged, what is readable is printed.
    """
    for told in export(file):
        click.echo(json.dumps(_with_instants(told), separators=(",", ":")))


@click.command("usage", short_help="Print who used how much between two instants.")
@_FILE
@click.option("--by", type=click.Choice(get_args(By)), required=True, help="Whose usage is summed up.")
@click.option("--since", metavar="DATE", help="The first instant, such as 2026-10-01 or 2026-10-01T08:00.")
@click.option("--until", metavar="DATE", help="The instant behind the last.  [default: now]")
@click.option("--per", "period", type=click.Choice(get_args(Period)), help="A sum for each, by the calendar.")
@click.option("--zone", default="UTC", show_default=True, help="The time zone of dates and of the calendar.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "csv", "json"]),
    default="table",
    show_default=True,
    help="What to print.",
)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@_telling
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
    """Print who used how much between two instants, from the journal FILE.

    Tables count hours, rounded to thousandths, with times in the time zone. CSV and JSON have exact resource-seconds in
    base units, and times in UTC.
    """
    where = _zone(zone)
    first, last = (None if text is None else _read_instant(text, where) for text in (since, until))
    lines = usage(file, by, since=first, until=last, period=period, zone=zone)
    _FORMS["json" if as_json else form](lines, by, where)


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise click.BadParameter(f"there is no time zone {name!r}", param_hint="--zone") from None


def _read_instant(text: str, zone: Any) -> int:  # noqa: ANN401 - any time zone
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is no date such as 2026-10-01 or 2026-10-01T08:00") from None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=zone)).timestamp() * 1000)


def _with_instants(told: Mapping[str, Any]) -> dict[str, Any]:
    return with_instants(told, "at", "begin", "end")


def _print(told: dict[str, Any]) -> None:
    click.echo(json.dumps(told, indent=2))


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
    """Return hours to the thousandth, rounded half up, without the detour over a float."""
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
    _print({"by": by, "lines": [_with_instants(line.to_dict()) for line in lines]})


_FORMS: Final = {"table": _print_table, "csv": _print_csv, "json": _print_json}
