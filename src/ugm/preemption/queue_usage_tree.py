"""The queues and allocations on which a plan depends, with the usage of every queue.

A planner knows no partition. Its input is plain data, which is copied under the lock of a partition or built by a test.

The rules depend on the queue of an allocation, its priority, its state, its usage, and whether it belongs to the
application of the request. Allocations with equal ones form a class: they are interchangeable for every rule, and of
the candidates of a class, the youngest is evicted first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias, final

from ugm.resources import Resource

#: The delay of preemption if no queue sets one, in seconds.
DEFAULT_DELAY: Final = 30

_NOTHING: Final = Resource()


class PreemptionPolicy(StrEnum):
    """The property ``preemption.policy`` of a queue."""

    #: Neither of the other two. It ends the effect of `DISABLED` from a queue above.
    DEFAULT = "default"
    #: A request from inside the queue preempts nothing outside of it. Not inherited.
    FENCE = "fence"
    #: Nothing in the queue is preempted, nor in queues below that set no policy.
    DISABLED = "disabled"


class QueueFacts(NamedTuple):
    """The settings of a queue that a plan depends on."""

    queue_path: str
    #: A resource that is missing is not limited, unless the maximum is closed.
    maximum: Resource = _NOTHING
    #: Whether a resource that is missing from the maximum is not available, as in a cluster with nodes.
    is_closed: bool = False
    guaranteed: Resource = _NOTHING
    #: None if the queue does not set it.
    policy: PreemptionPolicy | None = None
    #: The property ``preemption.delay`` in seconds; None if the queue does not set it.
    delay: int | None = None
    #: The property ``quota.preemption.delay`` in seconds; 0 if the queue takes no part in reductions.
    reduction_delay: int = 0


class AllocationFacts(NamedTuple):
    """A granted allocation, or a request that counts as granted because an earlier plan made room for it."""

    allocation_id: str
    application_id: str
    queue_path: str
    usage: Resource
    priority: int = 0
    preemptible: bool = True
    is_terminating: bool = False
    #: The node that it runs on, or will run on; None if it is unknown.
    node: str | None = None
    #: The promised duration in seconds, for quota models; None if there is none.
    duration: int | None = None


class PreemptionRequest(NamedTuple):
    """The request that a plan makes room for."""

    allocation_id: str
    application_id: str
    queue_path: str
    usage: Resource
    priority: int = 0
    #: The time since which the request has been waiting, in seconds.
    since: int = 0
    #: Whether allocations may be evicted for it.
    may_preempt: bool = True
    #: Whether allocations of lower priority in its own queue may be evicted.
    within_queue: bool = False
    #: Attributes that only quota models use: whether others may evict it, and its promised duration in seconds.
    preemptible: bool = True
    duration: int | None = None


@final
class World(NamedTuple):
    """The queues and allocations of a partition at one moment.

    The order of the queues has no effect. Every parent of a queue is present.
    """

    queues: Sequence[QueueFacts]
    #: In the order of the ledger, oldest first.
    allocations: Sequence[AllocationFacts]
    #: The requests that count as granted.
    placed: Sequence[AllocationFacts] = ()
    #: The nodes that the request may run on, with the amounts that are free there; None if nodes do not matter.
    nodes: Mapping[str, Resource] | None = None


class AllocationClass(NamedTuple):
    """The common values of the allocations of a class."""

    queue_path: str
    usage: Resource
    #: Whether they belong to the application of the request.
    is_of_requester: bool
    priority: int
    preemptible: bool
    is_terminating: bool


#: The path of a queue, and a resource.
Point: TypeAlias = tuple[str, str]

#: The amounts of resources in and below queues.
Sums: TypeAlias = Counter[Point]

#: The classes of some allocations, with the positions of their members.
Members: TypeAlias = dict[AllocationClass, list[int]]
#: The same, to read only.
Candidates: TypeAlias = Mapping[AllocationClass, Sequence[int]]


@final
@dataclass(slots=True, eq=False)
class QueueNode:
    """A queue with its usage; or a node of the cluster, whose maximum is its free amount.

    The usage of a node is that of placed requests, and less that of terminating allocations where they do not count.
    """

    #: Of a node, its name.
    path: str
    facts: QueueFacts
    parent: QueueNode | None
    #: Sorted by path.
    children: list[QueueNode] = field(default_factory=list)
    #: The usage in and below the queue without terminating allocations, with placed requests.
    kept: Counter[str] = field(default_factory=Counter)
    #: The same with terminating allocations.
    counted: Counter[str] = field(default_factory=Counter)
    #: The part of the kept usage that the victims of a plan free.
    freed: Counter[str] = field(default_factory=Counter)

    def lineage(self) -> Iterator[QueueNode]:
        """Yield the queue and the queues above it, leaf to root."""
        node: QueueNode | None = self
        while node is not None:
            yield node
            node = node.parent

    def rest(self, resource: str) -> int:
        """Return the kept amount without what victims free."""
        return self.kept[resource] - self.freed[resource]

    def above_guarantee(self, resource: str) -> int:
        """Return the amount above the guarantee that victims leave; negative if the queue uses less."""
        return self.rest(resource) - self.facts.guaranteed.amounts.get(resource, 0)

    def excess(self) -> dict[str, int]:
        """Return the amounts above the maximum that victims leave, for resources that the maximum names."""
        maximum = self.facts.maximum.amounts
        return {name: self.rest(name) - most for name, most in maximum.items() if self.rest(name) > most}

    def lacking(self, used: Mapping[str, int], requested: Mapping[str, int]) -> dict[str, int]:
        """Return the amounts by which *used* and *requested* exceed the maximum, for requested resources."""
        maximum, is_closed = self.facts.maximum.amounts, self.facts.is_closed
        over = {
            name: used.get(name, 0) + amount - maximum.get(name, 0)
            for name, amount in requested.items()
            if is_closed or name in maximum
        }
        return {name: amount for name, amount in over.items() if amount > 0}


@final
class QueueUsageTree:
    """All queues with their usage, and all classes of allocations.

    Args:
        world: the queues and allocations.
        application_id: the application of the request, whose allocations form classes of their own.
    """

    def __init__(self, world: World, application_id: str | None = None) -> None:
        self.world: Final = world
        #: By path, parents before children: a path is sorted after those of the queues above it.
        self.nodes: Final[dict[str, QueueNode]] = {}
        for facts in sorted(world.queues, key=lambda facts: facts.queue_path):
            parent = self.nodes.get(facts.queue_path.rpartition(".")[0])
            node = self.nodes[facts.queue_path] = QueueNode(facts.queue_path, facts, parent)
            if parent is not None:
                parent.children.append(node)
        #: The candidate nodes by name; if nodes do not matter, None with one that lacks nothing.
        self.hosts: Final[dict[str | None, QueueNode]] = {}
        for name, free in sorted((world.nodes or {}).items()):
            self.hosts[name] = QueueNode(name, QueueFacts(name, free, is_closed=True), None)
        if world.nodes is None:
            self.hosts[None] = QueueNode("", QueueFacts(""), None)
        #: By candidate node, and with None for all others: the positions of each class in the ledger, oldest first.
        self.classes: Final[dict[str | None, Members]] = {name: {} for name in (None, *self.hosts)}
        self._sum_up(application_id)

    def _sum_up(self, application_id: str | None) -> None:
        classes, others, new = self.classes, self.classes[None], tuple.__new__
        for position, facts in enumerate(self.world.allocations):
            _, application, path, usage, *traits, host, _ = facts
            # `AllocationClass(...)` takes twice as long.
            one = new(AllocationClass, (path, usage, application == application_id, *traits))
            classes.get(host, others).setdefault(one, []).append(position)
        for host, members in classes.items():
            for one, positions in members.items():
                node, amounts, count = self.nodes[one.queue_path], one.usage.amounts, len(positions)
                add_amounts(node.counted, amounts, count)
                if not one.is_terminating:
                    add_amounts(node.kept, amounts, count)
                elif host in self.hosts:
                    add_amounts(self.hosts[host].kept, amounts, -count)
        for placed in self.world.placed:
            for node in filter(None, (self.nodes[placed.queue_path], self.hosts.get(placed.node))):
                add_amounts(node.counted, placed.usage.amounts)
                add_amounts(node.kept, placed.usage.amounts)
        for node in reversed(self.nodes.values()):
            if node.parent is not None:
                add_amounts(node.parent.kept, node.kept)
                add_amounts(node.parent.counted, node.counted)

    def supplies(self, candidates: Candidates, names: Iterable[str], bounds: Mapping[Point, int]) -> tuple[Sums, Sums]:
        """Return what candidates use in and below each queue, and what they can free within bounds.

        Args:
            candidates: the allocations that may be victims.
            names: the resources that count.
            bounds: by queue path and resource, the amounts that may be freed in and below a queue.
        """
        offered: Sums = Counter()
        for one, positions in candidates.items():
            for name in names:
                offered[one.queue_path, name] += len(positions) * one.usage.amounts.get(name, 0)
        supply = offered.copy()
        for path, node in reversed(self.nodes.items()):
            for name in names:
                supply[path, name] = min(supply[path, name], max(0, bounds.get((path, name), supply[path, name])))
                if node.parent is not None:
                    offered[node.parent.path, name] += offered[path, name]
                    supply[node.parent.path, name] += supply[path, name]
        return offered, supply

    def free(self, queue_path: str, usage: Mapping[str, int], sign: int = 1) -> None:
        """Count a victim as leaving its queues; with -1, undo that."""
        for node in self.nodes[queue_path].lineage():
            add_amounts(node.freed, usage, sign)


def add_amounts(total: Counter[str], amounts: Mapping[str, int], count: int = 1) -> None:
    """Add amounts to a total, *count* times."""
    for name, amount in amounts.items():
        total[name] += count * amount
