"""Partitions with random queues, and the operations that led to their state, which are repeated on copies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Final, TypeAlias

from ugm import Partition, Resource, UserGroup
from ugm.configuration import LimitConfig, PartitionConfig, QueueConfig, QueueResources
from ugm.model import QuotaModel

#: An operation on a partition; it has the same effect on its copy.
Operation: TypeAlias = Callable[[Partition], object]

#: The properties of queues that concern the order, with values to choose from.
SORTING: Final[Mapping[str, Sequence[str]]] = {
    "application.sort.policy": ("fifo", "fair"),
    "application.sort.priority": ("enabled", "disabled"),
    "priority.offset": ("-5", "-1", "1", "2"),
    "priority.policy": ("fence",),
    "ugm.queue.sort.policy": ("fair", "fifo"),
}
#: The first second.
_BEGIN: Final = 1000
#: Whom a limit names.
_OWNERS: Final[Sequence[Mapping[str, tuple[str, ...]]]] = (
    {"users": ("ana",)},
    {"users": ("*",)},
    {"groups": ("dev",)},
    {"groups": ("dev", "ops")},
    {"groups": ("*",)},
)


def _random_limits(rng: Random, names: Sequence[str]) -> tuple[LimitConfig, ...]:
    """Return limits of users and groups."""
    found = []
    for owners in _OWNERS:
        if rng.random() < 0.3:
            amounts = {name: rng.randint(2, 8) for name in names if rng.random() < 0.4}
            applications = rng.randint(1, 3) if rng.random() < 0.4 or not amounts else 0
            found.append(LimitConfig(**owners, max_resources=Resource(amounts) or None, max_applications=applications))  # type: ignore[arg-type] # names
    return tuple(found)


def random_queue(
    rng: Random,
    name: str = "root",
    depth: int = 2,
    *,
    names: Sequence[str],
    sorting: Mapping[str, Sequence[str]] = SORTING,
    reserves: tuple[float, float] = (0, 0),
    plain: bool = False,
) -> QueueConfig:
    """Return a queue with quotas, limits and settings of the order.

    Args:
        rng: the source of chance.
        name: the name of the queue.
        depth: the levels below it.
        names: the resources of quotas and limits.
        sorting: the properties to choose from.
        reserves: how often the root reserves capacity, and how often other queues do.
        plain: whether there are only quotas, without limits of users and of applications.
    """
    is_root = name == "root"
    properties = {key: rng.choice(values) for key, values in sorting.items() if rng.random() < 0.25}
    if rng.random() < reserves[not is_root]:
        properties["ugm.reservation"] = "enabled"
    guaranteed = {name: rng.randint(1, 6) for name in names if rng.random() < 0.4}
    quota = {name: rng.randint(3, 12) for name in names if rng.random() < 0.25}
    options: dict[str, Any] = {"names": names, "sorting": sorting, "reserves": reserves, "plain": plain}
    return QueueConfig(
        name,
        resources=QueueResources() if is_root else QueueResources(guaranteed=Resource(guaranteed), max=Resource(quota)),
        max_applications=rng.randint(1, 4) if not plain and rng.random() < 0.15 else 0,
        properties=properties,
        limits=_random_limits(rng, names) if not plain and rng.random() < 0.6 else (),
        queues=tuple(
            random_queue(rng, f"q{number}", depth - 1, **options) for number in range(rng.randint(1, 3) if depth else 0)
        ),
    )


class History:
    """A partition and the operations that led to its state, each with its time."""

    def __init__(
        self, rng: Random, config: PartitionConfig, models: Callable[[], list[QuotaModel]], cluster: Resource | None
    ) -> None:
        self.rng = rng
        self.now, self.number = _BEGIN, 0
        self.done: list[tuple[int, Operation]] = []
        self._fresh: Callable[[Callable[[], int]], Partition] = lambda clock: Partition(
            config, models=models(), cluster=cluster, clock=clock
        )
        self.partition = self._fresh(lambda: self.now)

    def copy(self) -> tuple[Partition, list[int]]:
        """Return a copy of the partition, and its clock."""
        time = [_BEGIN]
        copy = self._fresh(lambda: time[0])
        for at, operation in self.done:
            time[0] = at
            operation(copy)
        time[0] = self.now
        return copy, time

    def do(self, operation: Operation) -> Any:  # noqa: ANN401 - the result of the operation
        """Execute an operation, which is repeated on copies."""
        self.done.append((self.now, operation))
        return operation(self.partition)

    def submit_as(self, users: Sequence[UserGroup], **options: Any) -> tuple[str, str]:  # noqa: ANN401 - passed on
        """Submit an application of one of some users in a random leaf, and return its name and its queue."""
        self.number += 1
        leaves = [path for path in self.partition.queue_paths() if self.partition.queue(path).is_leaf]  # type: ignore[union-attr] # it exists
        name, user, path = f"a{self.number:03}", self.rng.choice(users), self.rng.choice(leaves)
        self.do(lambda p: p.submit(name, user, path, **options))
        return name, path
