"""Endpoints for decisions: checks, explanations, effective limits, and why an application waits.

They do not change the partition.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from ugm import Decision, Resource, UserGroup
from ugm._json_values import JsonMapping
from ugm.identity import canonical_path
from ugm.partition import AbstractPartition, Admission, ApplicationReport, Explanation, Subject, UserInQueue
from ugm.queues import Placement
from ugm.resources import optional_dict, parse_quantity
from ugm.server.payloads import require_found
from ugm.server.state import RequestBody, RequestContext, ServedPartition

__all__ = [
    "application",
    "check",
    "explain",
    "explain_request",
    "limits",
    "order",
    "parse_amounts",
    "parse_nodes",
    "plan_reclaim",
]

#: The number of pending allocations of an application that are explained.
_MOST_EXPLAINED: Final = 10
#: The default number of requests in an answer about their order.
_DEFAULT_TURNS: Final = 100


def check(served: ServedPartition, request: RequestContext) -> object:
    """Return the decision on one more allocation."""
    placement, explanation = _explanation(served.partition, request.body)
    return _answer_dict(placement, explanation.decision, explanation.queue_path)


def explain(served: ServedPartition, request: RequestContext) -> object:
    """Return the decision on one more allocation, the holders of missing resources, and every limit that applies."""
    return explain_request(served.partition, request.body)


def explain_request(partition: AbstractPartition, body: RequestBody) -> dict[str, object]:
    """Return the explanation of a request for JSON."""
    placement, explanation = _explanation(partition, body)
    return _answer_dict(placement, explanation, explanation.queue_path)


def _explanation(partition: AbstractPartition, body: RequestBody) -> tuple[Placement | None, Explanation]:
    """Return the explanation of a request, and the placement if the request names a user instead of an application."""
    usage, most = parse_amounts(body["usage"]), body.get("max_holders", 3)
    duration: int | None = body.get("duration")
    if "application_id" not in body:
        user, quota = UserGroup(body["user"], body.get("groups", ())), body.get("quota")
        report = partition.explain_submission(
            user,
            body.get("queue", ""),
            usage,
            body.get("tags"),
            quota=None if quota is None else parse_amounts(quota),
            max_holders=most,
            duration=duration,
        )
        return report.placement, report.explanation
    return None, partition.explain(body["application_id"], usage, max_holders=most, duration=duration)


def order(served: ServedPartition, request: RequestContext) -> object:
    """Return the first pending requests in the order in which a scheduler should try them, with the reasons."""
    query = request.query
    turns = served.partition.order(max_turns=query.get("limit", _DEFAULT_TURNS), tree=query.get("tree", ""))
    return {"turns": [turn.to_dict() for turn in turns]}


def plan_reclaim(served: ServedPartition, request: RequestContext) -> object:
    """Return the allocations to evict so that a request within its guarantee fits."""
    body, partition = request.body, served.partition
    subject: Subject
    if "application_id" in body:
        subject = body["application_id"]
        require_found("application", subject, partition.application)
    else:
        subject = UserInQueue(UserGroup(body["user"], body.get("groups", ())), body["queue"], body.get("tags"))
    priority, preemptible = body.get("priority", 0), body.get("preemptible", True)
    plan = partition.plan_reclaim(
        subject,
        parse_amounts(body["usage"]),
        priority=priority,
        preemptible=preemptible,
        duration=body.get("duration"),
        nodes=parse_nodes(body),
    )
    return {**plan.to_dict(), "text": str(plan)}


def parse_amounts(amounts: Mapping[str, int | str]) -> Resource:
    """Convert amounts, each an integer in base units or a quantity, to a resource vector."""
    return Resource(
        {
            name: amount if isinstance(amount, int) else parse_quantity(amount, vcore=name == "vcore")
            for name, amount in amounts.items()
        }
    )


def parse_nodes(body: RequestBody | JsonMapping) -> dict[str, Resource] | None:
    """Return the free amounts of the nodes in a body; None if it has none."""
    nodes = body.get("nodes")
    return None if nodes is None else {name: parse_amounts(free) for name, free in nodes.items()}


def _answer_dict(placement: Placement | None, answer: Decision | Explanation, queue_path: str) -> dict[str, object]:
    """Return a decision or explanation for JSON; *queue_path* is empty if no placement rule finds a queue."""
    fields = {"queue_path": queue_path or None, "placement": None if placement is None else placement.to_dict()}
    decision = answer.decision if isinstance(answer, Explanation) else answer
    # Without a queue there is no decision.
    described = Admission(placement, None) if placement is not None and not queue_path else decision
    texts = {"summary": described.summary, "for_people": described.for_people()}
    if not queue_path:
        texts |= {"text": str(placement)}
        return {**answer.to_dict(), **fields, **texts, "allowed": False, "can_wait": False}
    return {**answer.to_dict(), **fields, **texts, "text": str(answer)}


def _limits_dict(answer: Explanation | ApplicationReport) -> dict[str, object]:
    return {
        "limits": [limit.to_dict() for limit in answer.limits],
        "headroom": optional_dict(answer.headroom),
    }


def limits(served: ServedPartition, request: RequestContext) -> object:
    """Return every limit that applies to a user in a queue."""
    query = request.query
    user, path = UserGroup(query["user"], query.get("group", ())), canonical_path(query["queue"])
    # The explanation of an empty request has the limits and the headroom of one moment.
    return {"queue_path": path, **_limits_dict(served.partition.explain(UserInQueue(user, path), Resource()))}


def application(served: ServedPartition, request: RequestContext) -> object:
    """Return one application with its limits and the explanations of its pending allocations."""
    find = partial(served.partition.application_report, max_pending=_MOST_EXPLAINED)
    report = require_found("application", request.path["name"], find)
    waiting = [
        {
            "allocation": allocation.to_dict(),
            "explanation": _answer_dict(None, explanation, explanation.queue_path),
        }
        for allocation, explanation in report.pending
    ]
    return {**report.application.to_dict(), **_limits_dict(report), "waiting": waiting}
