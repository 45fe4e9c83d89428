"""``ugm order``: the pending requests in scheduling order, with the reasons."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from ugm.cli.client import Server, server_url
from ugm.cli.output import print_json, table
from ugm.journal.follower import Follower
from ugm.journal.locations import URL_SCHEMES
from ugm.partition.scheduling_order import OrderCopy, turns_of
from ugm.resources import Resource

__all__ = ["order_command"]


@click.command("order", short_help="Explain the order of pending requests.")
@click.argument("source")
@click.option("--partition", "partition_name", help="The partition of a server.  [default: default]")
@click.option("--most", type=click.IntRange(1, 1000), default=100, help="The most requests.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def order_command(*, source: str, partition_name: str | None, most: int, as_json: bool) -> None:
    """Explain the order in which a scheduler should try the pending requests.

    SOURCE is the address of a running server, for example localhost:8080, or the file or URL of a journal.
    A request fits if the maxima of its queues allow it together with those before it; other limits do not count.
    """
    turns = _turns(source, partition_name or "default", most)
    if as_json:
        print_json({"turns": turns})
    else:
        _render(turns, Console())


def _turns(source: str, partition_name: str, most: int) -> list[dict[str, Any]]:
    url = server_url(source)
    if url is not None:
        turns: list[dict[str, Any]] = Server(url, partition_name).get("/order", most=most)["turns"]
        return turns
    if not source.startswith(URL_SCHEMES) and not Path(source).is_file():
        raise click.UsageError(f"{source} is neither a journal nor the address of a server")
    follower = Follower(source)
    try:
        copied = OrderCopy.of(follower.state, for_keys=False)
    finally:
        follower.close()
    return [turn.to_dict() for turn in turns_of(copied, most)]


def _render(turns: Iterable[Mapping[str, Any]], console: Console) -> None:
    rows = [
        (
            str(number),
            turn["allocation_id"],
            turn["user"],
            turn["queue_path"],
            str(turn["priority"]),
            str(Resource(turn["usage"])),
            "fits" if turn["fits"] else f"exceeds {turn['blocked_by']}",
            "; ".join(turn["reasons"]),
        )
        for number, turn in enumerate(turns, 1)
    ]
    columns = ("place", "request", "user", "queue", "priority", "usage", "maximum", "reasons")
    console.print(table(*columns, rows=rows, right=("place", "priority"), folded=("queue", "usage", "reasons")))
