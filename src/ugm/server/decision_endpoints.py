"""Endpoints for decisions: checks, explanations, effective limits, and why an application waits.

They do not change the partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from ugm import Resource, UserGroup
from ugm.errors import RequestError
from ugm.identity import canonical_path
from ugm.partition import Partition, RequestReport
from ugm.resources import parse_quantity
from ugm.server.errors import unknown
from ugm.server.state import RequestBody, RequestContext, ServedPartition
from ugm.tracking import EffectiveLimit

__all__ = ["application", "check", "explain", "explain_request", "limits"]

#: The number of pending allocations of an application that are explained.
_MOST_EXPLAINED: Final = 10


def check(served: ServedPartition, request: RequestContext) -> object:
    """Return the decision on one more allocation."""
    return _decision_dict(_report(served.partition, request.body))


def explain(served: ServedPartition, request: RequestContext) -> object:
    """Return the decision on one more allocation, the holders of missing resources, and every limit that applies."""
    return explain_request(served.partition, request.body)


def explain_request(partition: Partition, body: RequestBody) -> dict[str, object]:
    """Return the explanation of a request for JSON."""
    return _report_dict(_report(partition, body))


def _report(partition: Partition, body: RequestBody) -> RequestReport:
    usage, most = _amounts(body["usage"]), body.get("most", 3)
    if "application_id" not in body:
        user, quota = UserGroup(body["user"], body.get("groups", ())), body.get("quota")
        return partition.request_report_for(
            user,
            body.get("queue", ""),
            usage,
            body.get("tags"),
            quota=None if quota is None else _amounts(quota),
            most=most,
        )
    try:
        return partition.request_report(body["application_id"], usage, most=most)
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


def _decision_dict(report: RequestReport) -> dict[str, object]:
    decision, placement = report.explanation.decision, report.placement
    placed = None if placement is None else placement.to_dict()
    if report.queue_path is None:
        denied = {"allowed": False, "can_wait": False, "violations": [], "evictions": []}
        return {**denied, "queue_path": None, "placement": placed, "text": str(placement)}
    return {**decision.to_dict(), "queue_path": report.queue_path, "placement": placed, "text": str(decision)}


def _report_dict(report: RequestReport) -> dict[str, object]:
    fields = {**_decision_dict(report), **_limits_dict(report.limits, report.headroom)}
    if report.queue_path is None:
        return fields
    return {**fields, **report.explanation.to_dict(), "text": str(report.explanation)}


def _limits_dict(effective: Iterable[EffectiveLimit], headroom: Resource | None) -> dict[str, object]:
    return {
        "limits": [limit.to_dict() for limit in effective],
        "headroom": None if headroom is None else dict(headroom),
    }


def limits(served: ServedPartition, request: RequestContext) -> object:
    """Return every limit that applies to a user in a queue."""
    query = request.query
    user, path = UserGroup(query["user"], query.get("group", ())), canonical_path(query["queue"])
    return {"queue_path": path, **_limits_dict(*served.partition.limits_for(user, path))}


def application(served: ServedPartition, request: RequestContext) -> object:
    """Return one application with its limits and the explanations of its pending allocations."""
    name = request.path["name"]
    report = served.partition.application_report(name, waiting=_MOST_EXPLAINED)
    if report is None:
        raise unknown("application", name)
    path = report.application.queue_path
    waiting = [
        {
            "allocation": allocation.to_dict(),
            "explanation": _report_dict(RequestReport(None, path, why, report.limits, report.headroom)),
        }
        for allocation, why in report.waiting
    ]
    return {**report.application.to_dict(), **_limits_dict(report.limits, report.headroom), "waiting": waiting}
