"""``ugm usage``: the usage over time in a store."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from datetime import datetime, tzinfo
from io import StringIO
from typing import Final, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import click
from rich.console import Console

from ugm.cli.client import STORE
from ugm.cli.output import instant, local, print_data, print_json, table, with_instants
from ugm.resources import VCORE
from ugm.store import UsageRow, usage_of
from ugm.store.usage import Grouping, Period, format_seconds

__all__ = ["read_instant", "usage_command"]

#: The units of tables: the name, and the resource-milliseconds in an hour of it.
_HOURS: Final = {"vcore": ("core", 3_600_000 * 1000), "memory": ("GiB", 3_600_000 * 2**30)}

#: The units of CSV; those of other resources have the name of the resource.
_CSV_UNITS: Final = {"vcore": "core-seconds", "memory": "byte-seconds"}


@click.command("usage", short_help="Print the usage over time from a store.")
@STORE
@click.option(
    "--by", type=click.Choice(get_args(Grouping)), required=True, help="The kind of owner for which usage is summed up."
)
@click.option("--since", metavar="DATE", help="The start of the period, such as 2026-10-01 or 2026-10-01T08:00.")
@click.option("--until", metavar="DATE", help="The end of the period; this instant is excluded.  [default: now]")
@click.option("--per", "period", type=click.Choice(get_args(Period)), help="Print a sum for each calendar interval.")
@click.option("--zone", metavar="NAME", default="UTC", help="The time zone of dates and of the calendar.")
@click.option("--queue", metavar="PATH", default="root", help="Only usage in and below this queue.  [default: root]")
@click.option("--month", metavar="MONTH", help="A calendar month such as 2026-11, instead of --since and --until.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV, with exact amounts.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with exact amounts.")
def usage_command(  # noqa: PLR0913 - one for each option
    *,
    store: str,
    by: Grouping,
    since: str | None,
    until: str | None,
    period: Period | None,
    zone: str,
    queue: str,
    month: str | None,
    as_csv: bool,
    as_json: bool,
) -> None:
    """Print the usage in STORE, in a period. The store may be in use.

    Tables show hours, rounded to thousandths, and times in the time zone. CSV and JSON contain exact resource-seconds
    in base units, and times in UTC.
    """
    if as_csv and as_json:
        raise click.UsageError("--csv and --json exclude each other")
    where = _zone(zone)
    if month is not None and (since is not None or until is not None):
        raise click.UsageError("--month replaces --since and --until")
    first, last = (None if text is None else read_instant(text, where) for text in (since, until))
    if month is not None:
        first, last = _read_month(month, where)
    rows = usage_of(store, by, since=first, until=last, period=period, zone=zone, queue=queue)
    (_print_csv if as_csv else _print_json if as_json else _print_table)(rows, by, where)


def _read_month(text: str, zone: tzinfo) -> tuple[float, float]:
    """Return the beginning and the end of a calendar month."""
    try:
        first = datetime.strptime(text, "%Y-%m").replace(tzinfo=zone)
    except ValueError:
        raise click.BadParameter(f"expected a month such as 2026-11, found {text!r}", param_hint="--month") from None
    last = first.replace(year=first.year + first.month // 12, month=first.month % 12 + 1)
    return first.timestamp(), last.timestamp()


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise click.BadParameter(f"unknown time zone {name!r}", param_hint="--zone") from None


def read_instant(text: str, zone: tzinfo) -> float:
    """Return a date of an option in seconds since 1970."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(f"expected a date such as 2026-10-01 or 2026-10-01T08:00, found {text!r}") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=zone)).timestamp()


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
    print_json({"by": by, "lines": [with_instants(line.to_dict(), "begin", "end") for line in lines]})
