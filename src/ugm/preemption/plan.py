"""The plan for a request: the allocations to evict, the reasons, and why no others were chosen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Final, NamedTuple, final

from ugm._json_values import JsonObject, attributes
from ugm.decision import Decision
from ugm.preemption.facts import PlacedRequest, PreemptionRequest
from ugm.preemption.queue_usage_tree import QueueNode
from ugm.resources import Resource, format_amount

__all__ = [
    "Freed",
    "GuaranteeUse",
    "MissingAmount",
    "Outcome",
    "PlanCost",
    "PreemptionPlan",
    "ProtectedAllocations",
    "QueueInput",
    "Victim",
]


class Outcome(StrEnum):
    """The outcome of a plan for a request."""

    #: The request fits now.
    FITS = "fits"
    #: The request fits once the terminating allocations are released.
    AWAITS_TERMINATING = "awaits_terminating"
    #: The request is denied by a limit that no eviction of another application can relieve.
    BLOCKED = "blocked"
    #: The request alone exceeds a maximum.
    NEVER = "never"
    #: The request must not preempt.
    MUST_NOT_PREEMPT = "must_not_preempt"
    #: The request has not waited for the delay of its queue.
    EARLY = "early"
    #: The request fits after the eviction of the victims.
    PLAN = "plan"
    #: No permitted set of evictions makes room for the request.
    NONE = "none"


class MissingAmount(NamedTuple):
    """The amount of a resource by which the request exceeds the maximum of a queue."""

    queue_path: str
    resource: str
    amount: int

    def __str__(self) -> str:
        return f"queue {self.queue_path}: {format_amount(self.resource, self.amount)} {self.resource} missing"


class Freed(NamedTuple):
    """The amount of a missing resource that a victim frees in a queue."""

    queue_path: str
    resource: str
    amount: int


class GuaranteeUse(NamedTuple):
    """The usage of a queue compared with its guarantee, now and after the plan."""

    queue_path: str
    resource: str
    used: int
    guaranteed: int
    after: int


@final
@dataclass(frozen=True, slots=True)
class Victim:
    """An allocation to evict."""

    allocation_id: str
    application_id: str
    queue_path: str
    usage: Resource
    priority: int
    #: What it frees of the missing amounts, leaf to root.
    frees: tuple[Freed, ...] = ()
    #: The guarantees of its queue and of those above that the queues exceed, up to the first queue of the request.
    exceeds: tuple[GuaranteeUse, ...] = ()
    #: The guarantees that entitle the request; empty for a victim in the queue of the request.
    entitled_by: tuple[GuaranteeUse, ...] = ()

    def to_dict(self) -> JsonObject:
        """Return the victim for JSON, with the names of its attributes."""
        return attributes(self, self.__slots__)


class ProtectedAllocations(NamedTuple):
    """Allocations of a queue that the plan does not evict, for the same reason."""

    queue_path: str
    #: A `PreemptionProtection`.
    protection: str
    #: In the order of the ledger.
    allocation_ids: tuple[str, ...]

    def __str__(self) -> str:
        return f"{len(self.allocation_ids)} of {self.queue_path} ({self.protection.replace('_', ' ')})"

    def without(self, names: Iterable[str]) -> ProtectedAllocations:
        """Return the group without some allocations."""
        left_out = set(names)
        return self._replace(allocation_ids=tuple(one for one in self.allocation_ids if one not in left_out))


@final
@dataclass(frozen=True, slots=True)
class PlanCost:
    """The cost of a set of victims, in the order of comparison."""

    count: int
    waste: Fraction
    #: Highest first.
    priorities: tuple[int, ...]
    #: The positions of the victims in the ledger, oldest first; of two equal sets, the later positions win.
    positions: tuple[int, ...]

    @property
    def order(self) -> tuple[int, Fraction, tuple[int, ...], tuple[int, ...]]:
        """The key by which costs are compared."""
        return self.count, self.waste, self.priorities, tuple(-position for position in self.positions)

    def to_dict(self) -> JsonObject:
        """Return the cost for JSON, with the names of its attributes."""
        return attributes(self, self.__slots__)


class QueueInput(NamedTuple):
    """The state of a queue on which a plan depends."""

    queue_path: str
    kept: Resource
    maximum: Resource
    guaranteed: Resource


def queue_input(node: QueueNode) -> QueueInput:
    """Return the state of a queue."""
    return QueueInput(node.path, Resource(node.kept).without_zeros(), node.facts.maximum, node.facts.guaranteed)


def queue_inputs(nodes: Iterable[QueueNode]) -> tuple[QueueInput, ...]:
    """Return the state of queues, each once, sorted by path."""
    by_path = {node.path: node for node in nodes}
    return tuple(queue_input(by_path[path]) for path in sorted(by_path))


def guarantee_use(node: QueueNode, resource: str, requested: int = 0) -> GuaranteeUse:
    """Return the use of a guarantee now, and without the victims but with a request."""
    guaranteed = node.facts.guaranteed.get(resource, 0)
    return GuaranteeUse(node.path, resource, node.kept.get(resource, 0), guaranteed, node.rest(resource) + requested)


@final
@dataclass(frozen=True, slots=True)
class PreemptionPlan:
    """A plan for a request. It has no effect until it is carried out."""

    request: PreemptionRequest
    outcome: Outcome
    now: int
    #: The time from which the request may preempt, if it is early.
    due: int | None = None
    #: The limits that deny the request, if it is blocked or a quota model evicts nothing for it.
    decision: Decision | None = None
    #: In the order of the ledger, oldest first.
    victims: tuple[Victim, ...] = ()
    #: What is missing, leaf to root.
    missing: tuple[MissingAmount, ...] = ()
    #: All other allocations, by queue and protection.
    protected: tuple[ProtectedAllocations, ...] = ()
    #: None if there are no victims.
    cost: PlanCost | None = None
    #: Whether the search was complete: no other set of victims costs less, or none is permitted.
    is_optimal: bool = True
    #: The state of the queues on which the plan depends.
    inputs: tuple[QueueInput, ...] = ()
    #: The allocations that other quota models give up, besides the victims.
    by_model: tuple[Victim, ...] = ()
    #: The requests that counted as granted.
    placed: tuple[PlacedRequest, ...] = ()
    #: Whether the request was pending in the partition. Then the plan is stale once the request is withdrawn.
    is_pending: bool = False
    #: Attributes of the request that only quota models use: whether others may evict it, and its promised duration.
    preemptible: bool = True
    duration: int | None = None
    #: Whether allocations in the queue of the request could be victims.
    within_queue: bool = False
    #: The node on which the request fits; None if the plan was made without nodes, or the request fits on none.
    node: str | None = None
    #: The free amounts of the node, as they were passed.
    free_on_node: Resource | None = None
    #: What is missing there once terminating allocations are released; None without victims or without a node.
    missing_on_node: Resource | None = None

    def __bool__(self) -> bool:
        return self.outcome is Outcome.PLAN

    @property
    def others(self) -> Mapping[str, str]:
        """The first rule that protects each other allocation, or ``not_needed``, by allocation id."""
        return {name: group.protection for group in self.protected for name in group.allocation_ids}

    def to_dict(self) -> JsonObject:
        """Return the plan for JSON."""
        shown = (name for name in self.__slots__ if name not in _INTERNAL)
        return {**attributes(self, shown), "others": dict(self.others)}

    def __str__(self) -> str:
        return "\n  ".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield _HEADS[self.outcome].format(
            name=repr(self.request.allocation_id) if self.request.allocation_id else "the request",
            where="" if self.node is None else f" on node {self.node!r}",
            due=self.due,
            wait=0 if self.due is None else self.due - self.now,
            victims=", ".join(repr(victim.allocation_id) for victim in (*self.by_model, *self.victims)),
        )
        yield from map(str, () if self.decision is None else self.decision.violations)
        yield from map(str, self.missing)
        for resource, amount in (self.missing_on_node or {}).items():
            yield f"node {self.node!r}: {format_amount(resource, amount)} {resource} missing"
        yield from dict.fromkeys(_entitlement(use) for victim in self.victims for use in victim.entitled_by)
        yield from map(_eviction, (*self.by_model, *self.victims))
        if self.protected:
            yield f"not taken: {', '.join(map(str, self.protected))}"
        if not self.is_optimal:
            yield "the search was not complete"


#: The attributes of a plan that JSON does not have.
_INTERNAL: Final = {
    "inputs",
    "placed",
    "protected",
    "is_pending",
    "preemptible",
    "duration",
    "within_queue",
    "free_on_node",
}


def _entitlement(use: GuaranteeUse) -> str:
    guaranteed, after = (format_amount(use.resource, amount) for amount in (use.guaranteed, use.after))
    return f"{use.queue_path} is guaranteed {guaranteed} {use.resource}, and would use {after}"


_HEADS: Final = {
    Outcome.FITS: "{name} fits{where}",
    Outcome.AWAITS_TERMINATING: "{name} fits{where} once the terminating allocations are released",
    Outcome.BLOCKED: "{name} is denied by a limit that preemption cannot relieve",
    Outcome.NEVER: "{name} never fits: it alone exceeds a maximum",
    Outcome.MUST_NOT_PREEMPT: "{name} must not preempt",
    Outcome.EARLY: "{name} may preempt in {wait} s (from second {due})",
    Outcome.PLAN: "{name} would fit{where} without {victims}",
    Outcome.NONE: "no permitted set of evictions makes room for {name}",
}


def _eviction(victim: Victim) -> str:
    # A victim of a model frees all that it uses.
    freed = {one.resource: one.amount for one in victim.frees} or victim.usage
    amounts = ", ".join(f"{format_amount(name, amount)} {name}" for name, amount in freed.items())
    left = (
        f"{use.queue_path} would use {format_amount(use.resource, use.after)} {use.resource}, "
        f"and is guaranteed {format_amount(use.resource, use.guaranteed)}"
        for use in victim.exceeds
        if use.guaranteed
    )
    return "; ".join([f"evict {victim.allocation_id!r} of {victim.queue_path}: {amounts}", *left])
