"""The endpoint that shows the shares of users."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ugm.fairness.model import explain_shares
from ugm.partition import ModelReport
from ugm.server.state import RequestContext, ServedPartition

__all__ = ["shares", "shares_of"]

#: The default number of users.
_DEFAULT_USERS: Final = 100
#: The name of the class of quota models with shares.
_MODEL: Final = "FairShares"


def shares(served: ServedPartition, request: RequestContext) -> object:
    """List the users by their shares and usage, the best first, and explain the order of two of them."""
    report, query = shares_of(served.models(request.arrived).reports), request.query
    if report is None or report.definition is None:
        return {"as_of": None, "total": 0, "users": [], "explanation": None}
    first, second, text = query.get("first"), query.get("second"), query.get("find", "").lower()
    users = [user for user in report.state["users"] if text in user["path"].lower()]
    explanation = None
    if first is not None and second is not None:
        explanation = explain_shares(report.definition, report.state, first, second).to_dict()
    skip = query.get("skip", 0)
    listed = users[skip : skip + query.get("most", _DEFAULT_USERS)]
    return {"as_of": report.state["as_of"], "total": len(users), "users": listed, "explanation": explanation}


def shares_of(reports: Iterable[ModelReport]) -> ModelReport | None:
    """Return the report of the model of fair shares; None if there is none."""
    return next((one for one in reports if one.model == _MODEL and not one.is_suspended), None)
