"""The largest holders of the resources that a denied request is short of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import nsmallest
from typing import NamedTuple

from ugm.arguments import require_number
from ugm.decision import Decision, EffectiveLimit, Explanation, Holder, Violation
from ugm.identity import ROOT, TrackingType, is_below
from ugm.partition.state import PartitionState
from ugm.resources import Resource
from ugm.tracking.holding import Amounts, Holding, amount_of
from ugm.tracking.holding_links import all_holdings

__all__ = ["CopiedHolding", "SubjectLimits", "copy_holdings", "explain", "require_holder_count"]


def require_holder_count(max_holders: object) -> int:
    """Return the number of holders to list for each limit.

    Raises:
        RequestError: it is not a number, or below 0.
    """
    return require_number("max_holders", max_holders, "holders")


class CopiedHolding(NamedTuple):
    """The amounts that an application holds in a queue, copied at the moment of a decision."""

    holding: Holding
    amounts: Amounts


class SubjectLimits(NamedTuple):
    """The limits that hold for a subject, at one moment."""

    #: The queue of the subject; empty if there is none.
    queue_path: str
    limits: tuple[EffectiveLimit, ...]
    #: The headroom that other quota models leave; None if it follows from `limits`.
    model_headroom: Resource | None = None


def explain(
    decision: Decision,
    copies: Sequence[Sequence[CopiedHolding]],
    limits: SubjectLimits,
    max_holders: int,
) -> Explanation:
    """Find the largest holders of the resources that a denied request is short of; without the lock.

    Args:
        decision: the decision.
        copies: the result of `copy_holdings` for each of its violations.
        limits: the limits of the subject.
        max_holders: the number of holders of each resource.
    """
    holders: tuple[tuple[Holder, ...], ...] = ((),) * len(decision.violations)
    if decision.can_wait:
        pairs = zip(decision.violations, copies, strict=True)
        holders = tuple(_holders(violation, holdings, max_holders) for violation, holdings in pairs)
    return Explanation(decision, holders, limits.limits, limits.queue_path, limits.model_headroom)


def _holders(violation: Violation, copies: Sequence[CopiedHolding], max_holders: int) -> tuple[Holder, ...]:
    found = (
        Holder(holding.application_id, holding.owner.name, holding.queue_path, amount)
        for holding, amounts in copies
        if is_below(holding.queue_path, violation.queue_path or ROOT)
        for amount in [1 if violation.resource is None else amount_of(amounts, violation.resource)]
        if amount
    )
    return tuple(nsmallest(max_holders, found, key=lambda holder: (-holder.amount, holder.application_id)))


def copy_holdings(state: PartitionState, *decisions: Decision) -> list[Sequence[CopiedHolding]]:
    """Copy the holdings that are charged to the owner of each violated limit; the caller holds the lock.

    Violations of other quota models have no holdings. The time depends on the number of applications that are charged
    to the limits; each owner is copied once.
    """
    copies: dict[tuple[str, str], Sequence[CopiedHolding]] = {}
    found = []
    for decision in decisions:
        for violation in decision.violations:
            owner = (violation.kind, "" if violation.kind == TrackingType.QUEUE else violation.name)
            if owner not in copies:
                holdings = all_holdings(_charged_to(state, violation))
                copies[owner] = [CopiedHolding(holding, holding.amounts) for holding in holdings]
            found.append(copies[owner])
    return found


def _charged_to(state: PartitionState, violation: Violation) -> Mapping[str, Holding]:
    index = state.holding_index
    if violation.kind == TrackingType.QUEUE:
        return index.holdings
    if violation.kind == TrackingType.USER and violation.name in index.users:
        return index.users[violation.name].holdings
    if violation.kind == TrackingType.GROUP and violation.name in index.groups:
        return index.groups[violation.name].holdings
    return {}
