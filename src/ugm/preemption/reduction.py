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

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, final

from ugm._json_values import JsonObject
from ugm.preemption.eligibility import PreemptionProtection
from ugm.preemption.facts import World
from ugm.preemption.plan import GuaranteeUse, QueueInput, Victim, queue_input
from ugm.preemption.queue_usage_tree import AllocationClass, QueueNode, QueueUsageTree
from ugm.preemption.reduction_search import ReductionProgress, choose_reduction
from ugm.preemption.victim_search import DEFAULT_STEPS
from ugm.resources import Resource, format_amount

__all__ = ["Reduction", "ReductionPlan", "ReductionTimer", "plan_reductions"]


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
class Reduction:
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

    def to_dict(self) -> JsonObject:
        """Return the reduction for JSON."""
        return {
            "queue_path": self.queue_path,
            "since": self.since,
            "due": self.due,
            "excess": dict(self.excess),
            "target": dict(self.target),
            "shares": {path: dict(share) for path, share in self.shares.items()},
            "left": dict(self.left),
            "prevented": dict(self.prevented),
        }


@final
@dataclass(frozen=True, slots=True)
class ReductionPlan:
    """The allocations to evict so that queues are within their maxima; true if there are any."""

    now: int
    #: In the order of processing: deepest first, then by path.
    queues: tuple[Reduction, ...] = ()
    #: In the order of the ledger, oldest first.
    victims: tuple[Victim, ...] = ()
    #: Whether no other set of victims costs less.
    is_optimal: bool = True
    #: The state of the queues on which the plan depends.
    inputs: tuple[QueueInput, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.victims)

    def to_dict(self) -> JsonObject:
        """Return the plan for JSON."""
        return {
            "now": self.now,
            "queues": [one.to_dict() for one in self.queues],
            "victims": [victim.to_dict() for victim in self.victims],
            "is_optimal": self.is_optimal,
        }

    def __str__(self) -> str:
        return "\n".join(self._lines()) or "no queue is due"

    def _lines(self) -> Iterator[str]:
        for one in self.queues:
            yield f"queue {one.queue_path} has been above its maximum since {one.since}: {one.excess} too much"
            if one.left:
                reasons = "".join(f" ({name}: {rule})" for name, rule in one.prevented.items())
                yield f"  {one.left} too much is left{reasons}"
        for victim in self.victims:
            yield f"  evict {victim.allocation_id!r} of {victim.queue_path}: {victim.usage}"
            yield from (
                f"    {use.queue_path} would have {format_amount(use.resource, use.after)} of "
                f"{format_amount(use.resource, use.guaranteed)} {use.resource} guaranteed"
                for use in victim.exceeds
            )


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
    return _Planner(world, timers, now, overshoot=overshoot, steps=steps).plan()


@final
class _Planner:
    """Computes one plan."""

    __slots__ = ("_chosen", "_due", "_is_optimal", "_now", "_overshoot", "_steps", "_taken", "_tree")

    def __init__(
        self, world: World, timers: Iterable[ReductionTimer], now: int, *, overshoot: bool, steps: int
    ) -> None:
        self._tree: Final = QueueUsageTree(world)
        self._now: Final = now
        self._overshoot: Final = overshoot
        self._steps: Final = steps
        self._due: Final = self._due_queues(timers)
        #: The victims in the order in which they were chosen: class and position.
        self._chosen: Final[dict[int, AllocationClass]] = {}
        #: The amounts taken from each queue.
        self._taken: Final[dict[str, dict[str, int]]] = {}
        self._is_optimal = True

    def _due_queues(self, timers: Iterable[ReductionTimer]) -> list[tuple[QueueNode, ReductionTimer]]:
        nodes = self._tree.nodes
        due = [
            (nodes[timer.queue_path], timer)
            for timer in timers
            if timer.queue_path in nodes
            and 0 < nodes[timer.queue_path].facts.reduction_delay <= self._now - timer.since
            and nodes[timer.queue_path].excess()
        ]
        return sorted(due, key=lambda one: (-one[0].path.count("."), one[0].path))

    def plan(self) -> ReductionPlan:
        """Reduce all due queues."""
        reductions = [self._reduce(node, timer) for node, timer in self._due]
        self._remove_needless()
        nodes = {node.path: node for one in self._chosen.values() for node in one.node.lineage()}
        nodes |= {node.path: node for node, _ in self._due}
        return ReductionPlan(
            self._now,
            tuple(self._with_rest(one, node) for one, (node, _) in zip(reductions, self._due, strict=True)),
            tuple(self._victim(position) for position in sorted(self._chosen)),
            self._is_optimal,
            tuple(queue_input(node) for _, node in sorted(nodes.items())),
        )

    def _kept(self, node: QueueNode, name: str) -> int:
        return node.kept.get(name, 0) - self._taken.get(node.path, {}).get(name, 0)

    def _excess(self, node: QueueNode) -> dict[str, int]:
        maximum = node.facts.maximum.amounts
        over = {name: self._kept(node, name) - maximum.get(name, 0) for name in node.excess()}
        return {name: amount for name, amount in over.items() if amount > 0}

    def _reduce(self, node: QueueNode, timer: ReductionTimer) -> Reduction:
        """Choose the victims of one queue."""
        excess = self._excess(node)
        takeable = _ReducibleAmounts(self, node)
        target = {name: takeable.target(name, amount) for name, amount in excess.items()}
        shares: dict[str, dict[str, int]] = {}
        for name, amount in sorted(target.items()):
            for path, share in takeable.shares(name, amount):
                shares.setdefault(path, {})[name] = share
        due = timer.since + node.facts.reduction_delay
        self._choose(node, excess, target, shares)
        return Reduction(
            node.path,
            timer.since,
            due,
            Resource(excess),
            Resource(target),
            {path: Resource(share) for path, share in sorted(shares.items())},
            Resource(),
            {name: takeable.prevented_by(name) for name, amount in excess.items() if target[name] < amount},
        )

    def _choose(
        self,
        node: QueueNode,
        excess: Mapping[str, int],
        target: Mapping[str, int],
        shares: Mapping[str, Mapping[str, int]],
    ) -> None:
        candidates = [
            (one, [position for position in one.positions if position not in self._chosen])
            for one in self.candidates(node)
            if any(target.get(name) for name in one.usage)
        ]
        progress = ReductionProgress(excess, shares, self._bounds(excess), overshoot=self._overshoot)
        chosen = choose_reduction(candidates, progress, self._steps)
        self._is_optimal = self._is_optimal and chosen.is_optimal
        owners = {position: one for one, positions in candidates for position in positions}
        for position in chosen.positions or ():
            self._count(owners[position], 1)
            self._chosen[position] = owners[position]

    def candidates(self, node: QueueNode) -> Iterator[AllocationClass]:
        """Yield the classes below a queue that are preemptible and not terminating."""
        below = f"{node.path}."
        for group in self._tree.groups:
            is_below = group.node is node or group.node.path.startswith(below)
            if is_below and group.preemptible and not group.is_terminating:
                yield from self._tree.classes(group, group.positions)

    def _bounds(self, excess: Iterable[str]) -> dict[str, dict[str, int]]:
        """Return what may be taken from each queue with a guarantee, by path."""
        found: dict[str, dict[str, int]] = {}
        for path, node in self._tree.nodes.items():
            guaranteed = node.facts.guaranteed.amounts
            for name in excess:
                if name in guaranteed:
                    found.setdefault(path, {})[name] = self._kept(node, name) - guaranteed[name]
        return found

    def _count(self, one: AllocationClass, sign: int) -> None:
        for node in one.node.lineage():
            taken = self._taken.setdefault(node.path, {})
            for name, amount in one.usage.items():
                taken[name] = taken.get(name, 0) + sign * amount

    def _remove_needless(self) -> None:
        """Remove the victims that no due queue needs any longer, in the order in which they were chosen."""
        for position, one in list(self._chosen.items()):
            before = [self._excess(node) for node, _ in self._due]
            self._count(one, -1)
            after = [self._excess(node) for node, _ in self._due]
            if before == after:
                del self._chosen[position]
            else:
                self._count(one, 1)

    def _with_rest(self, one: Reduction, node: QueueNode) -> Reduction:
        left = Resource(self._excess(node))
        values = one.queue_path, one.since, one.due, one.excess, one.target, one.shares
        return Reduction(*values, left, one.prevented if left else {})

    def _victim(self, position: int) -> Victim:
        facts = self._tree.world.allocations[position]
        uses = tuple(
            GuaranteeUse(node.path, name, node.kept[name], amount, self._kept(node, name))
            for node in self._chosen[position].node.lineage()
            for name, amount in node.facts.guaranteed.amounts.items()
            if facts.usage.get(name)
        )
        return Victim(
            facts.allocation_id, facts.application_id, facts.queue_path, facts.usage, facts.priority, exceeds=uses
        )

    def kept_above_guarantee(self, node: QueueNode, name: str) -> int:
        """Return the kept amount above the guarantee, at least 0."""
        return max(0, self._kept(node, name) - node.facts.guaranteed.amounts.get(name, 0))

    def preemptible(self, node: QueueNode) -> dict[str, dict[str, int]]:
        """Return the preemptible usage of each leaf in and below a queue."""
        found: dict[str, dict[str, int]] = {}
        for one in self.candidates(node):
            sums = found.setdefault(one.node.path, {})
            count = sum(1 for position in one.positions if position not in self._chosen)
            for name, amount in one.usage.items():
                sums[name] = sums.get(name, 0) + amount * count
        return found


@final
class _ReducibleAmounts:
    """The amounts that may be taken from a queue and from those below."""

    __slots__ = ("_node", "_planner", "_preemptible", "_takeable")

    def __init__(self, planner: _Planner, node: QueueNode) -> None:
        self._planner: Final = planner
        self._node: Final = node
        self._preemptible: Final = planner.preemptible(node)
        self._takeable: Final[dict[tuple[str, str], int]] = {}

    def of(self, node: QueueNode, name: str) -> int:
        """Return the amount that may be taken in and below a queue."""
        key = node.path, name
        if key not in self._takeable:
            offered = self._own(node, name) + sum(self.of(child, name) for child in node.children)
            self._takeable[key] = min(offered, self._planner.kept_above_guarantee(node, name))
        return self._takeable[key]

    def _own(self, node: QueueNode, name: str) -> int:
        return self._preemptible.get(node.path, {}).get(name, 0)

    def target(self, name: str, excess: int) -> int:
        """Return the amount to take of an excess."""
        above = [self._planner.kept_above_guarantee(node, name) for node in self._node.lineage()]
        return min(excess, self.of(self._node, name), *above)

    def prevented_by(self, name: str) -> str:
        """Return the rule that prevents a larger target: guarantees, or allocations that are not preemptible."""
        offered = sum(sums.get(name, 0) for sums in self._preemptible.values())
        return (
            PreemptionProtection.NOT_PREEMPTIBLE
            if self.target(name, offered) == offered
            else PreemptionProtection.GUARANTEE
        )

    def shares(self, name: str, amount: int) -> Iterator[tuple[str, int]]:
        """Yield the shares of the leaves in an amount, without zeros."""
        yield from self._shares(self._node, name, min(amount, self.of(self._node, name)))

    def _shares(self, node: QueueNode, name: str, amount: int) -> Iterator[tuple[str, int]]:
        if not amount:
            return
        parts = {child.path: self.of(child, name) for child in node.children}
        if own := self._own(node, name):
            parts[node.path] = own
        divided = _divided(amount, parts)
        if node.path in divided:
            yield node.path, divided[node.path]
        for child in node.children:
            yield from self._shares(child, name, divided.get(child.path, 0))


def _divided(amount: int, parts: Mapping[str, int]) -> dict[str, int]:
    """Divide an amount in proportion to *parts*, in whole units by largest remainder; ties by name."""
    total = sum(parts.values())
    shares = {path: amount * part // total for path, part in parts.items()}
    by_remainder = sorted(parts, key=lambda path: (-(amount * parts[path] % total), path))
    for path in by_remainder[: amount - sum(shares.values())]:
        shares[path] += 1
    return {path: share for path, share in shares.items() if share}
