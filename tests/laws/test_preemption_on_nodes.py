"""Laws of plans for requests that may run on some nodes, compared with an exhaustive search on every node."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from support.examples import examples
from support.preemption_reference import ReferencePlanner
from support.preemption_scenes import NAMES, Scene, drawn_scene
from ugm import Resource
from ugm.preemption import Outcome

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


def check_against_exhaustive_search(scene: Scene) -> Outcome:
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
    check_against_exhaustive_search(scene_with_nodes(seed, 8))
