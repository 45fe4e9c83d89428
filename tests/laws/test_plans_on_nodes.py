"""Laws of plans of preemption and reclaim on nodes, in partitions with elastic groups and quota trees."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Literal

import pytest

from support.preemption_scenes import MODEL_KINDS, drawn_with_models
from ugm import AllocationRequest, Partition, Resource
from ugm.partition import AllocationState, ReclaimPlan, RunningAllocation
from ugm.preemption import PreemptionPlan

#: A preemption on some nodes, a reclaim on some nodes, and a preemption for which nodes do not matter.
Way = Literal["preempt", "reclaim", "anywhere"]
NODES = ("n1", "n2", "n3")


def drawn(kinds: str, seed: int) -> tuple[Partition, AllocationRequest, Mapping[str, Resource]]:
    """Return a partition whose allocations run on three nodes, a request, and the free amounts of the nodes."""
    partition, request = drawn_with_models(kinds, seed)
    random = Random(seed)
    running = [RunningAllocation(*one[:3], random.choice(NODES)) for one in partition.allocations()]
    partition.reconcile(partition.audit(running))
    return partition, request, {name: Resource(gpu=random.randint(0, 2)) for name in NODES}


def plan_of(
    way: Way, partition: Partition, request: AllocationRequest, nodes: Mapping[str, Resource]
) -> PreemptionPlan | ReclaimPlan:
    """Return a plan of one kind."""
    if way != "reclaim":
        return partition.plan_preemption(request, since=0, now=60, nodes=nodes if way == "preempt" else None)
    return partition.plan_reclaim(request.application_id, request.usage, priority=request.priority, nodes=nodes)


def victims_of(plan: PreemptionPlan | ReclaimPlan) -> list[str]:
    """Return the ids of all victims."""
    if isinstance(plan, ReclaimPlan):
        return list(plan.allocation_ids)
    return [one.allocation_id for one in (*plan.by_model, *plan.victims)]


def fits(kinds: str, seed: int, node: str | None, names: list[str]) -> bool:
    """Return whether the request fits on the node and in all limits without some allocations and terminating ones."""
    partition, request, nodes = drawn(kinds, seed)
    room = nodes[node] if node else request.usage
    for one in partition.allocations():
        if one.allocation_id in names or one.state is AllocationState.TERMINATING:
            partition.release(one.allocation_id)
            room += one.usage if one.node == node else Resource()
    fits_in_limits = partition.allocate(*request[:3], priority=request.priority, node=node).allowed
    return fits_in_limits and room["gpu"] >= request.usage["gpu"]


def check_scene(kinds: str, seed: int, way: Way) -> bool:
    """Check the plan of one scene, and return whether it has victims."""
    partition, request, nodes = drawn(kinds, seed)
    held = {one.allocation_id: one for one in partition.allocations()}
    plan = plan_of(way, partition, request, nodes)
    assert {one.allocation_id: one for one in partition.allocations()} == held
    names = victims_of(plan)
    if not plan:
        assert names == []
        return False
    victims = [held[name] for name in names]
    assert all(one.state is AllocationState.HELD and one.preemptible for one in victims)
    assert all(one.application_id != "a" and one.priority <= request.priority for one in victims)
    assert way == "anywhere" or {one.node for one in victims} == {plan.node}
    assert fits(kinds, seed, plan.node, names)
    assert not any(fits(kinds, seed, plan.node, [one for one in names if one != name]) for name in names)
    if way == "preempt":
        on_one_node = [victims_of(plan_of(way, partition, request, {name: nodes[name]})) for name in NODES]
        assert len(names) == min(len(found) for found in on_one_node if found)
    done = partition.carry_out(plan) if isinstance(plan, PreemptionPlan) else partition.reclaim(plan)
    assert sorted(done) == sorted(set(names))
    partition.verify()
    return True


@pytest.mark.parametrize("seeds", [range(25), pytest.param(range(1000, 2000), marks=pytest.mark.deep)])
@pytest.mark.parametrize("way", ["preempt", "reclaim", "anywhere"])
@pytest.mark.parametrize("kinds", MODEL_KINDS)
def test_plans_on_nodes(kinds: str, way: Way, seeds: range) -> None:
    """All victims run on the node of the plan, suffice there and in all limits, and none of them can be left out."""
    found = [check_scene(kinds, seed, way) for seed in seeds]
    assert any(found)
