"""Every head of a scheduling pass is the one that sorting everything gives, whatever happens between two heads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from random import Random
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.examples import seeds
from support.random_histories import SORTING, random_queue
from ugm import Partition, Resource, UserGroup
from ugm.configuration import PartitionConfig, QueueConfig
from ugm.partition import AllocationState, ApplicationInfo, Head
from ugm.partition.ordering.pending_order import OrderCopy
from ugm.partition.ordering.scheduling_pass import turns_of

Amounts = Mapping[str, int]


@dataclass
class NaiveQueue:
    """A queue with its settings; `used` is the usage in and below it."""

    path: str
    guaranteed: Amounts
    maximum: Amounts
    policy: str
    priority_first: bool
    offset: int
    fence: bool
    used: dict[str, int] = field(default_factory=dict)


@dataclass
class NaiveApplication:
    """An application with its pending requests: the id, the priority, and the usage, in the order of the requests."""

    name: str
    queue: str
    submitted: int
    used: Amounts
    requests: list[tuple[str, int, Amounts]]
    key: Any = None


class NaiveOrder:
    """The queues and applications at one moment."""

    def __init__(self, queues: Iterable[NaiveQueue], applications: Iterable[NaiveApplication]) -> None:
        self.queues: Final = {queue.path: queue for queue in queues}
        self.applications: Final = [one for one in applications if one.requests]

    def first(self) -> tuple[str, str] | None:
        """Return the application and the request that are next; None if there is none."""
        if not self.applications:
            return None
        path = "root"
        while not any(one.queue == path for one in self.applications):
            children = [each for each in self.queues if each.rpartition(".")[0] == path and self._below(each)]
            path = min(children, key=lambda each: self._queue_key(each, first=self.queues[path].priority_first))
        queue = self.queues[path]
        found = min(
            (one for one in self.applications if one.queue == path), key=lambda one: self._application_key(queue, one)
        )
        return found.name, _next(found)[0]

    def _below(self, path: str) -> list[NaiveApplication]:
        return [one for one in self.applications if one.queue == path or one.queue.startswith(f"{path}.")]

    def priority(self, path: str) -> int:
        """Return the priority of a queue with pending requests."""
        queue = self.queues[path]
        if queue.fence:
            return queue.offset
        own = [_next(one)[1] for one in self.applications if one.queue == path]
        below = [self.priority(each) for each in self.queues if each.rpartition(".")[0] == path and self._below(each)]
        return min(max(max(own + below) + queue.offset, -(2**31)), 2**31 - 1)

    def fair_maximum(self, path: str) -> dict[str, int]:
        """Return the amounts that the ratio of a queue refers to."""
        queue = self.queues[path]
        if path == "root":
            return {name: amount for name, amount in queue.maximum.items() if amount}
        return {**self.fair_maximum(path.rpartition(".")[0]), **queue.maximum}

    def ratio(self, path: str) -> Fraction:
        """Return the largest part that a queue uses of what it may use."""
        queue, parts = self.queues[path], [Fraction(0)]
        available = {**self.fair_maximum(path), **queue.guaranteed}
        for name, amount in queue.used.items():
            if amount and name in available:
                parts.append(Fraction(amount, available[name]) if available[name] else Fraction(1))
        return max(parts)

    def _queue_key(self, path: str, *, first: bool) -> tuple[object, ...]:
        priority, ratio = -self.priority(path), self.ratio(path)
        rest = min(one.submitted for one in self._below(path)), path
        return (priority, ratio, *rest) if first else (ratio, priority, *rest)

    def _application_key(self, queue: NaiveQueue, one: NaiveApplication) -> tuple[object, ...]:
        priority = -_next(one)[1]
        own: list[Any] = [one.submitted]
        if one.key is not None:
            own = [one.key, one.submitted]
        elif queue.policy == "fair":
            own = [self._shares(queue, one), one.submitted]
        parts = [priority, *own] if queue.priority_first else [own[0], priority, *own[1:]]
        return (*parts, one.name)

    def _shares(self, queue: NaiveQueue, one: NaiveApplication) -> list[Fraction]:
        fair, shares = self.fair_maximum(queue.path), []
        for name, amount in one.used.items():
            available = queue.guaranteed.get(name, 0) or fair.get(name, 0)
            if available and amount:
                shares.append(Fraction(amount, available))
        return sorted(shares, reverse=True)


def _next(one: NaiveApplication) -> tuple[str, int, Amounts]:
    """Return the request with the highest priority, of equal ones the first."""
    return max(one.requests, key=lambda request: request[1])


NAMES: Final = ("memory", "vcore", "gpu")
KEYED: Final = "root.q0"


#: The properties that the naive order knows.
ORDER: Final = {key: values for key, values in SORTING.items() if key != "ugm.queue.sort.policy"}


def flattened(
    queue: QueueConfig, above: str = "", policy: str = "fifo", priority_first: str = "enabled"
) -> list[NaiveQueue]:
    """Return a queue and those below it with their settings."""
    path, properties, amounts = f"{above}{queue.name}", queue.properties, queue.resources
    policy = properties.get("application.sort.policy", policy)
    priority_first = properties.get("application.sort.priority", priority_first)
    own = NaiveQueue(
        path,
        amounts.guaranteed or {},
        amounts.max or {},
        policy,
        priority_first == "enabled",
        int(properties.get("priority.offset", 0)),
        "priority.policy" in properties,
    )
    return [own, *(each for child in queue.queues for each in flattened(child, f"{path}.", policy, priority_first))]


class Play:
    """A partition with a scheduling pass, and random changes by others."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = Random(seed)
        tree = random_queue(rng, names=NAMES, sorting=ORDER, plain=True)
        self.queues = flattened(tree)
        self.partition = Partition(PartitionConfig(queues=(tree,)))
        if rng.random() < 0.5:
            self.partition.add_node("n0", Resource(memory=60, vcore=60, gpu=60))
        self.leaves = [
            one.path for one in self.queues if not any(each.path.startswith(f"{one.path}.") for each in self.queues)
        ]
        self.submitted: dict[str, int] = {}
        self.out: set[str] = set()
        self.made = 0
        for _ in range(rng.randint(1, 8)):
            self.submit()
        for _ in range(rng.randint(1, 12)):
            self.request()
        self.keys = {KEYED: self.key} if rng.random() < 0.3 else {}

    @staticmethod
    def key(application: ApplicationInfo) -> int:
        """Return the key of an application for the queue that the program sorts."""
        return -application.usage.get("vcore", 0)

    def amounts(self) -> Resource:
        """Return a random usage."""
        return Resource({name: self.rng.randint(0, 4) for name in NAMES if self.rng.random() < 0.7})

    def submit(self) -> None:
        """Submit an application in a random leaf."""
        name = f"app-{self.rng.randint(0, 99)}"
        if name not in self.submitted and self.partition.application(name) is None:
            self.partition.submit(name, UserGroup("ana"), self.rng.choice(self.leaves))
            self.made += 1
            self.submitted[name] = self.made
            self.partition.adopt(f"{name}.held", name, self.amounts())

    def request(self) -> None:
        """Add a pending request of a random application."""
        self.made += 1
        application = self.rng.choice(sorted(self.submitted))
        priority = self.rng.choice([0, 0, 0, 1, 2, -1, 2**31 - 1])
        self.partition.request(f"request-{self.made:04}", application, self.amounts(), priority=priority)

    def change(self) -> None:
        """Do something that another caller may do between two heads."""
        allocations = [one.allocation_id for one in self.partition.allocations()]
        choice = self.rng.randrange(9)
        if choice < 2 and allocations:
            self.partition.release(self.rng.choice(allocations))
        elif choice == 2:
            self.submit()
        elif choice == 3:
            self.request()
        elif choice == 4 and allocations:
            self.partition.allocate_all([])
            held = [one for one in self.partition.allocations() if one.state is AllocationState.HELD]
            if held:
                self.partition.resize(self.rng.choice(held).allocation_id, self.amounts())
        elif choice == 5 and self.rng.random() < 0.3:
            self.partition.add_node(f"n{self.made}-{self.rng.random()}", self.amounts())
        elif choice == 6 and self.rng.random() < 0.3:
            name = self.rng.choice(sorted(self.submitted))
            del self.submitted[name]
            self.partition.remove(name)
            if not self.submitted:
                self.submit()

    def expected(self) -> tuple[str, str] | None:
        """Return the application and the request that sorting everything gives."""
        state = self.partition.queue()
        assert state is not None
        for queue in self.queues:
            found = self.partition.queue(queue.path)
            assert found is not None
            queue.used = dict(found.usage)
        self.queues[0].maximum = state.max_resources or {}
        infos = {one.application_id: one for one in self.partition.applications()}
        applications = [
            NaiveApplication(
                name, one.queue_path, self.submitted[name], one.usage, self.pending(name), self.key_of(one)
            )
            for name, one in infos.items()
        ]
        return NaiveOrder(self.queues, applications).first()

    def key_of(self, application: ApplicationInfo) -> int | None:
        """Return the key of an application if the program sorts its queue."""
        is_keyed = self.keys and f"{application.queue_path}.".startswith(f"{KEYED}.")
        return self.key(application) if is_keyed else None

    def pending(self, application: str) -> list[tuple[str, int, Mapping[str, int]]]:
        """Return the pending requests of an application that take part; the ids are in the order of the requests."""
        found = self.partition.allocations(application)
        return [
            (one.allocation_id, one.priority, one.usage)
            for one in found
            if one.state is AllocationState.PENDING and one.allocation_id not in self.out
        ]

    def decide(self, head: Head) -> None:
        """Grant or skip a head, or let another caller grant it."""
        choice = self.rng.randrange(4)
        if choice < 2:
            head.allocate()
        elif choice == 2:
            head.skip()
        else:
            request = head.request
            self.partition.allocate(
                request.allocation_id, request.application_id, request.usage, priority=request.priority
            )
        self.out.add(head.request.allocation_id)

    def compare_orders(self) -> None:
        """Compare the order with that of a copy which also has the applications without requests."""
        found = self.partition.order()
        complete = OrderCopy.of(self.partition._state, for_keys=False)
        assert found == turns_of(complete)
        assert self.partition.order(explained=False) == tuple(one._replace(keys=()) for one in found)

    def run(self) -> int:
        """Compare all heads, and return their number."""
        heads = 0
        turn = self.partition.scheduling_pass(keys=self.keys)
        while True:
            expected, head = self.expected(), next(turn, None)
            assert (head and (head.request.application_id, head.request.allocation_id)) == expected
            if head is None:
                self.partition.verify()
                return heads
            heads += 1
            assert head.explain()
            if heads % 5 == 1:
                self.compare_orders()
            self.decide(head)
            for _ in range(self.rng.randrange(3)):
                if heads < 40:
                    self.change()


@given(st.integers(0, 2**40))
def test_heads(seed: int) -> None:
    """The head is that of the naive order after every change."""
    Play(seed).run()


@pytest.mark.parametrize("seed", seeds(8, 100, 250))
def test_heads_of_random_trees(seed: int) -> None:
    """The same for recorded random trees, so that the default run has some as well."""
    Play(seed).run()
