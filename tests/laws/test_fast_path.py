"""The fast path and the transaction path of a partition give the answers of the general path, recorded or not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from random import Random
from typing import Final

import pytest

from support.examples import seeds
from support.law_partitions import everything
from ugm import Claim, Partition, RequestError, Resource, UserGroup, Violation, parse_config
from ugm.events import Event

CONFIG: Final = parse_config(
    """
    partitions:
    - placementrules: [{name: provided, create: true}]
      limits:
      - {users: ["*"], maxresources: {memory: 30, vcore: 20}, maxapplications: 3}
      - {groups: [dev], maxresources: {memory: 40}}
      queues:
      - {name: a, resources: {max: {memory: 25, gpu: 3}}}
      - {name: b, limits: [{users: [sue], maxresources: {vcore: 9}, maxapplications: 2}]}
    """
).partition()
OTHER: Final = parse_config(
    "partitions: [{queues: [{name: a, resources: {max: {memory: 18}}}, {name: b}]}]",
).partition()
USERS: Final = (UserGroup("sue", ("dev",)), UserGroup("bob", ("dev", "ops")), UserGroup("eve"))
SIZES: Final = (
    *(Resource(memory=memory, vcore=vcore) for memory in (0, 1, 7) for vcore in (0, 3)),
    Resource(gpu=1),
    Resource(memory=2, gpu=1),
    Resource(unknown=1),
)
#: Options of allocations that are not plain, some of them invalid.
TRAITS: Final = ({"priority": 1}, {"preemptible": False}, {"placeholder": True}, {"priority": 1 << 40})
#: How often each operation is called.
OPERATIONS: Final = {
    "allocate": 50,
    "release": 25,
    "check": 15,
    "explain": 15,
    "request": 3,
    "fail": 1,
    "remove": 1,
    "complete": 1,
    "configure": 2,
}


class Unlimited:
    """A quota model that allows everything. It only prevents the fast path."""

    def check(self, _: Claim) -> Iterable[Violation]:
        """Allow."""
        return ()

    def charge(self, _: Claim) -> None:
        """Count nothing."""

    def refund(self, _: Claim) -> None:
        """Count nothing."""


def ignore(_first: int, _events: tuple[Event, ...]) -> None:
    """Follow a partition, so that it records its changes."""


def slow_partition() -> Partition:
    """Return a partition that leaves every decision to the slow path."""
    partition = Partition(CONFIG, models=[Unlimited()])
    partition._decisions = partition._admission
    return partition


def arguments(random: Random, operation: str) -> tuple[object, ...]:
    """Draw arguments of an operation, some of them invalid."""
    name: object = random.choice(("", 7, None, "x" * 300)) if random.random() < 0.05 else f"x-{random.randrange(12)}"
    application = f"app-{random.randrange(5)}"
    # An equal vector is the same object only sometimes.
    usage = random.choice(SIZES) if random.random() < 0.8 else Resource(memory=random.randrange(9))
    return {
        "allocate": (name, application, usage),
        "request": (name, application, usage),
        "release": (name,),
        "check": (application, usage),
        "explain": (application, Resource(gpu=-1) if random.random() < 0.05 else usage),
        "configure": (random.choice((CONFIG, OTHER, None)),),
    }.get(operation, (application,))


def answers(partition: Partition, seed: int) -> list[object]:
    """Return the answers of a partition to random calls."""
    random = Random(seed)
    for number in range(random.randrange(2, 5)):
        partition.submit(f"app-{number}", random.choice(USERS), random.choice(("root.a", "root.b", "root.new")))
    found: list[object] = []
    for operation in random.choices(list(OPERATIONS), list(OPERATIONS.values()), k=70):
        options: Mapping[str, object] = {}
        if operation in ("allocate", "explain") and random.random() < 0.1:
            options = random.choice(TRAITS) if operation == "allocate" else {"max_holders": random.choice((-1, 0, 1))}
        try:
            found.append(getattr(partition, operation)(*arguments(random, operation), **options))
        except RequestError as error:
            found.append(str(error))
    return found


@pytest.mark.parametrize("seed", seeds(20, 150))
def test_fast_path_is_the_slow_path(seed: int) -> None:
    """All paths give the same answers to the same calls, and leave the same state."""
    slow = slow_partition()
    expected = answers(slow, seed)

    for partition in (
        Partition(CONFIG),
        Partition(CONFIG, models=[Unlimited()]),
        Partition(CONFIG, subscribers=[ignore]),
    ):
        assert answers(partition, seed) == expected
        assert everything(partition)[0] == everything(slow)[0]
