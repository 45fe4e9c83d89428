"""``ugm explain`` and ``ugm order``: decisions on requests, and the pending requests in scheduling order.

Both print the reasons, ``explain`` with the limits that apply.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ugm import Partition
from ugm._json_values import JsonMapping, JsonObject
from ugm.cli.options import (
    Server,
    read_amounts,
    read_cluster,
    read_partition_config,
    read_tag_values,
    server_or_store,
    server_url,
)
from ugm.cli.output import print_json, section, shown, table, with_instants
from ugm.errors import printable
from ugm.resources import Resource, format_amount
from ugm.server.queries import explain_request, explain_shares_of
from ugm.store import read_partition

__all__ = ["explain_command", "order_command", "render_explanation"]

#: The exit status for a request that would be denied.
_DENIED: Final = 3
#: Longer than any delay of preemption, in seconds.
_LONG: Final = 2**40


@click.command("explain", short_help="Explain whether a request would be allowed.")
@click.argument("source")
@click.option("--user", metavar="NAME", help="The user of an application that does not exist yet.")
@click.option("--group", "groups", metavar="NAME", multiple=True, help="A group of the user; may be repeated.")
@click.option("--queue", metavar="PATH", help="The requested queue; the placement rules choose the final one.")
@click.option(
    "--tag",
    "tags",
    callback=read_tag_values,
    metavar="NAME=VALUE",
    multiple=True,
    help="A tag of the application, for placement rules and quota models; may be repeated.",
)
@click.option("--application", metavar="ID", help="An application of a running server, instead of a user.")
@click.option(
    "--usage",
    callback=read_amounts,
    metavar="NAME=QUANTITY,...",
    multiple=True,
    help="Resources of the allocation, for example vcore=2.5,memory=4Gi; may be repeated.",
)
@click.option(
    "--quota",
    callback=read_amounts,
    metavar="NAME=QUANTITY,...",
    multiple=True,
    help="The quota of the namespace, for a dynamic queue; may be repeated.",
)
@click.option(
    "--cluster",
    callback=read_cluster,
    metavar="NAME=QUANTITY,...",
    help="The size of the cluster, for example vcore=1000,memory=4Ti; only with a file.  [default: unlimited]",
)
@click.option(
    "--partition", "partition_name", metavar="NAME", help="The partition.  [default: the only one, or default]"
)
@click.option(
    "--duration", type=click.IntRange(min=1), metavar="SECONDS", help="The promised duration, which budgets require."
)
@click.option(
    "--max-holders",
    type=click.IntRange(0, 100),
    metavar="N",
    default=3,
    help="The maximum number of holders per limit.",
)
@click.option("--preempt", is_flag=True, help="Also print which allocations could be preempted; needs --application.")
@click.option(
    "--priority", type=int, metavar="NUMBER", default=0, help="The priority of the allocation, for --preempt."
)
@click.option("--json", "as_json", is_flag=True, help="Print the explanation as JSON.")
def explain_command(  # noqa: PLR0913 - one for each option
    *,
    source: str,
    user: str | None,
    groups: tuple[str, ...],
    queue: str | None,
    tags: dict[str, str],
    application: str | None,
    usage: Resource | None,
    quota: Resource | None,
    cluster: Resource | None,
    partition_name: str | None,
    duration: int | None,
    max_holders: int,
    preempt: bool,
    priority: int,
    as_json: bool,
) -> None:
    """Explain whether a request would be allowed, who holds the missing resources, and which limits apply.

    SOURCE is the address of a running server, for example localhost:8080, or a configuration file; with a file, the
    decision is that of an empty cluster. With - the configuration is read from the standard input.
    The exit status is 0 if the request would be allowed, and 3 if it would be denied.
    """
    if (user is None) == (application is None):
        raise click.UsageError("give either --user or --application")
    if application is not None and server_url(source) is None:
        raise click.UsageError("--application requires the address of a running server as SOURCE")
    if application is not None and (quota is not None or tags):
        raise click.UsageError(f"{'--tag' if quota is None else '--quota'} requires --user")
    if cluster is not None and server_url(source) is not None:
        raise click.UsageError("--cluster requires a configuration file as SOURCE")
    if preempt and application is None:
        raise click.UsageError("--preempt requires --application")
    subject = (
        {"application_id": application}
        if user is None
        else {"user": user, "groups": list(groups), "queue": queue or "", "tags": tags}
    )
    terms: JsonObject = {} if quota is None else {"quota": dict(quota)}
    if duration is not None:
        terms["duration"] = duration
    body = {**subject, **terms, "usage": dict(usage or {}), "max_holders": max_holders}
    explanation = _explain(source, partition_name, body, cluster)
    if preempt:
        explanation["preemption"] = _plan(source, partition_name, subject, usage or Resource(), priority)
    if as_json:
        print_json(explanation)
    else:
        render_explanation(explanation, Console())
    sys.exit(0 if explanation["allowed"] else _DENIED)


def _explain(source: str, name: str | None, body: JsonMapping, cluster: Resource | None) -> JsonObject:
    url = server_url(source)
    if url is not None:
        explanation: JsonObject = Server(url, name or "default").post("/explain", body)
        return explanation
    partition = Partition(read_partition_config(source, name))
    if cluster is not None:
        partition.add_node("cluster", cluster)
    terms: JsonObject = {
        key: Resource(value) if key == "quota" else value for key, value in body.items() if key != "usage"
    }
    return explain_request(partition, Resource(body["usage"]), **terms)


def _plan(source: str, name: str | None, subject: JsonMapping, usage: Resource, priority: int) -> JsonObject:
    """Return the preemption plan for a request that has waited long enough."""
    body = {**subject, "usage": dict(usage), "priority": priority, "since": 0, "now": _LONG}
    plan: JsonObject = Server(server_url(source) or "", name or "default").post("/plan_preemption", body)
    return plan


def render_explanation(explanation: JsonMapping, console: Console) -> None:
    """Print an explanation: the decision, and a table of the limits."""
    if explanation["queue_path"]:
        console.print(Text(printable(f"queue {explanation['queue_path']}")))
    plan = explanation.get("preemption")
    for line in (*explanation["text"].splitlines(), *(plan["text"].splitlines() if plan else ())):
        console.print(Text(printable(line)), soft_wrap=True)
    if not explanation["limits"]:
        return
    rows = [row for limit in explanation["limits"] for row in _rows(limit)]
    columns = ("limit for", "queue", "resource", "used", "of")
    console.print()
    console.print(table(*columns, rows=rows, right=("used", "of"), folded=("limit for", "queue")))


def _rows(limit: JsonMapping) -> list[tuple[str, ...]]:
    whose = limit["kind"] if limit["kind"] == "queue" else f"{limit['kind']} {limit['name']}"
    subject = f"{whose} (*)" if limit["limit_name"] == "*" and limit["name"] != "*" else whose
    path = limit["queue_path"]
    rows: list[tuple[str, ...]] = [
        (
            subject,
            path,
            name,
            format_amount(name, limit["usage"].get(name, 0)),
            format_amount(name, most),
        )
        for name, most in (limit["max_resources"] or {}).items()
    ]
    if limit["max_applications"]:
        counts = str(limit["running_applications"]), str(limit["max_applications"])
        rows.append((subject, path, "applications", *counts))
    return rows


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
    server = server_or_store(source, partition_name)
    found = _of_store(source, limit, users, tree) if server is None else _of_server(server, limit, users, tree)
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
    return _Order(turns, None if users is None else explain_shares_of(reports, *users))


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
