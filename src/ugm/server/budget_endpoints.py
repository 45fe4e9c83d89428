"""Endpoints that show the accounts of budgets, and let an operator change them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from heapq import nsmallest
from math import inf
from typing import Any, Final, cast

from ugm._json_values import JsonObject
from ugm.budgets import AccountState, BudgetChange, BudgetChangeKind
from ugm.partition import ModelReport
from ugm.resources import as_float
from ugm.server.cooperative import cooperatively
from ugm.server.decision_endpoints import parse_amounts
from ugm.server.natural_order import natural_key
from ugm.server.payloads import require_found
from ugm.server.schemas import NAME, QUANTITIES, Schema, record
from ugm.server.state import Query, RequestContext, ServedPartition, ServerState

__all__ = ["CHANGE", "accounts_of", "budgets", "change_budget"]

#: The default size of a page.
_DEFAULT_PAGE: Final = 100
#: The name of the class of quota models with accounts.
_MODEL: Final = "Budgets"
_REASON: Final[Schema] = {"type": "string", "minLength": 1, "maxLength": 1000}

#: The body of a change; see `ugm.budgets.BudgetChange`. A reason is required.
CHANGE: Final[Schema] = record(
    {"owner": NAME, "recipient": NAME, "recipient_owner": NAME, "change_id": NAME},
    kind={"type": "string", "enum": [kind.value for kind in BudgetChangeKind]},
    budget=NAME,
    amounts=QUANTITIES,
    reason=_REASON,
)


def budgets(served: ServedPartition, request: RequestContext) -> object:
    """List the accounts of budgets, those with the largest used part of their limit first, or in another order."""
    reports, query = served.models(request.arrived).reports, request.query
    found = [one for one in cooperatively(accounts_of(reports)) if _matches(one, query)]
    offset, rank = query.get("offset", 0), _RANKS[query.get("sort", "share")]
    ranked = ((rank(one), *_names(one), number) for number, one in enumerate(cooperatively(found)))
    page = nsmallest(offset + query.get("limit", _DEFAULT_PAGE), ranked)[offset:]
    return {
        "now": max((report.state["now"] for report in _with_accounts(reports)), default=None),
        "total": len(found),
        "accounts": [_account_dict(found[number]) for *_, number in page],
    }


def change_budget(server: ServerState, request: RequestContext) -> object:
    """Set the amounts of a budget, refill an account, or transfer what remains to another, with a reason."""
    served = require_found("partition", request.path["partition"], server.partitions.get)
    body = cast("JsonObject", request.body)
    target = f"{served.name}: {body['kind']} {body['budget']}: {body['reason']}"
    with server.audit.operation(
        client=request.client, role="operator", action="change_budget", target=target
    ) as outcome:
        change = BudgetChange.of(**{**body, "amounts": parse_amounts(body["amounts"])})
        is_new = served.partition.change_budget(change)
        outcome.text = "ok" if is_new else "repeated"
    return {"changed": is_new}


def accounts_of(reports: Iterable[ModelReport]) -> list[AccountState]:
    """Return the accounts in the reports of quota models."""
    accounts = (account for report in _with_accounts(reports) for account in report.state["accounts"])
    return list(map(AccountState.from_dict, cooperatively(accounts)))


def _with_accounts(reports: Iterable[ModelReport]) -> list[ModelReport]:
    return [report for report in reports if report.model == _MODEL and not report.is_suspended]


def _account_dict(account: AccountState) -> dict[str, object]:
    return {**account.to_dict(), "share": as_float(account.share)}


def _matches(account: AccountState, query: Query) -> bool:
    text = query.get("search", "").lower()
    return (
        query.get("budget", account.budget) == account.budget
        and query.get("owner", account.owner) == account.owner
        and (text in account.budget.lower() or text in account.owner.lower())
    )


def _names(account: AccountState) -> tuple[Any, ...]:
    return natural_key(account.budget), natural_key(account.owner), account.resource


def _exhausted(account: AccountState) -> float:
    return inf if account.exhausted is None else account.exhausted


#: The value by which accounts are sorted, the smallest first, by the parameter ``sort``.
_RANKS: Final[Mapping[str, Callable[[AccountState], Any]]] = {
    "exhausted": _exhausted,
    "name": lambda _: 0,
    "remaining": lambda account: account.remaining,
    "share": lambda account: -account.share,
}
