"""The self-check: every counter is compared with the ledger."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.partition_fixtures import BOB, SUE, in_every_state, memory, partition_of
from ugm import InvariantError, Partition

Corrupt = Callable[[Partition], object]


@pytest.fixture(name="partition")
def _partition() -> Partition:
    return in_every_state()


def _count_gpus(partition: Partition) -> None:
    """Count another resource everywhere but in the queues."""
    partition._state.active_limits.count_resources(["gpu"])
    partition._lock.valid_epoch = partition._lock.epoch


CORRUPTIONS: dict[str, Corrupt] = {
    "application 'app' has a holding False": lambda p: setattr(p._state.applications["app"], "holding", None),
    "application 'app' has amounts {'memory': 7}, but {'memory': 6}": lambda p: setattr(
        p._state.applications["app"].holding, "amounts", (0, 7, None)
    ),
    "application 'app' has allocations ['app": lambda p: p._state.tables.allocations.pop("app"),
    "application 'new' is listed, against the rows": lambda p: p._state.applications.update(
        new=p._state.applications["app"]
    ),
    "application 'app' is missing, against the rows": lambda p: p._state.applications.pop("app"),
    "the partition has applications with holdings": lambda p: p._state.holding_index.holdings.pop("app"),
    "queue root.a has applications": lambda p: p._state.tree.queues["root.a"].applications.pop("app"),
    "queue root.x is listed, against the rows": lambda p: p._state.tree.create("root.x"),
    "queue root.a is missing, against the rows": lambda p: p._state.tree.queues.pop("root.a"),
    "queue root.a has usage None": lambda p: setattr(p._state.tree.queues["root.a"], "counter", None),
    "queue root.b has a counter in use True": lambda p: p._state.tree.counters.update(
        {"root.b": p._state.tree.counters["root.a"]}
    ),
    "queue root.a has usage {'memory': 8}, but {'memory': 7}": lambda p: setattr(
        p._state.tree.queues["root.a"].counter, "free_memory", 1
    ),
    "queue root.a has running applications 3": lambda p: setattr(p._state.tree.queues["root.a"].counter, "running", 3),
    "queue root.a has a counter in use False": lambda p: p._state.tree.counters.pop("root.a"),
    "queue root has the resources of the partition False": _count_gpus,
    "user 'sue' has applications []": lambda p: p._state.holding_index.users["sue"].holdings.clear(),
}


@pytest.mark.parametrize(("finding", "corrupt"), CORRUPTIONS.items(), ids=CORRUPTIONS)
def test_verify_finds_damage(partition: Partition, finding: str, corrupt: Corrupt) -> None:
    """Whatever does not follow from the rows is found, and named."""
    corrupt(partition)
    with pytest.raises(InvariantError) as caught:
        partition.verify()
    assert any(one.startswith(finding) for one in caught.value.findings)


def _large() -> Partition:
    """Return a partition with 4,000 allocations, and with limits on users, groups and queues."""
    partition = partition_of(
        "{name: a, resources: {max: {memory: 100000}}}, {name: p, parent: true, maxapplications: 1000}",
        rules="{name: provided, create: true}",
        limits="{limit: u, users: ['*'], maxresources: {memory: 100000}}, "
        "{limit: g, groups: [dev], maxapplications: 1000}",
    )
    for number in range(40):
        application_id = f"app-{number}"
        partition.submit(application_id, (SUE, BOB)[number % 2], ("root.a", f"root.p.{number}")[number % 3 == 0])
        for member in range(100):
            partition.allocate(f"{application_id}-{member}", application_id, memory(1))
    return partition


def test_verify_finds_a_row_without_its_application() -> None:
    """A row that belongs to nothing is a finding, too."""
    partition = _large()
    partition._state.tables.applications.pop("app-1")

    with pytest.raises(InvariantError, match="a row belongs to 'app-1', which does not exist"):
        partition.verify()
