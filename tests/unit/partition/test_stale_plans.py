"""Plans of preemption and reductions whose ids have been used again since: an application that ended, and a request."""

from __future__ import annotations

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


def full(protected: str = "guaranteed") -> Partition:
    """Return a partition with an application in batch and one in a protected queue, whose request in prod waits."""
    partition = Partition(config(QUEUES), cluster=memory(8), clock=lambda: 1000)
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


def test_a_victim_of_reductions_in_another_queue() -> None:
    """The same for a plan of reductions."""
    text = """
        partitions:
          - preemption: {quotapreemptionenabled: true}
            queues:
              - {name: batch, resources: {max: {memory: MAX}}, properties: {quota.preemption.delay: 1s}}
              - {name: other, resources: {guaranteed: {memory: 4}}}
    """
    partition = Partition(config(text.replace("MAX", "8")), clock=lambda: 1000)
    for name, queue in (("first", "batch"), ("second", "batch"), ("other", "other")):
        hold(partition, name, queue)
    partition.configure(config(text.replace("MAX", "4")))
    made = partition.plan_reductions(now=5000)
    assert [one.allocation_id for one in made.victims] == ["second-0"]
    partition.submit("third", SUE, "root.batch")
    partition.adopt("third-0", "third", memory(4))
    for name in ("second", "other"):
        partition.remove(name)
    hold(partition, "second", "other")

    assert objection(partition, made) == "allocation 'second-0' has changed"


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


def test_a_request_in_another_queue() -> None:
    """A plan for a request is refused if its application is in another queue now."""
    partition = full()
    made = plan(partition)
    partition.remove("prod")
    partition.submit("prod", SUE, "root.guaranteed")

    assert objection(partition, made) == "application 'prod' is in queue root.guaranteed now"


@pytest.mark.parametrize("queue", ["batch", "open.new"])
def test_a_named_request_in_another_queue(queue: str) -> None:
    """The same for a request that counted as granted; its former queue may not exist any more."""
    partition = full()
    partition.update_node("cluster", memory(9))
    partition.submit("named", SUE, "root.open.old")
    made = plan(partition, placed=[("named-0", "named", memory(1))])
    partition.remove("named")
    partition.submit("named", SUE, f"root.{queue}")

    assert objection(partition, made) == f"application 'named' is in queue root.{queue} now"


def test_a_named_request_that_has_changed() -> None:
    """The same if it is requested now with another usage, or if its application is failing."""
    partition = full()
    partition.update_node("cluster", memory(9))
    partition.submit("named", SUE, "root.open.new")
    made = plan(partition, placed=[("named-0", "named", memory(1))])
    partition.request("named-0", "named", memory(2))
    assert objection(partition, made) == "request 'named-0' has changed"
    partition.adopt("named-1", "named", memory(0))
    partition.fail("named")

    assert objection(partition, made) == "application 'named' is failing"


def test_a_pending_request_that_is_named_by_its_id() -> None:
    """A caller who names a pending request need not know its properties: those of the partition count."""
    partition = full()
    partition.update_node("cluster", memory(9))
    partition.submit("named", SUE, "root.open.new")
    partition.request("named-0", "named", memory(1), priority=3, preemptible=False, duration=60)
    made = plan(partition, placed=[("named-0", "named", memory(1))])

    assert made.placed[0][4:] == (3, False, 60)
    assert partition.carry_out(made) == ("batch-0",)


ELASTIC: Final = """
partitions:
  - name: default
    queues: [{name: prod, properties: {preemption.delay: 0s}}, {name: batch}]
    ugm:
      elastic:
        total: {memory: 16}
        groups: [{name: team, min: {memory: 8}, max: {memory: 8}}, {name: rest, max: {memory: 8}}]
        groupby: [{source: user, names: {ana: team, ben: team, cem: rest}}]
"""


def test_a_victim_of_a_model_in_another_group() -> None:
    """A victim that a model has chosen is not evicted if it belongs to another group of the model now."""
    partition = Partition(config(ELASTIC), clock=lambda: 1000)
    partition.submit("prod", UserGroup("ana"), "root.prod")
    for name in ("first", "second"):
        hold(partition, name, "batch", UserGroup("ben"))
    request = AllocationRequest("prod-0", "prod", memory(8), priority=5)
    made = partition.plan_preemption(request, since=0)
    assert sorted(one.allocation_id for one in made.by_model) == ["first-0", "second-0"]
    partition.remove("second")
    hold(partition, "second", "batch", UserGroup("cem"))

    assert objection(partition, made) == "no quota model would evict allocation 'second-0' now"
