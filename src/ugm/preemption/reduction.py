"""Plans that bring queues back within a lowered maximum.

A queue whose usage has been above its maximum for longer than its delay is *due*. Its excess is the kept usage beyond
the maximum. A plan takes as much of it as guarantees and preemptible allocations permit:

1. The amount is divided among the queues below, in proportion to what may be taken from each, in whole units. So each
   leaf has a *share*.
2. Victims are chosen so that the least excess is left, then so that leaves give the least beyond their shares, then as
   few as possible, then of the lowest priority, then the youngest.
3. If several queues are due, the deepest are first, and the victims of one count as terminating for the next. At the
   end, victims that no due queue needs any longer are removed.

Source: Apache YuniKorn, quota preemption.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import lcm
from typing import Final, NamedTuple, final

from ugm._json_values import JsonObject, Row
from ugm.identity import is_below
from ugm.preemption.eligibility import PreemptionProtection
from ugm.preemption.plan import Victim, guarantee_use
from ugm.preemption.queue_usage_tree import AllocationFacts, Candidates, Point, QueueNode, QueueUsageTree, Sums, World
from ugm.preemption.victim_search import DEFAULT_STEPS, Sum, VictimProblem, choose
from ugm.resources import Resource

#: The rule that prevents a larger target, by whether preemptible allocations are left.
_PREVENTING: Final = PreemptionProtection.NOT_PREEMPTIBLE, PreemptionProtection.GUARANTEE


class ReductionTimer(NamedTuple):
    """The time since which the usage of a queue has been above its maximum, in seconds."""

    queue_path: str
    since: int
    #: The delay of the queue.
    delay: int = 0

    @property
    def due(self) -> int:
        """The time from which a plan reduces the queue."""
        return self.since + self.delay

    def to_dict(self) -> JsonObject:
        """Return the timer for JSON."""
        return {**self._asdict(), "due": self.due}


@final
@dataclass(frozen=True, slots=True)
class Reduction(Row):
    """The reduction of one due queue."""

    queue_path: str
    since: int
    due: int
    #: The kept usage beyond the maximum, when the queue was processed; empty if earlier victims suffice.
    excess: Resource
    #: The part of the excess that may be taken; 0 for nothing.
    target: Resource
    #: The shares of the leaves in the target, by path.
    shares: Mapping[str, Resource]
    #: The excess that is left after the plan, without zeros.
    left: Resource
    #: The rule that prevents a larger target, by resource: ``guarantee`` or ``not_preemptible``.
    prevented: Mapping[str, str]


@final
@dataclass(frozen=True, slots=True)
class ReductionPlan(Row):
    """The allocations to evict so that queues are within their maxima; true if there are any."""

    now: int
    #: In the order of processing: deepest first, then by path.
    queues: tuple[Reduction, ...] = ()
    #: In the order of the ledger, oldest first.
    victims: tuple[Victim, ...] = ()
    #: Whether no other set of victims costs less.
    is_optimal: bool = True
    #: Whether a leaf could give more than its share.
    overshoot: bool = True

    def __bool__(self) -> bool:
        return bool(self.victims)

    def __str__(self) -> str:
        return "\n".join(self._lines()) or "no queue is due"

    def _lines(self) -> Iterator[str]:
        for one in self.queues:
            yield f"queue {one.queue_path} has been above its maximum since {one.since}: {one.excess} too much"
            if one.left:
                reasons = "".join(f" ({name}: {rule})" for name, rule in one.prevented.items())
                yield f"  {one.left} too much is left{reasons}"
        yield from (f"  {victim}" for victim in self.victims)


def plan_reductions(
    world: World, timers: Iterable[ReductionTimer], now: int, *, overshoot: bool = True, steps: int = DEFAULT_STEPS
) -> ReductionPlan:
    """Choose the allocations to evict from all queues that are due.

    Args:
        world: the queues and allocations.
        timers: the queues above their maximum.
        now: the time in seconds.
        overshoot: whether a leaf may give more than its share. Otherwise an excess that is smaller than every
            allocation stays.
        steps: the limit of the search for the best set of each queue. It does not apply to up to 14 candidates.
    """
    tree = QueueUsageTree(world)
    named = ((node, timer) for timer in timers if (node := tree.nodes.get(timer.queue_path)))
    due = [one for one in named if 0 < one[0].facts.reduction_delay <= now - one[1].since and one[0].excess()]
    due.sort(key=lambda one: (-one[0].path.count("."), one[0].path))
    planner = _Planner(tree, overshoot=overshoot, steps=steps)
    reductions = [planner.reduce(*one) for one in due]
    planner.remove_needless([node for node, _ in due])
    rest = zip(reductions, (Resource(node.excess()) for node, _ in due), strict=True)
    return ReductionPlan(
        now,
        tuple(replace(one, left=left, prevented=one.prevented if left else {}) for one, left in rest),
        tuple(_explained(tree, planner.victims[position]) for position in sorted(planner.victims)),
        planner.is_optimal,
        overshoot,
    )


def _explained(tree: QueueUsageTree, facts: AllocationFacts) -> Victim:
    nodes = tree.nodes[facts.queue_path].lineage()
    uses = (guarantee_use(node, name) for node in nodes for name in node.facts.guaranteed if facts.usage.get(name))
    return Victim(*facts[:5], exceeds=tuple(uses))


@final
class _Planner:
    """Reduces queues one after the other."""

    def __init__(self, tree: QueueUsageTree, *, overshoot: bool, steps: int) -> None:
        self._tree: Final = tree
        self._overshoot: Final = overshoot
        self._steps: Final = steps
        #: The victims by position, in the order in which they were chosen.
        self.victims: Final[dict[int, AllocationFacts]] = {}
        self.is_optimal = True

    def reduce(self, node: QueueNode, timer: ReductionTimer) -> Reduction:
        """Choose the victims of one queue, and return the reduction without the rest."""
        excess = node.excess()
        candidates = {
            one: rest
            for one, positions in self._tree.classes[None].items()
            if one.preemptible and not one.is_terminating and is_below(one.queue_path, node.path)
            if any(map(one.usage.get, excess))
            if (rest := [position for position in positions if position not in self.victims])
        }
        guarantees = {
            (path, name): queue.above_guarantee(name)
            for path, queue in self._tree.nodes.items()
            for name in excess
            if name in queue.facts.guaranteed
        }
        offered, supply = self._tree.supplies(candidates, excess, guarantees)
        target = {
            name: min(amount, supply[node.path, name], *(max(0, one.above_guarantee(name)) for one in node.lineage()))
            for name, amount in excess.items()
        }
        prevented = {
            name: _PREVENTING[target[name] < offered[node.path, name]] for name in excess if target[name] < excess[name]
        }
        due, shares = timer.since + node.facts.reduction_delay, _leaf_shares(node, target, offered, supply)
        amounts = Resource(excess), Resource(target), shares, Resource()
        reduction = Reduction(node.path, timer.since, due, *amounts, prevented)
        chosen = choose(self._problem(reduction, candidates, guarantees), self._steps)
        self.is_optimal = self.is_optimal and chosen.is_optimal
        for position in chosen.positions or ():
            one = self.victims[position] = self._tree.world.allocations[position]
            self._tree.free(one.queue_path, one.usage)
        return reduction

    def _problem(self, reduction: Reduction, candidates: Candidates, guarantees: Mapping[Point, int]) -> VictimProblem:
        """Return the choice of victims, whose costs are parts of the excess on a common scale of integers."""
        excess, shares = reduction.excess, reduction.shares
        scale = lcm(*excess.values())
        units = {name: scale // amount for name, amount in excess.items()}
        targets = [Sum(reduction.queue_path, name, amount, units[name]) for name, amount in excess.items()]
        bounds = [Sum(*point, amount) for point, amount in guarantees.items()]
        prices = units if self._overshoot else {}
        for path in dict.fromkeys(one.queue_path for one in candidates):
            share = shares.get(path, Resource())
            bounds += [Sum(path, name, share.get(name, 0), prices.get(name, 0)) for name in excess]
        return VictimProblem(targets, bounds, candidates, {}, is_strict=False)

    def remove_needless(self, due: Sequence[QueueNode]) -> None:
        """Remove the victims that no due queue needs any longer, in the order in which they were chosen."""
        for position, one in list(self.victims.items()):
            before = [node.excess() for node in due]
            self._tree.free(one.queue_path, one.usage, -1)
            if [node.excess() for node in due] == before:
                del self.victims[position]
            else:
                self._tree.free(one.queue_path, one.usage)


def _leaf_shares(node: QueueNode, target: Mapping[str, int], offered: Sums, supply: Sums) -> dict[str, Resource]:
    """Return the shares of the leaves below a queue in its target, by path."""
    shares: dict[str, dict[str, int]] = {}
    for name, amount in target.items():
        for path, share in _shares(node, name, amount, offered, supply).items():
            shares.setdefault(path, {})[name] = share
    return {path: Resource(share) for path, share in sorted(shares.items())}


def _shares(node: QueueNode, name: str, amount: int, offered: Sums, supply: Sums) -> dict[str, int]:
    """Divide an amount among the queues below in proportion to their supply, down to the leaves."""
    own = offered[node.path, name] - sum(offered[child.path, name] for child in node.children)
    shares = _divided(amount, {child.path: supply[child.path, name] for child in node.children} | {node.path: own})
    for child in node.children:
        shares |= _shares(child, name, shares.pop(child.path, 0), offered, supply)
    return shares


def _divided(amount: int, parts: Mapping[str, int]) -> dict[str, int]:
    """Divide an amount in proportion to *parts*, in whole units by largest remainder; ties by name."""
    if not amount:
        return {}
    total = sum(parts.values())
    shares = {path: amount * part // total for path, part in parts.items()}
    by_remainder = sorted(parts, key=lambda path: (-(amount * parts[path] % total), path))
    for path in by_remainder[: amount - sum(shares.values())]:
        shares[path] += 1
    return {path: share for path, share in shares.items() if share}
