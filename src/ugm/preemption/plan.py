"""Plans for requests: the outcome, the victims with the reasons, and why no others were chosen.

Source: Apache YuniKorn, preemption.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from functools import cache, partial
from typing import Final, NamedTuple, final

from ugm._json_values import JsonObject, Row, attributes
from ugm.decision import Decision
from ugm.preemption.eligibility import PreemptionProtection, Situation
from ugm.preemption.queue_usage_tree import AllocationFacts, PreemptionRequest, QueueNode, QueueUsageTree, World
from ugm.preemption.victim_search import DEFAULT_STEPS, Chosen, choose
from ugm.resources import Resource, format_amount, sum_of


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


class QueueAmount(NamedTuple):
    """An amount of a resource in a queue: by which a request exceeds its maximum, or which a victim frees."""

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

    def __str__(self) -> str:
        after, guaranteed = (format_amount(self.resource, amount) for amount in (self.after, self.guaranteed))
        return f"{self.queue_path} would use {after} {self.resource}, and is guaranteed {guaranteed}"


@final
@dataclass(frozen=True, slots=True)
class Victim(Row):
    """An allocation to evict."""

    allocation_id: str
    application_id: str
    queue_path: str
    usage: Resource
    priority: int
    #: What it frees of the missing amounts, leaf to root.
    frees: tuple[QueueAmount, ...] = ()
    #: The guarantees of its queue and of those above that the queues exceed, up to the first queue of the request.
    exceeds: tuple[GuaranteeUse, ...] = ()
    #: The guarantees that entitle the request; empty for a victim in the queue of the request.
    entitled_by: tuple[GuaranteeUse, ...] = ()

    def __str__(self) -> str:
        # A victim of a model, or of a reduction, frees all that it uses.
        freed = {one.resource: one.amount for one in self.frees} or self.usage
        amounts = ", ".join(f"{format_amount(name, amount)} {name}" for name, amount in freed.items())
        left = (str(use) for use in self.exceeds if use.guaranteed)
        return "; ".join([f"evict {self.allocation_id!r} of {self.queue_path}: {amounts}", *left])


class ProtectedAllocations(NamedTuple):
    """Allocations of a queue that the plan does not evict, for the same reason."""

    queue_path: str
    #: A `PreemptionProtection`.
    protection: str
    #: In the order of the ledger.
    allocation_ids: tuple[str, ...]

    def __str__(self) -> str:
        return f"{len(self.allocation_ids)} of {self.queue_path} ({self.protection.replace('_', ' ')})"


@final
@dataclass(frozen=True, slots=True)
class PlanCost(Row):
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


def guarantee_use(node: QueueNode, resource: str, requested: int = 0) -> GuaranteeUse:
    """Return the use of a guarantee now, and without the victims but with a request."""
    guaranteed = node.facts.guaranteed.get(resource, 0)
    return GuaranteeUse(node.path, resource, node.kept[resource], guaranteed, node.rest(resource) + requested)


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
    missing: tuple[QueueAmount, ...] = ()
    #: All other allocations, by queue and protection.
    protected: tuple[ProtectedAllocations, ...] = ()
    #: None if there are no victims.
    cost: PlanCost | None = None
    #: Whether the search was complete: no other set of victims costs less, or none is permitted.
    is_optimal: bool = True
    #: The allocations that other quota models give up, besides the victims.
    by_model: tuple[Victim, ...] = ()
    #: The requests that counted as granted.
    placed: tuple[AllocationFacts, ...] = ()
    #: Whether the request was pending in the partition. Then the plan is stale once the request is withdrawn.
    is_pending: bool = False
    #: The node on which the request fits; None if the plan was made without nodes, or the request fits on none.
    node: str | None = None
    #: The free amounts of the node, as they were passed.
    free_on_node: Resource | None = None
    #: What is missing there once terminating allocations are released; None without victims or without a node.
    missing_on_node: Resource | None = None

    def __bool__(self) -> bool:
        return self.outcome is Outcome.PLAN

    @property
    def allocation_ids(self) -> tuple[str, ...]:
        """The ids of all victims, those of quota models first."""
        return tuple(victim.allocation_id for victim in (*self.by_model, *self.victims))

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
        name = repr(self.request.allocation_id) if self.request.allocation_id else "the request"
        wait = (self.due or 0) - self.now
        yield headline(self.outcome, name, self.node, self.allocation_ids, wait=wait, due=self.due)
        yield from map(str, () if self.decision is None else self.decision.violations)
        for path, resource, amount in self.missing:
            yield f"queue {path}: {format_amount(resource, amount)} {resource} missing"
        for resource, amount in (self.missing_on_node or {}).items():
            yield f"node {self.node!r}: {format_amount(resource, amount)} {resource} missing"
        yield from dict.fromkeys(str(use) for victim in self.victims for use in victim.entitled_by)
        yield from map(str, (*self.by_model, *self.victims))
        if self.protected:
            yield f"not taken: {', '.join(map(str, self.protected))}"
        if not self.is_optimal:
            yield "the search was not complete"


#: The attributes of a plan that JSON does not have.
_INTERNAL: Final = {"placed", "protected", "is_pending", "free_on_node"}


def headline(outcome: Outcome, request: str, node: str | None, victims: Iterable[str], **times: int | None) -> str:
    """Return the first line of the text of a plan."""
    where = "" if node is None else f" on node {node!r}"
    return _HEADS[outcome].format(name=request, where=where, victims=", ".join(map(repr, victims)), **times)


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


def plan_preemption(world: World, request: PreemptionRequest, now: int, steps: int = DEFAULT_STEPS) -> PreemptionPlan:
    """Choose the allocations to evict for a request.

    Args:
        world: the queues and allocations. If it has nodes, all victims run on one of them, where the request then fits.
        request: the request.
        now: the time in seconds.
        steps: the limit of the search for the best set. It does not apply to up to 14 candidates.

    >>> from ugm import Resource
    >>> from ugm.preemption import AllocationFacts, QueueFacts
    >>> queues = [QueueFacts("root", Resource(gpu=4)), QueueFacts("root.lab", guaranteed=Resource(gpu=2))]
    >>> world = World([*queues, QueueFacts("root.web")], [AllocationFacts("web-1", "web", "root.web", Resource(gpu=3))])
    >>> print(plan_preemption(world, PreemptionRequest("lab-1", "lab", "root.lab", Resource(gpu=2)), now=30))
    'lab-1' would fit without 'web-1'
      queue root: 1 gpu missing
      root.lab would use 2 gpu, and is guaranteed 2
      evict 'web-1' of root.web: 3 gpu
    """
    situation = Situation(QueueUsageTree(world, request.application_id), request)
    return next(plans_of_nodes(situation, now, steps=steps))


def plans_of_nodes(
    situation: Situation, now: int, blocked: Decision | None = None, steps: int = DEFAULT_STEPS
) -> Iterator[PreemptionPlan]:
    """Yield a plan with victims for each node that has one, the cheapest first; otherwise the plan without victims.

    Args:
        situation: the request, without a node. If its world has no nodes, there is one plan.
        now: as for `plan_preemption`.
        blocked: the answer of a limit that no eviction can resolve, if there is one.
        steps: as for `plan_preemption`, for each node.
    """
    tree, request = situation.tree, situation.request
    levels = zip(situation.path, situation.missing, strict=False)
    missing = tuple(QueueAmount(node.path, name, amount) for node, lacks in levels for name, amount in lacks.items())
    plan = PreemptionPlan(request, Outcome.NONE, now, missing=missing)
    early = _plan_without_search(plan, situation, blocked)
    if early is not None:
        yield early
        return
    # Nodes often lack the same amounts.
    situation_on = cache(partial(Situation, tree, request))
    lacking = {host: Resource(node.lacking(node.kept, request.usage)) for host, node in tree.hosts.items()}
    searches = [_search(situation_on(lacks), host, steps) for host, lacks in lacking.items()]
    plan = replace(plan, is_optimal=all(one.chosen.is_optimal for one in searches))
    found = [(_cost(one.situation, one.chosen.positions), one) for one in searches if one.chosen.positions]
    for cost, one in sorted(found, key=lambda pair: (*pair[0].order, pair[1].host)):
        yield _plan_with_victims(plan, one, cost)
    if not found:
        yield replace(plan, protected=tuple(_protected(tree, searches)))


def _plan_without_search(plan: PreemptionPlan, situation: Situation, blocked: Decision | None) -> PreemptionPlan | None:
    """Return the plan if it follows without a search."""
    tree, request, path, requested = situation.tree, situation.request, situation.path, situation.request.usage
    later = [host for host, node in tree.hosts.items() if not node.lacking(node.kept, requested)]
    # A decision that denies is false.
    if later and blocked is None and not any(situation.missing):
        now = [host for host in later if not tree.hosts[host].lacking(tree.hosts[host].counted, requested)]
        fits = now and not any(node.lacking(node.counted, requested) for node in path)
        outcome = Outcome.FITS if fits else Outcome.AWAITS_TERMINATING
        host = (now or later)[0]
        return replace(plan, outcome=outcome, node=host, free_on_node=(tree.world.nodes or {}).get(host or ""))
    if blocked is not None:
        return replace(plan, outcome=Outcome.BLOCKED, decision=blocked)
    if any(node.lacking({}, requested) for node in path):
        return replace(plan, outcome=Outcome.NEVER)
    if not request.may_preempt:
        return replace(plan, outcome=Outcome.MUST_NOT_PREEMPT)
    return replace(plan, outcome=Outcome.EARLY, due=situation.due) if plan.now < situation.due else None


class _NodeSearch(NamedTuple):
    """The result of the search among the allocations of a node, or among all."""

    #: None if nodes do not matter.
    host: str | None
    situation: Situation
    #: The rule that protects each class of allocations.
    rules: Sequence[PreemptionProtection]
    chosen: Chosen


def _search(situation: Situation, host: str | None, steps: int) -> _NodeSearch:
    """Search for victims on a node, or among all allocations."""
    classes = situation.tree.classes[host]
    found = [(one, *situation.protection(one)) for one in classes]
    candidates = {one: classes[one] for one, _, is_candidate in found if is_candidate}
    return _NodeSearch(host, situation, [rule for _, rule, _ in found], choose(situation.problem(candidates), steps))


def _cost(situation: Situation, positions: tuple[int, ...]) -> PlanCost:
    victims, kept = [situation.tree.world.allocations[position] for position in positions], situation.path[-1].kept
    largest = {name: max(missing.get(name, 0) for missing in situation.missing) for name in situation.helpful[0]}
    freed = sum_of(one.usage for one in victims)
    waste = sum((Fraction(amount - largest.get(name, 0), kept[name]) for name, amount in freed.items()), Fraction())
    priorities = sorted((one.priority for one in victims), reverse=True)
    return PlanCost(len(positions), waste, tuple(priorities), positions)


def _plan_with_victims(plan: PreemptionPlan, search: _NodeSearch, cost: PlanCost) -> PreemptionPlan:
    host, situation, tree = search.host, search.situation, search.situation.tree
    victims = [tree.world.allocations[position] for position in cost.positions]
    for one in victims:
        tree.free(one.queue_path, one.usage)
    plan = replace(
        plan,
        outcome=Outcome.PLAN,
        victims=tuple(_explained(situation, one) for one in victims),
        protected=tuple(_protected(tree, [search], cost.positions)),
        cost=cost,
        node=host,
        free_on_node=(tree.world.nodes or {}).get(host or ""),
        missing_on_node=None if host is None else Resource(situation.missing[-1]),
    )
    # Plans of other nodes follow.
    for one in victims:
        tree.free(one.queue_path, one.usage, -1)
    return plan


def _explained(situation: Situation, facts: AllocationFacts) -> Victim:
    """Return a victim with its reasons."""
    path, usage, leaf = situation.path, facts.usage, situation.tree.nodes[facts.queue_path]
    level = situation.roles[leaf.path].level
    helps = situation.helps(level, usage)
    missing = list(zip(path, situation.missing, strict=False))[level:]
    frees = [QueueAmount(node.path, name, usage[name]) for node, names in missing for name in names if usage.get(name)]
    # A queue without a guarantee exceeds one of 0; it is listed only if it is the leaf.
    side = [(one, name) for one in leaf.lineage() if one not in path for name in helps]
    exceeds = [guarantee_use(one, name) for one, name in side if one is leaf or name in one.facts.guaranteed]
    claims = ((situation.tree.nodes[claimant], name) for claimant, name in situation.claims_to(level, helps))
    entitled_by = [guarantee_use(node, name, situation.request.usage[name]) for node, name in claims]
    return Victim(*facts[:5], tuple(frees), tuple(exceeds), tuple(entitled_by))


#: The rule that protects allocations of other nodes, by whether they are terminating.
_OTHER_NODE: Final = PreemptionProtection.OTHER_NODE, PreemptionProtection.TERMINATING


def _protected(
    tree: QueueUsageTree, searches: Sequence[_NodeSearch], victims: Iterable[int] = ()
) -> Iterator[ProtectedAllocations]:
    """Yield the allocations that are no victims, by queue and protection, with those of nodes without a search."""
    found: dict[tuple[str, PreemptionProtection], list[int]] = {}
    searched = {search.host: search.rules for search in searches}
    for host, classes in tree.classes.items():
        elsewhere = [_OTHER_NODE[one.is_terminating] for one in classes]
        for one, positions, rule in zip(classes, classes.values(), searched.get(host, elsewhere), strict=True):
            found.setdefault((one.queue_path, rule), []).extend(positions)
    for (path, rule), positions in sorted(found.items()):
        others = map(tree.world.allocations.__getitem__, sorted(set(positions).difference(victims)))
        names = tuple([one.allocation_id for one in others])
        if names:
            yield ProtectedAllocations(path, rule, names)
