"""Allocations that name the node that they run on, and plans for requests that may run on some nodes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from support.server_fixtures import DECIDE, PREFIX, TOKEN, client
from ugm import AllocationRequest, Partition, Resource, UserGroup, parse_config
from ugm.decision import ALLOWED
from ugm.events import Event, Resized
from ugm.partition import AbstractPartition, RunningAllocation
from ugm.store import open_partition

CONFIG = parse_config("partitions: [{queues: [{name: a, resources: {max: {vcore: 8}}}]}]").partition()
CORE = Resource(vcore=1000)


def filled(partition: AbstractPartition) -> AbstractPartition:
    """Return a partition with allocations on nodes, each made by another operation."""
    partition.submit("app", UserGroup("sue"), "root.a")
    partition.request("waits", "app", CORE, node="n1")
    partition.allocate("one", "app", CORE, node="n1")
    partition.allocate_evicting("two", "app", CORE, node="n2", priority=3)
    partition.adopt("three", "app", CORE, node="n3", duration=60)
    gang = [AllocationRequest("hold", "app", CORE, placeholder=True, node="n4"), AllocationRequest("four", "app", CORE)]
    partition.allocate_all(gang)
    partition.replace("hold", "five", CORE)
    partition.preempt("two")
    return partition


NODES = {"five": "n4", "four": None, "one": "n1", "three": "n3", "two": "n2", "waits": "n1"}


def nodes_of(partition: AbstractPartition) -> dict[str, str | None]:
    """Return the node of every allocation, as queries list them."""
    by_id = {one.allocation.allocation_id: one.allocation.node for one in partition.allocations_by_id(NODES)}
    assert {one.allocation_id: one.node for one in partition.allocations("app")} == by_id
    return by_id


def test_every_operation_stores_the_node() -> None:
    """Every operation that makes an allocation stores its node, and all queries list it."""
    partition = filled(Partition(CONFIG))
    assert nodes_of(partition) == NODES
    [turn] = partition.order()
    assert (turn.request.node, partition.allocation("one").to_dict()["node"]) == ("n1", "n1")  # type: ignore[union-attr]
    partition.verify()


def test_nodes_in_rest() -> None:
    """Operations of REST take a node, and listings have it."""
    partition = filled(Partition(CONFIG))
    rest = client(partition)
    body = {"allocation_id": "new", "application_id": "app", "usage": {"vcore": "1"}, "node": "n9"}
    assert rest.post(f"{PREFIX}/allocate", json=body, headers=DECIDE).json()["allowed"]
    listed = rest.get(f"{PREFIX}/allocations", headers=TOKEN).json()["allocations"]
    assert {one["allocation_id"]: one["node"] for one in listed} == {**NODES, "new": "n9"}
    [turn] = rest.get(f"{PREFIX}/order", headers=TOKEN).json()["turns"]
    [waiting] = rest.get(f"{PREFIX}/waiting", headers=TOKEN).json()["requests"]
    assert (turn["node"], waiting["node"]) == ("n1", "n1")
    assert rest.post(f"{PREFIX}/allocate", json={**body, "node": ""}, headers=DECIDE).status_code == 400


def test_the_node_of_a_head() -> None:
    """A head of a scheduling pass is granted on the node of the call, or else on the node of its request."""
    partition = filled(Partition(CONFIG))
    assert isinstance(partition, Partition)
    partition.request("next", "app", CORE)
    first, second = (head.allocate(node) for head, node in zip(partition.scheduling_pass(), (None, "n8"), strict=False))
    assert (first, second) == (ALLOWED, ALLOWED)
    listed = {one.allocation_id: one.node for one in partition.allocations()}
    assert (listed["waits"], listed["next"]) == ("n1", "n8")


def test_audit_compares_the_node() -> None:
    """An allocation that runs on another node is a difference, which `reconcile` repairs; no node agrees with all."""
    events: list[Event] = []
    partition = filled(Partition(CONFIG, subscribers=[lambda _, batch: events.extend(batch)]))
    running = [RunningAllocation(*one[:3], one.node) for one in partition.allocations() if one.allocation_id != "waits"]
    assert not partition.audit(running)
    assert not partition.audit([one._replace(node=None) for one in running])
    report = partition.audit([one._replace(node="n7") if one.allocation_id == "one" else one for one in running])
    [difference] = report.differences
    sides = difference.ledger, difference.running
    assert [side and side.node for side in sides] == ["n1", "n7"]
    assert partition.reconcile(report).differences == report.differences
    assert nodes_of(partition) == {**NODES, "one": "n7"}
    assert isinstance(events[-1], Resized)


GUARANTEED = parse_config("""
partitions:
- queues:
  - {name: prod, resources: {guaranteed: {vcore: 8}}, properties: {preemption.delay: 1s}}
  - {name: batch}
""").partition()


def cores(count: float) -> Resource:
    """Return an amount of cores."""
    return Resource(vcore=int(count * 1000))


def plan_for_prod(partition: AbstractPartition, batch: Mapping[str, tuple[str | None, float]], size: float) -> Any:  # noqa: ANN401 - a plan
    """Let batch jobs run on two nodes of 6 cores, and plan for a pending request of prod."""
    for name in ("prod", "batch"):
        partition.submit(name, UserGroup(name), f"root.{name}")
    for node in ("n1", "n2"):
        partition.add_node(node, cores(6))
    for job, (on, count) in batch.items():
        assert partition.allocate(job, "batch", cores(count), node=on)
    partition.request("prod-0", "prod", cores(size))
    return planned(partition)


def planned(partition: AbstractPartition, name: str = "prod-0", nodes: Mapping[str, Resource] | None = None) -> Any:  # noqa: ANN401 - a plan
    """Return a plan for a request on the nodes as they are, or on some nodes."""
    found = partition.allocation(name)
    assert found is not None
    if nodes is None:
        running = [one for one in partition.allocations() if one.state != "pending"]
        used = {node: sum(one.usage["vcore"] for one in running if one.node == node) for node in ("n1", "n2")}
        nodes = {node: Resource(vcore=6000 - amount) for node, amount in used.items()}
    return partition.plan_preemption(AllocationRequest(name, "prod", found.usage), since=0, now=60, nodes=nodes)


def victims(plan: Any) -> list[str]:  # noqa: ANN401 - a plan
    """Return the ids of the victims."""
    return [one.allocation_id for one in plan.victims]


def test_the_pending_request_gets_the_node(tmp_path: Path) -> None:
    """`carry_out` stores the node of the plan with the pending request; it survives a restart."""
    partition = open_partition(tmp_path / "log", GUARANTEED)
    plan = plan_for_prod(partition, {"a": ("n1", 4), "b": ("n2", 4)}, 4)
    assert [one.node for one in partition.wake()] == [None]
    partition.carry_out(plan)
    assert [one.node for one in partition.wake()] == ["n2"]
    for _ in range(2):
        [placed] = partition.preemption_status().placed
        assert placed.allocation.node == "n2"
        assert partition.request("prod-0", "prod", cores(4))
        partition.close()
        partition = open_partition(tmp_path / "log")
    partition.release("b")
    assert partition.allocate("prod-0", "prod", cores(4), node="n2")
    partition.close()


def test_plans_over_rest() -> None:
    """Both plans take nodes over REST, and name the node; an operator carries the plan out."""
    partition = Partition(GUARANTEED)
    plan_for_prod(partition, {"a": ("n1", 4), "b": ("n2", 4)}, 4)
    rest = client(partition)
    nodes = {"n1": {"vcore": 2000}, "n2": {"vcore": "2"}}
    body = {"application_id": "prod", "usage": {"vcore": "4"}, "nodes": nodes}
    asked = {**body, "allocation_id": "prod-0", "since": 0, "now": 60}
    plan = rest.post(f"{PREFIX}/plan_preemption", json=asked, headers=TOKEN).json()
    assert (plan["node"], plan["missing_on_node"], len(plan["victims"])) == ("n2", {"vcore": 2000}, 1)
    assert rest.post(f"{PREFIX}/plan_reclaim", json=body, headers=TOKEN).json()["node"] is None
    carried = rest.post(f"{PREFIX}/carry_out", json={"request": asked, "victims": ["b"]}, headers=TOKEN)
    assert carried.json() == {"allocation_ids": ["b"]}
    assert partition.allocation("prod-0").node == "n2"  # type: ignore[union-attr]  # it exists
    assert rest.post(f"{PREFIX}/plan_reclaim", json={**body, "nodes": {"": {}}}, headers=DECIDE).status_code == 400
