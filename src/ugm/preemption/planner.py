"""Plans for requests: the outcome, the victims and the explanation.

Source: Apache YuniKorn, preemption.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Final, NamedTuple

from ugm.decision import Decision
from ugm.preemption.eligibility import PreemptionProtection, Situation
from ugm.preemption.facts import AllocationFacts, PreemptionRequest, World
from ugm.preemption.plan import (
    Freed,
    MissingAmount,
    Outcome,
    PlanCost,
    PreemptionPlan,
    ProtectedAllocations,
    Victim,
    guarantee_use,
    queue_inputs,
)
from ugm.preemption.queue_usage_tree import QueueUsageTree
from ugm.preemption.victim_search import DEFAULT_STEPS, choose
from ugm.resources import Resource, sum_of

__all__ = ["plan_preemption", "plans_of_nodes"]


def plan_preemption(
    world: World,
    request: PreemptionRequest,
    now: int,
    *,
    within_queue: bool = False,
    blocked: Decision | None = None,
    steps: int = DEFAULT_STEPS,
) -> PreemptionPlan:
    """Choose the allocations to evict for a request.

    Args:
        world: the queues and allocations. If it has nodes, all victims run on one of them, where the request then fits.
        request: the request.
        now: the time in seconds.
        within_queue: whether allocations of lower priority in the queue of the request may be evicted.
        blocked: the answer of a limit that no eviction can resolve, if there is one.
        steps: the limit of the search for the best set. It does not apply to up to 14 candidates.

    >>> from ugm import Resource
    >>> from ugm.preemption import AllocationFacts, QueueFacts
    >>> queues = [QueueFacts("root", Resource(gpu=4)), QueueFacts("root.lab", guaranteed=Resource(gpu=2))]
    >>> world = World([*queues, QueueFacts("root.web")], [AllocationFacts("web-1", "web", "root.web", Resource(gpu=3))])
    >>> print(plan_preemption(world, PreemptionRequest("lab-1", "lab", "root.lab", Resource(gpu=2)), now=30))
    'lab-1' would fit without 'web-1'
      queue root: 1 gpu missing
      root.lab is guaranteed 2 gpu, and would use 2
      evict 'web-1' of root.web: 3 gpu
    """
    situation = Situation(QueueUsageTree(world, request.application_id), request, within_queue=within_queue)
    return next(plans_of_nodes(situation, now, blocked, steps))


def plans_of_nodes(
    situation: Situation, now: int, blocked: Decision | None, steps: int = DEFAULT_STEPS
) -> Iterator[PreemptionPlan]:
    """Yield a plan with victims for each node that has one, the cheapest first; otherwise the plan without victims.

    Args:
        situation: the request, without a node. If its world has no nodes, there is one plan.
        now: as for `plan_preemption`.
        blocked: as for `plan_preemption`.
        steps: as for `plan_preemption`, for each node.
    """
    request = situation.request
    levels = zip(situation.path, situation.missing, strict=False)
    missing = tuple(MissingAmount(node.path, name, amount) for node, lacks in levels for name, amount in lacks.items())
    plan = PreemptionPlan(request, Outcome.NONE, now, missing=missing)
    early = _plan_without_search(plan, situation, blocked)
    if early is not None:
        yield early
        return
    # By the amounts that a node lacks, which nodes often have in common.
    situations: dict[Resource, Situation] = {}
    searches: list[_NodeSearch] = []
    for host in situation.tree.hosts:
        lacking = Resource(situation.tree.lacking_on(host, request.usage))
        if lacking not in situations:
            situations[lacking] = situation.on_node(lacking)
        searches.append(_search(situations[lacking], host, steps))
    plan = replace(plan, is_optimal=all(one.is_optimal for one in searches))
    found = [(cost, one) for one in searches if (cost := one.cost) is not None]
    for cost, one in sorted(found, key=lambda pair: (*pair[0].order, pair[1].host)):
        yield _plan_with_victims(plan, one, cost)
    if not found:
        yield replace(plan, protected=_protected(situation.tree, searches))


def _plan_without_search(plan: PreemptionPlan, situation: Situation, blocked: Decision | None) -> PreemptionPlan | None:
    """Return the plan if it follows without a search."""
    tree, request, path, requested = situation.tree, situation.request, situation.path, situation.request.usage
    later = [host for host in tree.hosts if not tree.lacking_on(host, requested)]
    now = [host for host in later if not tree.lacking_on(host, requested, now=True)]
    # A decision that denies is false.
    will_fit = bool(later) and blocked is None and not any(situation.missing)
    outcomes = (
        (will_fit and now and not any(node.lacking(node.counted(), requested) for node in path), Outcome.FITS),
        (will_fit, Outcome.AWAITS_TERMINATING),
        (blocked is not None, Outcome.BLOCKED),
        (any(node.lacking({}, requested) for node in path), Outcome.NEVER),
        (not request.may_preempt, Outcome.MUST_NOT_PREEMPT),
        (plan.now < situation.due, Outcome.EARLY),
    )
    outcome = next((outcome for applies, outcome in outcomes if applies), None)
    if outcome is None:
        return None
    host = (now or later)[0] if will_fit else None
    return replace(
        plan,
        outcome=outcome,
        due=situation.due if outcome is Outcome.EARLY else None,
        decision=blocked if outcome is Outcome.BLOCKED else None,
        node=host,
        free_on_node=(tree.world.nodes or {}).get(host or ""),
    )


class _NodeSearch(NamedTuple):
    """The result of the search among the allocations of a node, or among all."""

    #: None if nodes do not matter.
    host: str | None
    situation: Situation
    #: The rule that protects each class of allocations.
    rules: Sequence[PreemptionProtection]
    #: The cost of the victims; None if there is no permitted set.
    cost: PlanCost | None
    is_optimal: bool


def _search(situation: Situation, host: str | None, steps: int) -> _NodeSearch:
    """Search for victims on a node, or among all allocations."""
    classes = situation.tree.classes[host]
    found = [(one, *situation.protection(one)) for one in classes]
    candidates = {one: classes[one] for one, _, is_candidate in found if is_candidate}
    chosen = choose(situation.problem(candidates), steps)
    cost = _cost(situation, chosen.positions) if chosen.positions else None
    return _NodeSearch(host, situation, [rule for _, rule, _ in found], cost, chosen.is_optimal)


def _cost(situation: Situation, positions: tuple[int, ...]) -> PlanCost:
    victims, kept = [situation.tree.world.allocations[position] for position in positions], situation.tree.root.kept
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
    affected = [*situation.path, *(node for one in victims for node in tree.nodes[one.queue_path].lineage())]
    plan = replace(
        plan,
        outcome=Outcome.PLAN,
        victims=tuple(_explained(situation, one) for one in victims),
        protected=_protected(tree, [search], cost.positions),
        cost=cost,
        inputs=queue_inputs(affected),
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
    frees = [Freed(node.path, name, usage[name]) for node, names in missing for name in names if usage.get(name)]
    # A queue without a guarantee exceeds one of 0; it is listed only if it is the leaf.
    side = [(one, name) for one in leaf.lineage() if one not in path for name in helps]
    exceeds = [guarantee_use(one, name) for one, name in side if one is leaf or name in one.facts.guaranteed]
    nodes, requested = situation.tree.nodes, situation.request.usage
    claims = situation.claims_to(level, helps)
    entitled_by = [guarantee_use(nodes[queue_path], name, requested[name]) for queue_path, name in claims]
    return Victim(*facts[:5], tuple(frees), tuple(exceeds), tuple(entitled_by))


#: The rule that protects allocations of other nodes, by whether they are terminating.
_OTHER_NODE: Final = PreemptionProtection.OTHER_NODE, PreemptionProtection.TERMINATING


def _protected(
    tree: QueueUsageTree, searches: Sequence[_NodeSearch], victims: Iterable[int] = ()
) -> tuple[ProtectedAllocations, ...]:
    """Return the allocations that are no victims, by queue and protection, with those of nodes without a search."""
    found: dict[tuple[str, PreemptionProtection], list[int]] = {}
    searched = {search.host: search.rules for search in searches}
    for host, classes in tree.classes.items():
        elsewhere = [_OTHER_NODE[one.is_terminating] for one in classes]
        for one, positions, rule in zip(classes, classes.values(), searched.get(host, elsewhere), strict=True):
            found.setdefault((one.queue_path, rule), []).extend(positions)
    others = ((key, sorted(set(positions).difference(victims))) for key, positions in sorted(found.items()))
    names = tree.names
    return tuple(
        ProtectedAllocations(path, rule, tuple([names[position] for position in positions]))
        for (path, rule), positions in others
        if positions
    )
