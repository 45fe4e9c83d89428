"""The self-check: every counter is compared with the ledger."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from random import Random
from typing import Any

import pytest

from support.partition_fixtures import BOB, SUE, in_every_state, memory, partition_of
from ugm import InvariantError, Partition
from ugm.partition.self_check import verify

Corrupt = Callable[[Partition], object]


@pytest.fixture(name="partition")
def _partition() -> Partition:
    return in_every_state()


def test_verify_in_order(partition: Partition) -> None:
    """A partition that nobody has damaged adds up."""
    partition.verify()


def _count_gpus(partition: Partition) -> None:
    """Count another resource everywhere but in the queues."""
    partition._state.active_limits.count_resources(["gpu"])
    partition._lock.valid_epoch = partition._lock.epoch


CORRUPTIONS: dict[str, Corrupt] = {
    "application 'app' has allocations but does not run": lambda p: setattr(
        p._state.applications["app"], "holding", None
    ),
    "application 'app' holds memory 7, but its allocations add up to memory 6": lambda p: setattr(
        p._state.applications["app"].holding, "amounts", (0, 7, None)
    ),
    "the applications list other allocations than the ledger": lambda p: p._state.ledger.owners.pop("app"),
    "application 'app' is listed as 'new'": lambda p: p._state.applications.update(new=p._state.applications["app"]),
    "application 'app' is charged but not listed": lambda p: p._state.applications.pop("app"),
    "application 'app' runs with another holding than the one that is charged": lambda p: (
        p._state.holding_index.holdings.pop("app")
    ),
    "queue root.a lists other applications than were placed in it": lambda p: p._state.tree.queues[
        "root.a"
    ].applications.pop("app"),
    "queue root.x is empty but was not deleted": lambda p: p._state.tree.create("root.x"),
    "queue root.a has applications but does not exist": lambda p: p._state.tree.queues.pop("root.a"),
    "queue root.a has a limit but no counter": lambda p: setattr(p._state.tree.queues["root.a"], "counter", None),
    "queue root.b has no counter but is listed as in use": lambda p: p._state.tree.counters.update(
        {"root.b": p._state.tree.counters["root.a"]}
    ),
    "queue root.a counts 8 memory, but its applications hold 7": lambda p: setattr(
        p._state.tree.queues["root.a"].counter, "free_memory", 1
    ),
    "queue root.a counts 3 applications, but 2 run": lambda p: setattr(
        p._state.tree.queues["root.a"].counter, "running", 3
    ),
    "queue root.a is not listed as in use, and 2 applications run": lambda p: p._state.tree.counters.pop("root.a"),
    "queue root counts other resources than the partition": _count_gpus,
    "user 'sue' is tracked without applications": lambda p: p._state.holding_index.users["sue"].holdings.clear(),
}


@pytest.mark.parametrize(("finding", "corrupt"), CORRUPTIONS.items(), ids=CORRUPTIONS)
def test_verify_finds_damage(partition: Partition, finding: str, corrupt: Corrupt) -> None:
    """Whatever does not follow from the ledger is found, and named."""
    corrupt(partition)
    with pytest.raises(InvariantError) as caught:
        partition.verify()
    assert finding in caught.value.findings


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


def test_verify_reads_in_slices() -> None:
    """The allocations of a large partition are read with the lock in parts, and added up without it."""
    partition, reads = _large(), count()

    def read(query: Callable[..., Any], /, *args: object, **kwargs: object) -> Any:  # noqa: ANN401 - of the query
        next(reads)
        return query(*args, **kwargs)

    verify(partition._state, read)
    assert next(reads) > 12


def test_verify_while_the_partition_changes() -> None:
    """Changes between two parts of the check are not taken for damage."""
    partition, random, numbers = _large(), Random(1), count()

    def change() -> None:
        match random.randrange(6):
            case 0:
                partition.remove(random.choice(partition.application_ids()))
            case 1:
                name = f"new-{next(numbers)}"
                partition.submit(name, SUE, random.choice(["root.a", f"root.p.{name}"]))
                partition.allocate(f"{name}-0", name, memory(2))
            case 2:
                owner = random.choice(partition.application_ids())
                partition.request(f"request-{next(numbers)}", owner, memory(1))
            case _:
                partition.release(random.choice(partition.allocation_ids()))

    def read(query: Callable[..., Any], /, *args: object, **kwargs: object) -> Any:  # noqa: ANN401 - of the query
        for _ in range(5):
            change()
        return partition._lock.run(query, *args, **kwargs)

    for _ in range(3):
        verify(partition._state, read)
    partition.verify()


def test_verify_finds_damage_while_the_partition_changes() -> None:
    """Damage that stays is found although other allocations are released during the check."""
    partition = _large()
    partition._state.ledger.owners.pop("app-1-7")

    def read(query: Callable[..., Any], /, *args: object, **kwargs: object) -> Any:  # noqa: ANN401 - of the query
        partition.release(partition.allocation_ids()[0])
        return query(*args, **kwargs)

    with pytest.raises(InvariantError, match="other allocations than the ledger"):
        verify(partition._state, read)
