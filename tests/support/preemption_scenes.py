"""Requests in random queues with random allocations, for the laws of preemption."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from random import Random
from typing import Final

from support.partition_fixtures import config
from support.preemption_reference import ReferencePlanner
from support.reclaim_scenes import lending_models, submit_groups
from ugm import AllocationRequest, Partition, Resource
from ugm.identity import is_below
from ugm.preemption import (
    AllocationFacts,
    PreemptionPlan,
    PreemptionPolicy,
    PreemptionRequest,
    QueueFacts,
    World,
    plan_preemption,
)
from ugm.resources import sum_of

LEAVES: Final = ("root.a", "root.b.x", "root.b.y", "root.c.p.u", "root.c.p.v", "root.c.q")
PARENTS: Final = ("root", "root.b", "root.c", "root.c.p")
#: The kinds of models that deny requests in addition to queues.
MODEL_KINDS: Final = ("elastic", "tree", "elastic tree")
_GROUPS: Final = ("a", "b", "c", "d")
NAMES: Final = ("cpu", "mem")


@dataclass(frozen=True)
class Scene:
    """A request in a random world."""

    world: World
    request: PreemptionRequest

    def plan(self, steps: int = 10**9) -> PreemptionPlan:
        """Plan long after the request began to wait."""
        return plan_preemption(self.world, self.request, now=10**6, steps=steps)

    def reference(self) -> ReferencePlanner:
        """Return the exhaustive search."""
        return ReferencePlanner(self.world, self.request)

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

    usage = amounts(0, random.choice((largest, 3 * largest)))

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
    placed = [AllocationFacts("placed", "", random.choice(leaves), amounts(0, 2))] if random.random() < 0.2 else []
    return Scene(World(queues, allocations, placed), request._replace(within_queue=random.random() < 0.5))


def drawn_with_plan(seed: int, most: int) -> Iterator[Scene]:
    """Yield those of a sequence of random scenes in which a plan exists."""
    return (scene for number in count(seed) if (scene := drawn_scene(number, most)).plan())


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
    return Scene(World(entitled, allocations, world.placed), request)


def drawn_with_models(kinds: str, seed: int) -> tuple[Partition, AllocationRequest]:
    """Return a full partition of four groups, whose queues have guarantees, and a request of one of them."""
    random = Random(seed)
    guaranteed = {name: random.randint(1, 4) for name in _GROUPS}
    total = sum(guaranteed.values())
    queues = ", ".join(
        f"{{name: {name}, resources: {{guaranteed: {{gpu: {random.randint(0, amount)}}}}}}}"
        for name, amount in guaranteed.items()
    )
    models = lending_models(kinds, guaranteed, total)
    partition = Partition(config(queues), cluster=Resource(gpu=total), models=models)
    submit_groups(partition, _GROUPS)
    for number in range(12):
        group = random.choice(_GROUPS[1:])
        options = {"priority": random.choice((0, 0, 1)), "preemptible": random.random() < 0.9}
        partition.allocate(f"{group}-{number}", group, Resource(gpu=random.randint(1, 3)), **options)  # type: ignore[arg-type] # a mapping
    for one in partition.allocations():
        if random.random() < 0.1:
            partition.preempt(one.allocation_id)
    request = AllocationRequest("a-new", "a", Resource(gpu=random.randint(1, 4)), priority=random.choice((0, 1)))
    return partition, request
