"""A quota tree without optimizations: lists, sums that are recomputed each time, and copies for undo.

It shares no code with `ugm.quotatree`; tests compare the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class PlainConsumer(NamedTuple):
    """A consumer with its request."""

    id: str
    group: str
    request: Mapping[str, int]
    priority: int = 0
    type: int = 0
    unpreemptable: bool = False


class ReferenceTree:
    """One tree.

    Args:
        document: a tree document, well formed, with one root and nothing dangling.
    """

    def __init__(self, document: Mapping[str, Any]) -> None:
        nodes = document["spec"]["nodes"]
        self.parents = {name: None if n["parent"] == "nil" else n["parent"] for name, n in nodes.items()}
        self.quotas = {name: {r: int(q) for r, q in n["quota"].items()} for name, n in nodes.items()}
        self.hard = {name for name, n in nodes.items() if n["hard"] == "true"}
        #: The consumers of each node, in order.
        self.held: dict[str, list[PlainConsumer]] = {name: [] for name in nodes}
        #: The sequence number of the arrival of each consumer at its node.
        self.arrived: dict[str, int] = {}
        self.arrivals = 0

    # The tree

    def path(self, node: str | None) -> list[str]:
        """Return a node and everything above it."""
        return [] if node is None else [node, *self.path(self.parents[node])]

    def is_leaf(self, node: str) -> bool:
        """Return whether a name is that of a leaf."""
        return node in self.parents and node not in self.parents.values()

    def home(self, consumer_id: str) -> str | None:
        """Return the node that holds a consumer."""
        return next((node for node, held in self.held.items() if any(c.id == consumer_id for c in held)), None)

    def allocated(self, node: str, name: str) -> int:
        """Return the amount that is held at a node and below."""
        return sum(c.request.get(name, 0) for at, held in self.held.items() if node in self.path(at) for c in held)

    def fits(self, newcomer: PlainConsumer, node: str, leaving: list[PlainConsumer]) -> bool:
        """Return whether a request fits a node without some of the consumers charged to it."""
        return all(
            amount
            <= self.quotas[node].get(name, 0) - self.allocated(node, name) + sum(c.request[name] for c in leaving)
            for name, amount in newcomer.request.items()
            if amount
        )

    # Requests

    def allocate(self, newcomer: PlainConsumer) -> list[str] | None:
        """Return the preempted consumers; None if the request is rejected, which changes nothing."""
        before = self._copy()
        preempted = self._place(newcomer, []) if self.is_leaf(newcomer.group) else None
        if preempted is None:
            self.held, self.arrived = before
            return None
        return [victim.id for victim in preempted]

    def _copy(self) -> tuple[dict[str, list[PlainConsumer]], dict[str, int]]:
        return {node: list(held) for node, held in self.held.items()}, dict(self.arrived)

    def _put(self, consumer: PlainConsumer, node: str) -> None:
        self.arrivals += 1
        self.arrived[consumer.id] = self.arrivals
        self.held[node].append(consumer)

    def _place(self, newcomer: PlainConsumer, victims: list[PlainConsumer]) -> list[PlainConsumer] | None:
        hit_hard, home, before = False, "", self._copy()
        moved: list[PlainConsumer] = []
        for node in self.path(newcomer.group):
            attempted = node
            hit_hard = hit_hard or node in self.hard
            fits = self._make_room(newcomer, node, moved, any_priority=bool(home))
            if fits and not home:
                home = node
            elif not fits and home:
                self.held, self.arrived = before
                self._requeue(moved)
                home, before, moved = "", self._copy(), []
                if hit_hard:
                    break
            elif not fits and node in self.hard:
                break
        if home:
            self._put(newcomer, home)
            return victims + [consumer for consumer in moved if self.home(consumer.id) is None]
        return self._preempt(newcomer, victims, attempted)

    def _make_room(self, newcomer: PlainConsumer, node: str, moved: list[PlainConsumer], *, any_priority: bool) -> bool:
        """Slide consumers up until the request fits a node."""
        leaving: list[PlainConsumer] = []
        waiting = [c for c in self.held[node] if self._gives_way(c, newcomer, node, any_priority=any_priority)]
        parent = self.parents[node]
        while not self.fits(newcomer, node, leaving):
            if not waiting or (node in self.hard and parent):
                return False
            leaving.append(waiting.pop(0))
        for consumer in leaving:
            self.held[node].remove(consumer)
            if parent:
                self._put(consumer, parent)
            moved[:] = [*(c for c in moved if c != consumer), consumer]
        return True

    def _requeue(self, consumers: list[PlainConsumer]) -> None:
        for consumer in consumers:
            node = self.home(consumer.id) or ""
            self.held[node].remove(consumer)
            self._put(consumer, node)

    def _gives_way(self, consumer: PlainConsumer, newcomer: PlainConsumer, node: str, *, any_priority: bool) -> bool:
        if not (any_priority or newcomer.priority > consumer.priority):
            return False
        return self.parents[node] is not None or self._may_preempt(newcomer, consumer)

    def _may_preempt(self, newcomer: PlainConsumer, consumer: PlainConsumer) -> bool:
        return consumer.type == newcomer.type and not consumer.unpreemptable

    def _preempt(
        self, newcomer: PlainConsumer, victims: list[PlainConsumer], attempted: str
    ) -> list[PlainConsumer] | None:
        if newcomer.priority <= 0:
            return None
        path = self.path(newcomer.group)
        taken = list(victims)
        for node in path[path.index(attempted) :: -1]:
            for consumer in list(self.held[node]):
                if newcomer.priority > consumer.priority and self._may_preempt(newcomer, consumer):
                    self.held[node].remove(consumer)
                    taken.append(consumer)
                    if self.fits(newcomer, attempted, []):
                        return self._place(newcomer, taken)
        return None

    def deallocate(self, consumer_id: str) -> bool:
        """Release a consumer, and move others down one level on its path."""
        node = self.home(consumer_id)
        if node is None:
            return False
        self.held[node] = [c for c in self.held[node] if c.id != consumer_id]
        for below in self.path(node):
            above = self.parents[below]
            for consumer in list(self.held[above]) if above else ():
                if (
                    self.is_leaf(consumer.group)
                    and below in self.path(consumer.group)
                    and self.fits(consumer, below, [])
                ):
                    self.held[above or ""].remove(consumer)
                    self._put(consumer, below)
        return True

    # Edits

    def update(self, document: Mapping[str, Any], renamed: Mapping[str, str]) -> None:
        """Apply another document, in which some nodes have another name."""
        everybody = [(consumer, node) for node, held in self.held.items() for consumer in held]
        everybody.sort(key=lambda place: self.arrived[place[0].id])
        new = ReferenceTree(document)
        self.parents, self.quotas, self.hard, self.held = new.parents, new.quotas, new.hard, new.held
        root = next(name for name, parent in self.parents.items() if parent is None)
        for consumer, node in everybody:
            moved = consumer._replace(group=renamed.get(consumer.group, consumer.group))
            home = renamed.get(node, node)
            if moved.group not in self.parents:
                home = root
            elif not (self.is_leaf(moved.group) and home in self.path(moved.group)):
                home = moved.group
            self._put(moved, home)
