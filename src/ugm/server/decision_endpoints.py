"""What would be: checks and explanations, effective limits, plans, and whether a configuration is good.

Nothing here changes a partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from ugm import Resource, UserGroup
from ugm.errors import RequestError
from ugm.identity import canonical_path
from ugm.partition import RequestReport
from ugm.resources import parse_quantity
from ugm.server.errors import unknown
from ugm.server.state import RequestContext
from ugm.server.worker_jobs import Result
from ugm.tracking import EffectiveLimit

__all__ = ["application", "check", "explain", "limits", "plan", "validate"]

#: Of so many pending allocations of an application it is said why they wait.
_MOST_WAITING: Final = 10


def check(asked: RequestContext) -> object:
    """Return what the engine would answer now."""
    return _answer_dict(_report(asked))


def explain(asked: RequestContext) -> object:
    """Return what the engine would answer now, who holds what is missing, and every limit that holds."""
    return _report_dict(_report(asked))


def _report(asked: RequestContext) -> RequestReport:
    body, partition = asked.body, asked.partition
    usage, most = _amounts(body["usage"]), body.get("most", 3)
    if "application_id" not in body:
        asked_for, quota = body.get("queue", ""), _quota(body)
        return partition.request_report_for(_user(body), asked_for, usage, body.get("tags"), quota=quota, most=most)
    try:
        return partition.request_report(body["application_id"], usage, most=most)
    except RequestError:
        if partition.application(body["application_id"]) is None:
            raise unknown("application", body["application_id"]) from None
        raise


def _user(body: Mapping[str, Any]) -> UserGroup:
    return UserGroup(body["user"], body.get("groups", ()))


def _amounts(told: Mapping[str, Any]) -> Resource:
    """Return amounts in base units, whether they were told so or as quantities."""
    return Resource(
        {
            name: amount if isinstance(amount, int) else parse_quantity(amount, vcore=name == "vcore")
            for name, amount in told.items()
        }
    )


def _quota(body: Mapping[str, Any]) -> Resource | None:
    """Return the quota of the namespace; None if the request has none."""
    return _amounts(body["quota"]) if "quota" in body else None


def _answer_dict(report: RequestReport) -> dict[str, Any]:
    decision, placement = report.explanation.decision, report.placement
    placed = None if placement is None else placement.to_dict()
    if report.queue_path is None:
        told = {"allowed": False, "can_wait": False, "violations": [], "evictions": []}
        return {**told, "queue_path": None, "placement": placed, "text": str(placement)}
    return {**decision.to_dict(), "queue_path": report.queue_path, "placement": placed, "text": str(decision)}


def _report_dict(report: RequestReport) -> dict[str, Any]:
    told = {**_answer_dict(report), **_limits_dict(report.limits, report.headroom)}
    if report.queue_path is None:
        return told
    return {**told, **report.explanation.to_dict(), "text": str(report.explanation)}


def _limits_dict(found: Iterable[EffectiveLimit], headroom: Resource | None) -> dict[str, Any]:
    return {
        "limits": [limit.to_dict() for limit in found],
        "headroom": None if headroom is None else dict(headroom),
    }


def limits(asked: RequestContext) -> object:
    """Return every limit that holds for a user in a queue."""
    query = asked.query
    user, path = UserGroup(query["user"], query.get("group", ())), canonical_path(query["queue"])
    return {"queue_path": path, **_limits_dict(*asked.partition.limits_for(user, path))}


def application(asked: RequestContext) -> object:
    """Return one application with its limits, and why what is pending waits."""
    name = asked.path["name"]
    report = asked.partition.application_report(name, waiting=_MOST_WAITING)
    if report is None:
        raise unknown("application", name)
    limits = _limits_dict(report.limits, report.headroom)
    path = report.application.queue_path
    waiting = [
        {
            "allocation": allocation.to_dict(),
            "explanation": _report_dict(RequestReport(None, path, why, report.limits, report.headroom)),
        }
        for allocation, why in report.waiting
    ]
    return {**report.application.to_dict(), **limits, "waiting": waiting}


def plan(asked: RequestContext) -> Result:
    """Return what a configuration would do to the partition, without doing it."""
    return asked.site.worker.plan(asked.partition, asked.partition_name, asked.body)


def validate(asked: RequestContext) -> Result:
    """Return whether a configuration is good, and everything that is wrong with it."""
    return asked.site.worker.validate(asked.body)
