"""Endpoints that show the accounts of budgets, and let an operator change them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from heapq import nsmallest
from math import inf
from typing import Annotated, Any, Final, Literal, TypeAlias

from msgspec import Meta, Struct, structs

from ugm.budgets import AccountState, BudgetChange, BudgetChangeKind
from ugm.partition import ModelReport
from ugm.partition.interface.operations import Role
from ugm.resources import Resource, as_float
from ugm.server.interface.fields import Name, Offset, PageSize, Text
from ugm.server.interface.route import Call, Routes
from ugm.server.interface.schemas import Object
from ugm.server.interface.state import ServedPartition
from ugm.server.views.lists import contains, natural_key

__all__ = ["ROUTES", "accounts_of"]

ROUTES: Final = Routes()
#: The name of the class of quota models with accounts.
_MODEL: Final = "Budgets"
_Sort: TypeAlias = Literal["exhausted", "name", "remaining", "share"]

#: The value by which accounts are sorted, the smallest first.
_RANKS: Final[Mapping[str, Callable[[AccountState], Any]]] = {
    "exhausted": lambda account: inf if account.exhausted is None else account.exhausted,
    "name": lambda _: 0,
    "remaining": lambda account: account.remaining,
    "share": lambda account: -account.share,
}


@dataclass(frozen=True, slots=True)
class BudgetAccounts:
    """A page of accounts."""

    #: The second of the amounts; None if there are no accounts.
    now: int | None
    total: int
    accounts: list[Annotated[Object, AccountState]]


@ROUTES.get("/partition/{partition}/budgets")
def budgets(
    served: ServedPartition,
    *,
    search: Text = "",
    offset: Offset = 0,
    limit: PageSize = 100,
    budget: Name = "",
    owner: Name = "",
    sort: _Sort = "share",
) -> BudgetAccounts:
    """List the accounts of budgets, those with the largest used part of their limit first, or in another order."""
    reports, rank = served.partition.model_reports(), _RANKS[sort]
    found = [
        one
        for one in accounts_of(reports)
        if budget in ("", one.budget) and owner in ("", one.owner) and contains(search, (one.budget, one.owner))
    ]
    names = ((natural_key(one.budget), natural_key(one.owner), one.resource) for one in found)
    ranked = ((rank(one), name, number) for number, (one, name) in enumerate(zip(found, names, strict=True)))
    page = nsmallest(offset + limit, ranked)[offset:]
    rows = ({**found[at].to_dict(), "share": as_float(found[at].share)} for *_, at in page)
    return BudgetAccounts(max((one.state["now"] for one in _with_accounts(reports)), default=None), len(found), [*rows])


def accounts_of(reports: Iterable[ModelReport]) -> list[AccountState]:
    """Return the accounts in the reports of quota models."""
    return [AccountState.from_dict(one) for report in _with_accounts(reports) for one in report.state["accounts"]]


def _with_accounts(reports: Iterable[ModelReport]) -> list[ModelReport]:
    return [report for report in reports if report.model == _MODEL and not report.is_suspended]


class Change(Struct, forbid_unknown_fields=True):
    """The change of a budget; see `ugm.budgets.BudgetChange`. A reason is required."""

    kind: BudgetChangeKind
    budget: Name
    amounts: Resource
    reason: Annotated[str, Meta(min_length=1, max_length=1000)]
    owner: Name = ""
    recipient: Name = ""
    recipient_owner: Name = ""
    change_id: Name = ""


@dataclass(frozen=True, slots=True)
class BudgetChanged:
    """The answer to a change of a budget: whether it was made now; False if it was made before."""

    changed: bool


@ROUTES.post("/partition/{partition}/change_budget", role=Role.OPERATOR)
def change_budget(served: ServedPartition, call: Call, *, body: Change) -> BudgetChanged:
    """Set the amounts of a budget, refill an account, or transfer what remains to another, with a reason."""
    target = f"{served.name}: {body.kind} {body.budget}: {body.reason}"
    with call.operation("change_budget", target):
        is_new = served.partition.change_budget(BudgetChange(**structs.asdict(body)).checked())
        call.outcome = "ok" if is_new else "repeated"
    return BudgetChanged(is_new)
