"""Plans for reclaiming what a group is guaranteed: the allocations of other groups to evict, with the reasons."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple, final

from ugm._json_values import JsonObject, attributes
from ugm.decision import Violation
from ugm.model import Guarantee
from ugm.partition.answers.reports import Subject, UserInQueue
from ugm.resources import Resource, format_amount

__all__ = ["ProtectedCount", "Protection", "ReclaimOutcome", "ReclaimPlan", "ReclaimVictim"]


class ReclaimOutcome(StrEnum):
    """The result of planning; the first that applies."""

    #: The request fits now.
    FITS = "fits"
    #: The request fits once the terminating allocations are released.
    AWAITS_TERMINATING = "awaits_terminating"
    #: The request can never fit.
    NEVER = "never"
    #: A limit of the user, the group or the number of applications denies the request. Eviction does not help.
    BLOCKED = "blocked"
    #: The request fits once the victims are released.
    PLAN = "plan"
    #: There are no victims that may be evicted and suffice.
    NONE = "none"


class Protection(StrEnum):
    """The first reason why an allocation is not a victim."""

    #: The allocation has ``preemptible=False``.
    NOT_PREEMPTIBLE = "not_preemptible"
    #: The allocation uses nothing that the request lacks.
    FREES_NOTHING = "frees_nothing"
    #: The request is not within the guarantee of its group.
    NOT_ENTITLED = "not_entitled"
    #: The group of the allocation uses no more than its share.
    WITHIN_SHARE = "within_share"
    #: A group of the allocation would use less than it is guaranteed.
    GUARANTEE = "guarantee"
    #: Nothing protects the allocation, but other victims suffice, or all victims together do not.
    NOT_NEEDED = "not_needed"

    @property
    def text(self) -> str:
        """The reason in words."""
        return _TEXTS[self]


_TEXTS: Final = {
    Protection.NOT_PREEMPTIBLE: "not preemptible",
    Protection.FREES_NOTHING: "uses nothing that is missing",
    Protection.NOT_ENTITLED: "the request is not within its guarantee",
    Protection.WITHIN_SHARE: "the group is within its share",
    Protection.GUARANTEE: "the group would be below its guarantee",
    Protection.NOT_NEEDED: "not needed",
}

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
    reason: Protection
    number: int

    def __str__(self) -> str:
        return f"{self.number} of {self.kind} {self.name!r} ({self.reason.text})"


@final
@dataclass(frozen=True, slots=True)
class ReclaimPlan:
    """The allocations to evict so that a request within a guarantee fits; true if there are any.

    A plan has no effect until it is carried out: with `ugm.Partition.reclaim`, or with ``preempt`` and ``release`` of
    each victim.
    """

    #: The request: its application, or its user in a queue; its usage and its properties.
    subject: Subject
    usage: Resource
    priority: int
    preemptible: bool
    outcome: ReclaimOutcome
    #: What the request lacks once the terminating allocations are released.
    missing: tuple[Violation, ...] = ()
    #: The guarantees of the groups of the request in the missing resources; the usage includes the request.
    entitled: tuple[Guarantee, ...] = ()
    #: The least important first.
    victims: tuple[ReclaimVictim, ...] = ()
    #: All other allocations of other groups, counted by group and reason.
    protected: tuple[ProtectedCount, ...] = ()
    #: The duration that the request promises; None if it promises none.
    duration: int | None = None
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
        return "\n".join([self._headline(), *(f"  {line}" for line in self._lines())])

    def _headline(self) -> str:
        request = f"the request of {_subject_text(self.subject)}"
        where = "" if self.node is None else f" on node {self.node!r}"
        victims = ", ".join(map(repr, self.allocation_ids))
        return _HEADLINES[self.outcome].format(request=request, where=where, victims=victims)

    def _lines(self) -> Iterator[str]:
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

_HEADLINES: Final = {
    ReclaimOutcome.FITS: "{request} fits{where}",
    ReclaimOutcome.AWAITS_TERMINATING: "{request} fits{where} once the terminating allocations are released",
    ReclaimOutcome.NEVER: "{request} can never fit",
    ReclaimOutcome.BLOCKED: "no eviction lets {request} fit",
    ReclaimOutcome.PLAN: "{request} would fit{where} without {victims}",
    ReclaimOutcome.NONE: "no eviction lets {request} fit",
}


def _amount(guarantee: Guarantee, amount: int) -> str:
    return f"{format_amount(guarantee.resource, amount)} {guarantee.resource}"


def _subject_text(subject: Subject) -> str:
    return f"{subject.user.name!r} in {subject.queue_path}" if isinstance(subject, UserInQueue) else repr(subject)
