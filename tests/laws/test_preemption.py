"""Laws of plans for requests, on random queues and allocations, compared with an exhaustive search."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from random import Random
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.examples import examples
from support.preemption_reference import ReferencePlanner
from ugm import Resource
from ugm.identity import is_below
from ugm.preemption import (
    AllocationFacts,
    Outcome,
    PlacedRequest,
    PreemptionPlan,
    PreemptionPolicy,
    PreemptionRequest,
    QueueFacts,
    World,
    plan_preemption,
)
from ugm.preemption.search import DEFAULT_STEPS
from ugm.resources import sum_of

LEAVES: Final = ("root.a", "root.b.x", "root.b.y", "root.c.p.u", "root.c.p.v", "root.c.q")
PARENTS: Final = ("root", "root.b", "root.c", "root.c.p")
NAMES: Final = ("cpu", "mem")


@dataclass(frozen=True)
class Scene:
    """A request in a random world."""

    world: World
    request: PreemptionRequest
    within_queue: bool

    def plan(self, steps: int = 10**9) -> PreemptionPlan:
        """Plan long after the request began to wait."""
        return plan_preemption(self.world, self.request, now=10**6, within_queue=self.within_queue, steps=steps)

    def reference(self) -> ReferencePlanner:
        """Return the exhaustive search."""
        return ReferencePlanner(self.world, self.request, within_queue=self.within_queue)

    def positions(self, plan: PreemptionPlan) -> tuple[int, ...]:
        """Return the positions of the victims of a plan."""
        names = [one.allocation_id for one in self.world.allocations]
        return tuple(names.index(victim.allocation_id) for victim in plan.victims)


def drawn_scene(seed: int, most: int) -> Scene:
    """Return a random scene in which many requests lack something; one seed always gives the same one."""
    random = Random(seed)
    leaves = random.sample(LEAVES, random.randint(2, len(LEAVES)))
    largest = random.choice((1, 4, 9))

    def amounts(least: int, most: int, chance: float = 0.8) -> Resource:
        return Resource({name: random.randint(least, most) for name in NAMES if random.random() < chance})

    allocations = [
        AllocationFacts(
            f"v{number}",
            f"app-{random.randint(0, 3)}",
            random.choice(leaves),
            amounts(0, largest),
            random.choice((0, 0, 1, 3)),
            preemptible=random.random() < 0.9,
            is_terminating=random.random() < 0.1,
        )
        for number in range(random.randint(3, most))
    ]
    total = {name: sum(one.usage.get(name, 0) for one in allocations) for name in NAMES}
    policies: list[PreemptionPolicy | None] = [*PreemptionPolicy, *[None] * 12]
    leaf = random.choice(leaves)

    usage = amounts(1, random.choice((largest, 3 * largest)))

    def facts(path: str) -> QueueFacts:
        own = sum_of(one.usage for one in allocations if is_below(one.queue_path, path))
        # Guarantees of the request mostly cover it, and those of others are mostly exceeded.
        least, most = (0, 4) if is_below(leaf, path) else (-6, 2)
        around = own + usage if is_below(leaf, path) else own
        guaranteed = {n: max(0, around.get(n, 0) + random.randint(least, most)) for n in NAMES if random.random() < 0.6}
        maximum = {n: random.randint(largest, largest + total[n]) for n in NAMES if random.random() < 0.1}
        if path == "root":
            maximum = {n: total[n] + random.randint(-1, 2) for n in NAMES if random.random() < 0.9}
        return QueueFacts(path, Resource(maximum), guaranteed=Resource(guaranteed), policy=random.choice(policies))

    queues = [facts(path) for path in (*PARENTS, *LEAVES)]
    request = PreemptionRequest("ask", "app-0", leaf, usage, random.choice((0, 1, 3, 3)))
    placed = [PlacedRequest(random.choice(leaves), amounts(0, 2))] if random.random() < 0.2 else []
    return Scene(World(queues, allocations, placed), request, random.random() < 0.5)


def scenes(most: int) -> st.SearchStrategy[Scene]:
    """Return random scenes with a limited number of allocations."""
    return st.builds(drawn_scene, st.integers(0, 2**63), st.just(most))


def scenes_with_plan(most: int) -> st.SearchStrategy[Scene]:
    """Return random scenes in which a plan exists."""
    return st.builds(first_with_plan, st.integers(0, 2**63), st.just(most))


def first_with_plan(seed: int, most: int) -> Scene:
    """Return the first of a sequence of random scenes in which a plan exists."""
    drawn = (drawn_scene(number, most) for number in count(seed))
    return next(scene for scene in drawn if scene.plan())


def check_against_exhaustive_search(scene: Scene) -> None:
    """Compare a plan with the best of all sets."""
    plan, reference = scene.plan(), scene.reference()
    searched = plan.outcome in {Outcome.PLAN, Outcome.NONE}
    assert searched == (not reference.fits(()) and not any(never(scene)))
    if not searched:
        return
    best = reference.best()
    assert scene.positions(plan) == (best or ())
    assert bool(plan) == (best is not None)
    assert plan.others == reference.laws(best or ())
    if plan.cost and best:
        assert (plan.cost.count, plan.cost.waste) == reference.cost(best)[:2]


def never(scene: Scene) -> list[str]:
    """Return the resources of which the request alone exceeds a maximum."""
    reference = scene.reference()
    maxima = [scene_queue.maximum for path, scene_queue in reference.queues.items() if path in reference.path]
    return [name for name, amount in reference.wanted.items() if any(amount > one.get(name, amount) for one in maxima)]


@settings(max_examples=examples(60))
@given(scenes(7))
def test_the_plan_is_the_best_of_all_sets(scene: Scene) -> None:
    """A plan has the least cost of all lawful sets, and names the law of every other allocation."""
    check_against_exhaustive_search(scene)


@pytest.mark.deep
def test_the_plan_is_the_best_of_all_sets_often() -> None:
    """The same for 10,000 worlds with up to 12 candidates."""
    for seed in range(10_000):
        check_against_exhaustive_search(drawn_scene(seed, 12))


@settings(max_examples=examples(60))
@given(scenes_with_plan(9))
def test_no_victim_can_be_left_out(scene: Scene) -> None:
    """Without any one of its victims, a set is no plan."""
    plan = scene.plan()

    assert scene.reference().is_minimal(scene.positions(plan))


@settings(max_examples=examples(60))
@given(scenes_with_plan(9))
def test_there_is_no_way_back(scene: Scene) -> None:
    """No plan for a victim that requests its amount again needs the allocation that displaced it."""
    plan = scene.plan()
    positions = scene.positions(plan)
    rest = [one for number, one in enumerate(scene.world.allocations) if number not in positions]
    request = scene.request
    granted = AllocationFacts("ask", request.application_id, request.queue_path, request.usage, request.priority)
    for position in positions:
        victim = scene.world.allocations[position]
        again = PreemptionRequest("again", victim.application_id, victim.queue_path, victim.usage, victim.priority)
        world = scene.world._replace(allocations=[*rest, granted])
        back = plan_preemption(world, again, now=10**6, within_queue=scene.within_queue)
        assert "ask" not in [one.allocation_id for one in back.victims]


@settings(max_examples=examples(60))
@given(scenes(12), st.randoms(use_true_random=False))
def test_the_order_of_queues_and_names_has_no_effect(scene: Scene, random: Random) -> None:
    """Shuffled queues and other names of applications give the same victims."""
    names = {f"app-{number}": f"{random.random()}-{number}" for number in range(4)}
    queues = random.sample(list(scene.world.queues), len(scene.world.queues))
    allocations = [one._replace(application_id=names[one.application_id]) for one in scene.world.allocations]
    request = scene.request._replace(application_id=names[scene.request.application_id])
    renamed = Scene(World(queues, allocations, scene.world.placed), request, scene.within_queue)

    assert renamed.positions(renamed.plan()) == scene.positions(scene.plan())
    assert renamed.plan().others == scene.plan().others


@settings(max_examples=examples(60))
@given(scenes_with_plan(9), st.sampled_from(["priority", "fence", "guarantee"]))
def test_more_rights_never_prevent_a_plan(scene: Scene, right: str) -> None:
    """With a higher priority, without a fence, or with lower guarantees of others, a plan stays possible."""
    queues, request = list(scene.world.queues), scene.request
    path = scene.reference().path
    if right == "priority":
        request = request._replace(priority=request.priority + 1)
    elif right == "fence":
        fences = {PreemptionPolicy.FENCE}
        queues = [one._replace(policy=PreemptionPolicy.DEFAULT) if one.policy in fences else one for one in queues]
    else:
        queues = [one if one.queue_path in path else one._replace(guaranteed=Resource()) for one in queues]
    changed = Scene(scene.world._replace(queues=queues), request, scene.within_queue)

    assert changed.plan().outcome is Outcome.PLAN


@settings(max_examples=examples(40))
@given(scenes(40))
def test_a_plan_of_a_stopped_search_is_lawful_and_minimal(scene: Scene) -> None:
    """A search without steps finds a set that breaks no law and has no needless victim."""
    plan = scene.plan(steps=0)
    if plan:
        reference = scene.reference()
        assert reference.is_plan(scene.positions(plan))
        assert reference.is_minimal(scene.positions(plan))


def large_scene(seed: int) -> Scene:
    """Return a full world with up to 2,000 allocations, in which a large request is guaranteed enough."""
    scene, random = drawn_scene(seed, 2_000), Random(seed)
    path, world = scene.reference().path, scene.world
    request = scene.request._replace(usage=random.randint(1, 8) * scene.request.usage, priority=3)
    queues = [
        one._replace(maximum=one.maximum if one.queue_path == "root" else Resource(), policy=None)
        for one in world.queues
    ]
    entitled = [
        one._replace(guaranteed=Resource(dict.fromkeys(one.guaranteed, 10**6))) if one.queue_path in path else one
        for one in queues
    ]
    allocations = [one._replace(is_terminating=False) for one in world.allocations]
    return Scene(World(entitled, allocations, world.placed), request, scene.within_queue)


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(40))
def test_plans_of_large_worlds_are_lawful_and_minimal(seed: int) -> None:
    """With up to 2,000 allocations, no plan breaks a law or has a needless victim."""
    scene = large_scene(seed)
    plan = scene.plan(steps=DEFAULT_STEPS)
    if plan:
        reference = scene.reference()
        assert reference.is_plan(scene.positions(plan))
        assert reference.is_minimal(scene.positions(plan))


@settings(max_examples=examples(40))
@given(scenes_with_plan(9))
def test_the_request_fits_after_the_plan(scene: Scene) -> None:
    """Once the victims and the terminating allocations are released, the request fits."""
    plan = scene.plan()
    positions = scene.positions(plan)
    left = [
        one for number, one in enumerate(scene.world.allocations) if number not in positions and not one.is_terminating
    ]
    after = Scene(scene.world._replace(allocations=left), scene.request, scene.within_queue)

    assert after.plan().outcome is Outcome.FITS


@settings(max_examples=examples(30))
@given(scenes(12))
def test_a_plan_has_a_text_and_data(scene: Scene) -> None:
    """Every victim is named in the text, and the data of the plan have every allocation once."""
    plan = scene.plan()
    shown = plan.to_dict()

    assert all(f"evict {victim.allocation_id!r}" in str(plan) for victim in plan.victims)
    if plan.outcome in {Outcome.PLAN, Outcome.NONE}:
        names = [victim["allocation_id"] for victim in shown["victims"]] + list(shown["others"])
        assert sorted(names) == sorted(one.allocation_id for one in scene.world.allocations)
