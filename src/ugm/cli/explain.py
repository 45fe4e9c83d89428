"""``ugm explain``: what would be answered to a request, why, and which limits hold."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any, Final, cast

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ugm import Partition, RequestError, Resource, UgmError
from ugm.cli.client import Server, server_url
from ugm.cli.options import read_amounts, read_config
from ugm.errors import printable
from ugm.resources import format_amount
from ugm.server.decision_endpoints import explain_request
from ugm.server.errors import ApiError
from ugm.server.state import RequestBody

__all__ = ["explain_command", "render_explanation"]

#: The request would be denied.
_DENIED: Final = 3
_PROBLEMS: Final = 1


@click.command("explain", short_help="Say what a request would be told, and why.")
@click.argument("source")
@click.option("--user", help="Who asks; an application that does not exist yet.")
@click.option("--group", "groups", multiple=True, help="A group of the user; may be repeated.")
@click.option("--queue", default="", help="The queue that the user asks for; the placement rules choose.")
@click.option("--application", metavar="ID", help="An application of a running server, in the place of a user.")
@click.option(
    "--usage",
    callback=read_amounts,
    metavar="NAME=QUANTITY,...",
    multiple=True,
    help="What one more allocation takes, for example vcore=2.5,memory=4Gi; may be repeated.",
)
@click.option(
    "--quota",
    callback=read_amounts,
    metavar="NAME=QUANTITY,...",
    multiple=True,
    help="The quota of the namespace, for a queue that the configuration does not name; may be repeated.",
)
@click.option("--partition", "partition_name", help="The partition.  [default: the only one, or default]")
@click.option("--most", type=click.IntRange(0, 100), default=3, show_default=True, help="How many holders are named.")
@click.option("--json", "as_json", is_flag=True, help="Print the explanation as JSON.")
def explain_command(  # noqa: PLR0913 - one for each option
    *,
    source: str,
    user: str | None,
    groups: tuple[str, ...],
    queue: str,
    application: str | None,
    usage: Resource | None,
    quota: Resource | None,
    partition_name: str | None,
    most: int,
    as_json: bool,
) -> None:
    """Say what would be answered to a request, who holds what is missing, and which limits hold.

    SOURCE is the address of a running server, for example localhost:8080, or a configuration: then the answer is what
    the limits say where nothing runs. With - the configuration is read from the standard input.
    The exit status is 0 if the request would be granted, and 3 if it would be denied.
    """
    if (user is None) == (application is None):
        raise click.UsageError("give either --user or --application")
    if application is not None and server_url(source) is None:
        raise click.UsageError("--application needs the address of a running server")
    if application is not None and quota is not None:
        raise click.UsageError("--quota needs --user")
    who = {"application_id": application} if user is None else {"user": user, "groups": list(groups), "queue": queue}
    terms = {} if quota is None else {"quota": dict(quota)}
    try:
        told = _explained(source, partition_name, {**who, **terms, "usage": dict(usage or {}), "most": most})
    except (UgmError, ApiError) as error:
        click.echo(str(error), err=True)
        sys.exit(_PROBLEMS)
    if as_json:
        click.echo(json.dumps(told, indent=2))
    else:
        render_explanation(told, Console())
    sys.exit(0 if told["allowed"] else _DENIED)


def _explained(source: str, name: str | None, body: Mapping[str, Any]) -> dict[str, Any]:
    url = server_url(source)
    if url is not None:
        told: dict[str, Any] = Server(url, name or "default").post("/explain", body)
        return told
    config = read_config(source)
    try:
        partition = config.partition(name)
    except RequestError as error:
        raise click.BadParameter(str(error), param_hint="--partition") from None
    return explain_request(Partition(partition), cast("RequestBody", body))


def render_explanation(told: Mapping[str, Any], console: Console) -> None:
    """Print an explanation: the answer, and a table of the limits."""
    if told["queue_path"]:
        console.print(Text(printable(f"in {told['queue_path']}")))
    for line in told["text"].splitlines():
        console.print(Text(printable(line)), soft_wrap=True)
    if not told["limits"]:
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("limit for", "queue", "resource"):
        table.add_column(heading)
    for heading in ("used", "of"):
        table.add_column(heading, justify="right")
    for limit in told["limits"]:
        for cells in _rows(limit):
            table.add_row(*(Text(printable(cell)) for cell in cells))
    console.print()
    console.print(table)


def _rows(limit: Mapping[str, Any]) -> list[tuple[str, ...]]:
    whose = limit["kind"] if limit["kind"] == "queue" else f"{limit['kind']} {limit['name']}"
    who = f"{whose} (*)" if limit["limit_name"] == "*" and limit["name"] != "*" else whose
    rows: list[tuple[str, ...]] = [
        (who, limit["queue_path"], name, format_amount(name, limit["usage"].get(name, 0)), format_amount(name, most))
        for name, most in (limit["max_resources"] or {}).items()
    ]
    if limit["max_applications"]:
        counts = str(limit["running_applications"]), str(limit["max_applications"])
        rows.append((who, limit["queue_path"], "applications", *counts))
    return rows
