"""``ugm top``: a live view of a running server in the terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import click
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ugm.cli.client import Server, server_url
from ugm.cli.output import bar, print_json, table, with_instants
from ugm.errors import printable
from ugm.resources import format_amount

__all__ = ["render_top", "top_command"]

#: The width of a bar in characters.
_WIDTH: Final = 20
#: The columns with numbers.
_NUMBERS: Final = ("share", "used", "of", "times", "waiting")


@click.command("top", short_help="Watch the users closest to a limit.")
@click.argument("server")
@click.option("--partition", "partition_name", default="default", help="The partition.")
@click.option(
    "--interval",
    type=click.FloatRange(min=0.2),
    metavar="SECONDS",
    default=2.0,
    help="The interval between updates.",
)
@click.option("--lines", type=click.IntRange(min=1, max=1000), default=8, help="The most rows of each table.")
@click.option("--once", is_flag=True, help="Print once and exit.")
@click.option("--json", "as_json", is_flag=True, help="Print once as JSON and exit.")
def top_command(*, server: str, partition_name: str, interval: float, lines: int, once: bool, as_json: bool) -> None:
    """Show the users and groups of SERVER that are closest to a limit, the usage of its queues, and recent denials.

    SERVER is an address, for example localhost:8080 or https://quota.example.org. Press Ctrl-C to exit.
    """
    url = server_url(server)
    if url is None:
        raise click.UsageError(
            f"expected an address such as localhost:8080 or https://quota.example.org, found {server!r}"
        )
    client = Server(url, partition_name)
    try:
        if as_json:
            view = _fetch(client, lines)
            denials = [with_instants(record, "first_at", "last_at", unit=1000) for record in view["denials"]]
            print_json({**view, "denials": denials})
        elif once:
            Console().print(render_top(_fetch(client, lines), lines))
        else:
            _follow(client, interval, lines)
    except KeyboardInterrupt:
        sys.exit(0)


def _follow(client: Server, interval: float, lines: int) -> None:
    with Live(render_top(_fetch(client, lines), lines), screen=True, auto_refresh=False) as live:
        while True:
            time.sleep(interval)
            live.update(render_top(_fetch(client, lines), lines), refresh=True)


def _fetch(client: Server, lines: int) -> dict[str, Any]:
    """Return the data of all tables, by name."""
    partition = client.get()
    has_history = partition["has_history"]
    return {
        "partition": partition,
        "queues": client.get("/queues"),
        "users": client.get("/standing/users", most=lines),
        "groups": client.get("/standing/groups", most=lines),
        "denials": client.get("/history", kind="denied", most=lines)["records"] if has_history else [],
    }


def render_top(view: Mapping[str, Any], lines: int) -> RenderableType:
    """Return the tables for the terminal.

    Args:
        view: the responses of the server, by name: partition, queues, users, groups, denials.
        lines: the most rows of each table.
    """
    partition = view["partition"]
    counts = ", ".join(
        f"{partition[what]:,} {what}" for what in ("users", "groups", "queues", "applications", "allocations")
    )
    parts: list[RenderableType] = [Text(printable(f"partition {partition['name']}: {counts}"), style="bold")]
    parts += [Text(), _queue_table(view["queues"], lines)]
    for kind in ("users", "groups"):
        if view[kind]["standings"]:
            parts += [Text(), _utilization_table(kind, view[kind], lines)]
    if view["denials"]:
        parts += [Text(), _denial_table(view["denials"], lines)]
    return Group(*parts)


def _queue_table(root: Mapping[str, Any], lines: int) -> Table:
    found = sorted(_queue_shares(root), key=lambda row: (-row[1], row[0]["queue_path"], row[2]))
    rows = [
        (
            queue["queue_path"],
            name,
            *_share(share),
            format_amount(name, queue["usage"].get(name, 0)),
            format_amount(name, queue["max_resources"][name]),
            str(queue["pending_allocations"] or ""),
        )
        for queue, share, name in found[:lines]
    ]
    columns = ("queue", "resource", "", "share", "used", "of", "waiting")
    return table(*columns, rows=rows, right=_NUMBERS, title="Queues closest to their maximum")


def _share(share: float) -> tuple[Text, str]:
    return bar(share, _WIDTH), f"{share:.0%}"


def _queue_shares(queue: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], float, str]]:
    for name, most in (queue["max_resources"] or {}).items():
        used = queue["usage"].get(name, 0)
        yield queue, used / most if most else float(used > 0), name
    for child in queue["children"]:
        yield from _queue_shares(child)


def _utilization_table(kind: str, page: Mapping[str, Any], lines: int) -> Table:
    title = f"{kind.capitalize()} closest to a limit, of {page['total']:,}"
    columns = (kind[:-1], "queue", "resource", "", "share", "used", "of")
    return table(*columns, rows=map(_utilization, page["standings"][:lines]), right=_NUMBERS, title=title)


def _utilization(entry: Mapping[str, Any]) -> tuple[str | Text, ...]:
    limit, name = entry["limit"], entry["resource"]
    if limit is None:
        return entry["name"], Text("no limit", style="dim")
    if name is None:
        amounts = str(limit["running_applications"]), str(limit["max_applications"])
    else:
        amounts = format_amount(name, limit["usage"][name]), format_amount(name, limit["max_resources"][name])
    return entry["name"], limit["queue_path"], name or "applications", *_share(entry["share"]), *amounts


def _denial_table(records: Sequence[Mapping[str, Any]], lines: int) -> Table:
    rows = map(_denial, list(reversed(records))[:lines])
    return table("application", "times", "limit", rows=rows, right=_NUMBERS, title="Denied")


def _denial(record: Mapping[str, Any]) -> tuple[str, ...]:
    violations = record["decision"]["violations"]
    more = f" +{len(violations) - 1}" if len(violations) > 1 else ""
    return record["asks"][0]["application_id"], str(record["times"]), _limit(violations[0]) + more


def _limit(violation: Mapping[str, Any]) -> str:
    name = violation["resource"]
    where = f" in {violation['queue_path']}" if violation["queue_path"] not in ("", violation["name"]) else ""
    if name is None:
        amounts = f"{violation['used']} of {violation['limit']} applications"
    else:
        used, most, requested = (format_amount(name, violation[what]) for what in ("used", "limit", "requested"))
        amounts = f"{used} of {most} {name} used, {requested} requested"
    return f"{violation['kind']} {violation['name']}{where}: {amounts}"
