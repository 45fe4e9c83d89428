"""Allocations that name the node that they run on."""

from __future__ import annotations

from support.server_fixtures import DECIDE, PREFIX, TOKEN, client
from ugm import AllocationRequest, Partition, Resource, UserGroup, parse_config
from ugm.decision import ALLOWED
from ugm.events import Event, Resized
from ugm.partition import AbstractPartition, RunningAllocation

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
