"""Plans of preemption and reclaim for requests that may run on some nodes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from support.server_fixtures import DECIDE, PREFIX, TOKEN, client
from support.service_fixtures import client_of_service
from ugm import AllocationRequest, Partition, RequestError, Resource, UserGroup, parse_config
from ugm.partition import AbstractPartition, ReclaimOutcome
from ugm.preemption import Outcome
from ugm.store import open_partition

CONFIG = parse_config("""
partitions:
- queues:
  - {name: prod, resources: {guaranteed: {vcore: 8}}, properties: {preemption.delay: 1s}}
  - {name: batch}
""").partition()
LENDING = parse_config("""
partitions:
- queues: [{name: q}]
  ugm:
    elastic:
      total: {vcore: 12}
      groups:
      - {name: prod, min: {vcore: 8}, max: {vcore: 12}}
      - {name: batch, min: {vcore: 4}, max: {vcore: 12}}
      groupby: [{source: user}]
""").partition()


def cores(count: float) -> Resource:
    """Return an amount of cores."""
    return Resource(vcore=int(count * 1000))


def free(**nodes: float) -> dict[str, Resource]:
    """Return free cores by node."""
    return {name: cores(count) for name, count in nodes.items()}


def filled(partition: AbstractPartition, batch: Mapping[str, tuple[str | None, float]], size: float) -> Any:  # noqa: ANN401 - a plan
    """Let batch jobs run on two nodes of 6 cores, and plan for a pending request of prod."""
    for name in ("prod", "batch"):
        queue = "root.q" if partition.config is LENDING else f"root.{name}"
        partition.submit(name, UserGroup(name), queue)
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


def test_victims_run_on_one_node() -> None:
    """All victims of a plan run on the node that it names, where the request fits then."""
    plan = filled(Partition(CONFIG), {"a": ("n1", 3), "b": ("n2", 3), "c": ("n1", 3), "d": ("n2", 3)}, 6)
    assert (plan.node, victims(plan)) == ("n2", ["b", "d"])


def test_free_capacity_that_is_split() -> None:
    """A request that fits in all limits, but on no node, gets a plan that frees one."""
    plan = filled(Partition(CONFIG), {"a": ("n1", 4), "b": ("n2", 4)}, 4)
    assert (plan.outcome, plan.node, victims(plan)) == (Outcome.PLAN, "n2", ["b"])
    assert plan.missing_on_node == cores(2)
    assert "'prod-0' would fit on node 'n2' without 'b'" in str(plan)


def test_a_node_with_room() -> None:
    """A request that fits on nodes needs no victims; the plan names the first of these nodes."""
    partition = Partition(CONFIG)
    plan = filled(partition, {"a": ("n1", 4), "b": ("n2", 2)}, 4)
    assert (plan.outcome, plan.node, bool(plan)) == (Outcome.FITS, "n2", False)
    assert planned(partition, nodes=free(z=4, x=5, y=3)).node == "x"


def test_limits_and_node_together() -> None:
    """Victims make the request fit in the limits as well, where the node alone would need fewer."""
    partition = Partition(CONFIG)
    plan = filled(partition, {"a": ("n1", 2), "b": ("n1", 2), "c": ("n1", 2), "d": ("n2", 6)}, 4)
    assert (plan.node, victims(plan)) == ("n2", ["d"])
    assert victims(planned(partition, nodes=free(n1=3))) == ["b", "c"]


@pytest.mark.parametrize("on", ["n2", None])
def test_no_node_can_be_freed(on: str | None) -> None:
    """Without enough victims on any candidate node there is no plan, whatever runs elsewhere."""
    partition = Partition(CONFIG)
    filled(partition, {"a": ("n1", 3), "b": (on, 6)}, 6)
    plan = planned(partition, nodes=free(n1=2))
    assert (plan.outcome, plan.node, plan.victims) == (Outcome.NONE, None, ())
    assert plan.others == {"a": "not_needed", "b": "other_node"}
    assert planned(partition, nodes={}).outcome is Outcome.NONE


def test_a_resource_that_a_node_does_not_list_is_not_there() -> None:
    """A requested resource that a node does not list is 0 there."""
    partition = Partition(CONFIG)
    filled(partition, {}, 1)
    assert planned(partition, nodes={"n1": Resource(gpu=8), "n2": cores(1)}).node == "n2"
    assert planned(partition, nodes={"n1": Resource(gpu=8)}).outcome is Outcome.NONE


def test_fewer_victims_win() -> None:
    """Of several nodes, the one whose victims cost less by the order of the rules is chosen."""
    batch = {"a": ("n1", 3), "b": ("n1", 3), "c": ("n2", 5)}
    assert filled(Partition(CONFIG), batch, 5).node == "n2"


def test_terminating_allocations_of_the_node() -> None:
    """A request that fits on a node after the release of terminating allocations waits for them."""
    partition = Partition(CONFIG)
    filled(partition, {"a": ("n1", 4), "b": ("n2", 4)}, 4)
    partition.preempt("a")
    plan = planned(partition)
    assert (plan.outcome, plan.node) == (Outcome.AWAITS_TERMINATING, "n1")


def test_placed_requests_use_their_node() -> None:
    """A plan for another request counts the room on the node as used, from `carry_out` on."""
    partition = Partition(CONFIG)
    plan = filled(partition, {"a": ("n1", 4), "b": ("n2", 4)}, 4)
    assert partition.carry_out(plan) == ("b",)
    partition.request("prod-1", "prod", cores(4))
    other = planned(partition, "prod-1")
    assert (other.node, victims(other)) == ("n1", ["a"])
    assert planned(partition, "prod-1", free(n2=2)).outcome is Outcome.NONE
    again = planned(partition)
    assert (again.outcome, again.node) == (Outcome.AWAITS_TERMINATING, "n2")


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


def test_two_plans_for_one_node() -> None:
    """A plan is stale once another one was carried out for the same node; the next plan counts what that one uses."""
    partition = Partition(CONFIG)
    filled(partition, {"a": ("n1", 4), "b": ("n1", 2), "c": ("n2", 4)}, 3)
    partition.request("prod-1", "prod", cores(5))
    plans = [planned(partition, name, free(n1=1)) for name in ("prod-0", "prod-1")]
    assert [victims(plan) for plan in plans] == [["b"], ["a"]]
    assert partition.carry_out(plans[0]) == ("b",)
    with pytest.raises(RequestError, match="stale"):
        partition.carry_out(plans[1])
    assert planned(partition, "prod-1", free(n1=1)).outcome is Outcome.NONE
    assert victims(planned(partition, "prod-1", free(n1=2))) == ["a"]


def test_a_victim_that_runs_elsewhere_now() -> None:
    """A plan is stale if the id of a victim belongs to an allocation on another node since."""
    partition = Partition(CONFIG)
    plan = filled(partition, {"a": ("n1", 4), "b": ("n2", 4)}, 4)
    partition.release("b")
    partition.allocate("b", "batch", cores(4), node="n1")
    with pytest.raises(RequestError, match="'b' has changed"):
        partition.carry_out(plan)


def reclaimed(partition: AbstractPartition, size: float, **nodes: float) -> Any:  # noqa: ANN401 - a plan
    """Return a plan of reclaim for prod."""
    return partition.plan_reclaim("prod", cores(size), nodes=free(**nodes))


def test_reclaim_on_a_node() -> None:
    """A plan of reclaim takes victims of one node only, and `reclaim` makes the request fit there."""
    partition = Partition(LENDING)
    filled(partition, {"a": ("n1", 3), "b": ("n2", 3), "c": ("n1", 3), "d": ("n2", 3)}, 6)
    plan = reclaimed(partition, 6, n1=0, n2=0)
    assert (plan.node, plan.allocation_ids) == ("n1", ("a", "c"))
    assert partition.reclaim(plan) == ("a", "c")
    assert partition.allocate("prod-0", "prod", cores(6), node=plan.node)


def test_reclaim_of_a_node_that_is_split() -> None:
    """What only a node lacks, a group returns down to its guarantee; a node with room needs no victims."""
    partition = Partition(LENDING)
    filled(partition, {"a": ("n1", 4), "b": ("n2", 4)}, 4)
    plan = reclaimed(partition, 4, n1=2, n2=2)
    assert (plan.node, plan.allocation_ids, plan.missing_on_node) == ("n1", ("a",), cores(2))
    assert partition.reclaim(plan) == ("a",)
    plan = reclaimed(partition, 4, n1=6, n2=2)
    assert (plan.outcome, plan.node) == (ReclaimOutcome.FITS, "n1")
    plan = reclaimed(partition, 4, n2=2)
    assert (plan.outcome, plan.node) == (ReclaimOutcome.NONE, None)


def test_a_stale_plan_of_reclaim() -> None:
    """`reclaim` continues a plan that is carried out partly, and refuses one whose victim runs on another node."""
    partition = Partition(LENDING)
    filled(partition, {"a": ("n1", 3), "b": ("n1", 3), "c": ("n2", 5)}, 6)
    plan = reclaimed(partition, 6, n1=0, n2=0.5)
    partition.release("a")
    assert partition.reclaim(plan) == ("b",)
    partition.adopt("b", "batch", cores(3), node="n2")
    with pytest.raises(RequestError, match="'b' has changed"):
        partition.reclaim(plan)


@pytest.mark.parametrize("nodes", [[("n1", 1)], {"n1": 3}, {"n1": None}, {"": cores(1)}, {7: cores(1)}, "n1"])
def test_misuse(nodes: Any) -> None:  # noqa: ANN401 - invalid on purpose
    """Nodes are a mapping from names to amounts."""
    partition = Partition(CONFIG)
    filled(partition, {}, 1)
    request = AllocationRequest("prod-0", "prod", cores(1))
    with pytest.raises(RequestError, match="nodes"):
        partition.plan_preemption(request, since=0, nodes=nodes)
    with pytest.raises(RequestError, match="nodes"):
        partition.plan_reclaim("prod", cores(1), nodes=nodes)


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


def test_plans_in_a_service() -> None:
    """A client of a service gets the same plans, and can carry them out."""
    with client_of_service(CONFIG) as partition:
        plan = filled(partition, {"a": ("n1", 4), "b": ("n2", 4)}, 4)
        assert (plan.node, partition.carry_out(plan)) == ("n2", ("b",))
    with client_of_service(LENDING) as partition:
        partition.submit("prod", UserGroup("prod"), "root.q")
        partition.add_node("n1", cores(6))
        assert reclaimed(partition, 4, n1=6).node == "n1"
