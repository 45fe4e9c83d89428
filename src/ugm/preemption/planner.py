"""Plans for requests: the outcome, the victims and the explanation.

Source: Apache YuniKorn, preemption.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Final, NamedTuple, TypeAlias, final

from ugm.decision import Decision
from ugm.preemption.eligibility import PreemptionProtection, Situation
from ugm.preemption.facts import AllocationFacts, PreemptionRequest, World
from ugm.preemption.plan import (
    Freed,
    GuaranteeUse,
    MissingAmount,
    Outcome,
    PlanCost,
    PreemptionPlan,
    ProtectedAllocations,
    QueueInput,
    Victim,
    queue_input,
)
from ugm.preemption.queue_usage_tree import AllocationClass, QueueNode, QueueUsageTree
from ugm.preemption.victim_search import DEFAULT_STEPS, choose
from ugm.resources import Resource

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
    return next(plans_of_nodes(world, request, now, within_queue=within_queue, blocked=blocked, steps=steps))


def plans_of_nodes(
    world: World,
    request: PreemptionRequest,
    now: int,
    *,
    within_queue: bool = False,
    blocked: Decision | None = None,
    steps: int = DEFAULT_STEPS,
) -> Iterator[PreemptionPlan]:
    """Yield a plan with victims for each node that has one, the cheapest first; otherwise the plan without victims.

    Args:
        world: as for `plan_preemption`; without nodes there is one plan.
        request: as for `plan_preemption`.
        now: as for `plan_preemption`.
        within_queue: as for `plan_preemption`.
        blocked: as for `plan_preemption`.
        steps: as for `plan_preemption`, for each node.
    """
    tree = QueueUsageTree(world, request.application_id)
    planner = _Planner(tree, Situation(tree, request, within_queue=within_queue), now, blocked)
    early = planner.early_plan()
    if early is not None:
        yield early
        return
    hosts = [None] if world.nodes is None else sorted(world.nodes)
    searches = [planner.search(host, steps, within_queue=within_queue) for host in hosts]
    is_optimal = all(one.is_optimal for one in searches)
    found = sorted((one for one in searches if one.victims), key=_NodeSearch.order)
    for one in found:
        yield planner.plan(one, is_optimal=is_optimal)
    if not found:
        yield planner.no_plan(searches, is_optimal=is_optimal)


#: The positions of allocations by queue and protection.
_Protections: TypeAlias = dict[tuple[str, PreemptionProtection], list[int]]


class _NodeSearch(NamedTuple):
    """The result of the search among the allocations of a node, or among all."""

    #: None if nodes do not matter.
    host: str | None
    situation: Situation
    protections: _Protections
    #: None if there is no permitted set.
    victims: _Victims | None
    is_optimal: bool

    def order(self) -> tuple[object, ...]:
        """Return the place of a result with victims among those of other nodes."""
        assert self.victims is not None  # noqa: S101 - see above
        return *self.victims.cost().order, self.host


@final
class _Planner:
    """Computes the plans for a request.

    Args:
        tree: the usage of all queues and nodes.
        situation: the missing amounts in the queues.
        now: the time in seconds.
        blocked: the answer of a limit that no eviction can resolve, if there is one.
    """

    __slots__ = ("_blocked", "_now", "_situation", "_situations", "_tree")

    def __init__(self, tree: QueueUsageTree, situation: Situation, now: int, blocked: Decision | None) -> None:
        self._tree: Final = tree
        self._situation: Final = situation
        self._now: Final = now
        self._blocked: Final = blocked
        #: By the amounts that a node lacks, which nodes often have in common.
        self._situations: Final[dict[tuple[tuple[str, int], ...], Situation]] = {(): situation}

    def early_plan(self) -> PreemptionPlan | None:
        """Return the plan if it follows without a search."""
        situation, tree = self._situation, self._tree
        requested, has_nodes = situation.requested, tree.world.nodes is not None
        # A decision that denies is false.
        is_blocked = self._blocked is not None
        free = [host for host in sorted(tree.room) if not tree.lacking_on(host, requested, now=True)]
        hosts = free or [host for host in sorted(tree.room) if not tree.lacking_on(host, requested)]
        will_fit = not is_blocked and not any(situation.missing) and bool(hosts or not has_nodes)
        fits = will_fit and not any(map(self._lacks_now, situation.path)) and bool(free or not has_nodes)
        found = (
            (fits, Outcome.FITS),
            (will_fit, Outcome.AWAITS_TERMINATING),
            (is_blocked, Outcome.BLOCKED),
            (any(node.lacking({}, requested) for node in situation.path), Outcome.NEVER),
            (not situation.request.may_preempt, Outcome.MUST_NOT_PREEMPT),
            (self._now < situation.due, Outcome.EARLY),
        )
        outcome = next((outcome for applies, outcome in found if applies), None)
        if outcome is None:
            return None
        host = hosts[0] if will_fit and hosts else None
        return PreemptionPlan(
            situation.request,
            outcome,
            self._now,
            situation.due if outcome is Outcome.EARLY else None,
            self._blocked if outcome is Outcome.BLOCKED else None,
            missing=self._missing(),
            node=host,
            free_on_node=None if host is None else (tree.world.nodes or {})[host],
        )

    def _lacks_now(self, node: QueueNode) -> bool:
        used = {name: amount + node.terminating.get(name, 0) for name, amount in node.kept.items()}
        used |= {name: amount for name, amount in node.terminating.items() if name not in used}
        return bool(node.lacking(used, self._situation.requested))

    def _missing(self) -> tuple[MissingAmount, ...]:
        """Return the missing amounts, leaf to root."""
        levels = zip(self._situation.path, self._situation.missing, strict=False)
        return tuple(MissingAmount(node.path, name, amount) for node, lacks in levels for name, amount in lacks.items())

    def search(self, host: str | None, steps: int, *, within_queue: bool) -> _NodeSearch:
        """Search for victims on a node, or among all allocations."""
        tree, situation = self._tree, self._situation
        if host is not None:
            lacking = tree.lacking_on(host, situation.requested)
            key = tuple(lacking.items())
            if key not in self._situations:
                self._situations[key] = Situation(tree, situation.request, within_queue=within_queue, on_node=lacking)
            situation = self._situations[key]
        protections: _Protections = {}
        candidates: list[AllocationClass] = []
        for group in tree.groups_on.get(host, ()) if host is not None else tree.groups:
            for rule, is_candidate, positions in situation.protections(group):
                protections.setdefault((group.node.path, rule), []).extend(positions)
                if is_candidate:
                    candidates += tree.classes(group, positions)
        chosen = choose(situation, candidates, steps)
        victims = _Victims(situation, chosen.positions) if chosen.positions else None
        return _NodeSearch(host, situation, protections, victims, chosen.is_optimal)

    def plan(self, found: _NodeSearch, *, is_optimal: bool) -> PreemptionPlan:
        """Return the plan with the victims of a search."""
        host, victims = found.host, found.victims
        assert victims is not None  # noqa: S101 - the caller has tested it
        return PreemptionPlan(
            self._situation.request,
            Outcome.PLAN,
            self._now,
            victims=victims.explained(),
            missing=self._missing(),
            protected=self._protected([found], victims.positions),
            cost=victims.cost(),
            is_optimal=is_optimal,
            inputs=victims.inputs(),
            node=host,
            free_on_node=None if host is None else (self._tree.world.nodes or {})[host],
            missing_on_node=None if host is None else Resource(found.situation.missing[-1]),
        )

    def no_plan(self, searches: Sequence[_NodeSearch], *, is_optimal: bool) -> PreemptionPlan:
        """Return the plan if no search has found victims."""
        return PreemptionPlan(
            self._situation.request,
            Outcome.NONE,
            self._now,
            missing=self._missing(),
            protected=self._protected(searches),
            is_optimal=is_optimal,
        )

    def _protected(
        self, searches: Sequence[_NodeSearch], victims: Sequence[int] = ()
    ) -> tuple[ProtectedAllocations, ...]:
        """Return the allocations that are no victims, with those of nodes without a search."""
        found: _Protections = {}
        for one in searches:
            for key, positions in one.protections.items():
                found.setdefault(key, []).extend(positions)
        hosts = {one.host for one in searches}
        for group in () if None in hosts else self._tree.groups:
            if group.host not in hosts:
                rule = PreemptionProtection.TERMINATING if group.is_terminating else PreemptionProtection.OTHER_NODE
                found.setdefault((group.node.path, rule), []).extend(group.positions)
        return _protected(self._tree.names, found, set(victims))


def _protected(
    names: list[str], found: Mapping[tuple[str, PreemptionProtection], list[int]], victims: set[int]
) -> tuple[ProtectedAllocations, ...]:
    """Return the allocations that are no victims, by queue and protection.

    Args:
        names: the ids of all allocations.
        found: the positions of all allocations by queue and protection.
        victims: the positions of the victims.
    """
    others = (
        (key, positions if victims.isdisjoint(positions) else set(positions) - victims)
        for key, positions in sorted(found.items())
    )
    return tuple(
        ProtectedAllocations(path, rule, tuple([names[position] for position in sorted(positions)]))
        for (path, rule), positions in others
        if positions
    )


@final
class _Victims:
    """The explanation of the chosen victims."""

    __slots__ = ("_freed", "_situation", "_victims", "positions")

    def __init__(self, situation: Situation, positions: tuple[int, ...]) -> None:
        self._situation: Final = situation
        self.positions: Final = positions
        allocations, nodes = situation.tree.world.allocations, situation.tree.nodes
        victims = [allocations[position] for position in positions]
        self._victims: Final = [(facts, nodes[facts.queue_path]) for facts in victims]
        #: The freed amounts of each queue.
        self._freed: Final[dict[str, dict[str, int]]] = {}
        for facts, leaf in self._victims:
            for node in leaf.lineage():
                freed = self._freed.setdefault(node.path, {})
                for name, amount in facts.usage.amounts.items():
                    if amount:
                        freed[name] = freed.get(name, 0) + amount

    def cost(self) -> PlanCost:
        """Return the cost of the victims."""
        root = self._situation.tree.root
        largest: dict[str, int] = {}
        for missing in self._situation.missing:
            largest |= {name: max(amount, largest.get(name, 0)) for name, amount in missing.items()}
        freed = self._freed[root.path]
        waste = sum(
            (Fraction(amount - largest.get(name, 0), root.kept[name]) for name, amount in freed.items()), Fraction()
        )
        priorities = sorted((facts.priority for facts, _ in self._victims), reverse=True)
        return PlanCost(len(self._victims), waste, tuple(priorities), self.positions)

    def explained(self) -> tuple[Victim, ...]:
        """Return the victims with their reasons."""
        return tuple(self._explained(facts, leaf) for facts, leaf in self._victims)

    def _explained(self, facts: AllocationFacts, leaf: QueueNode) -> Victim:
        usage = {name: amount for name, amount in facts.usage.amounts.items() if amount}
        level = self._situation.roles[leaf.path].level
        helps = self._situation.helps(level, usage)
        return Victim(
            facts.allocation_id,
            facts.application_id,
            facts.queue_path,
            facts.usage,
            facts.priority,
            tuple(self._frees(usage, level)),
            tuple(self._exceeds(leaf, helps)),
            tuple(self._entitled_by(level, helps)),
        )

    def _frees(self, usage: Mapping[str, int], level: int) -> Iterator[Freed]:
        for node, missing in list(zip(self._situation.path, self._situation.missing, strict=False))[level:]:
            for name in missing:
                if name in usage:
                    yield Freed(node.path, name, usage[name])

    def _exceeds(self, leaf: QueueNode, helps: Iterable[str]) -> Iterator[GuaranteeUse]:
        side = [node for node in leaf.lineage() if node not in self._situation.path]
        for node in side:
            for name in helps:
                guaranteed = node.facts.guaranteed.get(name)
                # A queue without a guarantee exceeds one of 0; it is listed only if it is the leaf.
                if guaranteed is not None or node is leaf:
                    used = node.kept.get(name, 0)
                    yield GuaranteeUse(node.path, name, used, guaranteed or 0, used - self._freed[node.path][name])

    def _entitled_by(self, level: int, helps: Iterable[str]) -> Iterator[GuaranteeUse]:
        situation = self._situation
        for name in helps:
            for below, _ in situation.entitled[level].get(name, ()):
                node = situation.path[below]
                used = node.kept.get(name, 0)
                after = used + situation.requested[name] - self._freed.get(node.path, {}).get(name, 0)
                yield GuaranteeUse(node.path, name, used, node.facts.guaranteed[name], after)

    def inputs(self) -> tuple[QueueInput, ...]:
        """Return the state of the queues of the request and of the victims."""
        nodes = {node.path: node for _, leaf in self._victims for node in leaf.lineage()}
        nodes |= {node.path: node for node in self._situation.path}
        return tuple(queue_input(node) for _, node in sorted(nodes.items()))
