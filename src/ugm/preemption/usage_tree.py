"""The usage of every queue, and the allocations in classes.

Allocations of one queue with equal usage, priority and state are interchangeable for every law. So they form a class,
and a plan costs time for each class instead of each allocation. Of the candidates of a class, the youngest is evicted
first.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias, final

from ugm.preemption.facts import AllocationFacts, PlacedRequest, QueueFacts, World
from ugm.resources import Resource

__all__ = ["AllocationClass", "QueueNode", "QueueUsageTree"]

Amounts: TypeAlias = Mapping[str, int]


@final
class QueueNode:
    """A queue with its usage."""

    __slots__ = ("children", "facts", "kept", "parent", "path", "terminating")

    path: str
    facts: QueueFacts
    parent: QueueNode | None
    #: Sorted by path.
    children: list[QueueNode]
    #: The usage in and below the queue without terminating allocations, with placed requests.
    kept: dict[str, int]
    #: The usage of terminating allocations in and below the queue.
    terminating: dict[str, int]

    def __init__(self, facts: QueueFacts, parent: QueueNode | None) -> None:
        self.path = facts.queue_path
        self.facts = facts
        self.parent = parent
        self.children = []
        self.kept = {}
        self.terminating = {}
        if parent is not None:
            parent.children.append(self)

    def lineage(self) -> Iterator[QueueNode]:
        """Yield the queue and the queues above it, leaf to root."""
        node: QueueNode | None = self
        while node is not None:
            yield node
            node = node.parent

    def above_guarantee(self, resource: str) -> int | None:
        """Return the kept amount above the guarantee, which may be negative; None without a guarantee."""
        guaranteed = self.facts.guaranteed.amounts.get(resource)
        return None if guaranteed is None else self.kept.get(resource, 0) - guaranteed

    def excess(self) -> dict[str, int]:
        """Return the kept amounts above the maximum."""
        maximum = self.facts.maximum.amounts
        names = self.kept if self.facts.is_closed else maximum
        over = {name: self.kept.get(name, 0) - maximum.get(name, 0) for name in names}
        return {name: amount for name, amount in over.items() if amount > 0}

    def lacking(self, used: Amounts, requested: Amounts) -> dict[str, int]:
        """Return the amounts by which *used* and *requested* exceed the maximum, for requested resources."""
        maximum, is_closed = self.facts.maximum.amounts, self.facts.is_closed
        over = {
            name: used.get(name, 0) + amount - maximum.get(name, 0)
            for name, amount in requested.items()
            if is_closed or name in maximum
        }
        return {name: amount for name, amount in over.items() if amount > 0}


@final
class AllocationClass:
    """Allocations that no law distinguishes."""

    __slots__ = ("is_of_requester", "is_terminating", "node", "positions", "preemptible", "priority", "shape", "usage")

    node: QueueNode
    #: Whether they belong to the application of the request.
    is_of_requester: bool
    #: Without zeros.
    usage: Amounts
    #: The number of the usage; equal usages have one number.
    shape: int
    priority: int
    preemptible: bool
    is_terminating: bool
    #: Positions in the ledger, oldest first. An array, because the garbage collector does not visit it.
    positions: array[int]

    def __init__(self, node: QueueNode, example: AllocationFacts, shape: int, *, is_of_requester: bool) -> None:
        self.node = node
        self.is_of_requester = is_of_requester
        self.shape = shape
        usage = example.usage.amounts
        self.usage = usage if all(usage.values()) else {name: amount for name, amount in usage.items() if amount}
        self.priority = example.priority
        self.preemptible = example.preemptible
        self.is_terminating = example.is_terminating
        self.positions = array("q")


@final
class QueueUsageTree:
    """All queues with their usage, and all classes of allocations.

    Args:
        world: the queues and allocations.
        application_id: the application of the request, whose allocations form classes of their own.
    """

    __slots__ = ("classes", "nodes", "world")

    #: By path, parents before children.
    nodes: dict[str, QueueNode]
    classes: list[AllocationClass]

    def __init__(self, world: World, application_id: str | None = None) -> None:
        self.world: Final = world
        self.nodes = _nodes(world.queues)
        self.classes = _classes(world.allocations, self.nodes, application_id)
        for one in self.classes:
            _add(one.node.terminating if one.is_terminating else one.node.kept, one.usage, len(one.positions))
        for placed in world.placed:
            self._place(placed)
        for node in reversed(self.nodes.values()):
            if node.parent is not None:
                _add(node.parent.kept, node.kept)
                _add(node.parent.terminating, node.terminating)

    def _place(self, placed: PlacedRequest) -> None:
        _add(self.nodes[placed.queue_path].kept, placed.usage.amounts)

    @property
    def root(self) -> QueueNode:
        """The root."""
        return next(iter(self.nodes.values()))


def _nodes(queues: Iterable[QueueFacts]) -> dict[str, QueueNode]:
    nodes: dict[str, QueueNode] = {}
    # A path is sorted after those of the queues above it.
    for facts in sorted(queues, key=_path):
        path = facts.queue_path
        nodes[path] = QueueNode(facts, nodes.get(path.rpartition(".")[0]))
    return nodes


def _path(facts: QueueFacts) -> str:
    return facts.queue_path


def _classes(
    allocations: Iterable[AllocationFacts], nodes: Mapping[str, QueueNode], application_id: str | None
) -> list[AllocationClass]:
    classes: dict[tuple[object, ...], AllocationClass] = {}
    shapes: dict[Resource, int] = {}
    # Equal usages are often one object, and the hash of a vector is slow.
    shapes_by_id: dict[int, int] = {}
    for position, facts in enumerate(allocations):
        _, application, path, usage, priority, preemptible, is_terminating = facts
        shape = shapes_by_id.get(id(usage))
        if shape is None:
            shape = shapes_by_id[id(usage)] = shapes.setdefault(usage, len(shapes))
        is_of_requester = application == application_id
        key = (path, is_of_requester, shape, priority, preemptible, is_terminating)
        found = classes.get(key)
        if found is None:
            found = classes[key] = AllocationClass(nodes[path], facts, shape, is_of_requester=is_of_requester)
        found.positions.append(position)
    return list(classes.values())


def _add(total: dict[str, int], amounts: Amounts, count: int = 1) -> None:
    for name, amount in amounts.items():
        total[name] = total.get(name, 0) + amount * count
