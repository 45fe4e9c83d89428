"""Reservations: who gets one, how it ends, who comes before it, and where it is reported."""

from __future__ import annotations

import pickle
from pathlib import Path

from support.partition_fixtures import BOB, SUE, memory
from ugm import AllocationRequest, Partition, Resource, UserGroup, parse_config
from ugm.configuration import PartitionConfig
from ugm.events import Event, ReservationChanged
from ugm.partition import AbstractPartition, Reservation
from ugm.store import open_partition

RESERVES = "properties: {ugm.reservation: enabled}"


def root(more: str, queues: str = "{name: a}, {name: b}") -> PartitionConfig:
    """Return a configuration with settings of the root."""
    return parse_config(f"partitions: [{{queues: [{{name: root, {more}, queues: [{queues}]}}]}}]").partition()


ROOT = root(RESERVES)
TEN = memory(10)


def fill(partition: Partition, held: int = 6, duration: int | None = 100) -> None:
    """Let an application run, and submit four others."""
    for name in ("run", "x", "y", "z"):
        partition.submit(name, SUE, "root.a")
    partition.submit("bob", BOB, "root.b")
    assert partition.allocate("run.0", "run", memory(held), duration=duration)


def clocked(chosen: PartitionConfig = ROOT) -> Partition:
    """Return a partition of 10 in which it is second 1000."""
    return Partition(chosen, cluster=TEN, clock=lambda: 1000)


def run_pass(partition: Partition) -> list[str]:
    """Return the requests that a pass grants."""
    return [head.request.allocation_id for head in partition.scheduling_pass() if head.allocate()]


def reserved(partition: AbstractPartition) -> list[tuple[str, tuple[str, ...], int | None]]:
    """Return the reservations of a partition."""
    return [(one.allocation_id, one.queue_paths, one.start) for one in partition.reservations()]


def test_higher_priority() -> None:
    """A request of a higher priority comes before the reservation, and takes it over if it is blocked."""
    partition = clocked()
    fill(partition)
    partition.request("x.0", "x", memory(8))
    run_pass(partition)
    partition.request("y.0", "y", memory(2), priority=1)
    partition.request("y.1", "y", memory(5), priority=1)

    assert run_pass(partition) == ["y.0"]
    assert [one[0] for one in reserved(partition)] == ["y.1"]


def test_wake() -> None:
    """A wake-up makes reservations, and wakes only what does not delay them."""
    partition = clocked()
    fill(partition)
    partition.request("x.0", "x", memory(8), duration=50)
    partition.request("y.late", "y", memory(3), duration=101)
    partition.request("y.soon", "y", memory(3), duration=100)

    assert [one.allocation_id for one in partition.wake()] == ["y.soon"]
    assert reserved(partition) == [("x.0", ("root",), 1100)]
    partition.release("run.0")
    assert [one.allocation_id for one in partition.wake()] == ["x.0"]


def test_store(tmp_path: Path) -> None:
    """A store restores reservations, also from a checkpoint, and subscribers receive them."""
    seen = list[Event]()
    with open_partition(tmp_path / "j", ROOT, subscribers=[lambda _, events: seen.extend(events)]) as partition:
        partition.add_node("n", TEN)
        fill(partition)
        partition.request("x.0", "x", memory(8), duration=5)
        run_pass(partition)
        expected = partition.reservations()
        assert expected[0].allocation_id == "x.0"
        assert ReservationChanged("root", None, "x.0") in seen
    with open_partition(tmp_path / "j") as partition:
        assert partition.reservations() == expected
    with open_partition(tmp_path / "j") as partition:
        assert partition.reservations() == expected


def test_reports() -> None:
    """The head, the order and its data report the reservation."""
    partition = clocked()
    fill(partition)
    partition.request("x.0", "x", memory(8))
    [head] = partition.scheduling_pass()
    assert not head.allocate()
    expected = Reservation("x.0", "x", ("root",), 1100)

    assert head.reservation == expected
    assert head.explain().endswith("x.0 has the reservation of root and can start at 1970-01-01 00:18:20 UTC")
    assert str(expected._replace(start=None)) == "x.0 has the reservation of root; its start is unknown"
    [turn] = partition.order()
    assert (turn.reservation, turn.to_dict()["start"], turn.to_dict()["reserved_for"]) == (expected, 1100, ["root"])


def test_budget_at_the_start() -> None:
    """A request that would leave too little of a budget to a reserved one is denied until that has started."""
    chosen = parse_config(
        "partitions: [{queues: [{name: a, resources: {max: {gpu: 6}}, properties: {ugm.reservation: enabled}}],"
        " ugm: {budgets: [{name: lab, group: lab, amounts: {gpu: 9000}, mode: safe, period: none}]}}]"
    ).partition()
    partition = clocked(chosen)
    partition.add_node("n", Resource(gpu=100))
    for name in ("run", "big", "small"):
        partition.submit(name, UserGroup(name, ("lab",)), "root.a")
    assert partition.allocate("run", "run", Resource(gpu=4), duration=100)
    assert partition.request("big", "big", Resource(gpu=4), duration=1500)
    assert partition.request("small", "small", Resource(gpu=1), duration=4000)
    _, denied = (head.allocate() for head in partition.scheduling_pass())

    assert [(one.kind, one.name, one.can_wait) for one in denied.violations] == [("reservation", "big", True)]


ELASTIC = parse_config(
    "partitions: [{queues: [{name: a, resources: {max: {gpu: 15}}, properties: {ugm.reservation: enabled}}, {name: b}],"
    " ugm: {elastic: {total: {gpu: 20}, groups: [{name: ga, min: {gpu: 4}, max: {gpu: 20}},"
    " {name: gb, min: {gpu: 4}, max: {gpu: 20}}], groupby: [{source: queue, names: {root.a: ga, root.b: gb}}]}}}]"
).partition()


def blocked_by_group() -> Partition:
    """Return a partition with a reserved request of 15 in a group whose share others can take."""
    partition = Partition(ELASTIC, clock=lambda: 1000)
    partition.submit("A", SUE, "root.a")
    partition.submit("B", BOB, "root.b")
    assert partition.allocate("run", "A", Resource(gpu=2), duration=60)
    partition.request("large", "A", Resource(gpu=15), duration=600)
    assert not partition.allocate(AllocationRequest("large", "A", Resource(gpu=15), duration=600))
    assert partition.reservations() == (Reservation("large", "A", ("root.a",), 1060),)
    return partition


def test_denial_of_a_reserved_request() -> None:
    """A request after which a quota model would deny a reserved one can wait, and the denial has the reason."""
    partition = blocked_by_group()
    small = AllocationRequest("small", "B", Resource(gpu=8), duration=6000)
    denied = partition.allocate(small)

    assert denied.can_wait
    [violation] = denied.violations
    assert str(violation) == (
        "reservation 'large': it would be denied after this request"
        " (elastic group 'ga': 15 gpu requested, 2 of 12 used, 5 too much)"
    )
    assert str(pickle.loads(pickle.dumps(violation))) == str(violation)  # noqa: S301 - of this test
    partition.release("run")
    assert partition.allocate(AllocationRequest("large", "A", Resource(gpu=15), duration=600))
    partition.release("large")
    assert partition.allocate(small)
