"""Plans of preemption and reclaim for requests that may run on some nodes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from support.server_fixtures import DECIDE, PREFIX, TOKEN, client
from ugm import AllocationRequest, Partition, Resource, UserGroup, parse_config
from ugm.partition import AbstractPartition
from ugm.store import open_partition

CONFIG = parse_config("""
partitions:
- queues:
  - {name: prod, resources: {guaranteed: {vcore: 8}}, properties: {preemption.delay: 1s}}
  - {name: batch}
""").partition()


def cores(count: float) -> Resource:
    """Return an amount of cores."""
    return Resource(vcore=int(count * 1000))


def filled(partition: AbstractPartition, batch: Mapping[str, tuple[str | None, float]], size: float) -> Any:  # noqa: ANN401 - a plan
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
    partition = open_partition(tmp_path / "log", CONFIG)
    plan = filled(partition, {"a": ("n1", 4), "b": ("n2", 4)}, 4)
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
    partition = Partition(CONFIG)
    filled(partition, {"a": ("n1", 4), "b": ("n2", 4)}, 4)
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
