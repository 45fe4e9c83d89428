"""Partitions to try laws on: a configuration, its applications with their requests, and additional models."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from hypothesis import strategies as st

from ugm import AllocationRequest, Partition, RequestError, UserGroup
from ugm.configuration import PartitionConfig, QueueConfig
from ugm.decision import Violation
from ugm.identity import ROOT
from ugm.model import Claim, QuotaModel
from ugm.testing import allocation_requests, exposed_partition, full_partitions, resources, users
from ugm.testing.strategies import SUBMITTED

__all__ = [
    "Backlog",
    "Licences",
    "Scene",
    "Seats",
    "everything",
    "scenes",
]

#: The clock stands still: two partitions of one scene promise the same ends.
_NOW: Final = 1_790_000_000


class Licences:
    """As many allocations as there are licences."""

    def __init__(self, most: int) -> None:
        self.most, self.taken = most, 0

    def check(self, claim: Claim) -> Iterator[Violation]:
        """Name the licences if there is none left."""
        if self.taken >= self.most:
            yield Violation("licence", claim.user.name, "", "", "licences", self.most, self.taken, 1)

    def charge(self, _: Claim) -> None:
        """Take one."""
        self.taken += 1

    def refund(self, _: Claim) -> None:
        """Give it back."""
        self.taken -= 1


class Seats(Licences):
    """Licences that the first holders give up for others, one at a time."""

    def __init__(self, most: int) -> None:
        super().__init__(most)
        self.holders: dict[str, Claim] = {}

    def charge(self, claim: Claim) -> None:
        """Take one."""
        super().charge(claim)
        self.holders[claim.allocation_id] = claim

    def refund(self, claim: Claim) -> None:
        """Give it back."""
        super().refund(claim)
        assert self.holders.pop(claim.allocation_id) == claim

    def evictions(self, _: Claim) -> list[str]:
        """Name as many as there are too many."""
        return sorted(self.holders)[: self.taken - self.most + 1]


class Backlog:
    """Who waits for more than six of memory gets nothing; knows every claim, and takes none twice."""

    def __init__(self) -> None:
        self.charged: dict[str, Claim] = {}
        self.waiting: dict[str, Claim] = {}

    def check(self, claim: Claim) -> Iterator[Violation]:
        """Return the user who also waits for too much."""
        mine = [one for one in self.waiting.values() if one.user.name == claim.user.name and one[0] != claim[0]]
        requested = sum(one.usage.get("memory", 0) for one in mine)
        if requested > 6:
            yield Violation("backlog", claim.user.name, "", "", "memory", 6, requested, 0)

    def charge(self, claim: Claim) -> None:
        """Note a claim, which must be new."""
        assert self.charged.setdefault(claim.allocation_id, claim) is claim

    def refund(self, claim: Claim) -> None:
        """Strike the same claim."""
        assert self.charged.pop(claim.allocation_id) == claim

    def add_pending(self, claim: Claim) -> None:
        """Note a claim that waits, which must be new."""
        assert self.waiting.setdefault(claim.allocation_id, claim) is claim

    def remove_pending(self, claim: Claim) -> None:
        """Strike the same claim."""
        assert self.waiting.pop(claim.allocation_id) == claim


class Scene(NamedTuple):
    """What there was before, and one more allocation."""

    config: PartitionConfig
    nodes: tuple[Any, ...]
    homes: tuple[tuple[UserGroup, str], ...]
    stream: list[AllocationRequest]
    request: AllocationRequest

    def partition(self, models: Sequence[QuotaModel] = (), **options: Any) -> Partition:  # noqa: ANN401 - the partition's
        """Return a partition with all applications in which the stream has been allocated, as far as it was granted."""
        partition = Partition(self.config, models=models, clock=lambda: _NOW, **options)
        for number, offers in enumerate(self.nodes):
            partition.add_node(f"n-{number}", offers)
        for application_id, (user, path) in zip(SUBMITTED, self.homes, strict=True):
            partition.adopt_application(application_id, user, path)
        grant_all(partition, self.stream)
        return partition


def traits_of(request: AllocationRequest) -> dict[str, Any]:
    """Return what is passed by keyword."""
    return dict(zip(AllocationRequest._fields[3:], request[3:], strict=True))


def grant_all(partition: Partition, stream: Iterable[AllocationRequest]) -> list[AllocationRequest]:
    """Ask for every other allocation before it is allocated, and return those that were granted."""
    granted = []
    for number, request in enumerate(stream):
        try:
            if number % 2:
                partition.request(*request[:3], **traits_of(request))
            if partition.allocate(*request[:3], **traits_of(request)):
                granted.append(request)
        except RequestError:
            # The id is already in use by another allocation.
            continue
    return granted


def _leaves(queue: QueueConfig, path: str = ROOT) -> Iterator[str]:
    if not queue.parent:
        yield path
    for child in queue.queues:
        yield from _leaves(child, f"{path}.{child.name.lower()}")


@st.composite
def scenes(draw: st.DrawFn, longest: int = 8) -> Scene:
    """Draw a configuration, nodes or none, four applications in it, and what they ask."""
    config = draw(full_partitions())
    paths = st.sampled_from([*_leaves(config.root), "root.a", "root.new.x"])
    homes = tuple((draw(users()), draw(paths)) for _ in SUBMITTED)
    nodes = draw(st.lists(resources(smallest=9, largest=60), max_size=2))
    return Scene(
        config,
        tuple(nodes),
        homes,
        draw(st.lists(allocation_requests(), max_size=longest)),
        draw(allocation_requests()),
    )


def everything(partition: Partition, models: Sequence[QuotaModel] = ()) -> tuple[object, ...]:
    """Return everything that queries show of a partition and of its additional models."""
    partition.verify()
    known = [{name: _copied(value) for name, value in vars(model).items()} for model in models]
    return exposed_partition(partition), known


def _copied(value: object) -> object:
    return dict(value) if isinstance(value, dict) else value
