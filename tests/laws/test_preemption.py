"""Laws of plans for requests, on random queues and allocations, compared with an exhaustive search."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.examples import examples
from support.preemption_reference import ReferencePlanner
from support.preemption_scenes import NAMES, Scene, drawn_scene, drawn_with_plan, large_scene
from ugm import Resource
from ugm.preemption import AllocationFacts, Outcome, PreemptionPolicy, PreemptionRequest, QueueFacts, plan_preemption
from ugm.preemption.victim_search import DEFAULT_STEPS


def scenes(most: int) -> st.SearchStrategy[Scene]:
    """Return random scenes with a limited number of allocations."""
    return st.builds(drawn_scene, st.integers(0, 2**63), st.just(most))


def scenes_with_plan(most: int) -> st.SearchStrategy[Scene]:
    """Return random scenes in which a plan exists."""
    return st.builds(lambda seed: next(drawn_with_plan(seed, most)), st.integers(0, 2**63))


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


def check_no_way_back(scene: Scene, _random: Random) -> None:
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
        back = plan_preemption(world, again._replace(within_queue=request.within_queue), now=10**6)
        assert "ask" not in [one.allocation_id for one in back.victims]


def check_more_rights_never_prevent_a_plan(scene: Scene, random: Random) -> None:
    """With a higher priority, without a fence, or with lower guarantees of others, a plan stays possible."""
    request, path = scene.request, scene.reference().path

    def relaxed(one: QueueFacts) -> QueueFacts:
        policy = PreemptionPolicy.DEFAULT if one.policy is PreemptionPolicy.FENCE else one.policy
        lower = {name: random.randint(0, amount) for name, amount in one.guaranteed.items()}
        rest = Resource(dict(random.sample(sorted(lower.items()), random.randint(0, len(lower)))))
        return one._replace(policy=policy) if right == "fence" else one._replace(guaranteed=rest)

    for right in ("priority", "fence", "guarantee"):
        queues, higher = list(scene.world.queues), request
        if right == "priority":
            higher = request._replace(priority=request.priority + random.randint(1, 3))
        else:
            queues = [one if right == "guarantee" and one.queue_path in path else relaxed(one) for one in queues]
        changed = Scene(scene.world._replace(queues=queues), higher)
        assert changed.plan().outcome is Outcome.PLAN, right


LAWS: Final = (check_no_way_back, check_more_rights_never_prevent_a_plan)


@pytest.mark.parametrize("check", LAWS)
@settings(max_examples=examples(60))
@given(scene=scenes_with_plan(9), random=st.randoms(use_true_random=False))
def test_laws_of_plans(check: Callable[[Scene, Random], None], scene: Scene, random: Random) -> None:
    """Every law holds for a scene in which a plan exists."""
    check(scene, random)


def check_lawful_and_minimal(scene: Scene, steps: int) -> bool:
    """Check that a plan breaks no law and has no needless victim, and return whether there is one."""
    plan = scene.plan(steps)
    if plan:
        reference = scene.reference()
        assert reference.is_plan(scene.positions(plan))
        assert reference.is_minimal(scene.positions(plan))
    return bool(plan)


@settings(max_examples=examples(40))
@given(scenes(40))
def test_a_plan_of_a_stopped_search_is_lawful_and_minimal(scene: Scene) -> None:
    """A search without steps finds a set that breaks no law and has no needless victim."""
    check_lawful_and_minimal(scene, steps=0)


#: Seeds of large worlds.
LARGE: Final = [range(10), pytest.param(range(10_000), marks=pytest.mark.deep)]


@pytest.mark.parametrize("seeds", LARGE)
def test_plans_of_large_worlds_are_lawful_and_minimal(seeds: range) -> None:
    """With up to 2,000 allocations, no plan breaks a law or has a needless victim; in most worlds one exists."""
    found = [check_lawful_and_minimal(large_scene(seed), DEFAULT_STEPS) for seed in seeds]
    assert 2 * sum(found) > len(found)


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


NODES = ("n1", "n2", "n3")


def scene_with_nodes(seed: int, most: int) -> Scene:
    """Return a random scene on three nodes, two or three of which are candidates."""
    scene, random = drawn_scene(seed, most), Random(seed)
    allocations = [one._replace(node=random.choice((*NODES, *NODES, None))) for one in scene.world.allocations]
    placed = [one._replace(node=random.choice((*NODES, None))) for one in scene.world.placed]
    least = random.choice((-2, 0, 5))
    nodes = {
        name: Resource({each: random.randint(least, least + 4) for each in NAMES if random.random() < 0.9})
        for name in random.sample(NODES, random.randint(2, 3))
    }
    world = scene.world._replace(allocations=allocations, placed=placed, nodes=nodes)
    return Scene(world, scene.request)


def check_against_search_on_every_node(scene: Scene) -> Outcome:
    """Compare a plan with the best set of all nodes, and return its outcome."""
    plan = scene.plan()
    on_nodes = {name: ReferencePlanner(scene.world, scene.request, name) for name in scene.world.nodes or ()}
    fitting = [name for name, reference in on_nodes.items() if reference.fits(())]
    assert bool(fitting) == (plan.outcome in {Outcome.FITS, Outcome.AWAITS_TERMINATING})
    if fitting:
        assert plan.node in fitting
        return plan.outcome
    if plan.outcome is Outcome.NEVER:
        return plan.outcome
    best = {name: victims for name, reference in on_nodes.items() if (victims := reference.best())}
    assert bool(plan) == bool(best)
    if plan:
        assert plan.node == min(best, key=lambda name: (on_nodes[name].cost(best[name]), name))
        assert scene.positions(plan) == best[plan.node]
        assert plan.others == on_nodes[plan.node].laws(best[plan.node])
    return plan.outcome


@settings(max_examples=examples(60))
@given(st.integers(0, 2**63))
def test_the_plan_is_the_best_of_all_nodes(seed: int) -> None:
    """All victims run on one node, and no permitted set of victims on any node costs less."""
    check_against_search_on_every_node(scene_with_nodes(seed, 8))
