"""Reductions of a partition: timers of queues above their maximum, plans, and carrying them out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from support.partition_fixtures import memory
from ugm import AllocationRequest, Partition, RequestError, Resource, UserGroup, parse_config
from ugm.configuration import PartitionConfig
from ugm.events import Event
from ugm.partition import AllocationState, PlannedReduction
from ugm.partition.events import ReductionTimersStarted
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


def test_a_timer_restarts() -> None:
    """A timer that has stopped in between starts at the next change that brings usage above the maximum."""
    time = Time()
    partition = running(time)
    partition.configure(config(8))
    partition.release("one-0")
    time.now = 200
    partition.adopt("more", "one", memory(1))

    assert since(partition) == {"root.a": 200}


#: Changes of a queue above its maximum since 100, with the start of its timer after a further change at 200.
CHANGES: Final[Mapping[str, tuple[Callable[[Partition], object], dict[str, int]]]] = {
    "further reductions keep the start": (lambda p: p.configure(config(4)), {"root.a": 100}),
    "a small raise changes nothing": (lambda p: p.configure(config(9)), {"root.a": 100}),
    "a removed maximum": (lambda p: p.configure(config(None)), {}),
    "no delay": (lambda p: p.configure(config(5, "0s")), {}),
    "reductions turned off": (lambda p: p.configure(config(5, enabled=False)), {}),
    "no configuration": (lambda p: p.configure(None), {}),
}


@pytest.mark.parametrize("name", CHANGES)
def test_changes_of_the_configuration(name: str) -> None:
    """A timer goes on while usage is above the maximum and the delay is on."""
    time = Time()
    partition = running(time)
    partition.configure(config(5))
    time.now = 200
    change, expected = CHANGES[name]
    change(partition)

    assert since(partition) == expected
    time.now = 300
    partition.configure(config(5))
    assert since(partition) == (expected or {"root.a": 300})


def test_queues_without_a_delay_have_no_timer() -> None:
    """A queue takes part only with a delay of its own, and the size of the cluster is not enforced."""
    partition = running(Time(), cluster=memory(50))
    partition.submit("free", SUE, "root.free")
    partition.adopt("free-0", "free", memory(9))
    partition.update_node("cluster", memory(1))

    assert since(partition) == {}
    assert partition.exceeded_limits()


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


def test_without_overshoot() -> None:
    """Without overshoot, an excess that is smaller than every allocation stays."""
    partition = running(Time())
    partition.configure(config(7))

    assert len(partition.plan_reductions(160, overshoot=False).victims) == 1
    assert len(partition.plan_reductions(160).victims) == 2


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


def test_a_delay_that_is_over_as_well() -> None:
    """A plan is carried out if the queue is due with its new delay, too."""
    time = Time()
    partition = running(time)
    partition.configure(config(7))
    plan = partition.plan_reductions(160)
    partition.configure(config(7, "65s"))
    time.now = 165

    assert partition.carry_out(plan) == ("one-3", "one-4")


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


def test_the_start_is_an_event() -> None:
    """Subscribers learn which timers start."""
    events: list[Event] = []
    partition = running(Time(), subscribers=[lambda _, batch: events.extend(batch)])
    partition.configure(config(7))

    assert events[-1] == ReductionTimersStarted(("root.a",), 100)


def test_placed_requests_use_room() -> None:
    """A request with a right to room counts in a reduction as if it were granted."""
    text = """
partitions:
  - preemption: {quotapreemptionenabled: true}
    queues:
      - name: p
        resources: {max: {memory: 10}}
        properties: {quota.preemption.delay: 1s}
        queues: [{name: a, resources: {guaranteed: {memory: 6}}}, {name: b}]
"""
    first = parse_config(text).partition()
    partition = Partition(first, clock=lambda: 0)
    for name in "ab":
        partition.submit(name, SUE, f"root.p.{name}")
    for number in range(5):
        partition.allocate(f"b-{number}", "b", memory(2))
    partition.request("a-0", "a", memory(4))
    plan = partition.plan_preemption(AllocationRequest("a-0", "a", memory(4)), since=0, now=99)
    assert partition.carry_out(plan) == ("b-3", "b-4")
    lower = parse_config(text.replace("10", "8")).partition()
    partition.configure(lower)

    reductions = partition.plan_reductions(99)
    assert [dict(one.excess) for one in reductions.queues] == [{"memory": 2}]
    assert [one.allocation_id for one in reductions.victims] == ["b-2"]


@pytest.mark.parametrize(("arguments", "name"), [(("x",), "now"), ((1.5,), "now")])
def test_invalid_time(arguments: tuple[Any, ...], name: str) -> None:
    """Times are whole numbers."""
    with pytest.raises(RequestError) as caught:
        running(Time()).plan_reductions(*arguments)
    assert caught.value.argument == name


def test_invalid_overshoot() -> None:
    """A flag is a bool."""
    wrong: Any = 1
    with pytest.raises(RequestError, match="overshoot"):
        running(Time()).plan_reductions(overshoot=wrong)


def test_amounts_stay_exact() -> None:
    """Timers work for resources with huge amounts and for those that only a queue names."""
    text = """
partitions:
  - preemption: {quotapreemptionenabled: true}
    queues:
      - {name: a, resources: {max: {gpu: 1}}, properties: {quota.preemption.delay: 1s}}
"""
    partition = Partition(parse_config(text).partition(), clock=lambda: 7)
    partition.submit("one", SUE, "root.a")
    partition.adopt("one-0", "one", Resource(gpu=2**200))

    assert since(partition) == {"root.a": 7}
