"""Explanations: the answer to a request, with everything that it depends on at the same moment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from typing import NamedTuple

from ugm.decision import Decision, Violation
from ugm.errors import RequestError, value_text
from ugm.identity import ROOT, TrackingType, is_below
from ugm.partition.state import PartitionState
from ugm.resources import Resource, format_amount
from ugm.tracking import EffectiveLimit
from ugm.tracking.holding import Amounts, Holding, amount_of
from ugm.tracking.links import all_holdings

__all__ = [
    "CopiedHolding",
    "Explanation",
    "Holder",
    "copy_holdings",
    "explain",
    "headroom_of",
    "require_holder_count",
]


class Holder(NamedTuple):
    """An application that holds some of a resource that a request is short of."""

    application_id: str
    user: str
    queue_path: str
    #: The amount of the resource that it holds; 1 if the request is short of running applications.
    amount: int

    def __repr__(self) -> str:
        fields = zip(self._fields, self, strict=True)
        return f"Holder({', '.join(f'{name}={value_text(value)}' for name, value in fields)})"

    def to_dict(self) -> dict[str, object]:
        """Return the holder for JSON, with the names of its attributes."""
        return self._asdict()


@dataclass(frozen=True, slots=True)
class Explanation:
    """A decision with the largest holders of each short resource, the limits and the headroom, at one moment."""

    decision: Decision
    #: For each violation of the decision, in the same order: the largest holders first, then by id. Empty for every
    #: violation of a request that can never fit, because no release would help.
    holders: tuple[tuple[Holder, ...], ...] = ()
    #: Every limit of users, groups and queues that holds for the request.
    limits: tuple[EffectiveLimit, ...] = ()
    #: The queue of the subject; empty if there is none.
    queue_path: str = ""

    @property
    def headroom(self) -> Resource | None:
        """The minimum that the limits leave, for each limited resource; None if no resource is limited."""
        return headroom_of(self.limits)

    def to_dict(self) -> dict[str, object]:
        """Return the explanation for JSON."""
        pairs = zip(self.decision.violations, self.holders, strict=True)
        headroom = self.headroom
        return {
            **self.decision.to_dict(),
            "queue_path": self.queue_path or None,
            "violations": [
                {**violation.to_dict(), "holders": [holder.to_dict() for holder in holders]}
                for violation, holders in pairs
            ],
            "limits": [limit.to_dict() for limit in self.limits],
            "headroom": None if headroom is None else dict(headroom),
        }

    def __str__(self) -> str:
        text = str(self.decision).splitlines()
        lines = text[:1]
        for violation, holders in zip(self.decision.violations, self.holders, strict=True):
            lines.append(f"  {violation}")
            lines += [f"    held by {_holder_text(violation, holder)}" for holder in holders]
        if self.decision.evictions and not self.decision:
            lines.append(text[-1])
        return "\n".join(lines)


def _holder_text(violation: Violation, holder: Holder) -> str:
    text = f"{holder.application_id!r} of {holder.user!r} in {holder.queue_path}"
    if violation.resource is None:
        return text
    return f"{text}: {format_amount(violation.resource, holder.amount)}"


def headroom_of(limits: Iterable[EffectiveLimit]) -> Resource | None:
    """Return the minimum that limits leave, for each limited resource; None if they limit no resource."""
    free: dict[str, int] = {}
    for limit in limits:
        for name, maximum in (limit.max_resources or {}).items():
            left = maximum - limit.usage[name]
            free[name] = min(left, free.get(name, left))
    return Resource(free) if free else None


def require_holder_count(most: object) -> int:
    """Return the number of holders to list for each limit.

    Raises:
        RequestError: it is not a number, or below 0.
    """
    if type(most) is not int or most < 0:
        raise RequestError("most", most, "expected a number of holders, 0 or more")
    return most


class CopiedHolding(NamedTuple):
    """The amounts that an application holds in a queue, copied at the moment of a decision."""

    holding: Holding
    amounts: Amounts


def explain(
    decision: Decision,
    copies: Sequence[Sequence[CopiedHolding]],
    limits: tuple[EffectiveLimit, ...],
    queue_path: str,
    most: int,
) -> Explanation:
    """Find the largest holders of the resources that a denied request is short of; without the lock.

    Args:
        decision: the decision.
        copies: the result of `copy_holdings` for each of its violations.
        limits: every limit that holds for the request.
        queue_path: the queue of the subject.
        most: the number of holders of each resource.
    """
    if not decision.can_wait:
        return Explanation(decision, ((),) * len(decision.violations), limits, queue_path)
    pairs = zip(decision.violations, copies, strict=True)
    holders = tuple(_holders(violation, holdings, most) for violation, holdings in pairs)
    return Explanation(decision, holders, limits, queue_path)


def _holders(violation: Violation, copies: Sequence[CopiedHolding], most: int) -> tuple[Holder, ...]:
    found = (
        Holder(holding.application_id, holding.owner.name, holding.queue_path, amount)
        for holding, amounts in copies
        if is_below(holding.queue_path, violation.queue_path or ROOT)
        for amount in [1 if violation.resource is None else amount_of(amounts, violation.resource)]
        if amount
    )
    return tuple(nsmallest(most, found, key=lambda holder: (-holder.amount, holder.application_id)))


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
