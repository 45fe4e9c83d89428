"""Endpoints for decisions: checks, explanations, effective limits, and why an application waits.

They do not change the partition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from ugm import Resource, UserGroup
from ugm.errors import RequestError
from ugm.identity import canonical_path
from ugm.partition import AbstractPartition, Explanation, UserInQueue, headroom_of
from ugm.queues import Placement
from ugm.resources import parse_quantity
from ugm.server.errors import unknown
from ugm.server.state import RequestBody, RequestContext, ServedPartition
from ugm.tracking import EffectiveLimit

__all__ = ["application", "check", "explain", "explain_request", "limits"]

#: The number of pending allocations of an application that are explained.
_MOST_EXPLAINED: Final = 10


def check(served: ServedPartition, request: RequestContext) -> object:
    """Return the decision on one more allocation."""
    return _decision_dict(*_explanation(served.partition, request.body))


def explain(served: ServedPartition, request: RequestContext) -> object:
    """Return the decision on one more allocation, the holders of missing resources, and every limit that applies."""
    return explain_request(served.partition, request.body)


def explain_request(partition: AbstractPartition, body: RequestBody) -> dict[str, object]:
    """Return the explanation of a request for JSON."""
    return _explanation_dict(*_explanation(partition, body))


def _explanation(partition: AbstractPartition, body: RequestBody) -> tuple[Placement | None, Explanation]:
    """Return the explanation of a request, and the placement if the request names a user instead of an application."""
    usage, most = _amounts(body["usage"]), body.get("most", 3)
    if "application_id" not in body:
        user, quota = UserGroup(body["user"], body.get("groups", ())), body.get("quota")
        report = partition.explain_submission(
            user,
            body.get("queue", ""),
            usage,
            body.get("tags"),
            quota=None if quota is None else _amounts(quota),
            most=most,
        )
        return report.placement, report.explanation
    try:
        return None, partition.explain(body["application_id"], usage, most=most)
    except RequestError:
        if partition.application(body["application_id"]) is None:
            raise unknown("application", body["application_id"]) from None
        raise


def _amounts(amounts: Mapping[str, int | str]) -> Resource:
    """Convert amounts, each an integer in base units or a quantity, to a resource vector."""
    return Resource(
        {
            name: amount if isinstance(amount, int) else parse_quantity(amount, vcore=name == "vcore")
            for name, amount in amounts.items()
        }
    )


def _decision_dict(placement: Placement | None, explanation: Explanation) -> dict[str, object]:
    placed = None if placement is None else placement.to_dict()
    if not explanation.queue_path:
        denied = {"allowed": False, "can_wait": False, "violations": [], "evictions": []}
        return {**denied, "queue_path": None, "placement": placed, "text": str(placement)}
    decision = explanation.decision
    return {**decision.to_dict(), "queue_path": explanation.queue_path, "placement": placed, "text": str(decision)}


def _explanation_dict(placement: Placement | None, explanation: Explanation) -> dict[str, object]:
    if not explanation.queue_path:
        return {**_decision_dict(placement, explanation), "limits": [], "headroom": None}
    placed = None if placement is None else placement.to_dict()
    return {**explanation.to_dict(), "placement": placed, "text": str(explanation)}


def _limits_dict(effective: Sequence[EffectiveLimit]) -> dict[str, object]:
    headroom = headroom_of(effective)
    return {
        "limits": [limit.to_dict() for limit in effective],
        "headroom": None if headroom is None else dict(headroom),
    }


def limits(served: ServedPartition, request: RequestContext) -> object:
    """Return every limit that applies to a user in a queue."""
    query = request.query
    user, path = UserGroup(query["user"], query.get("group", ())), canonical_path(query["queue"])
    return {"queue_path": path, **_limits_dict(served.partition.limits(UserInQueue(user, path)))}


def application(served: ServedPartition, request: RequestContext) -> object:
    """Return one application with its limits and the explanations of its pending allocations."""
    name = request.path["name"]
    report = served.partition.application_report(name, waiting=_MOST_EXPLAINED)
    if report is None:
        raise unknown("application", name)
    waiting = [
        {"allocation": allocation.to_dict(), "explanation": _explanation_dict(None, explanation)}
        for allocation, explanation in report.waiting
    ]
    return {**report.application.to_dict(), **_limits_dict(report.limits), "waiting": waiting}
