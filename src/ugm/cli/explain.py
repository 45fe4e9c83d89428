"""``ugm explain`` and ``ugm order``: decisions on requests, and the pending requests in scheduling order.

Both print the reasons, ``explain`` with the limits that apply.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Annotated, Final

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ugm import Partition, UserGroup
from ugm._json_values import JsonMapping, JsonObject
from ugm.cli.options import Amounts, read_partition_config, read_values, server_at
from ugm.cli.output import print_json, shown, table, with_instants
from ugm.cli.signature import JsonFlag, PartitionName, Rows, options
from ugm.errors import printable
from ugm.resources import Resource, format_amount
from ugm.server.queries import answer_dict, explain_shares_of
from ugm.store import read_partition

#: The exit status for a request that would be denied.
_DENIED: Final = 3
#: Longer than any delay of preemption, in seconds.
_LONG: Final = 2**40


@click.command("explain", short_help="Explain whether a request would be allowed.")
@options
@click.argument("source")
def explain_command(  # noqa: PLR0913 - one for each option
    *,
    source: str,
    usage: Amounts,
    quota: Amounts,
    cluster: Amounts,
    tags: Annotated[dict[str, str], "--tag", "NAME=VALUE", read_values],
    user: Annotated[str, "NAME"] | None = None,
    groups: Annotated[tuple[str, ...], "--group", "NAME"] = (),
    queue: Annotated[str, "PATH"] | None = None,
    application: Annotated[str, "ID"] | None = None,
    partition_name: PartitionName | None = None,
    duration: Annotated[int, "SECONDS", click.IntRange(min=1)] | None = None,
    max_holders: Annotated[int, "N", click.IntRange(0, 100)] = 3,
    preempt: bool = False,
    priority: Annotated[int, "NUMBER"] = 0,
    as_json: JsonFlag = False,
) -> None:
    """Explain whether a request would be allowed, who holds the missing resources, and which limits apply.

    SOURCE is the address of a running server, for example localhost:8080, or a configuration file; with a file, the
    decision is that of an empty cluster. With - the configuration is read from the standard input.
    The exit status is 0 if the request would be allowed, and 3 if it would be denied.

    Args:
        source: the server or configuration.
        usage: Resources of the allocation, for example vcore=2.5,memory=4Gi; may be repeated.
        quota: The quota of the namespace, for a dynamic queue; may be repeated.
        cluster: The size of the cluster, for example vcore=1000,memory=4Ti; only with a file. [default: unlimited]
        tags: A tag of the application, for placement rules and quota models; may be repeated.
        user: The user of an application that does not exist yet.
        groups: A group of the user; may be repeated.
        queue: The requested queue; the placement rules choose the final one.
        application: An application of a running server, instead of a user.
        partition_name: The partition. [default: the only one, or default]
        duration: The promised duration, which budgets require.
        max_holders: The maximum number of holders per limit.
        preempt: Also print which allocations could be preempted; needs --application.
        priority: The priority of the allocation, for --preempt.
        as_json: Print the explanation as JSON.
    """
    server = server_at(source, partition_name)
    if (user is None) == (application is None):
        raise click.UsageError("give either --user or --application")
    if application is not None and server is None:
        raise click.UsageError("--application requires the address of a running server as SOURCE")
    if application is not None and (quota or tags):
        raise click.UsageError(f"{'--quota' if quota else '--tag'} requires --user")
    if cluster and server is not None:
        raise click.UsageError("--cluster requires a configuration file as SOURCE")
    if preempt and application is None:
        raise click.UsageError("--preempt requires --application")
    subject: JsonObject = (
        {"application_id": application}
        if user is None
        else {"user": user, "groups": groups, "queue": queue or "", "tags": tags}
    )
    optional: JsonObject = {name: value for name, value in (("quota", quota), ("duration", duration)) if value}
    request = {**subject, **optional, "usage": usage, "max_holders": max_holders}
    if server is None:
        partition = Partition(read_partition_config(source, partition_name))
        if cluster:
            partition.add_node("cluster", cluster)
        who = UserGroup(user or "", groups)
        report = partition.explain_submission(who, queue or "", usage, tags, max_holders=max_holders, **optional)
        explanation = answer_dict(report.explanation, report.placement)
    else:
        explanation = server.send("/explain", request)
    if preempt and server is not None:
        # For a request that has waited long enough.
        plan = {**subject, "usage": usage, "priority": priority, "since": 0, "now": _LONG}
        explanation["preemption"] = server.send("/plan_preemption", plan)
    if as_json:
        print_json(explanation)
    else:
        render_explanation(explanation, Console())
    sys.exit(0 if explanation["allowed"] else _DENIED)


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
    console.print("", table(*columns, rows=rows, right=("used", "of"), folded=("limit for", "queue")), sep="\n")


def _rows(limit: JsonMapping) -> list[tuple[str, ...]]:
    whose = limit["kind"] if limit["kind"] == "queue" else f"{limit['kind']} {limit['name']}"
    subject = f"{whose} (*)" if limit["limit_name"] == "*" and limit["name"] != "*" else whose
    path = limit["queue_path"]
    rows: list[tuple[str, ...]] = [
        (subject, path, name, format_amount(name, limit["usage"].get(name, 0)), format_amount(name, most))
        for name, most in (limit["max_resources"] or {}).items()
    ]
    if limit["max_applications"]:
        counts = str(limit["running_applications"]), str(limit["max_applications"])
        noun = "requests" if limit["kind"].startswith("pending ") else "applications"
        rows.append((subject, path, noun, *counts))
    return rows


@click.command("order", short_help="Explain the order of pending requests.")
@options
@click.argument("source")
def order_command(
    *,
    source: str,
    partition_name: PartitionName | None = None,
    limit: Rows = 100,
    users: Annotated[tuple[str, str], "--explain", "USER USER"] | None = None,
    tree: Annotated[str, "NAME"] | None = None,
    as_json: JsonFlag = False,
) -> None:
    """Explain the order in which a scheduler should try the pending requests.

    SOURCE is the address of a running server, for example localhost:8080, or the file or URL of a store.
    A request fits if the maxima of its queues allow it together with those before it; other limits do not count.

    Args:
        source: the server or store.
        partition_name: The partition of a server. [default: the only one, or default]
        limit: The maximum number of requests.
        users: Also explain the order of two users by their shares; each is a name, or a path of the share tree.
        tree: Descend through the groups of a quota model instead of queues.
        as_json: Print JSON.
    """
    server = server_at(source, partition_name)
    compared: JsonMapping | None = None
    if server is None:
        with read_partition(source) as partition:
            turns = [turn.to_dict() for turn in partition.order(max_turns=limit, tree=tree or "")]
            reports = partition.model_reports()
        if users is not None:
            compared = explain_shares_of(reports, *users)
    else:
        turns = server.send("/order", limit=limit, **({} if tree is None else {"tree": tree}))["turns"]
        if users is not None:
            compared = server.send("/shares", first=users[0], second=users[1], limit=1)["explanation"]
    if users is not None and compared is None:
        raise click.UsageError("the configuration declares no shares of users")
    if as_json:
        turns = [with_instants(turn, "start") for turn in turns]
        print_json({"turns": turns, **({} if users is None else {"explanation": compared})})
    else:
        _render(turns, compared, Console())


def _render(turns: Sequence[JsonMapping], compared: JsonMapping | None, console: Console) -> None:
    """Print the order, and the comparison of two users by their shares, if there is one."""
    console.print(_turn_table(turns))
    if turns:
        console.print("\n[bold]Reasons for these places[/bold]")
    for place, turn in enumerate(turns, 1):
        console.print(f"{place}  {shown('; '.join(turn['reasons']))}", highlight=False, soft_wrap=True)
    if compared is not None:
        console.print(f"\n{shown(compared['text'])}", highlight=False)


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
