"""Reservations: planned starts are kept, and a naive simulation of all promises agrees with every plan and denial."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from random import Random
from typing import Final

import pytest

from support.examples import seeds
from support.partition_fixtures import Licences
from support.random_histories import History, random_queue
from ugm import Partition, Resource, UserGroup
from ugm.configuration import PartitionConfig, QueueConfig
from ugm.identity import ancestors
from ugm.model import QuotaModel
from ugm.partition import Allocation, AllocationRequest, Head, Reservation

USERS: Final = (UserGroup("ana", ("dev",)), UserGroup("ben", ("ops", "dev")), UserGroup("eva"))
PRIORITY_FIRST: Final = "application.sort.priority"


def properties_below(queue: QueueConfig, path: str = "root") -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield the properties of a queue and of those below it by path."""
    yield path, queue.properties
    for child in queue.queues:
        yield from properties_below(child, f"{path}.{child.name}")


class Promises(History):
    """A partition in which time passes and every allocation keeps its promise."""

    def __init__(self, seed: int, models: Callable[[], list[QuotaModel]] = list, *, plain: bool = False) -> None:
        rng = Random(seed)
        # A plain one has no limits of users, and only the root reserves.
        queue = random_queue(rng, names=("memory",), reserves=(1, 0) if plain else (0.7, 0.3), plain=plain)
        size = Resource(memory=rng.randint(6, 14), vcore=rng.randint(6, 14))
        super().__init__(rng, PartitionConfig(queues=(queue,)), models, size)
        self.plain = plain
        self.promised: dict[str, int] = {}
        self.properties = dict(properties_below(queue))
        #: The queues of the applications.
        self.paths: dict[str, str] = {}

    def submit(self) -> None:
        """Submit an application with some requests; a few promise no end."""
        rng = self.rng
        name, path = self.submit_as(USERS)
        self.paths[name] = path
        for number in range(rng.randint(1, 2)):
            amounts = {"memory": rng.choice([1, 1, 2, 5, 7]), "vcore": rng.choice([0, 1, 3, 6])}
            usage = Resource({key: value for key, value in amounts.items() if rng.random() < 0.8})
            duration = rng.choice([3, 10, 30, 100]) if rng.random() < 0.9 else None
            self.request(f"{name}.{number}", name, usage, duration)

    def request(self, name: str, owner: str, usage: Resource, duration: int | None) -> None:
        """Make a request."""
        self.do(lambda p: p.request(name, owner, usage, duration=duration))

    def release_due(self) -> None:
        """Release what has promised to end by now, and sometimes an allocation earlier than promised."""
        for one in self.partition.allocations():
            is_due = one.until is not None and one.until <= self.now
            if is_due or (one.state == "held" and self.rng.random() < 0.05):
                self.release(one.allocation_id)

    def release(self, name: str) -> None:
        """Release an allocation."""
        self.do(lambda p: p.release(name))

    def schedule(self) -> None:
        """Make a pass, and compare each of its answers with a naive simulation."""
        for head in self.partition.scheduling_pass():
            before = self.partition.reservations()
            decision = head.allocate()
            self.done.append((self.now, lambda p, one=head.request: one_turn(p, one)))  # type: ignore[misc] # the loop variable
            if decision:
                self.require_feasible()
                self.forget_passed(head.request.allocation_id)
            elif decision.violations[0].kind == "reservation":
                assert before
                self.require_harmful(head)
        self.follow_promises()

    def require_feasible(self) -> None:
        """Check that every reserved request can start as planned if all promises are kept and nothing else starts."""
        assert self.delayed(self.partition.reservations()) is None

    def require_harmful(self, head: Head) -> None:
        """Check that a request that was held back would delay a reserved one, if only the root reserves."""
        if self.plain:
            reservations = self.partition.reservations()
            assert self.delayed(reservations, head.request) == reservations[0].allocation_id

    def delayed(self, reservations: tuple[Reservation, ...], more: AllocationRequest | None = None) -> str | None:
        """Return the first reserved request that cannot start as planned; None if all can.

        If the start is not known, the request must fit when everything else has ended, without what never ends.
        """
        copy, time = self.copy()
        if more is not None:
            assert copy.allocate_ignoring_reservations(more)
        without_end = [one.allocation_id for one in copy.allocations() if one.state == "held" and one.until is None]
        starts = [(one.start, one.allocation_id) for one in reservations if one.start is not None]
        for start, name in sorted(starts, key=lambda one: one[0]):
            time[0] = start
            for one in copy.allocations():
                if one.until is not None and one.until <= start:
                    copy.release(one.allocation_id)
            if not grant(copy, name):
                return name
        if more is not None and more.duration is None and len(starts) < len(reservations):
            # With an unknown start, what never ends must not take more.
            assert more.allocation_id in without_end
            return reservations[0].allocation_id
        if more is not None and len(starts) < len(reservations):
            return reservations[0].allocation_id
        return None

    def forget_passed(self, name: str) -> None:
        """Forget the promises to requests with a lower priority than one that is granted or has a reservation."""
        self.promised = {one: start for one, start in self.promised.items() if not self.comes_before(name, one)}

    def comes_before(self, name: str, reserved: str) -> bool:
        """Return whether a request has a higher priority than another one where their queues part."""
        paths = [list(ancestors(self.paths[one.partition(".")[0]])) for one in (name, reserved)]
        shared = [path for path in paths[0] if path in paths[1]]
        if next((word for path in shared if (word := self.properties[path].get(PRIORITY_FIRST))), "") == "disabled":
            return False
        one, other = (self.priority(path for path in lineage if path not in shared) for lineage in paths)
        return one > other

    def priority(self, paths: Iterable[str]) -> int:
        """Return the priority of a request from the properties of its queues, the lowest queue first."""
        found = 0
        for properties in map(self.properties.__getitem__, paths):
            fenced = properties.get("priority.policy") == "fence"
            found = int(properties.get("priority.offset", "0")) + (0 if fenced else found)
        return found

    def follow_promises(self) -> None:
        """Check that no start is later than before, and that a request whose start has come was granted."""
        current = {one.allocation_id: one.start for one in self.partition.reservations()}
        for name in current:
            self.forget_passed(name)
        for name, promise in list(self.promised.items()):
            row = self.partition.allocation(name)
            assert row is not None
            if row.state == "held" or (name not in current and self.is_blocked_otherwise(row)):
                del self.promised[name]
            else:
                start = current[name]
                assert promise > self.now
                assert start is not None
                assert start <= promise
        self.promised.update({name: start for name, start in current.items() if start is not None})
        copy, _ = self.copy()
        assert copy.reservations() == self.partition.reservations()

    def is_blocked_otherwise(self, row: Allocation) -> bool:
        """Return whether a quota model or a limit of its user or group denies a request."""
        decision = self.partition.check(row.application_id, row.usage, duration=row.duration)
        return any(one.kind != "queue" for one in decision.violations)

    def run(self) -> int:
        """Run the history, and return the number of promised starts."""
        starts = set[str]()
        for _ in range(self.rng.randint(10, 25)):
            for _ in range(self.rng.randint(0, 2)):
                self.submit()
            self.schedule()
            starts.update(self.promised)
            ends = [one.until for one in self.partition.allocations() if one.until is not None]
            self.now = min(ends) if ends and self.rng.random() < 0.8 else self.now + self.rng.randint(1, 5)
            self.release_due()
        self.partition.verify()
        return len(starts)


def one_turn(partition: Partition, request: AllocationRequest) -> bool:
    """Repeat the decision of a pass about a request."""
    turn = partition.scheduling_pass({request.application_id: [request]})
    return bool(next(turn).allocate())


def grant(partition: Partition, allocation_id: str) -> bool:
    """Grant a pending request."""
    one = partition.allocation(allocation_id)
    assert one is not None
    request = AllocationRequest(one.allocation_id, one.application_id, one.usage, duration=one.duration)
    return bool(partition.allocate_ignoring_reservations(request))


SEEDS: Final = seeds(1, 12, 700)


@pytest.mark.parametrize("seed", SEEDS)
def test_promised_starts(seed: int) -> None:
    """With limits of all kinds, a reserved request starts no later than promised if all promises are kept."""
    Promises(seed).run()


@pytest.mark.parametrize("seed", SEEDS)
def test_naive_backfill(seed: int) -> None:
    """With one reservation, exactly the requests are held back that would delay it."""
    Promises(seed, plain=True).run()


@pytest.mark.parametrize("seed", SEEDS)
def test_other_models(seed: int) -> None:
    """A quota model that counts what is charged denies no reserved request at its start."""
    Promises(seed, lambda: [Licences(4)]).run()
