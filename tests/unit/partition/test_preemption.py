"""Preemption in a partition: plans over its queues and allocations, and carrying them out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from support.partition_fixtures import SUE, NodesOfUsers, memory, objection, started
from ugm import AllocationRequest, Partition, RequestError, Resource, UserGroup, parse_config
from ugm.preemption import Outcome, PreemptionPlan
from ugm.store import open_partition

CONFIG: Final = """
partitions:
  - name: default
    queues:
      - name: root
        queues:
          - name: prod
            resources: {guaranteed: {memory: 8}}
            properties: {preemption.delay: 1m30s}
          - name: batch
            resources: {guaranteed: {memory: 2}}
          - name: lab
            properties: {preemption.policy: disabled}
          - name: mine
            resources: {guaranteed: {memory: 8}}
            limits: [{users: [sue], maxresources: {memory: 1}}]
"""

#: The same with reservations.
RESERVING: Final = CONFIG.replace("name: root\n", "name: root\n        properties: {ugm.reservation: enabled}\n")


def full_partition(**options: Any) -> Partition:  # noqa: ANN401 - arguments of a partition
    """Return a partition whose cluster of 10 is used by batch (7) and lab (3)."""
    partition = Partition(parse_config(CONFIG).partition(), cluster=memory(10), **options)
    for name in ("prod", "batch", "lab", "mine"):
        partition.submit(name, SUE, f"root.{name}")
    for name, usage in (("batch-1", 4), ("batch-2", 3), ("lab-1", 3)):
        assert partition.allocate(name, name.partition("-")[0], memory(usage))
    return partition


def request(usage: int, application_id: str = "prod", **options: Any) -> AllocationRequest:  # noqa: ANN401 - as above
    """Return a request."""
    return AllocationRequest(f"{application_id}-new", application_id, memory(usage), **options)


def plan(partition: Partition, usage: int = 3, **options: Any) -> PreemptionPlan:  # noqa: ANN401 - as above
    """Return a plan for a request that has been waiting for an hour."""
    return partition.plan_preemption(request(usage), since=0, now=3600, **options)


#: The queue batch is not preempted any more.
DISABLED: Final = parse_config(
    CONFIG.replace("{memory: 2}}", "{memory: 2}}\n            properties: {preemption.policy: disabled}")
).partition()

#: A limit denies the request.
DENYING: Final = parse_config(
    CONFIG.replace("properties: {preemption.delay: 1m30s}", "limits: [{users: [sue], maxresources: {memory: 2}}]")
).partition()

#: Changes that make a plan stale, with the reason.
STALE: Final[Mapping[str, Callable[[Partition], object]]] = {
    "allocation 'batch-2' has changed": lambda p: p.resize("batch-2", memory(2)),
    "'prod-new' fits once the terminating allocations are released": lambda p: p.preempt("lab-1"),
    "'prod-new' fits": lambda p: p.update_node("cluster", memory(20)),
    "no permitted set of evictions makes room for 'prod-new'": lambda p: p.configure(DISABLED),
    "'prod-new' is denied by a limit that preemption cannot relieve": lambda p: p.configure(DENYING),
    "application_id 'prod': the application is failing": lambda p: (
        p.allocate("prod-0", "prod", Resource()),
        p.fail("prod"),
    ),
}


@pytest.mark.parametrize("reason", STALE)
def test_a_stale_plan_is_refused(reason: str) -> None:
    """A plan is refused with the reason if something it depends on has changed, and nothing is marked."""
    partition = full_partition()
    made = plan(partition)
    STALE[reason](partition)

    assert objection(partition, made) == reason


def test_invalid_arguments() -> None:
    """Invalid arguments are rejected with their name."""
    partition = full_partition()
    wrong: Any = "x"
    calls: Mapping[str, Callable[[], object]] = {
        "request": lambda: partition.plan_preemption(wrong, since=0),
        "since": lambda: partition.plan_preemption(request(1), since=wrong),
        "now": lambda: partition.plan_preemption(request(1), since=0, now=wrong),
        "may_preempt": lambda: plan(partition, may_preempt=wrong),
        "within_queue": lambda: plan(partition, within_queue=wrong),
        "plan": lambda: partition.carry_out(wrong),
        "application_id": lambda: partition.plan_preemption(request(1, "nobody"), since=0),
    }
    for argument, call in calls.items():
        with pytest.raises(RequestError) as caught:
            call()
        assert caught.value.argument == argument


def test_a_placed_request_has_the_reservation(tmp_path: Path) -> None:
    """Where queues reserve capacity, scheduling passes keep the room of a carried-out plan for its request."""
    config = parse_config(RESERVING)
    with open_partition(tmp_path / "store", config.partition(), cluster=memory(10)) as partition:
        for name in ("batch", "prod"):
            partition.submit(name, SUE, f"root.{name}")
        for number in (1, 2):
            partition.allocate(f"batch-{number}", "batch", memory(5))
        partition.request("batch-3", "batch", memory(5))
        [head] = partition.scheduling_pass()
        assert not head.allocate()
        partition.request(*request(3)[:3])
        partition.carry_out(plan(partition))
    with open_partition(tmp_path / "store") as partition:
        [reservation] = partition.reservations()
        assert (reservation.allocation_id, reservation.queue_paths) == ("prod-new", ("root",))
        partition.release("batch-2")
        decisions = {head.request.allocation_id: head.allocate() for head in partition.scheduling_pass()}

        assert decisions["prod-new"]
        assert not decisions["batch-3"]
        partition.verify()


#: The same with a quota model.
IN_ELASTIC: Final = """
partitions:
  - name: default
    queues: [{name: prod, properties: {preemption.delay: 0s}}, {name: batch}]
    ugm:
      elastic:
        total: {memory: 10}
        groups: [{name: team, min: {memory: 4}, max: {memory: 4}}]
        groupby: [{source: user, names: {ana: team, ben: team}}]
"""
IN_TREE: Final = """
partitions:
  - name: default
    queues: [{name: prod, properties: {preemption.delay: 0s}}, {name: batch}]
    ugm:
      quotatrees:
        - tree:
            kind: QuotaTree
            metadata: {name: t}
            spec:
              resourceNames: [memory]
              nodes:
                all: {parent: nil, hard: "true", quota: {memory: "4"}}
                team: {parent: all, hard: "true", quota: {memory: "4"}}
          groupby: [{source: user, names: {ana: team, ben: team}}]
"""


def two_requests(text: str, size: int, *, free: int = 0) -> Partition:
    """Return a partition in which ben holds all memory but the free one, and ana has two requests in prod."""
    partition = Partition(parse_config(text).partition(), cluster=memory(2 * size + free), clock=lambda: 1000)
    for name, user, queue in (("first", "ana", "prod"), ("second", "ana", "prod"), ("used", "ben", "batch")):
        partition.submit(name, UserGroup(user), f"root.{queue}")
    for number in (1, 2):
        assert partition.allocate(f"used-{number}", "used", memory(size))
    for name in ("first", "second"):
        partition.request(f"{name}-new", name, memory(size), priority=5)
    return partition


def plan_for(partition: Partition, name: str, size: int, **options: Any) -> PreemptionPlan:  # noqa: ANN401 - as above
    """Return a plan for one of the two requests."""
    return partition.plan_preemption(request(size, name, priority=5), since=0, **options)


@pytest.mark.parametrize("text", [IN_ELASTIC, IN_TREE])
def test_placed_requests_count_in_quota_models(text: str) -> None:
    """A plan chooses victims of its own instead of those of an earlier plan."""
    partition = two_requests(text, 2)
    first = plan_for(partition, "first", 2)
    partition.carry_out(first)
    second = plan_for(partition, "second", 2)

    assert second.outcome is Outcome.PLAN
    assert {victim.allocation_id for made in (first, second) for victim in made.by_model} == {"used-1", "used-2"}
    partition.carry_out(second)
    for number in (1, 2):
        partition.release(f"used-{number}")
    assert partition.allocate(*request(2, "first")[:3], priority=5)
    assert partition.allocate(*request(2, "second")[:3], priority=5)
    partition.verify()


@pytest.mark.parametrize("text", [IN_ELASTIC, IN_TREE])
def test_named_requests_count_in_quota_models(text: str) -> None:
    """The same for a request that the caller names, also for the later comparison with the partition."""
    partition = two_requests(text, 2)
    made = plan_for(partition, "second", 2, placed=[request(2, "first", priority=5)])

    assert sorted(victim.allocation_id for victim in made.by_model) == ["used-1", "used-2"]
    assert sorted(partition.carry_out(made)) == ["used-1", "used-2"]


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


def full(protected: str = "guaranteed", clock: Callable[[], int] = lambda: 1000) -> Partition:
    """Return a partition with an application in batch and one in a protected queue, whose request in prod waits."""
    partition = Partition(parse_config(QUEUES).partition(), cluster=memory(8), clock=clock)
    partition.submit("prod", SUE, "root.prod")
    started(partition, "batch", 4, "root.batch")
    started(partition, "other", 4, f"root.{protected}")
    return partition


def plan_of_request(partition: Partition) -> PreemptionPlan:
    """Return a plan for the request that evicts the allocation in batch."""
    made = partition.plan_preemption(REQUEST, since=0)
    assert [one.allocation_id for one in made.victims] == ["batch"]
    return made


def ask(partition: Partition, **options: Any) -> None:  # noqa: ANN401 - passed on
    """Make the request."""
    assert partition.request(*REQUEST[:3], **options)


@pytest.mark.parametrize("protected", ["guaranteed", "disabled"])
def test_a_victim_in_another_queue(protected: str) -> None:
    """An allocation with the id of a victim is not evicted if its application is in another queue now."""
    partition = full(protected)
    ask(partition)
    made = plan_of_request(partition)
    for name in ("batch", "other"):
        partition.remove(name)
    # All queues use what they did.
    started(partition, "batch", 4, f"root.{protected}")
    started(partition, "other", 4, "root.batch")

    assert objection(partition, made) == "allocation 'batch' has changed"


@pytest.mark.parametrize("options", [{"duration": 99}, {"preemptible": False}, {"priority": 1}])
def test_a_request_with_other_properties(options: dict[str, Any]) -> None:
    """A request that was withdrawn and made again is another one, unless all that a plan depends on is equal."""
    partition = full()
    ask(partition)
    made = plan_of_request(partition)
    partition.release("prod-0")
    ask(partition, **options)
    assert objection(partition, made) == "request 'prod-0' has changed"
    partition.release("prod-0")
    ask(partition)

    assert partition.carry_out(made) == ("batch",)


def test_a_request_with_a_longer_delay() -> None:
    """A plan for a request that may not preempt any more is refused; it is valid again when the delay is over."""
    now = [1000]
    partition = full(clock=lambda: now[0])
    made = plan_of_request(partition)
    delayed = QUEUES.replace("{name: prod,", "{name: prod, properties: {preemption.delay: 1001s},")
    partition.configure(parse_config(delayed).partition())
    assert objection(partition, made) == "'prod-0' may preempt in 1 s (from second 1001)"
    now[0] += 1

    assert partition.carry_out(made) == ("batch",)


def test_a_plan_without_a_node_keeps_that_of_the_request() -> None:
    """A pending request for a node keeps it when a plan that does not choose a node makes room."""
    partition = full()
    ask(partition, node="n")
    partition.carry_out(plan_of_request(partition))

    assert [one.node for one in partition.allocations() if one.allocation_id == "prod-0"] == ["n"]


def test_nodes_that_a_model_does_not_allow() -> None:
    """A plan evicts nothing on a node where a quota model would still deny the request."""
    partition = Partition(parse_config(CONFIG).partition(), cluster=memory(10), models=[NodesOfUsers()])
    for name, node, usage in (("prod", "n1", 2), ("batch", "n1", 4), ("lab", "n2", 0), ("mine", "n2", 0)):
        partition.submit(name, UserGroup(name), f"root.{name}")
        assert partition.allocate(f"{name}-0", name, memory(usage), node=node)
    partition.submit("more", UserGroup("more"), "root.batch")
    assert partition.allocate("more-0", "more", memory(4), node="n2")

    assert plan(partition, 4, nodes={"n2": memory(0)}).outcome is Outcome.NONE
    made = plan(partition, 4, nodes={"n1": memory(0), "n2": memory(0)})
    assert (made.node, [one.allocation_id for one in made.victims]) == ("n1", ["batch-0"])
