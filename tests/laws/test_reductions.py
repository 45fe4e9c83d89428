"""Laws of plans that bring queues back within their maxima, on random queues and allocations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, combinations
from random import Random
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.examples import examples
from ugm import Resource
from ugm.identity import is_below
from ugm.preemption import AllocationFacts, QueueFacts, Reduction, ReductionPlan, ReductionTimer, World, plan_reductions

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


def scenes(due: int) -> st.SearchStrategy[ReductionScene]:
    """Return random scenes with a limited number of due queues."""
    return st.builds(drawn_reduction, st.integers(0, 2**63), st.integers(1, due))


def victims_of(plan: ReductionPlan) -> frozenset[str]:
    """Return the names of the victims."""
    return frozenset(victim.allocation_id for victim in plan.victims)


def left_of(scene: ReductionScene, victims: frozenset[str]) -> list[dict[str, int]]:
    """Return the excess of every queue with a timer."""
    timers = {timer.queue_path for timer in scene.timers}
    return [scene.excess(one, victims) for one in scene.world.queues if one.queue_path in timers]


def cost_of(scene: ReductionScene, one: Reduction, facts: QueueFacts, victims: frozenset[str]) -> tuple[object, ...]:
    """Return the cost of a set for a single due queue."""
    left = scene.excess(facts, victims)
    beyond = Fraction()
    for leaf in LEAVES:
        for name, excess in one.excess.items():
            taken = scene.kept(leaf, name) - scene.kept(leaf, name, victims)
            beyond += Fraction(max(0, taken - one.shares.get(leaf, Resource()).get(name, 0)), excess)
    used = [(-number, each) for number, each in enumerate(scene.world.allocations) if each.allocation_id in victims]
    priorities = sorted((each.priority for _, each in used), reverse=True)
    remaining = sum((Fraction(amount, one.excess[name]) for name, amount in left.items()), Fraction())
    return remaining, beyond, len(victims), priorities, [age for age, _ in used]


def check_single_queue(scene: ReductionScene) -> None:
    """Compare the plan of one due queue with every lawful set."""
    plan = scene.plan()
    if not plan.queues:
        return
    one = plan.queues[0]
    facts = next(each for each in scene.world.queues if each.queue_path == one.queue_path)
    names = frozenset(one.excess)
    candidates = [
        each.allocation_id
        for each in scene.world.allocations
        if each.preemptible and not each.is_terminating and is_below(each.queue_path, one.queue_path)
        if any(each.usage.get(name, 0) for name, amount in one.target.items() if amount)
    ]
    sets = map(frozenset, chain.from_iterable(combinations(candidates, n) for n in range(len(candidates) + 1)))
    lawful = [each for each in sets if scene.keeps_guarantees(each, names)]
    if not scene.overshoot:
        lawful = [each for each in lawful if is_within_shares(scene, one, each)]

    assert victims_of(plan) == min(lawful, key=lambda each: cost_of(scene, one, facts, each))


def is_within_shares(scene: ReductionScene, one: Reduction, victims: frozenset[str]) -> bool:
    """Return whether no leaf gives more than its share."""
    return all(
        scene.kept(leaf, name) - scene.kept(leaf, name, victims) <= one.shares.get(leaf, Resource()).get(name, 0)
        for leaf in LEAVES
        for name in one.excess
    )


@settings(max_examples=examples(80))
@given(scenes(1))
def test_the_plan_is_the_best_of_all_sets(scene: ReductionScene) -> None:
    """The victims of one queue have the least cost of all lawful sets."""
    check_single_queue(scene)


def check_no_victim_can_be_left_out(scene: ReductionScene, _random: Random) -> None:
    """Without any one victim, more excess is left, even if the search was stopped."""
    for steps in (0, 10**9):
        victims = victims_of(scene.plan(steps))
        left = left_of(scene, victims)
        assert all(left_of(scene, victims - {name}) != left for name in victims)


def check_queues_keep_their_guarantees(scene: ReductionScene, _random: Random) -> None:
    """No queue is left with less than its guarantee in the resources that the due queues use too much of."""
    for steps in (0, 10**9):
        plan = scene.plan(steps)
        names = frozenset.intersection(*[frozenset(one.excess) for one in plan.queues]) if plan.queues else frozenset()
        assert scene.keeps_guarantees(victims_of(plan), names)
        assert [dict(one.left) for one in plan.queues] == [
            scene.excess(facts, victims_of(plan))
            for one in plan.queues
            for facts in scene.world.queues
            if facts.queue_path == one.queue_path
        ]


def check_shares_add_up_to_the_target(scene: ReductionScene, _random: Random) -> None:
    """The shares of the leaves are whole units that add up to the target."""
    for one in scene.plan().queues:
        for name, amount in one.target.items():
            assert sum(share.get(name, 0) for share in one.shares.values()) == amount


def check_order_of_queues(scene: ReductionScene, random: Random) -> None:
    """Shuffled queues and timers give the same plan."""
    queues = random.sample(list(scene.world.queues), len(scene.world.queues))
    timers = tuple(random.sample(scene.timers, len(scene.timers)))
    shuffled = ReductionScene(scene.world._replace(queues=queues), timers, scene.overshoot)

    assert shuffled.plan() == scene.plan()


LAWS: Final = (
    check_no_victim_can_be_left_out,
    check_queues_keep_their_guarantees,
    check_shares_add_up_to_the_target,
    check_order_of_queues,
)


@pytest.mark.parametrize("check", LAWS)
@settings(max_examples=examples(80))
@given(scene=scenes(4), random=st.randoms(use_true_random=False))
def test_laws_of_reductions(
    check: Callable[[ReductionScene, Random], None], scene: ReductionScene, random: Random
) -> None:
    """Every law holds for up to four due queues."""
    check(scene, random)


@pytest.mark.parametrize(("guaranteed", "rule"), [(1, "not_preemptible"), (3, "guarantee")])
def test_the_rule_that_prevents_a_larger_target(guaranteed: int, rule: str) -> None:
    """A plan names the guarantee if more could be evicted without it, and otherwise the allocations that must stay."""
    facts = QueueFacts("root.a", Resource(cpu=1), guaranteed=Resource(cpu=guaranteed), reduction_delay=1)
    allocations = [
        AllocationFacts(f"v{number}", "app", "root.a", Resource(cpu=1), preemptible=number < 2) for number in range(4)
    ]
    plan = plan_reductions(World([QueueFacts("root"), facts], allocations), [ReductionTimer("root.a", 0)], now=1)

    assert [dict(one.prevented) for one in plan.queues] == [{"cpu": rule}]
