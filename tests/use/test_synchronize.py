"""`synchronize` makes a partition agree with the running work of a host, and reports what it has changed."""

from __future__ import annotations

import pytest

from support.partition_fixtures import changing_nothing
from support.partition_kinds import of_each_kind
from support.server_fixtures import DECIDE, PREFIX, client
from ugm import Partition, RequestError, Resource, UserGroup, parse_config
from ugm.partition import AbstractPartition, AllocationSpec, RunningApplication, SyncReport

CONFIG = parse_config("partitions: [{queues: [{name: q, resources: {max: {vcore: 3}}}]}]").partition()
ANA, BEN = UserGroup("ana", ("lab",)), UserGroup("ben")
#: What runs: an allocation has grown, one is on another node, and an application is unknown.
RUNNING = [
    RunningApplication(
        "a", ANA, "root.q", [("a.0", Resource(vcore=2000)), AllocationSpec("a.1", Resource(), node="n")]
    ),
    RunningApplication("new", BEN, "root.other", [("new.0", Resource(vcore=2500))], {"team": "x"}),
]


def cores(vcore: int) -> Resource:
    """Return some cores."""
    return Resource(vcore=vcore * 1000)


def fill(partition: AbstractPartition) -> None:
    """Grant what a host knew before it was restarted."""
    partition.admit("a", ANA, "root.q", [("a.0", cores(1)), ("a.1", Resource()), ("a.2", cores(1))])
    partition.admit("gone", BEN, "root.q", [("gone.0", cores(1))])
    partition.submit("waits", BEN, "root.q")
    partition.request("waits.0", "waits", cores(1))


_partition = of_each_kind(CONFIG, fill)


def test_everything_becomes_true(partition: AbstractPartition) -> None:
    """Missing work is adopted, sizes are corrected, what is gone is released and ended, and all of it is reported."""
    report = partition.synchronize(RUNNING, starting=["waits"])

    assert report == SyncReport(("new",), ("new.0",), ("a.0", "a.1"), ("a.2", "gone.0"), ("gone",), report.exceeded)
    assert [one.usage for one in partition.allocations("a")] == [cores(2), Resource()]
    assert partition.application_ids() == ("a", "new", "waits")
    assert not partition.audit(
        [("a.0", "a", cores(2)), ("a.1", "a", Resource()), ("new.0", "new", Resource(vcore=2500))]
    )
    partition.verify()


@pytest.mark.parametrize("among", [("a", "a.0", "a.1"), ("a.2",), ("gone",)])
def test_only_named_work_ends(partition: AbstractPartition, among: tuple[str, ...]) -> None:
    """With a list of the work that may end, all other work stays, also that of an application that is gone."""
    report = partition.synchronize(RUNNING, among=among)

    assert (report.released, report.ended) == (("a.2",) if "a.2" in among else (), ())
    assert {"a", "gone", "waits"} <= set(partition.application_ids())
    assert partition.synchronize(RUNNING, among=("gone", "gone.0")).ended == ("gone",)
    assert partition.application("waits")


@pytest.mark.parametrize(
    "running",
    [
        [RunningApplication("a", BEN, "root.q")],
        [*RUNNING, RUNNING[0]],
        [RUNNING[0], RunningApplication("b", BEN, "root.q", [("a.0", cores(1))])],
        [RunningApplication("b", BEN, "root")],
        [RunningApplication("b", BEN, "root.q", [("b.0", 1)])],  # type: ignore[list-item]  # misuse
    ],
)
def test_misuse_changes_nothing(partition: AbstractPartition, running: list[RunningApplication]) -> None:
    """Another user of an application, an id that occurs twice or an invalid value changes nothing."""
    with changing_nothing(partition), pytest.raises(RequestError):
        partition.synchronize(running)


def test_rest() -> None:
    """Hosts in other languages synchronize with one request."""
    partition = Partition(CONFIG)
    fill(partition)
    rest = client(partition)
    allocation = {"allocation_id": "a.0", "usage": {"vcore": "2"}}
    running = [{"application_id": "a", "user": "ana", "queue_path": "root.q", "allocations": [allocation]}]
    answer = rest.post(f"{PREFIX}/synchronize", json={"running": running}, headers=DECIDE).json()

    assert (answer["corrected"], answer["ended"]) == (["a.0"], ["gone", "waits"])
    assert partition.allocation_ids() == ("a.0",)
