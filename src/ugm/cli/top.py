"""``ugm top``: a live view of a running server in the terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

import click
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.segment import Segment, Segments
from rich.table import Table
from rich.text import Text

from ugm._json_values import JsonMapping, JsonObject
from ugm.cli.client import Server, ServerError, server_url
from ugm.cli.output import print_json, table, with_instants
from ugm.cli.top_keys import pressed_keys
from ugm.cli.top_state import HELP, SORTS, TABLES, RowSelection, Sort, TopState
from ugm.cli.top_tables import render_summary, render_tables
from ugm.errors import printable

__all__ = ["render_screen", "render_top", "top_command"]

#: The maximum number of denials that are searched for a text.
_SEARCHED: Final = 1000
_KEYS: Final = "q quit  ↑↓ scroll  s sort  r reverse  / filter  ? help"


@click.command("top", short_help="Watch the users closest to a limit.")
@click.argument("server")
@click.option("--partition", "partition_name", metavar="NAME", default="default", help="The partition.")
@click.option(
    "--interval",
    type=click.FloatRange(min=0.2),
    metavar="SECONDS",
    default=2.0,
    help="The interval between updates.",
)
@click.option(
    "--lines",
    type=click.IntRange(min=1, max=1000),
    metavar="N",
    default=8,
    help="The maximum number of rows of each table.",
)
@click.option("--sort", type=click.Choice(SORTS), default="share", help="The order of queues, users and groups.")
@click.option("--reverse", "is_reversed", is_flag=True, help="Reverse the order.")
@click.option("--filter", "search", metavar="TEXT", default="", help="Show only names that contain this text.")
@click.option("--once", is_flag=True, help="Print once and exit.")
@click.option("--json", "as_json", is_flag=True, help="Print once as JSON and exit.")
def top_command(  # noqa: PLR0913 - one for each option
    *,
    server: str,
    partition_name: str,
    interval: float,
    lines: int,
    sort: Sort,
    is_reversed: bool,
    search: str,
    once: bool,
    as_json: bool,
) -> None:
    """Show the users and groups of SERVER that are closest to a limit, the usage of its queues, and recent denials.

    SERVER is an address, for example localhost:8080 or https://quota.example.org. Press ? for the keys, and q to exit.
    """
    url = server_url(server)
    if url is None:
        raise click.UsageError(
            f"expected an address such as localhost:8080 or https://quota.example.org, found {server!r}"
        )
    client, query = Server(url, partition_name), RowSelection(sort, is_reversed, search, lines)
    try:
        if as_json:
            view = _fetch(client, query)
            denials = [with_instants(record, "first_at", "last_at") for record in view["denials"]]
            print_json({**view, "denials": denials})
        elif once:
            Console().print(render_top(_fetch(client, query), query))
        else:
            _follow(client, interval, TopState(query))
    except KeyboardInterrupt:
        sys.exit(0)


def render_top(view: JsonMapping, query: RowSelection) -> RenderableType:
    """Return the summary of the partition and the tables.

    Args:
        view: the responses of the server, by name: partition, queues, users, groups, denials.
        query: the selection and order.
    """
    return Group(render_summary(view["partition"]), Text(), render_tables(view, query))


# Requests


def _fetch(client: Server, query: RowSelection, shown: str = TABLES[0]) -> JsonObject:
    """Return the summary of the partition and the data of one table, or all tables, by name."""
    partition = client.get()
    requests: dict[str, Callable[[], Any]] = {
        "queues": lambda: client.get("/queues"),
        "users": lambda: _utilizations(client, "users", query),
        "groups": lambda: _utilizations(client, "groups", query),
        "denials": lambda: _denials(client, query) if partition["has_history"] else [],
    }
    names = requests if shown == TABLES[0] else [shown]
    return {"partition": partition, **{name: requests[name]() for name in names}}


def _utilizations(client: Server, kind: str, query: RowSelection) -> JsonObject:
    """Return users or groups in the order of a query; the server sorts, because it may have more than a page."""
    sort = "pending" if query.sort == "waiting" else query.sort
    options = {"sort": sort, "limit": query.lines, **({"search": query.search} if query.search else {})}
    page: JsonObject = client.get(f"/utilization/{kind}", **options)
    if not query.is_reversed:
        return page
    if page["total"] > query.lines:
        page = client.get(f"/utilization/{kind}", **options, offset=page["total"] - query.lines)
    return {**page, "utilizations": page["utilizations"][::-1]}


def _denials(client: Server, query: RowSelection) -> list[JsonObject]:
    """Return the newest denials, the newest first, or the oldest of them first."""
    most = _SEARCHED if query.search else query.lines
    records = client.get("/history", kind="denied", limit=most)["records"][::-1]
    text = query.search.lower()
    found = [record for record in records if any(text in name.lower() for name in _names(record))][: query.lines]
    return found[::-1] if query.is_reversed else found


def _names(record: JsonMapping) -> list[str]:
    violations = record["decision"]["violations"]
    return [record["asks"][0]["application_id"], *(violation["name"] for violation in violations)]


# The screen


def _follow(client: Server, interval: float, state: TopState) -> None:
    """Update the screen at every interval, and after every key, until a key ends the view."""
    view, problem = _fetch(client, state.query, state.table), ""
    updated = datetime.now().astimezone()
    console = Console()
    with Live(console=console, screen=True, auto_refresh=False) as live, pressed_keys() as keys:
        due = time.monotonic() + interval
        while not state.finished:
            live.update(render_screen(console, view, state, _status(state, updated, problem)), refresh=True)
            before = state.query, state.table, state.paused
            for key in keys(max(due - time.monotonic(), 0)):
                state.press(key)
            is_due = time.monotonic() >= due
            if (is_due and not state.paused) or before != (state.query, state.table, state.paused):
                try:
                    view, problem = _fetch(client, state.query, state.table), ""
                    updated = datetime.now().astimezone()
                except ServerError as error:
                    problem = str(error)
            if is_due:
                due = time.monotonic() + interval


def _status(state: TopState, updated: datetime, problem: str) -> Text:
    """Return the line with the age of the data, the order and the filter."""
    if problem:
        return Text(printable(f"data of {updated:%H:%M:%S}: {problem}"), style="bold red")
    parts = [f"{updated:%H:%M:%S}", *(["paused"] if state.paused else []), state.table, f"by {state.query.sort}"]
    parts += ["reversed"] if state.query.is_reversed else []
    parts += [f"filter {state.query.search!r}"] if state.query.search else []
    return Text(printable(", ".join(parts)), style="dim")


def render_screen(console: Console, view: JsonMapping, state: TopState, status: Text) -> RenderableType:
    """Return the part of the tables on the screen, between the summary and a line with keys.

    Scrolling is limited to the existing lines.
    """
    options = console.options.update(no_wrap=True, overflow="ellipsis")
    head = console.render_lines(render_summary(view["partition"])) + console.render_lines(status, options)
    shown = {name: data for name, data in view.items() if state.table in (name, TABLES[0])}
    body = console.render_lines(_help() if state.helping else render_tables(shown, state.query), options)
    # A table that is shown alone keeps its title and its headings.
    if state.table != TABLES[0] and not state.helping:
        head, body = [*head, *body[:2]], body[2:]
    foot = console.render_lines(_foot(state), options)
    state.page = max(console.height - len(head) - len(foot), 1)
    state.offset = min(state.offset, max(len(body) - state.page, 0))
    visible = body[state.offset :][: state.page]
    blank: list[list[Segment]] = [[]] * (state.page - len(visible))
    return Segments(segment for line in (*head, *visible, *blank, *foot) for segment in (*line, Segment.line()))


def _foot(state: TopState) -> Text:
    if state.editing is not None:
        return Text(printable(f"filter: {state.editing}_  (Enter accepts, Escape removes)"), style="reverse")
    return Text(_KEYS, style="reverse")


def _help() -> Table:
    return table("key", "effect", rows=HELP, folded=("effect",))
