"""The commands that read stores: ``ugm usage``, ``ugm budgets``, and ``ugm store info|verify|changes|backup|trim``.

The exit status is 1 if the store cannot be read or is damaged.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, tzinfo
from fractions import Fraction
from io import StringIO
from typing import Annotated, Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ugm._json_values import JsonMapping, JsonObject
from ugm.budgets import AccountState
from ugm.cli.options import STORE, server_at
from ugm.cli.output import (
    bar,
    counted,
    instant,
    local,
    print_data,
    print_json,
    print_result,
    print_unbroken,
    table,
    with_instants,
)
from ugm.cli.signature import JsonFlag, PartitionName, Rows, options
from ugm.errors import printable, time_text
from ugm.events import event_to_dict
from ugm.identity import ROOT
from ugm.partition.events import events_of
from ugm.resources import VCORE
from ugm.server.queries import account_dict, listed_accounts
from ugm.store import StoreReader, Transaction, UsageRow, copy_store, delete_usage, read_partition, usage_of
from ugm.store.usage import Grouping, Period, format_seconds

#: The units of tables: the name, and the base units in it.
_UNITS: Final = {"vcore": ("core", 1000), "memory": ("GiB", 2**30)}

#: The units of CSV; those of other resources have the name of the resource.
_CSV_UNITS: Final = {"vcore": "core-seconds", "memory": "byte-seconds"}


@click.command("usage", short_help="Print the usage over time from a store.")
@options
@STORE
def usage_command(
    *,
    store: str,
    by: Grouping,
    since: Annotated[str, "DATE"] | None = None,
    until: Annotated[str, "DATE"] | None = None,
    period: Annotated[Period, "--per"] | None = None,
    zone: Annotated[str, "NAME"] = "UTC",
    queue: Annotated[str, "PATH"] = "root",
    month: Annotated[str, "MONTH"] | None = None,
    as_csv: Annotated[bool, "--csv"] = False,
    as_json: JsonFlag = False,
) -> None:
    """Print the usage in STORE, in a period. The store may be in use.

    Tables show hours, rounded to thousandths, and times in the time zone. CSV and JSON contain exact amounts times
    seconds, and times in UTC: CSV contains core-seconds for vcore, and JSON thousandths of them. Both contain
    byte-seconds for memory.

    Args:
        store: the store.
        by: The kind of owner for which usage is summed up.
        since: The start of the period, such as 2026-10-01 or 2026-10-01T08:00.
        until: The end of the period; this instant is excluded. [default: now]
        period: Print a sum for each calendar interval.
        zone: The time zone of dates and of the calendar.
        queue: Only usage in and below this queue.
        month: A calendar month such as 2026-11, instead of --since and --until.
        as_csv: Print CSV, with exact amounts.
        as_json: Print JSON, with exact amounts.
    """
    if as_csv and as_json:
        raise click.UsageError("--csv and --json exclude each other")
    where = _zone(zone)
    if month is not None and (since is not None or until is not None):
        raise click.UsageError("--month replaces --since and --until")
    first, last = (None if text is None else read_instant(text, where) for text in (since, until))
    if first is not None and last is not None and first > last:
        raise click.UsageError("--since is after --until")
    if month is not None:
        first, last = _read_month(month, where)
    rows = usage_of(store, by, since=first, until=last, period=period, zone=zone, queue=queue)
    if not rows and queue != ROOT:
        click.echo(printable(f"ugm: no usage in this time in and below the queue {queue}"), err=True)
    if as_csv:
        _print_csv(rows, by)
    elif as_json:
        print_json({"by": by, "lines": [with_instants(row.to_dict(), "begin", "end") for row in rows]})
    else:
        _print_table(rows, by, where)


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
    resources = [*(name for name in _UNITS if name in found), *sorted(found.difference(_UNITS))]
    units = [_UNITS.get(resource, (resource, 0))[0] for resource in resources]
    ranges = [(local(line.begin, zone), local(line.end, zone)) for line in lines]
    is_same = len(set(ranges)) == 1
    rows = [
        (
            *(() if is_same else times),
            line.name or "none",
            *(_hours(resource, Fraction(line.amounts.get(resource, 0), 1000), 3) for resource in resources),
        )
        for times, line in zip(ranges, lines, strict=True)
    ]
    columns = (by,) if is_same else ("from", "until", by)
    title = f"usage by {by}, in hours" + (f"\nfrom {ranges[0][0]} until {ranges[0][1]}" if is_same else "")
    Console().print(Text(title, "bold"), soft_wrap=True)
    print_unbroken(table(*columns, *units, rows=rows, right=units))


def _hours(resource: str, amount: int | Fraction, digits: int) -> str:
    """Format an amount times seconds in hours, rounded half to even; integers keep the result exact."""
    scale, (_, unit) = 10**digits, _UNITS.get(resource, ("", 1))
    number = round(Fraction(amount) * scale / (unit * 3600))
    sign, number = ("-", -number) if number < 0 else ("", number)
    return f"{sign}{number // scale:,}.{number % scale:0{digits}}"


def _print_csv(lines: Sequence[UsageRow], by: Grouping) -> None:
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["from", "until", "kind", "name", "resource", "amount", "unit"])
    for line in lines:
        for resource, amount in line.amounts.items():
            times, unit = (instant(line.begin), instant(line.end)), _CSV_UNITS.get(resource, f"{resource}-seconds")
            exact = format_seconds(amount, 6 if resource == VCORE else 3)
            writer.writerow([*times, by, line.name or "", resource, exact, unit])
    print_data(text.getvalue())


# Budgets

#: The width of a bar in characters.
_WIDTH: Final = 10
_TIMES: Final = ("renews", "exhausted")
_AMOUNTS: Final = ("limit", "settled", "committed", "remaining")


@click.command("budgets", short_help="List the accounts of budgets.")
@options
@click.argument("source")
def budgets_command(
    *,
    source: str,
    partition_name: PartitionName | None = None,
    budget: Annotated[str, "NAME"] | None = None,
    owner: Annotated[str, "NAME"] | None = None,
    limit: Rows = 100,
    as_json: JsonFlag = False,
) -> None:
    """List the accounts of budgets, those with the largest used part of their limit first.

    SOURCE is the address of a running server, for example localhost:8080, or the file or URL of a store, whose
    configuration declares the budgets. A store may be in use. Tables show core-hours for vcore, GiB-hours for memory,
    and unit-hours for other resources.

    Args:
        source: the server or store.
        partition_name: The partition of a server. [default: the only one, or default]
        budget: Only the accounts of this budget.
        owner: Only the accounts of this user, group, queue, elastic group or quota node.
        limit: The maximum number of accounts.
        as_json: Print JSON, with exact amounts in base units times seconds.
    """
    query = {name: value for name, value in (("budget", budget), ("owner", owner)) if value is not None}
    server = server_at(source, partition_name)
    if server is None:
        with read_partition(source) as partition:
            accounts = partition.budget_accounts()
        found = [account_dict(one) for one in listed_accounts(accounts, **query)][:limit]
    else:
        found = server.send("/budgets", limit=limit, **query)["accounts"]
    if not found and query:
        names = " and ".join(f"the {name} {value!r}" for name, value in query.items())
        click.echo(printable(f"ugm: no accounts of {names}"), err=True)
    if as_json:
        print_json({"accounts": [with_instants(one, *_TIMES) for one in found]})
    else:
        print_unbroken(_table(found))


def _table(accounts: Iterable[JsonMapping]) -> Table:
    columns = ("budget", "owner", "resource", "", "share", *_AMOUNTS, "renews", "exhausted")
    return table(*columns, rows=map(_row, accounts), right=("share", *_AMOUNTS))


def _row(found: JsonMapping) -> tuple[Any, ...]:
    account = AccountState.from_dict({name: value for name, value in found.items() if name != "share"})
    amounts = [_hours(account.resource, getattr(account, name), 1) for name in _AMOUNTS]
    share = bar(found["share"], _WIDTH), f"{found['share']:.0%}"
    renews = "" if account.renews is None else time_text(account.renews)
    if account.exhausted is not None:
        exhausted = time_text(account.exhausted)
    else:
        # At the present rate.
        exhausted = "never" if account.renews is None else "not before"
    return account.budget, account.owner, account.resource, *share, *amounts, renews, exhausted


# The group of commands


@click.group("store")
def store_commands() -> None:
    """Show, verify, back up or trim a store, which may be in use."""


@store_commands.command("info")
@options
@STORE
def info_command(*, store: str, as_json: JsonFlag = False) -> None:
    """Print a summary of the content of STORE.

    Args:
        store: the store.
        as_json: Print JSON.
    """
    with StoreReader(store) as reader:
        loaded, leader = reader.load(), reader.find_leader()
    counts = {one: len(loaded.tables[one]) for one in ("application", "allocation", "node")}
    facts = {"number": loaded.number, "at": _time(loaded.at), "leader": leader and leader.holder}
    last = f"last change {loaded.number} at {facts['at']}" if loaded.number else "no changes yet"
    text = ", ".join(counted(number, one) for one, number in counts.items())
    print_result({**facts, **{f"{one}s": number for one, number in counts.items()}}, f"{last}\n{text}", as_json=as_json)


@store_commands.command("verify")
@options
@STORE
def verify_command(*, store: str, as_json: JsonFlag = False) -> None:
    """Read STORE, rebuild the partition in it, and verify all sums.

    Args:
        store: the store.
        as_json: Print JSON.
    """
    with read_partition(store) as partition:
        partition.verify()
    found = {"store": store, "sound": True, "number": partition.number, "at": _time(partition.at)}
    print_result(found, f"{store}: {counted(partition.number, 'change')}, no problems found", as_json=as_json)


@store_commands.command("changes")
@options
@STORE
def changes_command(
    *, store: str, after: Annotated[int, "NUMBER", click.IntRange(0)] | None = None, as_json: JsonFlag = False
) -> None:
    """Print the changes that STORE keeps with their events, the oldest first, one JSON object per line.

    Args:
        store: the store.
        after: Only changes after this one.
        as_json: Print one JSON array instead of one object per line.
    """
    with StoreReader(store) as reader:
        found = map(_to_dict, _transactions(reader, after or 0))
        if as_json:
            print_json(list(found))
            return
        for change in found:
            click.echo(json.dumps(change, separators=(",", ":")))


@store_commands.command("backup")
@options
@STORE
@click.argument("target")
def backup_command(*, store: str, target: str, as_json: JsonFlag = False) -> None:
    """Copy STORE to the new store TARGET, a file or a database of PostgreSQL (postgresql://...).

    Args:
        store: the store.
        target: the copy.
        as_json: Print JSON.
    """
    copy_store(store, target)
    print_result({"store": store, "target": target}, f"{store}: copied to {target}", as_json=as_json)


@store_commands.command("trim")
@options
@STORE
def trim_command(*, store: str, before: Annotated[str, "DATE"], as_json: JsonFlag = False) -> None:
    """Delete the usage before a date from STORE. Old changes are deleted without this command.

    Args:
        store: the store.
        before: The date, such as 2026-10-01, in UTC.
        as_json: Print JSON.
    """
    delete_usage(store, round(read_instant(before, UTC) * 1000))
    text = f"{store}: the usage before {before} was deleted"
    print_result({"store": store, "before": before}, text, as_json=as_json)


def _transactions(reader: StoreReader, after: int) -> Iterator[Transaction]:
    """Yield the transactions after a number that are kept."""
    after = max(after, reader.oldest - 1)
    while found := reader.changes(after):
        yield from found
        after = found[-1].number


def _to_dict(transaction: Transaction) -> JsonObject:
    """Return a transaction for JSON, with the events that follow from it."""
    events = [_with_instants(event_to_dict(event)) for event in events_of(transaction.changes)]
    return {"number": transaction.number, "at": _time(transaction.at), "events": events}


def _with_instants(event: JsonMapping) -> JsonObject:
    """Format the times of an event and of its allocation."""
    found = with_instants(event, "until", "since", "at")
    if isinstance(found.get("allocation"), dict):
        found["allocation"] = with_instants(found["allocation"], "until")
    return found


def _time(at: int) -> str | None:
    """Format a time in milliseconds since 1970; None for 0."""
    return instant(at / 1000) if at else None
