"""Plans of preemption and reductions whose ids have been used again since: an application that ended, and a request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from support.partition_fixtures import memory
from ugm import AllocationRequest, Partition, RequestError, UserGroup, parse_config
from ugm.configuration import PartitionConfig
from ugm.preemption import PreemptionPlan, ReductionPlan

SUE: Final = UserGroup("sue")
REQUEST: Final = AllocationRequest("prod-0", "prod", memory(4))

QUEUES: Final = """
partitions:
  - name: default
    placementrules: [{name: provided, create: true}]
    queues:
      - {name: prod, resources: {guaranteed: {memory: 4}}}
      - {name: batch}
      - {name: open, parent: true}
      - {name: guaranteed, resources: {guaranteed: {memory: 4}}}
      - {name: disabled, properties: {preemption.policy: disabled}}
"""


def config(text: str) -> PartitionConfig:
    """Return the configuration of a partition."""
    return parse_config(text).partition()


def hold(partition: Partition, name: str, queue: str, user: UserGroup = SUE) -> None:
    """Submit an application, and let it hold 4."""
    partition.submit(name, user, f"root.{queue}")
    assert partition.allocate(f"{name}-0", name, memory(4))


def full(protected: str = "guaranteed", clock: Callable[[], int] = lambda: 1000) -> Partition:
    """Return a partition with an application in batch and one in a protected queue, whose request in prod waits."""
    partition = Partition(config(QUEUES), cluster=memory(8), clock=clock)
    partition.submit("prod", SUE, "root.prod")
    hold(partition, "batch", "batch")
    hold(partition, "other", protected)
    return partition


def plan(partition: Partition, request: AllocationRequest = REQUEST, **options: Any) -> PreemptionPlan:  # noqa: ANN401 - passed on
    """Return a plan for the request that evicts the allocation in batch."""
    made = partition.plan_preemption(request, since=0, **options)
    assert [one.allocation_id for one in made.victims] == ["batch-0"]
    return made


def ask(partition: Partition, **options: Any) -> None:  # noqa: ANN401 - passed on
    """Make the request."""
    assert partition.request(*REQUEST[:3], **options)


def objection(partition: Partition, made: PreemptionPlan | ReductionPlan) -> str:
    """Return the reason why a plan is stale, and make sure that nothing is marked."""
    before = partition.allocations()
    with pytest.raises(RequestError) as caught:
        partition.carry_out(made)
    assert partition.allocations() == before
    return caught.value.reason.removeprefix("the plan is stale: ")


@pytest.mark.parametrize("protected", ["guaranteed", "disabled"])
def test_a_victim_in_another_queue(protected: str) -> None:
    """An allocation with the id of a victim is not evicted if its application is in another queue now."""
    partition = full(protected)
    ask(partition)
    made = plan(partition)
    for name in ("batch", "other"):
        partition.remove(name)
    # All queues use what they did.
    hold(partition, "batch", protected)
    hold(partition, "other", "batch")

    assert objection(partition, made) == "allocation 'batch-0' has changed"


@pytest.mark.parametrize("options", [{"duration": 99}, {"preemptible": False}, {"priority": 1}])
def test_a_request_with_other_properties(options: dict[str, Any]) -> None:
    """A request that was withdrawn and made again is another one, unless all that a plan depends on is equal."""
    partition = full()
    ask(partition)
    made = plan(partition)
    partition.release("prod-0")
    ask(partition, **options)
    assert objection(partition, made) == "request 'prod-0' has changed"
    partition.release("prod-0")
    ask(partition)

    assert partition.carry_out(made) == ("batch-0",)


def test_a_request_with_a_longer_delay() -> None:
    """A plan for a request that may not preempt any more is refused; it is valid again when the delay is over."""
    now = [1000]
    partition = full(clock=lambda: now[0])
    made = plan(partition)
    delayed = QUEUES.replace("{name: prod,", "{name: prod, properties: {preemption.delay: 1001s},")
    partition.configure(config(delayed))
    assert objection(partition, made) == "'prod-0' may preempt in 1 s (from second 1001)"
    now[0] += 1

    assert partition.carry_out(made) == ("batch-0",)


def test_a_plan_without_a_node_keeps_that_of_the_request() -> None:
    """A pending request for a node keeps it when a plan that does not choose a node makes room."""
    partition = full()
    ask(partition, node="n")
    partition.carry_out(plan(partition))

    assert [one.node for one in partition.allocations() if one.allocation_id == "prod-0"] == ["n"]
