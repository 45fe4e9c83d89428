"""Reservations: who gets one, how it ends, who comes before it, and where it is reported."""

from __future__ import annotations

from pathlib import Path

from support.partition_fixtures import BOB, SUE, memory
from ugm import Partition, Resource, parse_config
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


def test_backfill() -> None:
    """A request passes if it ends by the start, or fits together with the reserved one."""
    partition = clocked()
    fill(partition)
    partition.request("x.0", "x", memory(8), duration=50)
    partition.request("y.late", "y", memory(2), duration=101)
    partition.request("y.soon", "y", memory(1), duration=100)
    partition.request("z.beside", "z", memory(2))
    partition.request("z.later", "z", memory(1), duration=101)
    partition.request("z.more", "z", memory(1), duration=100)

    assert run_pass(partition) == ["y.late", "y.soon", "z.more"]
    assert reserved(partition) == [("x.0", ("root",), 1100)]


def test_limits_of_users_at_the_start() -> None:
    """A request passes only if it also leaves the reserved request enough of the limits of its user."""
    limit = "limits: [{limit: l, users: [sue], maxresources: {memory: 10, vcore: 3m}}]"
    partition = clocked(root(f"{RESERVES}, {limit}"))
    fill(partition)
    partition.add_node("cores", Resource(vcore=9))
    partition.request("x.0", "x", Resource(memory=4, vcore=2))
    partition.request("bob.0", "bob", Resource(memory=1, vcore=3))
    partition.adopt("bob.run", "bob", memory(1))
    partition.request("y.0", "y", Resource(vcore=2))
    partition.request("z.0", "z", Resource(vcore=1))

    assert run_pass(partition) == ["bob.0", "z.0"]
    assert reserved(partition) == [("x.0", ("root",), 1100)]


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
