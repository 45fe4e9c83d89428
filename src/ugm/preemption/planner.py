"""Plans for requests: the outcome, the victims and the explanation.

Source: Apache YuniKorn, preemption.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Final, final

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

__all__ = ["plan_preemption"]


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
        world: the queues and allocations.
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
    tree = QueueUsageTree(world, request.application_id)
    situation = Situation(tree, request, within_queue=within_queue)
    planner = _Planner(situation, now, blocked)
    outcome = planner.early_outcome()
    if outcome is not None:
        due = situation.due if outcome is Outcome.EARLY else None
        decision = blocked if outcome is Outcome.BLOCKED else None
        return PreemptionPlan(request, outcome, now, due, decision, missing=planner.missing())
    return planner.plan(steps)


@final
class _Planner:
    """Computes one plan."""

    __slots__ = ("_blocked", "_now", "_situation")

    def __init__(self, situation: Situation, now: int, blocked: Decision | None) -> None:
        self._situation: Final = situation
        self._now: Final = now
        self._blocked: Final = blocked

    def early_outcome(self) -> Outcome | None:
        """Return the outcome if it follows without a search."""
        situation = self._situation
        requested = situation.requested
        # A decision that denies is false.
        is_blocked = self._blocked is not None
        will_fit = not is_blocked and not any(situation.missing)
        found = (
            (will_fit and not any(map(self._lacks_now, situation.path)), Outcome.FITS),
            (will_fit, Outcome.AWAITS_TERMINATING),
            (is_blocked, Outcome.BLOCKED),
            (any(node.lacking({}, requested) for node in situation.path), Outcome.NEVER),
            (not situation.request.may_preempt, Outcome.MUST_NOT_PREEMPT),
            (self._now < situation.due, Outcome.EARLY),
        )
        return next((outcome for applies, outcome in found if applies), None)

    def _lacks_now(self, node: QueueNode) -> bool:
        used = {name: amount + node.terminating.get(name, 0) for name, amount in node.kept.items()}
        used |= {name: amount for name, amount in node.terminating.items() if name not in used}
        return bool(node.lacking(used, self._situation.requested))

    def missing(self) -> tuple[MissingAmount, ...]:
        """Return the missing amounts, leaf to root."""
        levels = zip(self._situation.path, self._situation.missing, strict=True)
        return tuple(MissingAmount(node.path, name, amount) for node, lacks in levels for name, amount in lacks.items())

    def plan(self, steps: int) -> PreemptionPlan:
        """Search for victims."""
        situation = self._situation
        protected, candidates = self._sorted_by_protection()
        chosen = choose(situation, candidates, steps)
        positions = chosen.positions or ()
        victims = _Victims(situation, positions)
        return PreemptionPlan(
            situation.request,
            Outcome.PLAN if positions else Outcome.NONE,
            self._now,
            victims=victims.explained(),
            missing=self.missing(),
            protected=_protected(situation.tree.names, protected, set(positions)),
            cost=victims.cost() if positions else None,
            is_optimal=chosen.is_optimal,
            inputs=victims.inputs() if positions else (),
        )

    def _sorted_by_protection(self) -> tuple[dict[tuple[str, PreemptionProtection], list[int]], list[AllocationClass]]:
        """Return the positions of all allocations by queue and protection, and the candidates among them."""
        situation = self._situation
        found: dict[tuple[str, PreemptionProtection], list[int]] = {}
        candidates: list[AllocationClass] = []
        for group in situation.tree.groups:
            for rule, is_candidate, positions in situation.protections(group):
                found.setdefault((group.node.path, rule), []).extend(positions)
                if is_candidate:
                    candidates += situation.tree.classes(group, positions)
        return found, candidates


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

    __slots__ = ("_freed", "_positions", "_situation", "_victims")

    def __init__(self, situation: Situation, positions: tuple[int, ...]) -> None:
        self._situation: Final = situation
        self._positions: Final = positions
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
        return PlanCost(len(self._victims), waste, tuple(priorities), self._positions)

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
        for node, missing in list(zip(self._situation.path, self._situation.missing, strict=True))[level:]:
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
