"""Reductions of a partition: timers of queues above their maximum, plans, and carrying them out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from support.partition_fixtures import memory
from ugm import Partition, RequestError, UserGroup, parse_config
from ugm.configuration import PartitionConfig
from ugm.partition import AllocationState, PlannedReduction
from ugm.preemption import ReductionTimer
from ugm.store import open_partition

SUE: Final = UserGroup("sue")


def config(maximum: int | None = 10, delay: str = "60s", *, enabled: bool = True) -> PartitionConfig:
    """Return a configuration with a queue that is reduced, and one whose queues are created by placement."""
    limit = "" if maximum is None else f"max: {{memory: {maximum}}}, "
    return parse_config(f"""
partitions:
  - name: default
    preemption: {{quotapreemptionenabled: {str(enabled).lower()}}}
    placementrules:
      - {{name: tag, value: namespace, create: true, parent: {{name: fixed, value: p}}}}
      - {{name: provided}}
    queues:
      - name: a
        resources: {{{limit}guaranteed: {{memory: 3}}}}
        properties: {{quota.preemption.delay: "{delay}"}}
      - name: free
        resources: {{max: {{memory: 5}}}}
      - name: p
        parent: true
        childtemplate:
          resources: {{max: {{memory: 4}}}}
          properties: {{quota.preemption.delay: 5s}}
""").partition()


class Time:
    """A clock that a test sets."""

    now = 100

    def __call__(self) -> int:
        """Return the time."""
        return self.now


def running(time: Time, **options: Any) -> Partition:  # noqa: ANN401 - arguments of a partition
    """Return a partition in which queue a uses all of its maximum of 10."""
    partition = Partition(config(), clock=time, **options)
    partition.submit("one", SUE, "root.a")
    for number in range(5):
        assert partition.allocate(f"one-{number}", "one", memory(2))
    return partition


def since(partition: Partition) -> dict[str, int]:
    """Return the running timers."""
    return {timer.queue_path: timer.since for timer in partition.reduction_timers()}


def test_a_lowered_maximum_starts_a_timer() -> None:
    """A timer runs from the change that brings usage above the maximum to the one that brings it back."""
    time = Time()
    partition = running(time)
    assert since(partition) == {}
    partition.configure(config(7))
    assert partition.reduction_timers() == (ReductionTimer("root.a", 100, 60),)
    assert partition.reduction_timers()[0].due == 160

    time.now = 130
    partition.configure(config(8, "90s"))
    assert partition.reduction_timers() == (ReductionTimer("root.a", 100, 90),)
    partition.release("one-0")
    assert since(partition) == {}


def test_a_plan_of_a_configuration_names_the_timers() -> None:
    """A plan says which queues would be above their maximum from then on, and does not repeat those that are."""
    partition = running(Time())
    plan = partition.plan(config(6))

    assert plan.reductions == (PlannedReduction("root.a", 60),)
    assert "would be reduced:\n  root.a after 60 s above its maximum" in str(plan)
    assert plan.to_dict()["reductions"] == [{"queue_path": "root.a", "delay": 60}]
    partition.apply(plan, confirm=True)
    assert partition.plan(config(5)).reductions == ()


def test_plan_and_carry_out() -> None:
    """After the delay a plan brings the queue back; its victims become terminating, and then nothing is left to do."""
    time = Time()
    partition = running(time)
    partition.configure(config(7))
    time.now = 159
    assert not partition.plan_reductions()
    assert partition.plan_reductions(now=160).victims
    time.now = 160
    plan = partition.plan_reductions()

    assert [one.queue_path for one in plan.queues] == ["root.a"]
    assert partition.carry_out(plan) == ("one-3", "one-4")
    assert partition.allocation("one-4").state is AllocationState.TERMINATING  # type: ignore[union-attr] # it exists
    assert partition.carry_out(plan) == ()
    assert not partition.plan_reductions()
    assert since(partition) == {"root.a": 100}
    partition.release("one-3")
    partition.release("one-4")
    assert since(partition) == {}
    partition.verify()


#: Changes that make a plan for queue a stale, with the reason.
STALE: Final[Mapping[str, Callable[[Partition], object]]] = {
    "allocation 'one-3' is terminating or released": lambda p: p.release("one-3"),
    "queue root.a has changed (maximum)": lambda p: p.configure(config(6)),
    "no queue is due": lambda p: p.configure(config(7, "61s")),
    "queue root has changed (kept)": lambda p: p.release("one-0"),
}


@pytest.mark.parametrize("reason", STALE)
def test_a_stale_plan_is_refused(reason: str) -> None:
    """A plan is refused with the reason if something it depends on has changed, and nothing is marked."""
    partition = running(Time())
    partition.configure(config(7))
    plan = partition.plan_reductions(160)
    STALE[reason](partition)

    with pytest.raises(RequestError) as caught:
        partition.carry_out(plan)
    assert caught.value.reason == f"the plan is stale: {reason}"
    assert partition.preemption_status().terminating == ()
    assert partition.preemption_status().plans == {"reduction": 1, "stale": 1}


def test_timers_are_facts_in_the_store(tmp_path: Path) -> None:
    """A restart and a later clock change no timer; a store that is read has it, too."""
    time = [100_000]
    path = tmp_path / "store"
    with open_partition(path, config(), clock=lambda: time[0] / 1000) as partition:
        partition.submit("one", SUE, "root.a")
        partition.allocate("one-0", "one", memory(10))
        time[0] = 130_999
        partition.configure(config(7))
        assert since(partition) == {"root.a": 130}
    for _ in range(2):
        time[0] += 50_000
        with open_partition(path, clock=lambda: time[0] / 1000) as partition:
            assert since(partition) == {"root.a": 130}
    with open_partition(path, clock=lambda: time[0] / 1000) as partition:
        assert since(partition) == {"root.a": 130}
        partition.release("one-0")
    with open_partition(path, clock=lambda: time[0] / 1000) as partition:
        assert since(partition) == {}
        partition.adopt("one-1", "one", memory(8))
        assert since(partition) == {"root.a": time[0] // 1000}
