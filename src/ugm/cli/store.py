"""The commands for stores: ``ugm store info|verify|changes|backup|trim``.

The exit status is 1 if the store cannot be read or is damaged.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC
from typing import Final

import click

from ugm._json_values import JsonMapping, JsonObject
from ugm.cli.options import STORE, LocationType
from ugm.cli.output import counted, instant, print_json, with_instants
from ugm.cli.usage import read_instant
from ugm.errors import printable
from ugm.events import event_to_dict
from ugm.partition.events import events_of
from ugm.store import StoreReader, Transaction, copy_store, delete_usage, read_partition

__all__ = ["store_commands"]

_JSON: Final = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group("store")
def store_commands() -> None:
    """Show, verify, back up or trim a store, which may be in use."""


@store_commands.command("info")
@STORE
@click.option(
    "--last", type=click.IntRange(0, 1_000_000), default=0, metavar="N", help="Also print the last N changes."
)
@_JSON
def info_command(*, store: str, last: int, as_json: bool) -> None:
    """Print a summary of the content of STORE, and its last changes."""
    with StoreReader(store) as reader:
        loaded, leader = reader.load(), reader.find_leader()
        changes = list(map(_to_dict, _transactions(reader, max(0, loaded.number - last)))) if last else []
    counts = {name: len(loaded.tables[table]) for name, table in _COUNTED.items()}
    if as_json:
        facts = {"number": loaded.number, "at": _time(loaded.at), "leader": leader and leader.holder}
        print_json({**facts, **counts, "changes": changes})
        return
    click.echo(f"last change {loaded.number} at {_time(loaded.at)}" if loaded.number else "no changes yet")
    click.echo(", ".join(counted(count, name.removesuffix("s")) for name, count in counts.items()))
    for change in changes:
        click.echo(f"{change['number']} {change['at']} {', '.join(map(_brief, change['events']))}".rstrip())


#: The tables of rows whose lengths are printed.
_COUNTED: Final = {"applications": "application", "allocations": "allocation", "nodes": "node"}


@store_commands.command("verify")
@STORE
@_JSON
def verify_command(*, store: str, as_json: bool) -> None:
    """Read STORE, rebuild the partition in it, and verify all sums."""
    with read_partition(store) as partition:
        partition.verify()
    if as_json:
        print_json({"store": store, "sound": True, "number": partition.number, "at": _time(partition.at)})
    else:
        click.echo(f"{store}: {counted(partition.number, 'change')}, no problems found")


@store_commands.command("changes")
@STORE
@click.option("--after", type=click.IntRange(0), metavar="NUMBER", help="Only changes after this one.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON array instead of one object per line.")
def changes_command(*, store: str, after: int | None, as_json: bool) -> None:
    """Print the changes that STORE keeps with their events, the oldest first, one JSON object per line."""
    with StoreReader(store) as reader:
        found = map(_to_dict, _transactions(reader, after or 0))
        if as_json:
            print_json(list(found))
            return
        for change in found:
            click.echo(json.dumps(change, separators=(",", ":")))


@store_commands.command("backup")
@STORE
@click.argument("target", type=LocationType())
@_JSON
def backup_command(*, store: str, target: str, as_json: bool) -> None:
    """Copy STORE to the new store TARGET, a file or a database of PostgreSQL (postgresql://...)."""
    copy_store(store, target)
    if as_json:
        print_json({"store": store, "target": target})
    else:
        click.echo(f"{store}: copied to {target}")


@store_commands.command("trim")
@STORE
@click.option("--before", metavar="DATE", required=True, help="The date, such as 2026-10-01, in UTC.")
@_JSON
def trim_command(*, store: str, before: str, as_json: bool) -> None:
    """Delete the usage before a date from STORE. Old changes are deleted without this command."""
    delete_usage(store, round(read_instant(before, UTC) * 1000))
    if as_json:
        print_json({"store": store, "before": before})
    else:
        click.echo(f"{store}: the usage before {before} was deleted")


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


def _brief(event: JsonObject) -> str:
    """Return the kind of an event, and the id of its main object."""
    about = event.get("allocation", {}).get("allocation_id") or event.get("application_id") or event.get("name")
    return printable(f"{event['event']} {about or event.get('queue_path') or ''}".rstrip())


def _time(at: int) -> str | None:
    """Format a time in milliseconds since 1970; None for 0."""
    return instant(at / 1000) if at else None
