"""The explanation of a request for JSON, and the report of fair shares, for the REST interface and for the command."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ugm import Decision, Resource, UserGroup
from ugm.partition import AbstractPartition, Admission, Explanation, ModelReport
from ugm.queues import Placement

__all__ = ["answer_dict", "explain_request", "shares_of"]


def explain_request(
    partition: AbstractPartition,
    usage: Resource,
    *,
    application_id: str | None = None,
    user: str = "",
    groups: Sequence[str] = (),
    queue: str = "",
    tags: Mapping[str, str] | None = None,
    quota: Resource | None = None,
    duration: int | None = None,
    max_holders: int = 3,
    checks_only: bool = False,
) -> dict[str, object]:
    """Return the explanation of a request of an application or, without one, of a user.

    Args:
        partition: the partition.
        usage: the requested amounts.
        application_id: the application; None for a new one of the user.
        user: the user.
        groups: the groups of the user.
        queue: the requested queue.
        tags: the tags of the new application.
        quota: the quota of its namespace.
        duration: the promised duration.
        max_holders: the number of holders of each missing resource.
        checks_only: whether only the decision is returned.
    """
    if application_id is not None:
        found = partition.explain(application_id, usage, max_holders=max_holders, duration=duration)
        return answer_dict(None, found.decision if checks_only else found, found.queue_path)
    report = partition.explain_submission(
        UserGroup(user, groups), queue, usage, tags, quota=quota, max_holders=max_holders, duration=duration
    )
    found = report.explanation
    return answer_dict(report.placement, found.decision if checks_only else found, found.queue_path)


def answer_dict(placement: Placement | None, answer: Decision | Explanation, queue_path: str) -> dict[str, object]:
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


def shares_of(reports: Iterable[ModelReport]) -> ModelReport | None:
    """Return the report of the model of fair shares; None if there is none."""
    return next((one for one in reports if one.model == "FairShares" and not one.is_suspended), None)
