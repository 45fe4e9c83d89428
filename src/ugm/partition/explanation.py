"""Why a request is denied, and who holds what it is missing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import nsmallest
from typing import Any, NamedTuple

from ugm.decision import Decision, Violation
from ugm.identity import ROOT, TrackingType
from ugm.partition.books import Books
from ugm.resources import format_amount
from ugm.tracking.holding import Holding, every, is_below

__all__ = ["Explanation", "Holder", "explain"]


class Holder(NamedTuple):
    """An application that holds some of what a request is missing."""

    application_id: str
    user: str
    queue_path: str
    #: How much of the resource it holds; 1 where the number of applications is short.
    amount: int

    def to_dict(self) -> dict[str, Any]:
        """Return the holder for JSON, in the same words as its attributes."""
        return self._asdict()


class Explanation(NamedTuple):
    """A decision, with those who hold most of what is short, limit by limit."""

    decision: Decision
    #: For every violation of the decision, in the same order: the largest holders first, then by id.
    holders: tuple[tuple[Holder, ...], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation for JSON."""
        told = self.decision.to_dict()
        for violation, holders in zip(told["violations"], self.holders, strict=True):
            violation["holders"] = [holder.to_dict() for holder in holders]
        return told

    def __str__(self) -> str:
        head, *_, last = str(self.decision).splitlines() * 2
        lines = [head]
        for violation, holders in zip(self.decision.violations, self.holders, strict=True):
            lines.append(f"  {violation}")
            lines += [f"    held by {_told(violation, holder)}" for holder in holders]
        return "\n".join([*lines, last] if self.decision.evictions and not self.decision else lines)


def _told(violation: Violation, holder: Holder) -> str:
    whose = f"{holder.application_id!r} of {holder.user!r} in {holder.queue_path}"
    if violation.resource is None:
        return whose
    return f"{whose}: {format_amount(violation.resource, holder.amount)}"


def explain(books: Books, decision: Decision, most: int) -> Explanation:
    """Find who holds what a denied request is missing; takes time in the number of applications below its limits."""
    return Explanation(decision, tuple(_holders(books, violation, most) for violation in decision.violations))


def _holders(books: Books, violation: Violation, most: int) -> tuple[Holder, ...]:
    found = (
        Holder(holding.application_id, holding.owner.name, holding.queue_path, amount)
        for holding in _charged(books, violation)
        if is_below(holding.queue_path, violation.queue_path or ROOT)
        for amount in [1 if violation.resource is None else holding.held().get(violation.resource, 0)]
        if amount
    )
    return tuple(nsmallest(most, found, key=lambda holder: (-holder.amount, holder.application_id)))


def _charged(books: Books, violation: Violation) -> Iterator[Holding]:
    """Yield what is charged to whatever sets a limit; nothing for the limits of other quota models."""
    indexes: Iterable[dict[str, Holding]] = ()
    if violation.kind == TrackingType.QUEUE:
        indexes = [books.ledger.holdings]
    elif violation.kind == TrackingType.USER and violation.name in books.ledger.users:
        indexes = [books.ledger.users[violation.name].queue.holdings]
    elif violation.kind == TrackingType.GROUP and violation.name in books.ledger.groups:
        indexes = [books.ledger.groups[violation.name].queue.holdings]
    for index in indexes:
        yield from every(index)
