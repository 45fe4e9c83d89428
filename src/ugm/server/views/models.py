"""Endpoints for quota models: the accounts of budgets and their changes, shares of users, and crossed thresholds."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Final, Literal, TypedDict

from msgspec import Meta, Struct, structs

from ugm.budgets import AccountState, BudgetChange, BudgetChangeKind
from ugm.fairness.rank import RankExplanation
from ugm.partition import ThresholdCrossed, ThresholdWatch
from ugm.partition.interface.operations import Role
from ugm.resources import Resource
from ugm.server.interface.route import PARTITION, Call, Routes, ServedPartition
from ugm.server.interface.schemas import ListQuery, Name, Object
from ugm.server.queries import (
    ThresholdKind,
    account_dict,
    account_reports,
    accounts_of,
    explain_shares_of,
    listed_accounts,
    shares_of,
)

__all__ = ["ROUTES", "logged_update"]

_LOGGER: Final = logging.getLogger(__name__)
ROUTES: Final = Routes()
#: The maximum number of crossings that are logged one by one when a server starts.
_MOST_LINES: Final = 10


@dataclass(frozen=True, slots=True)
class BudgetAccounts:
    """A page of accounts."""

    #: The second of the amounts; None if there are no accounts.
    now: int | None
    total: int
    accounts: list[Annotated[Object, AccountState]]


class AccountsQuery(ListQuery, forbid_unknown_fields=True):
    """The filters, the order and the page of accounts."""

    budget: Name = ""
    owner: Name = ""
    sort: Literal["exhausted", "name", "remaining", "share"] = "share"


@ROUTES.get(f"{PARTITION}/budgets")
def budgets(served: ServedPartition, *, query: AccountsQuery) -> BudgetAccounts:
    """List the accounts of budgets, those with the largest used part of their limit first, or in another order."""
    reports = served.partition.model_reports()
    terms = {"sort": query.sort, "search": query.search, "budget": query.budget, "owner": query.owner}
    found = listed_accounts(accounts_of(reports), **terms)
    now = max((one.state["now"] for one in account_reports(reports)), default=None)
    return BudgetAccounts(now, len(found), [account_dict(one) for one in query.page(found)])


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


@ROUTES.post(f"{PARTITION}/change_budget", role=Role.OPERATOR)
def change_budget(served: ServedPartition, call: Call, *, body: Change) -> BudgetChanged:
    """Set the amounts of a budget, refill an account, or transfer what remains to another, with a reason."""
    target = f"{served.name}: {body.kind} {body.budget}: {body.reason}"
    with call.operation("change_budget", target):
        is_new = served.partition.change_budget(BudgetChange(**structs.asdict(body)).checked())
        call.outcome = "ok" if is_new else "repeated"
    return BudgetChanged(is_new)


# Shares and thresholds


class ComparedNode(TypedDict):
    """An account; exact numbers are texts."""

    path: str
    level: str
    share: str | None
    used: str
    usage: str


class RankedUser(ComparedNode):
    """A user."""

    user: str
    place: int
    rank: int


@dataclass(frozen=True, slots=True)
class Shares:
    """A page of users, and their accounts."""

    #: None if the partition has no fair shares.
    as_of: int | None
    total: int
    users: list[Annotated[Object, RankedUser]]
    accounts: list[Annotated[Object, ComparedNode]]
    explanation: Annotated[Object, RankExplanation] | None


class SharesQuery(ListQuery, forbid_unknown_fields=True):
    """The page of users, and two users whose order is explained."""

    first: Name = ""
    second: Name = ""


@ROUTES.get(f"{PARTITION}/shares")
def shares(served: ServedPartition, *, query: SharesQuery) -> Shares:
    """List the users by their shares, the best first, with their accounts, and explain the order of two users."""
    reports = served.partition.model_reports()
    report = shares_of(reports)
    if report is None or report.definition is None:
        return Shares(None, 0, [], [], None)
    users = [user for user in report.state["users"] if query.matches(user["path"])]
    listed = query.page(users)
    # The accounts that contain some of the users.
    accounts = [one for one in report.state["accounts"] if any(f"{one['path']}/" in user["path"] for user in listed)]
    first, second = query.first, query.second
    explanation = explain_shares_of(reports, first, second) if first and second else None
    return Shares(report.state["as_of"], len(users), listed, accounts, explanation)


@dataclass(frozen=True, slots=True)
class Thresholds:
    """A page of crossed thresholds, and all thresholds in percent."""

    shares: tuple[int, ...]
    total: int
    crossed: list[ThresholdCrossed]


class ThresholdsQuery(ListQuery, forbid_unknown_fields=True):
    """The filters and the page of thresholds."""

    kind: Literal["", ThresholdKind] = ""


@ROUTES.get(f"{PARTITION}/thresholds")
def thresholds(served: ServedPartition, *, query: ThresholdsQuery) -> Thresholds:
    """List the thresholds that usage is above, those with the largest used part of their limit first."""
    watch = served.thresholds
    found = [one for one in watch.crossed if query.matches(one.name) and query.kind in ("", one.kind)]
    found.sort(key=lambda one: (-one.share, one.kind, one.name, one.place, one.resource or "", -one.threshold))
    return Thresholds(watch.shares, len(found), query.page(found))


def logged_update(name: str, watch: ThresholdWatch) -> Callable[[], None]:
    """Return a function that evaluates the thresholds of a partition, and logs each crossing."""
    is_first = True

    def update() -> None:
        nonlocal is_first
        found, was_first = watch.update(), is_first
        is_first = False
        if was_first and len(found) > _MOST_LINES:
            # The first update reports the state, and not changes.
            kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(Counter(one.kind for one in found).items()))
            _LOGGER.warning("partition %s: %d thresholds are crossed at the start: %s", name, len(found), kinds)
            return
        for crossing in found:
            _LOGGER.log(logging.WARNING if crossing.rising else logging.INFO, "partition %s: %s", name, crossing)

    return update
