"""The endpoint that shows the shares of users."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

from ugm._json_values import JsonMapping
from ugm.fairness.model import explain_shares
from ugm.partition import ModelReport
from ugm.server.state import RequestContext, ServedPartition

__all__ = ["shares", "shares_of"]

#: A user or account as plain data.
_Ranked: TypeAlias = JsonMapping
#: The default number of users.
_DEFAULT_USERS: Final = 100
#: The name of the class of quota models with shares.
_MODEL: Final = "FairShares"


def shares(served: ServedPartition, request: RequestContext) -> object:
    """List the users by their shares, the best first, with their accounts, and explain the order of two users."""
    report, query = shares_of(served.models(request.arrived).reports), request.query
    if report is None or report.definition is None:
        return {"as_of": None, "total": 0, "users": [], "accounts": [], "explanation": None}
    first, second, text = query.get("first"), query.get("second"), query.get("search", "").lower()
    users = [user for user in report.state["users"] if text in user["path"].lower()]
    explanation = None
    if first is not None and second is not None:
        explanation = explain_shares(report.definition, report.state, first, second).to_dict()
    offset = query.get("offset", 0)
    listed = users[offset : offset + query.get("limit", _DEFAULT_USERS)]
    accounts = _accounts_of(report.state["accounts"], listed)
    found = {"as_of": report.state["as_of"], "total": len(users), "users": listed, "accounts": accounts}
    return {**found, "explanation": explanation}


def _accounts_of(accounts: Iterable[_Ranked], users: Iterable[_Ranked]) -> list[_Ranked]:
    """Return the accounts that contain some of the users."""
    above = {path for user in users for path in _paths_above(user["path"])}
    return [account for account in accounts if account["path"] in above]


def _paths_above(path: str) -> Iterator[str]:
    while path := path.rpartition("/")[0]:
        yield path


def shares_of(reports: Iterable[ModelReport]) -> ModelReport | None:
    """Return the report of the model of fair shares; None if there is none."""
    return next((one for one in reports if one.model == _MODEL and not one.is_suspended), None)
