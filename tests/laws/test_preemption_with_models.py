"""Laws of plans for requests that elastic groups and quota trees deny as well."""

from __future__ import annotations

import pytest

from support.preemption_scenes import MODEL_KINDS, drawn_with_models
from ugm.partition import AllocationState
from ugm.preemption import PreemptionPlan


def victims_of(plan: PreemptionPlan) -> list[str]:
    """Return the victims of both lists."""
    return [victim.allocation_id for victim in (*plan.by_model, *plan.victims)]


def fits_without(kinds: str, seed: int, names: list[str]) -> bool:
    """Return whether the request fits once some allocations and the terminating ones are released."""
    partition, request = drawn_with_models(kinds, seed)
    for one in partition.allocations():
        if one.allocation_id in names or one.state is AllocationState.TERMINATING:
            partition.release(one.allocation_id)
    return partition.allocate(*request[:3], priority=request.priority).allowed


def check_scene(kinds: str, seed: int) -> int | None:
    """Check the plan of one scene, and return the number of victims of models; None without a plan."""
    partition, request = drawn_with_models(kinds, seed)
    held = {one.allocation_id: one for one in partition.allocations()}
    plan = partition.plan_preemption(request, since=0, now=60)
    assert {one.allocation_id: one for one in partition.allocations()} == held
    names = victims_of(plan)
    if not plan:
        assert names == []
        return None
    assert len(set(names)) == len(names)
    for one in map(held.__getitem__, names):
        assert one.state is AllocationState.HELD
        assert one.preemptible
        assert one.application_id != "a"
        assert one.priority <= request.priority
    assert fits_without(kinds, seed, names)
    for name in names:
        assert not fits_without(kinds, seed, [one for one in names if one != name])
    assert list(partition.carry_out(plan)) == names
    assert partition.carry_out(plan) == ()
    partition.verify()
    return len(plan.by_model)


@pytest.mark.parametrize(
    "seeds", [pytest.param(range(60), marks=pytest.mark.ci), pytest.param(range(1000, 4400), marks=pytest.mark.deep)]
)
@pytest.mark.parametrize("kinds", MODEL_KINDS)
def test_plans_with_models(kinds: str, seeds: range) -> None:
    """After its victims are released the request fits, and none of them can be left out."""
    found = [check_scene(kinds, seed) for seed in seeds]

    assert any(count is not None for count in found)
    # Elastic groups evict for a pod of the same group only, and that is the application of the request here.
    assert any(found) == (kinds != "elastic")
