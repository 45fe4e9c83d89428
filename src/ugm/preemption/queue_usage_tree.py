"""The usage of every queue, and the allocations in groups and classes.

Most rules depend on the queue of an allocation, its priority and its state. So allocations with equal ones form a
group, and a plan tests these rules once for each group. Those of a group that no such rule protects, and that have
equal usage, form a class: they are interchangeable for every rule. Of the candidates of a class, the youngest is
evicted first.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias, final

from ugm.preemption.facts import AllocationFacts, QueueFacts, World

__all__ = ["AllocationClass", "AllocationGroup", "QueueNode", "QueueUsageTree"]

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
    """Allocations of a group with equal usage, which no rule distinguishes."""

    __slots__ = ("node", "positions", "priority", "usage")

    node: QueueNode
    #: Without zeros.
    usage: Amounts
    priority: int
    #: Positions in the ledger, oldest first. An array, because the garbage collector does not visit it.
    positions: array[int]

    def __init__(self, node: QueueNode, usage: Amounts, priority: int) -> None:
        self.node = node
        self.usage = usage if all(usage.values()) else {name: amount for name, amount in usage.items() if amount}
        self.priority = priority
        self.positions = array("q")


@final
class AllocationGroup:
    """Allocations of one queue with equal priority and state, whose usages may differ."""

    __slots__ = ("host", "is_of_requester", "is_terminating", "node", "positions", "preemptible", "priority")

    node: QueueNode
    #: Whether they belong to the application of the request.
    is_of_requester: bool
    priority: int
    preemptible: bool
    is_terminating: bool
    #: The candidate node that they run on; None for any other one.
    host: str | None
    #: As those of a class.
    positions: array[int]

    def __init__(self, node: QueueNode, example: AllocationFacts, host: str | None, *, is_of_requester: bool) -> None:
        self.node = node
        self.is_of_requester = is_of_requester
        self.priority = example.priority
        self.preemptible = example.preemptible
        self.is_terminating = example.is_terminating
        self.host = host
        self.positions = array("q")


@final
class QueueUsageTree:
    """All queues with their usage, and all groups of allocations.

    Args:
        world: the queues and allocations.
        application_id: the application of the request, whose allocations form groups of their own.
    """

    __slots__ = ("groups", "groups_on", "names", "nodes", "room", "usages", "world")

    #: By path, parents before children.
    nodes: dict[str, QueueNode]
    groups: list[AllocationGroup]
    #: The groups of each candidate node.
    groups_on: dict[str | None, list[AllocationGroup]]
    #: By candidate node, the free amounts without those of placed requests: now, and once terminating allocations are
    #: released.
    room: dict[str, tuple[dict[str, int], dict[str, int]]]
    #: The ids of the allocations, in the order of the ledger.
    names: list[str]
    #: The usages of the allocations in the same order; they may have zeros.
    usages: list[Amounts]

    def __init__(self, world: World, application_id: str | None = None) -> None:
        self.world: Final = world
        self.nodes = _nodes(world.queues)
        self.names, self.usages = [], []
        self.room = {name: (dict(free.amounts), dict(free.amounts)) for name, free in (world.nodes or {}).items()}
        self.groups = self._grouped(application_id)
        self.groups_on = {}
        for group in self.groups:
            self._count(group)
            self.groups_on.setdefault(group.host, []).append(group)
        for placed in world.placed:
            _add(self.nodes[placed.queue_path].kept, placed.usage.amounts)
            for room in self.room.get(placed.node or "", ()):
                _add(room, placed.usage.amounts, -1)
        for node in reversed(self.nodes.values()):
            if node.parent is not None:
                _add(node.parent.kept, node.kept)
                _add(node.parent.terminating, node.terminating)

    def _grouped(self, application_id: str | None) -> list[AllocationGroup]:
        """Return the groups of allocations, and note the ids and usages."""
        groups: dict[tuple[object, ...], AllocationGroup] = {}
        hosts = self.room
        add_name, add_usage = self.names.append, self.usages.append
        for position, facts in enumerate(self.world.allocations):
            name, application, path, usage, priority, preemptible, is_terminating, host = facts
            host = host if hosts and host in hosts else None
            add_name(name)
            add_usage(usage.amounts)
            is_of_requester = application == application_id
            key = path, is_of_requester, priority, preemptible, is_terminating, host
            found = groups.get(key)
            if found is None:
                found = groups[key] = AllocationGroup(self.nodes[path], facts, host, is_of_requester=is_of_requester)
            found.positions.append(position)
        return list(groups.values())

    def _count(self, group: AllocationGroup) -> None:
        """Add the usages of a group to its queue."""
        total = group.node.terminating if group.is_terminating else group.node.kept
        usages = self.usages
        for position in group.positions:
            for name, amount in usages[position].items():
                total[name] = total.get(name, 0) + amount
        if group.is_terminating and group.host is not None:
            for position in group.positions:
                _add(self.room[group.host][1], usages[position])

    def lacking_on(self, host: str, requested: Amounts, *, now: bool = False) -> dict[str, int]:
        """Return the requested amounts that a node lacks now, or once the terminating allocations are released."""
        free = self.room[host][0 if now else 1]
        lacking = ((name, amount - free.get(name, 0)) for name, amount in requested.items())
        return {name: amount for name, amount in lacking if amount > 0}

    def classes(self, group: AllocationGroup, positions: Iterable[int]) -> Iterable[AllocationClass]:
        """Return some allocations of a group by usage; the positions are in ascending order."""
        classes: dict[tuple[tuple[str, int], ...], AllocationClass] = {}
        usages = self.usages
        for position in positions:
            usage = usages[position]
            key = tuple(usage.items())
            found = classes.get(key)
            if found is None:
                found = classes[key] = AllocationClass(group.node, usage, group.priority)
            found.positions.append(position)
        return classes.values()

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


def _add(total: dict[str, int], amounts: Amounts, sign: int = 1) -> None:
    for name, amount in amounts.items():
        total[name] = total.get(name, 0) + sign * amount
