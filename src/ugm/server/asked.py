"""What would be: checks and explanations, effective limits, plans, and whether a configuration is good.

Nothing here changes a partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Final

from ugm import Resource, UserGroup
from ugm.config import parse_config, review_config
from ugm.decision import Decision
from ugm.errors import ConfigError, Problem, RequestError
from ugm.identity import canonical_path
from ugm.partition import Allocation, AllocationState, Explanation, Partition
from ugm.queues import Placement
from ugm.resources import parse_quantity
from ugm.server.errors import problem_dict, unknown
from ugm.server.seen import told_allocation
from ugm.server.site import Question
from ugm.tracking import EffectiveLimit

__all__ = ["application", "check", "explain", "limits", "plan", "validate"]

#: Of so many pending allocations of an application it is said why they wait.
_MOST_WAITING: Final = 10


def check(asked: Question) -> object:
    """Return what the engine would answer now."""
    body, partition = asked.body, asked.partition
    usage = _amounts(body["usage"])
    if "application_id" in body:
        path = _placed(partition, body["application_id"])
        return _decision_dict(partition.check(body["application_id"], usage), path, None)
    user = _user(body)
    placement = partition.placement_for(user, body.get("queue", ""), body.get("tags"))
    if placement.queue_path is None:
        return _rejected(placement)
    decision = partition.check_for(user, placement.queue_path, usage, body.get("tags"), quota=_quota(body))
    return _decision_dict(decision, placement.queue_path, placement)


def explain(asked: Question) -> object:
    """Return what the engine would answer now, who holds what is missing, and every limit that holds."""
    body, partition = asked.body, asked.partition
    usage, most = _amounts(body["usage"]), body.get("most", 3)
    if "application_id" in body:
        return _explained(partition, body["application_id"], usage, most)
    user = _user(body)
    placement = partition.placement_for(user, body.get("queue", ""), body.get("tags"))
    if placement.queue_path is None:
        return {**_rejected(placement), "limits": [], "headroom": None}
    path, quota = placement.queue_path, _quota(body)
    explanation = partition.explain_for(user, path, usage, body.get("tags"), quota=quota, most=most)
    told = _explanation_dict(explanation, path, placement)
    return {**told, **_limits_dict(*partition.limits_for(user, path, quota=quota))}


def _explained(partition: Partition, application_id: str, usage: Resource, most: int) -> dict[str, Any]:
    path = _placed(partition, application_id)
    told = _explanation_dict(partition.explain(application_id, usage, most=most), path, None)
    return {**told, **_limits_of(partition, application_id)}


def _placed(partition: Partition, application_id: str) -> str:
    found = partition.application(application_id)
    if found is None:
        raise unknown("application", application_id)
    return found.queue_path


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


def _rejected(placement: Placement) -> dict[str, Any]:
    told = {"allowed": False, "can_wait": False, "violations": [], "evictions": []}
    return {**told, "queue_path": None, "placement": placement.to_dict(), "text": str(placement)}


def _decision_dict(decision: Decision, queue_path: str, placement: Placement | None) -> dict[str, Any]:
    told = {"queue_path": queue_path, "placement": placement and placement.to_dict(), "text": str(decision)}
    return {**decision.to_dict(), **told}


def _explanation_dict(explanation: Explanation, queue_path: str, placement: Placement | None) -> dict[str, Any]:
    told = _decision_dict(explanation.decision, queue_path, placement)
    return {**told, **explanation.to_dict(), "text": str(explanation)}


def _limits_of(partition: Partition, application_id: str) -> dict[str, Any]:
    return _limits_dict(partition.effective_limits(application_id), partition.headroom(application_id))


def _limits_dict(found: Iterable[EffectiveLimit], headroom: Resource | None) -> dict[str, Any]:
    return {
        "limits": [limit.to_dict() for limit in found],
        "headroom": None if headroom is None else dict(headroom),
    }


def limits(asked: Question) -> object:
    """Return every limit that holds for a user in a queue."""
    query = asked.query
    user, path = UserGroup(query["user"], query.get("group", ())), canonical_path(query["queue"])
    return {"queue_path": path, **_limits_dict(*asked.partition.limits_for(user, path))}


def application(asked: Question) -> object:
    """Return one application with its limits, and why what is pending waits."""
    partition, name = asked.partition, asked.path["name"]
    found = partition.application(name)
    if found is None:
        raise unknown("application", name)
    try:
        pending = (told for told in partition.allocations(name) if told.state is AllocationState.PENDING)
        waiting = [_waiting(partition, told) for told in islice(pending, _MOST_WAITING)] if found.pending else []
        return {**found.to_dict(), **_limits_of(partition, name), "waiting": waiting}
    except RequestError:
        if partition.application(name) is None:
            # It has ended since.
            raise unknown("application", name) from None
        raise


def _waiting(partition: Partition, pending: Allocation) -> dict[str, Any]:
    explanation = _explained(partition, pending.application_id, pending.usage, 3)
    return {"allocation": told_allocation(partition, pending), "explanation": explanation}


def plan(asked: Question) -> object:
    """Return what a configuration would do to the partition, without doing it."""
    partition, name = asked.partition, asked.partition_name
    config = parse_config(asked.body, file="plan")
    chosen = next((found for found in config.partitions if found.name == name), None)
    if chosen is None:
        message = f"partition {name!r} is missing"
        raise ConfigError((Problem("plan", 0, 0, "partitions", "partition-missing", message),))
    planned = partition.plan(chosen)
    return {**planned.to_dict(), "text": str(planned)}


def validate(asked: Question) -> object:
    """Return whether a configuration is good, everything that is wrong with it, and what probably is."""
    review = review_config(asked.body, file="sent")
    return {
        "allowed": not review.problems,
        "reason": review.problems[0].message if review.problems else "",
        "problems": list(map(problem_dict, review.problems)),
        "warnings": list(map(problem_dict, review.warnings)),
    }
