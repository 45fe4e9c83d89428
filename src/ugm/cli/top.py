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

from ugm.cli.client import Server, ServerError, server_url
from ugm.cli.output import exit_with_error, print_json
from ugm.cli.times import with_instants
from ugm.errors import printable
from ugm.resources import format_amount

__all__ = ["render_top", "top_command"]

#: The width of a bar in characters.
_WIDTH: Final = 20


@click.command("top", short_help="Watch the users closest to a limit.")
@click.argument("server")
@click.option("--partition", "partition_name", default="default", show_default=True, help="The partition.")
@click.option(
    "--interval",
    type=click.FloatRange(min=0.2),
    metavar="SECONDS",
    default=2.0,
    show_default=True,
    help="The interval between updates.",
)
@click.option(
    "--lines", type=click.IntRange(min=1, max=1000), default=8, show_default=True, help="The most rows of each table."
)
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
    except ServerError as error:
        exit_with_error(error)
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


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, header_style="dim")
    for column in columns:
        right = column in ("share", "used", "of", "times", "waiting")
        table.add_column(column, justify="right" if right else "left", no_wrap=True)
    return table


def _queue_table(root: Mapping[str, Any], lines: int) -> Table:
    table = _table("Queues closest to their maximum", "queue", "resource", "", "share", "used", "of", "waiting")
    rows = sorted(_queue_rows(root), key=lambda row: (-row[1], row[0]["queue_path"], row[2]))
    for queue, share, name in rows[:lines]:
        amounts = _amount(name, queue["usage"].get(name, 0)), _amount(name, queue["max_resources"][name])
        waiting = str(queue["pending_allocations"] or "")
        table.add_row(_cell(queue["queue_path"]), _cell(name), _bar(share), f"{share:.0%}", *amounts, waiting)
    return table


def _queue_rows(queue: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], float, str]]:
    for name, most in (queue["max_resources"] or {}).items():
        used = queue["usage"].get(name, 0)
        yield queue, used / most if most else float(used > 0), name
    for child in queue["children"]:
        yield from _queue_rows(child)


def _utilization_table(kind: str, page: Mapping[str, Any], lines: int) -> Table:
    title = f"{kind.capitalize()} closest to a limit, of {page['total']:,}"
    table = _table(title, kind[:-1], "queue", "resource", "", "share", "used", "of")
    for entry in page["standings"][:lines]:
        limit, name, share = entry["limit"], entry["resource"], entry["share"]
        if limit is None:
            table.add_row(_cell(entry["name"]), Text("no limit", style="dim"), *[""] * 5)
            continue
        if name is None:
            amounts = str(limit["running_applications"]), str(limit["max_applications"])
        else:
            amounts = _amount(name, limit["usage"][name]), _amount(name, limit["max_resources"][name])
        where = _cell(entry["name"]), _cell(limit["queue_path"]), _cell(name or "applications")
        table.add_row(*where, _bar(share), f"{share:.0%}", *amounts)
    return table


def _denial_table(records: Sequence[Mapping[str, Any]], lines: int) -> Table:
    table = _table("Denied", "application", "times", "limit")
    for record in list(reversed(records))[:lines]:
        asks, violations = record["asks"], record["decision"]["violations"]
        more = f" +{len(violations) - 1}" if len(violations) > 1 else ""
        table.add_row(_cell(asks[0]["application_id"]), str(record["times"]), _cell(_limit(violations[0]) + more))
    return table


def _limit(violation: Mapping[str, Any]) -> str:
    name = violation["resource"]
    where = f" in {violation['queue_path']}" if violation["queue_path"] not in ("", violation["name"]) else ""
    if name is None:
        amounts = f"{violation['used']} of {violation['limit']} applications"
    else:
        used, most, requested = (_amount(name, violation[what]) for what in ("used", "limit", "requested"))
        amounts = f"{used} of {most} {name} used, {requested} requested"
    return f"{violation['kind']} {violation['name']}{where}: {amounts}"


def _amount(name: str, amount: int) -> str:
    return format_amount(name, amount)


def _cell(text: str) -> Text:
    # As text, so that rich does not interpret markup in a name.
    return Text(printable(text))


def _bar(share: float) -> Text:
    filled = round(min(max(share, 0.0), 1.0) * _WIDTH)
    style = "red" if share >= 1 else "yellow" if share >= 0.8 else "green"  # noqa: PLR2004 - the threshold of a warning
    return Text("━" * filled, style=style) + Text("━" * (_WIDTH - filled), style="bright_black")
