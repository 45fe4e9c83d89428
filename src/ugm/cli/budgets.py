"""``ugm budgets``: the accounts of budgets, of a running server or in a store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any, Final

import click
from rich.console import Console
from rich.table import Table

from ugm._json_values import JsonMapping, JsonObject
from ugm.budgets import AccountState
from ugm.cli.client import Server, is_store, server_url
from ugm.cli.output import bar, print_json, table, with_instants
from ugm.errors import time_text
from ugm.store import read_partition

__all__ = ["budgets_command"]

#: The width of a bar in characters.
_WIDTH: Final = 10
#: The width of the narrowest table that shows all columns.
_NARROWEST: Final = 132
_HOUR: Final = 3600
#: The base units in a unit of a table, by resource.
_UNITS: Final = {"vcore": 1000, "memory": 2**30}
_TIMES: Final = ("renews", "exhausted")
_AMOUNTS: Final = ("limit", "settled", "committed", "remaining")


@click.command("budgets", short_help="List the accounts of budgets.")
@click.argument("source")
@click.option("--partition", "partition_name", metavar="NAME", help="The partition of a server.  [default: default]")
@click.option("--budget", metavar="NAME", help="Only the accounts of this budget.")
@click.option(
    "--owner", metavar="NAME", help="Only the accounts of this user, group, queue, elastic group or quota node."
)
@click.option("--limit", type=click.IntRange(1, 1000), metavar="N", default=100, help="The maximum number of accounts.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with exact amounts in base units times seconds.")
def budgets_command(
    *, source: str, partition_name: str | None, budget: str | None, owner: str | None, limit: int, as_json: bool
) -> None:
    """List the accounts of budgets, those with the largest used part of their limit first.

    SOURCE is the address of a running server, for example localhost:8080, or the file or URL of a store, whose
    configuration declares the budgets. A store may be in use. Tables show core-hours for vcore, GiB-hours for memory,
    and unit-hours for other resources.
    """
    query = {name: value for name, value in (("budget", budget), ("owner", owner)) if value is not None}
    url = server_url(source)
    if url is not None:
        found = Server(url, partition_name or "default").get("/budgets", limit=limit, **query)["accounts"]
    elif is_store(source):
        found = _of_store(source, query)[:limit]
    else:
        raise click.UsageError(f"{source} is neither a store nor the address of a server")
    if as_json:
        print_json({"accounts": [with_instants(one, *_TIMES) for one in found]})
    else:
        # A narrower table would lose its first columns; the terminal wraps or scrolls it.
        Console(width=max(Console().width, _NARROWEST)).print(_table(found))


def _of_store(source: str, query: Mapping[str, str]) -> list[JsonObject]:
    """Return the accounts in a store as a server returns them."""
    with read_partition(source) as partition:
        found = partition.budget_accounts()
    accounts = [one for one in found if all(getattr(one, name) == value for name, value in query.items())]
    accounts.sort(key=lambda one: (-one.share, one.budget, one.owner, one.resource))
    return [{**one.to_dict(), "share": float(one.share)} for one in accounts]


def _table(accounts: Iterable[JsonMapping]) -> Table:
    columns = ("budget", "owner", "resource", "", "share", *_AMOUNTS, "renews", "exhausted")
    return table(*columns, rows=map(_row, accounts), right=("share", *_AMOUNTS), folded=("budget", "owner"))


def _row(found: JsonMapping) -> tuple[Any, ...]:
    account = AccountState.from_dict({name: value for name, value in found.items() if name != "share"})
    amounts = [_hours(account.resource, getattr(account, name)) for name in _AMOUNTS]
    share = bar(found["share"], _WIDTH), f"{found['share']:.0%}"
    renews = "" if account.renews is None else time_text(account.renews)
    if account.exhausted is not None:
        exhausted = time_text(account.exhausted)
    else:
        # At the present rate.
        exhausted = "never" if account.renews is None else "not before"
    return account.budget, account.owner, account.resource, *share, *amounts, renews, exhausted


def _hours(resource: str, amount: int | Fraction) -> str:
    """Format hours with one decimal, rounded half to even."""
    tenths = round(Fraction(amount) * 10 / (_UNITS.get(resource, 1) * _HOUR))
    sign, tenths = ("-", -tenths) if tenths < 0 else ("", tenths)
    return f"{sign}{tenths // 10:,}.{tenths % 10}"
