"""The commands for journals: ``ugm journal verify|show|compact|backup|export`` and ``ugm usage``.

The exit status is 1 if the journal cannot be read, is damaged or, for ``compact``, is in use.
"""

from __future__ import annotations

import csv
import json
from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from io import StringIO
from pathlib import Path
from typing import Any, Final, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import click
from rich.console import Console

from ugm._json_values import JsonMapping, JsonObject
from ugm.cli.client import server_url
from ugm.cli.output import counted, instant, local, print_data, print_json, table, with_instants
from ugm.errors import printable
from ugm.journal import UsageRow, backup, compact, export, inspect, usage
from ugm.journal.locations import URL_SCHEMES, log_at
from ugm.journal.log import Log
from ugm.journal.usage import Grouping, Period, format_seconds
from ugm.resources import VCORE

__all__ = ["journal", "usage_command"]

#: The units of tables: the name, and the resource-milliseconds in an hour of it.
_HOURS: Final = {"vcore": ("core", 3_600_000 * 1000), "memory": ("GiB", 3_600_000 * 2**30)}

#: The units of CSV; those of other resources have the name of the resource.
_CSV_UNITS: Final = {"vcore": "core-seconds", "memory": "byte-seconds"}


class _LocationType(click.Path):
    """The path of a journal file, or a URL of PostgreSQL."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401 - as in the base class
        """Return a path, or the log of a URL."""
        if isinstance(value, str) and value.startswith(URL_SCHEMES):
            return log_at(value)
        if isinstance(value, str) and server_url(value) is not None:
            self.fail(f"{value} is a server; this command needs its journal, a file or postgresql://...", param, ctx)
        return super().convert(value, param, ctx)


_FILE: Final = click.argument("file", type=_LocationType(exists=True, dir_okay=False, path_type=Path))
_JSON: Final = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group("journal")
def journal() -> None:
    """Verify, show, back up, compact or export a journal."""


@journal.command("verify")
@_FILE
@_JSON
def verify_command(*, file: Path | Log, as_json: bool) -> None:
    """Read FILE to the end, rebuild its state, and verify all sums.

    The command does not change FILE. The journal may be in use.
    """
    found = inspect(file)
    if as_json:
        print_json({"file": str(file), "sound": True, **_with_instants(found.to_dict())})
    else:
        click.echo(f"{file}: {found.number} changes, no problems found")


@journal.command("show")
@_FILE
@click.option(
    "--last", type=click.IntRange(0, 1_000_000), default=0, metavar="N", help="Also print the last N changes."
)
@_JSON
def show_command(*, file: Path | Log, last: int, as_json: bool) -> None:
    """Print a summary of the state in FILE, and its last changes."""
    found = inspect(file)
    changes = list(deque((entry for entry in export(file) if "events" in entry), maxlen=last))
    if as_json:
        print_json({**_with_instants(found.to_dict()), "changes": list(map(_with_instants, changes))})
        return
    click.echo(f"last change {found.number} at {instant(found.at / 1000)}, {_compaction(found.compacted)}")
    applications, allocations = counted(found.applications, "application"), counted(found.allocations, "allocation")
    click.echo(f"{applications} with {allocations} in {counted(found.queues, 'queue')}")
    for change in changes:
        events = ", ".join(_brief(event) for event in change["events"])
        click.echo(f"{change['number']} {instant(change['at'] / 1000)} {events}")


def _compaction(number: int) -> str:
    return f"compacted up to change {number}" if number else "never compacted"


def _brief(event: JsonObject) -> str:
    """Return the kind of an event, and the id of its main object."""
    about = event.get("allocation", {}).get("allocation_id") or event.get("application_id") or event.get("name")
    return printable(f"{event['event']} {about or event.get('queue_path') or ''}".rstrip())


@journal.command("compact")
@_FILE
@click.option("--forget-usage-before", "before", metavar="DATE", help="Delete the usage before this date.")
@_JSON
def compact_command(*, file: Path | Log, before: str | None, as_json: bool) -> None:
    """Replace the changes in FILE with the resulting state.

    A journal file must not be in use. A running service compacts its journal itself.
    """
    done = compact(file, usage_since=None if before is None else _read_instant(before, UTC))
    if as_json:
        print_json({"file": str(file), **done._asdict()})
    else:
        click.echo(f"{file}: compacted {done.changes} changes into {done.snapshot_rows + done.history_rows} rows")


@journal.command("backup")
@_FILE
@click.argument("target", type=_LocationType(path_type=Path))
@_JSON
def backup_command(*, file: Path | Log, target: Path | Log, as_json: bool) -> None:
    """Copy FILE to the new journal TARGET, a file or a database of PostgreSQL (postgresql://...).

    The journal may be in use. TARGET has all changes that were acknowledged before the start of the command.
    """
    backup(file, target)
    if as_json:
        print_json({"file": str(file), "target": str(target)})
    else:
        click.echo(f"{file}: copied to {target}")


@journal.command("export")
@_FILE
@click.option("--json", "as_json", is_flag=True, help="Print one JSON array instead of one object per line.")
def export_command(*, file: Path | Log, as_json: bool) -> None:
    """Print the content of FILE, one JSON object per line.

    The first object is the initial state; each other object is a change. If FILE is damaged, the readable part is
    printed, except with --json.
    """
    if as_json:
        print_json(list(map(_with_instants, export(file))))
        return
    for entry in export(file):
        click.echo(json.dumps(_with_instants(entry), separators=(",", ":")))


@click.command("usage", short_help="Print the usage over time from a journal.")
@_FILE
@click.option(
    "--by", type=click.Choice(get_args(Grouping)), required=True, help="The kind of owner for which usage is summed up."
)
@click.option("--since", metavar="DATE", help="The start of the period, such as 2026-10-01 or 2026-10-01T08:00.")
@click.option("--until", metavar="DATE", help="The end of the period; this instant is excluded.  [default: now]")
@click.option("--per", "period", type=click.Choice(get_args(Period)), help="Print a sum for each calendar interval.")
@click.option("--zone", metavar="NAME", default="UTC", help="The time zone of dates and of the calendar.")
@click.option("--queue", metavar="PATH", default="root", help="Only usage in and below this queue.  [default: root]")
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "csv", "json"]),
    default="table",
    help="The output format.",
)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
def usage_command(  # noqa: PLR0913 - one for each option
    *,
    file: Path | Log,
    by: Grouping,
    since: str | None,
    until: str | None,
    period: Period | None,
    zone: str,
    queue: str,
    form: str,
    as_json: bool,
) -> None:
    """Print the usage that the journal FILE records, in a period.

    Tables show hours, rounded to thousandths, and times in the time zone. CSV and JSON contain exact resource-seconds
    in base units, and times in UTC.
    """
    where = _zone(zone)
    first, last = (None if text is None else _read_instant(text, where) for text in (since, until))
    lines = usage(file, by, since=first, until=last, period=period, zone=zone, queue=queue)
    _FORMS["json" if as_json else form](lines, by, where)


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise click.BadParameter(f"unknown time zone {name!r}", param_hint="--zone") from None


def _read_instant(text: str, zone: tzinfo) -> float:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(f"expected a date such as 2026-10-01 or 2026-10-01T08:00, found {text!r}") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=zone)).timestamp()


def _with_instants(entry: JsonMapping) -> JsonObject:
    """Format the times of an entry and of its allocations and events."""
    found = with_instants(entry, "begin", "end", "until", "since")
    if "at" in found:
        # A journal stores milliseconds.
        found["at"] = instant(found["at"] / 1000) if found["at"] else None
    if "events" in found:
        found["events"] = list(map(_with_instants, found["events"]))
    if isinstance(found.get("allocation"), dict):
        found["allocation"] = _with_instants(found["allocation"])
    return found


def _print_table(lines: Sequence[UsageRow], by: Grouping, zone: ZoneInfo) -> None:
    found = {resource for line in lines for resource in line.amounts}
    resources = [*(name for name in _HOURS if name in found), *sorted(found.difference(_HOURS))]
    units = [_HOURS.get(resource, (resource, 0))[0] for resource in resources]
    rows = [
        (
            *(local(line.begin, zone), local(line.end, zone), line.name or "none"),
            *(_hours(resource, line.amounts.get(resource, 0)) for resource in resources),
        )
        for line in lines
    ]
    owner = ("from", "until", by)
    Console().print(table(*owner, *units, rows=rows, right=units, folded=owner, title=f"usage by {by}, in hours"))


def _hours(resource: str, amount: int) -> str:
    """Format hours with three decimals, rounded half up; integers keep the result exact."""
    _, unit = _HOURS.get(resource, ("", 3_600_000))
    thousandths = (2000 * amount + unit) // (2 * unit)
    return f"{thousandths // 1000:,}.{thousandths % 1000:03}"


def _print_csv(lines: Sequence[UsageRow], by: Grouping, _zone: ZoneInfo) -> None:
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["from", "until", "kind", "name", "resource", "amount", "unit"])
    for line in lines:
        for resource, amount in line.amounts.items():
            times, unit = (instant(line.begin), instant(line.end)), _CSV_UNITS.get(resource, f"{resource}-seconds")
            exact = format_seconds(amount, 6 if resource == VCORE else 3)
            writer.writerow([*times, by, line.name or "", resource, exact, unit])
    print_data(text.getvalue())


def _print_json(lines: Sequence[UsageRow], by: Grouping, _zone: ZoneInfo) -> None:
    print_json({"by": by, "lines": [_with_instants(line.to_dict()) for line in lines]})


_FORMS: Final = {"table": _print_table, "csv": _print_csv, "json": _print_json}
