"""Reductions of a partition: timers of queues above their maximum, plans, and carrying them out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import pytest

from support.partition_fixtures import memory, objection
from ugm import Partition, UserGroup, parse_config
from ugm.configuration import PartitionConfig
from ugm.partition import PlannedReduction

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


def running() -> Partition:
    """Return a partition in which queue a uses all of its maximum of 10."""
    partition = Partition(config(), clock=lambda: 100)
    partition.submit("one", SUE, "root.a")
    for number in range(5):
        assert partition.allocate(f"one-{number}", "one", memory(2))
    return partition


def test_a_plan_of_a_configuration_names_the_timers() -> None:
    """A plan says which queues would be above their maximum from then on, and does not repeat those that are."""
    partition = running()
    plan = partition.plan(config(9))

    assert plan.reductions == (PlannedReduction("root.a", 60),)
    assert "would be reduced:\n  root.a after 60 s above its maximum" in str(plan)
    assert plan.to_dict()["reductions"] == [{"queue_path": "root.a", "delay": 60}]
    partition.apply(plan, confirm=True)
    assert partition.plan(config(5)).reductions == ()


#: Changes that make a plan for queue a stale, with the reason.
STALE: Final[Mapping[str, Callable[[Partition], object]]] = {
    "allocation 'one-3' is terminating or released": lambda p: p.release("one-3"),
    "other victims are chosen now": lambda p: p.configure(config(5)),
    "no queue is due": lambda p: p.configure(config(7, "61s")),
}


@pytest.mark.parametrize("reason", STALE)
def test_a_stale_plan_is_refused(reason: str) -> None:
    """A plan is refused with the reason if something it depends on has changed, and nothing is marked."""
    partition = running()
    partition.configure(config(7))
    plan = partition.plan_reductions(160)
    STALE[reason](partition)

    assert objection(partition, plan) == reason
    assert partition.preemption_status().terminating == ()
    assert partition.preemption_status().plans == {"reduction": 1, "stale": 1}
