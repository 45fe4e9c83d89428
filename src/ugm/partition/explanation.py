"""Why a request is denied, and who holds what it is missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import nsmallest
from typing import Any, NamedTuple

from ugm.decision import Decision, Violation
from ugm.errors import RequestError, value_text
from ugm.identity import ROOT, TrackingType, is_below
from ugm.partition.state import PartitionState
from ugm.resources import format_amount
from ugm.tracking.holding import Amounts, Holding, amount_of
from ugm.tracking.links import all_holdings

__all__ = ["Explanation", "Held", "Holder", "charged", "explain", "require_holder_count"]


class Holder(NamedTuple):
    """An application that holds some of what a request is missing."""

    application_id: str
    user: str
    queue_path: str
    #: How much of the resource it holds; 1 where the number of applications is short.
    amount: int

    def __repr__(self) -> str:
        fields = zip(self._fields, self, strict=True)
        return f"Holder({', '.join(f'{name}={value_text(value)}' for name, value in fields)})"

    def to_dict(self) -> dict[str, Any]:
        """Return the holder for JSON, in the same words as its attributes."""
        return self._asdict()


class Explanation(NamedTuple):
    """A decision, with those who hold most of what is short, limit by limit."""

    decision: Decision
    #: For every violation of the decision, in the same order: the largest holders first, then by id. No holders where
    #: waiting can never help, because nothing that they release could let the request in.
    holders: tuple[tuple[Holder, ...], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation for JSON."""
        told = self.decision.to_dict()
        for violation, holders in zip(told["violations"], self.holders, strict=True):
            violation["holders"] = [holder.to_dict() for holder in holders]
        return told

    def __str__(self) -> str:
        told = str(self.decision).splitlines()
        lines = told[:1]
        for violation, holders in zip(self.decision.violations, self.holders, strict=True):
            lines.append(f"  {violation}")
            lines += [f"    held by {_told(violation, holder)}" for holder in holders]
        if self.decision.evictions and not self.decision:
            lines.append(told[-1])
        return "\n".join(lines)


def _told(violation: Violation, holder: Holder) -> str:
    whose = f"{holder.application_id!r} of {holder.user!r} in {holder.queue_path}"
    if violation.resource is None:
        return whose
    return f"{whose}: {format_amount(violation.resource, holder.amount)}"


def require_holder_count(most: object) -> int:
    """Return how many holders are told.

    Raises:
        RequestError: it is no number, or below 0.
    """
    if type(most) is not int or most < 0:
        raise RequestError("most", most, "expected how many holders to tell")
    return most


class Held(NamedTuple):
    """What an application holds in a queue, copied at the moment of a decision."""

    holding: Holding
    amounts: Amounts


def explain(decision: Decision, charged: Sequence[Sequence[Held]], most: int) -> Explanation:
    """Find who holds what a denied request is missing; nobody, if the request can never fit.

    Args:
        decision: the denial.
        charged: what `charged` returned for each of its violations.
        most: how many holders of each are told.
    """
    if not decision.can_wait:
        return Explanation(decision, ((),) * len(decision.violations))
    pairs = zip(decision.violations, charged, strict=True)
    return Explanation(decision, tuple(_holders(violation, holdings, most) for violation, holdings in pairs))


def _holders(violation: Violation, charged: Sequence[Held], most: int) -> tuple[Holder, ...]:
    found = (
        Holder(holding.application_id, holding.owner.name, holding.queue_path, amount)
        for holding, amounts in charged
        if is_below(holding.queue_path, violation.queue_path or ROOT)
        for amount in [1 if violation.resource is None else amount_of(amounts, violation.resource)]
        if amount
    )
    return tuple(nsmallest(most, found, key=lambda holder: (-holder.amount, holder.application_id)))


def charged(state: PartitionState, *decisions: Decision) -> list[Sequence[Held]]:
    """Copy what is charged to the owner of each limit of some denials; nothing for the limits of other quota models.

    The caller holds the lock for this, and for nothing of `explain`. Takes time in the number of applications that are
    charged to these limits; each owner is copied once.
    """
    copies: dict[tuple[str, str], Sequence[Held]] = {}
    found = []
    for decision in decisions:
        for violation in decision.violations:
            owner = (violation.kind, "" if violation.kind == TrackingType.QUEUE else violation.name)
            if owner not in copies:
                copies[owner] = [Held(holding, holding.amounts) for holding in all_holdings(_charged(state, violation))]
            found.append(copies[owner])
    return found


def _charged(state: PartitionState, violation: Violation) -> Mapping[str, Holding]:
    index = state.holding_index
    if violation.kind == TrackingType.QUEUE:
        return index.holdings
    if violation.kind == TrackingType.USER and violation.name in index.users:
        return index.users[violation.name].holdings
    if violation.kind == TrackingType.GROUP and violation.name in index.groups:
        return index.groups[violation.name].holdings
    return {}
