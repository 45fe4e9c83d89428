"""Queues above their maxima with random allocations, for the laws of reductions."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

from ugm import Resource
from ugm.identity import is_below
from ugm.preemption import AllocationFacts, QueueFacts, ReductionPlan, ReductionTimer, World, plan_reductions

__all__ = ["LEAVES", "ReductionScene", "drawn_reduction"]

LEAVES: Final = ("root.a", "root.b.x", "root.b.y", "root.b.z")
NAMES: Final = ("cpu", "mem")


@dataclass(frozen=True)
class ReductionScene:
    """Queues above their maxima."""

    world: World
    timers: tuple[ReductionTimer, ...]
    overshoot: bool

    def plan(self, steps: int = 10**9) -> ReductionPlan:
        """Plan after all delays."""
        return plan_reductions(self.world, self.timers, now=10**6, overshoot=self.overshoot, steps=steps)

    def kept(self, path: str, name: str, victims: frozenset[str] = frozenset()) -> int:
        """Return the usage of a queue without terminating allocations and victims."""
        return sum(
            one.usage.get(name, 0)
            for one in self.world.allocations
            if is_below(one.queue_path, path) and not one.is_terminating and one.allocation_id not in victims
        )

    def excess(self, facts: QueueFacts, victims: frozenset[str] = frozenset()) -> dict[str, int]:
        """Return the usage of a queue beyond its maximum."""
        over = {n: self.kept(facts.queue_path, n, victims) - amount for n, amount in facts.maximum.items()}
        return {name: amount for name, amount in over.items() if amount > 0}

    def keeps_guarantees(self, victims: frozenset[str], names: frozenset[str]) -> bool:
        """Return whether every queue that loses a resource keeps its guarantee of it."""
        used = {
            (path.queue_path, name)
            for one in self.world.allocations
            if one.allocation_id in victims
            for path in self.world.queues
            if is_below(one.queue_path, path.queue_path)
            for name in names
            if one.usage.get(name, 0)
        }
        guaranteed = {one.queue_path: one.guaranteed for one in self.world.queues}
        return all(self.kept(path, name, victims) >= guaranteed[path].get(name, 0) for path, name in used)


def drawn_reduction(seed: int, due: int, most: int = 8) -> ReductionScene:
    """Return a random scene with this number of due queues, and a limited number of allocations."""
    random = Random(seed)

    def amounts(least: int, most: int, chance: float = 0.8) -> Resource:
        return Resource({name: random.randint(least, most) for name in NAMES if random.random() < chance})

    allocations = [
        AllocationFacts(
            f"v{number}",
            "app",
            random.choice(LEAVES),
            amounts(0, 9),
            random.choice((0, 0, 1)),
            preemptible=random.random() < 0.85,
            is_terminating=random.random() < 0.1,
        )
        for number in range(random.randint(1, most))
    ]
    paths = ["root", "root.b", *LEAVES]
    queues = [
        QueueFacts(path, amounts(3, 20), guaranteed=amounts(0, 9, 0.3), reduction_delay=random.choice((1, 60)))
        for path in paths
    ]
    timers = tuple(ReductionTimer(path, 0) for path in random.sample(paths, due))
    return ReductionScene(World(queues, allocations), timers, random.random() < 0.6)
