"""Laws of reclaiming, for elastic groups, quota trees and both together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from support.examples import examples
from support.reclaim_scenes import Held, lending_partition
from ugm import Partition, Resource
from ugm.partition import ReclaimPlan
from ugm.preemption import Outcome
from ugm.testing.invariants import exposed_partition

laws: Final = settings(max_examples=examples(60))

GROUPS: Final = ("a", "b", "c", "d")


class Scene(NamedTuple):
    """A partition that can be made again, and a request in it."""

    kinds: str
    guaranteed: dict[str, int]
    total: int
    held: tuple[Held, ...]
    departments: bool
    group: str
    gpu: int
    priority: int

    def partition(self) -> Partition:
        """Return the partition."""
        return lending_partition(self.kinds, self.guaranteed, self.total, self.held, departments=self.departments)

    def plan(self, partition: Partition) -> ReclaimPlan:
        """Return the plan for the request."""
        return partition.plan_reclaim(self.group, Resource(gpu=self.gpu), priority=self.priority)

    def used(self, without: Iterable[str] = ()) -> Counter[str]:
        """Return the usage of every group, and of both departments, without some allocations."""
        used: Counter[str] = Counter()
        numbers: Counter[str] = Counter()
        gone = set(without)
        for one in self.held:
            name = f"{one.group}-{numbers[one.group]}"
            numbers[one.group] += 1
            if name not in gone and not one.is_terminating:
                used[one.group] += one.gpu
                used["x" if one.group in "ab" else "y"] += one.gpu
        return used

    def guarantee_of(self, owner: str) -> int:
        """Return the guarantee of a group or of a department."""
        members = {"x": "ab", "y": "cd"}.get(owner, owner)
        return sum(self.guaranteed[name] for name in members if name in self.guaranteed)


@st.composite
def scenes(draw: st.DrawFn, largest: int = 4, *, are_preemptible: bool = False) -> Scene:
    """Draw groups whose allocations fill the cluster, most of them not of the group that requests more."""
    names = GROUPS[: draw(st.integers(2, 4))]
    group = draw(st.sampled_from(names))
    guaranteed = {name: draw(st.integers(2 if name == group else 0, 6)) for name in names}
    total = sum(guaranteed.values()) + draw(st.integers(0, 2))
    owners = st.sampled_from([name for name in names if name != group] * 3 + [group])
    rarely = st.integers(0, 9).map(lambda number: number == 0 and not are_preemptible)
    held: list[Held] = []
    left = total
    for _ in range(draw(st.integers(8, 24))):
        gpu = min(draw(st.integers(1, largest)), left)
        left -= gpu
        if gpu:
            held.append(Held(draw(owners), gpu, draw(st.integers(-1, 2)), not draw(rarely), draw(rarely)))
    kinds, departments = draw(st.sampled_from(["elastic", "tree", "elastic tree"])), draw(st.booleans())
    gpu, priority = draw(st.integers(1, guaranteed[group])), draw(st.integers(-1, 1))
    return Scene(kinds, guaranteed, total, tuple(held), departments and len(names) > 2, group, gpu, priority)


def release_terminating(partition: Partition) -> None:
    """Release all terminating allocations."""
    for one in partition.allocations():
        if one.state.value == "terminating":
            partition.release(one.allocation_id)


@laws
@given(scenes())
def test_the_request_fits_without_the_victims(scene: Scene) -> None:
    """After the victims and the terminating allocations have left, the request is granted and no group overuses."""
    partition = scene.partition()
    plan = scene.plan(partition)
    assume(plan)
    for name in plan.allocation_ids:
        assert partition.preempt(name)
    release_terminating(partition)

    assert partition.allocate("new", scene.group, Resource(gpu=scene.gpu), priority=scene.priority)
    assert sum(one.usage["gpu"] for one in partition.allocations()) <= scene.total
    partition.verify()


@laws
@given(scenes())
def test_every_victim_is_needed(scene: Scene) -> None:
    """Without the eviction of any one of the victims, the request does not fit."""
    plan = scene.plan(scene.partition())
    for kept in plan.allocation_ids:
        partition = scene.partition()
        for name in plan.allocation_ids:
            assert name == kept or partition.release(name)
        release_terminating(partition)
        assert scene.plan(partition).outcome is not Outcome.FITS


@laws
@given(scenes())
def test_no_group_loses_what_it_is_guaranteed(scene: Scene) -> None:
    """A victim is of another group, which keeps its guarantee, and the request is within the guarantee of its own."""
    plan = scene.plan(scene.partition())
    after, asking = scene.used(plan.allocation_ids), "x" if scene.group in "ab" else "y"
    for victim in plan.victims:
        assert victim.application_id != scene.group
        assert after[victim.application_id] >= scene.guarantee_of(victim.application_id)
        department = "x" if victim.application_id in "ab" else "y"
        owners = [scene.group]
        if scene.departments and department != asking:
            assert after[department] >= scene.guarantee_of(department)
            owners.append(asking)
        assert any(after[owner] + scene.gpu <= scene.guarantee_of(owner) for owner in owners)


@laws
@given(scenes(), st.data())
def test_a_plan_can_be_carried_out_in_any_way(scene: Scene, data: st.DataObject) -> None:
    """Steps in any order, some of them repeated, have the same effect as the whole plan, which can be repeated."""
    at_once, in_steps = scene.partition(), scene.partition()
    plan = scene.plan(at_once)
    assert at_once.reclaim(plan) == plan.allocation_ids
    assert at_once.reclaim(plan) == ()
    for name in data.draw(st.permutations(plan.allocation_ids)):
        for step in data.draw(st.lists(st.sampled_from([in_steps.preempt, in_steps.release]), max_size=3)):
            step(name)
    left = tuple(name for name in plan.allocation_ids if in_steps.allocation(name))

    assert in_steps.reclaim(plan) == left
    assert exposed_partition(in_steps) == exposed_partition(at_once)
    assert in_steps.allocations() == at_once.allocations()


@laws
@given(scenes(1, are_preemptible=True))
def test_a_guarantee_can_always_be_reclaimed(scene: Scene) -> None:
    """If all allocations are small and preemptible, every request within the guarantee of its group gets a plan."""
    assume(scene.used()[scene.group] + scene.gpu <= scene.guaranteed[scene.group])

    assert scene.plan(scene.partition()).outcome in (Outcome.FITS, Outcome.PLAN)


@laws
@given(scenes())
def test_there_is_no_way_back(scene: Scene) -> None:
    """After the request has been granted, no plan for what a victim asks for evicts the request."""
    partition = scene.partition()
    plan = scene.plan(partition)
    assume(plan)
    partition.reclaim(plan)
    release_terminating(partition)
    assert partition.allocate("new", scene.group, Resource(gpu=scene.gpu))
    for victim in plan.victims:
        back = partition.plan_reclaim(victim.application_id, victim.usage, priority=victim.priority)
        assert "new" not in back.allocation_ids
