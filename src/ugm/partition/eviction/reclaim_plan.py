"""Plans for reclaiming what a group is guaranteed: the allocations of other groups to evict, with the reasons."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple, final

from ugm._json_values import JsonObject, attributes
from ugm.decision import Violation
from ugm.model import Guarantee
from ugm.partition.answers.reports import Subject, UserInQueue
from ugm.partition.rows import AllocationRequest
from ugm.preemption import Outcome, PreemptionProtection
from ugm.preemption.plan import headline
from ugm.resources import Resource, format_amount

#: The most groups that the text of a plan lists.
_LISTED: Final = 5


class ReclaimVictim(NamedTuple):
    """An allocation to evict."""

    allocation_id: str
    application_id: str
    user: str
    queue_path: str
    usage: Resource
    priority: int
    #: The group that borrows, and the groups above it: each guarantee in a resource that the victim frees and the
    #: request lacks. The usage is that after the eviction of all victims.
    guarantees: tuple[Guarantee, ...]

    def to_dict(self) -> JsonObject:
        """Return the victim for JSON."""
        return attributes(self, self._fields)

    def __str__(self) -> str:
        text = f"evict {self.allocation_id!r} of {self.user!r} in {self.queue_path} ({self.usage})"
        if not self.guarantees:
            return text
        own = self.guarantees[0]
        used, guaranteed = _amount(own, own.used), _amount(own, own.guaranteed)
        return f"{text}: {own.kind} {own.name!r} would use {used}, and is guaranteed {guaranteed}"


class ProtectedCount(NamedTuple):
    """The number of allocations of a group that are not victims, for one reason."""

    kind: str
    name: str
    reason: PreemptionProtection
    number: int

    def __str__(self) -> str:
        return f"{self.number} of {self.kind} {self.name!r} ({self.reason.replace('_', ' ')})"


@final
@dataclass(frozen=True, slots=True)
class ReclaimPlan:
    """The allocations to evict so that a request within a guarantee fits; true if there are any.

    A plan has no effect until it is carried out: with `ugm.Partition.reclaim`, or with ``preempt`` and ``release`` of
    each victim.
    """

    #: The application of the request, or its user in a queue.
    subject: Subject
    #: The usage and the properties of the request; it has no ids.
    request: AllocationRequest
    #: One of ``fits``, ``awaits_terminating``, ``never``, ``blocked``, ``plan`` and ``none``.
    outcome: Outcome
    #: What the request lacks once the terminating allocations are released.
    missing: tuple[Violation, ...] = ()
    #: The guarantees of the groups of the request in the missing resources; the usage includes the request.
    entitled: tuple[Guarantee, ...] = ()
    #: The least important first.
    victims: tuple[ReclaimVictim, ...] = ()
    #: All other allocations of other groups, counted by group and reason.
    protected: tuple[ProtectedCount, ...] = ()
    #: The node on which the request fits; None if the plan was made without nodes, or the request fits on none.
    node: str | None = None
    #: The free amounts of the node, as they were passed.
    free_on_node: Resource | None = None
    #: What is missing on the node once terminating allocations are released; None without victims or without a node.
    missing_on_node: Resource | None = None

    def __bool__(self) -> bool:
        return bool(self.victims)

    @property
    def allocation_ids(self) -> tuple[str, ...]:
        """The ids of the victims."""
        return tuple(victim.allocation_id for victim in self.victims)

    def to_dict(self) -> JsonObject:
        """Return the plan for JSON."""
        return attributes(self, _JSON)

    def __str__(self) -> str:
        return "\n  ".join(self._lines())

    def _lines(self) -> Iterator[str]:
        of = self.subject
        requester = f"{of.user.name!r} in {of.queue_path}" if isinstance(of, UserInQueue) else repr(of)
        yield headline(self.outcome, f"the request of {requester}", self.node, self.allocation_ids)
        yield from map(str, self.missing)
        for resource, amount in (self.missing_on_node or {}).items():
            yield f"node {self.node!r}: {format_amount(resource, amount)} {resource} missing"
        for one in self.entitled:
            is_within = "within" if one.used <= one.guaranteed else "above"
            amounts = f"would use {_amount(one, one.used)} of {_amount(one, one.guaranteed)} guaranteed"
            yield f"{one.kind} {one.name!r} {amounts}: {is_within} its guarantee"
        yield from map(str, self.victims)
        if self.protected:
            rest = sum(one.number for one in self.protected[_LISTED:])
            others = [f"{rest} of other groups"] if rest else []
            yield f"not taken: {', '.join([*map(str, self.protected[:_LISTED]), *others])}"


#: The attributes of a plan for JSON.
_JSON: Final = ("outcome", "missing", "entitled", "victims", "protected", "node", "missing_on_node")


def _amount(guarantee: Guarantee, amount: int) -> str:
    return f"{format_amount(guarantee.resource, amount)} {guarantee.resource}"
