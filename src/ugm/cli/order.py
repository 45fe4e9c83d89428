"""``ugm order``: the pending requests in scheduling order, with the reasons."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import click
from rich.console import Console
from rich.table import Table

from ugm._json_values import JsonMapping, JsonObject
from ugm.cli.client import Server, is_store, server_url
from ugm.cli.output import print_json, section, shown, table, with_instants
from ugm.fairness.model import explain_shares
from ugm.resources import Resource
from ugm.store import read_partition

__all__ = ["order_command"]


class _Order(NamedTuple):
    """The order as plain data."""

    turns: list[JsonObject]
    #: The comparison of two users by their shares; None if none was requested, or there are no shares.
    explanation: JsonMapping | None


@click.command("order", short_help="Explain the order of pending requests.")
@click.argument("source")
@click.option("--partition", "partition_name", metavar="NAME", help="The partition of a server.  [default: default]")
@click.option("--limit", type=click.IntRange(1, 1000), metavar="N", default=100, help="The maximum number of requests.")
@click.option(
    "--explain",
    "users",
    nargs=2,
    metavar="USER USER",
    help="Also explain the order of two users by their shares; each is a name, or a path of the share tree.",
)
@click.option("--tree", metavar="NAME", help="Descend through the groups of a quota model instead of queues.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def order_command(
    *,
    source: str,
    partition_name: str | None,
    limit: int,
    users: tuple[str, str] | None,
    tree: str | None,
    as_json: bool,
) -> None:
    """Explain the order in which a scheduler should try the pending requests.

    SOURCE is the address of a running server, for example localhost:8080, or the file or URL of a store.
    A request fits if the maxima of its queues allow it together with those before it; other limits do not count.
    """
    url = server_url(source)
    if url is not None:
        found = _of_server(Server(url, partition_name or "default"), limit, users, tree)
    elif is_store(source):
        found = _of_store(source, limit, users, tree)
    else:
        raise click.UsageError(f"{source} is neither a store nor the address of a server")
    if users is not None and found.explanation is None:
        raise click.UsageError("the configuration declares no shares of users")
    if as_json:
        turns = [with_instants(turn, "start") for turn in found.turns]
        print_json({"turns": turns, **({} if users is None else {"explanation": found.explanation})})
    else:
        _render(found, Console())


def _of_server(server: Server, limit: int, users: Sequence[str] | None, tree: str | None) -> _Order:
    turns = server.get("/order", limit=limit, **({} if tree is None else {"tree": tree}))["turns"]
    if users is None:
        return _Order(turns, None)
    return _Order(turns, server.get("/shares", first=users[0], second=users[1], limit=1)["explanation"])


def _of_store(source: str, limit: int, users: Sequence[str] | None, tree: str | None) -> _Order:
    with read_partition(source) as partition:
        turns = [turn.to_dict() for turn in partition.order(max_turns=limit, tree=tree or "")]
        reports = partition.model_reports()
    shares = next((one for one in reports if one.model == "FairShares"), None)
    if users is None or shares is None or shares.definition is None:
        return _Order(turns, None)
    return _Order(turns, explain_shares(shares.definition, shares.state, *users).to_dict())


def _render(found: _Order, console: Console) -> None:
    console.print(_turn_table(found.turns))
    if found.turns:
        console.print("\n[bold]Reasons for these places[/bold]")
    for place, turn in enumerate(found.turns, 1):
        console.print(f"{place}  {shown('; '.join(turn['reasons']))}", highlight=False, soft_wrap=True)
    if found.explanation is not None:
        console.print()
        console.print(shown(found.explanation["text"]), highlight=False)
        section(console, f"Compared below {found.explanation['account'] or 'the top'}", _steps(found.explanation))


def _turn_table(turns: Iterable[JsonMapping]) -> Table:
    rows = [
        (
            str(number),
            turn["allocation_id"],
            turn["user"],
            turn["queue_path"],
            str(turn["priority"]),
            str(Resource(turn["usage"])) + (f" on {turn['node']}" if turn["node"] else ""),
            "fits" if turn["fits"] else f"exceeds {turn['blocked_by']}",
        )
        for number, turn in enumerate(turns, 1)
    ]
    columns = ("place", "request", "user", "queue", "priority", "usage", "maximum")
    return table(*columns, rows=rows, right=("place", "priority"), folded=("queue", "usage"))


def _steps(explanation: JsonMapping) -> Table:
    columns = ("node", "share", "part of the usage", "level")
    nodes = [step[side] for step in explanation["steps"] for side in ("first", "second")]
    rows = [(node["path"], node["share"] or "parent", _brief(node["used"]), _brief(node["level"])) for node in nodes]
    return table(*columns, rows=rows, right=columns[1:], folded=("node",))


def _brief(text: str) -> str:
    """Return an exact number, or its nearest decimal number if it is long."""
    if len(text) <= len("1000/1000"):
        return text
    numerator, _, denominator = text.partition("/")
    return f"{int(numerator) / int(denominator or 1):.6g}"
