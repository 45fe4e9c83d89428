"""The nodes of a cluster, and what they add up to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, final

from ugm.errors import RequestError
from ugm.resources import Resource

__all__ = ["Cluster"]

#: Number of names with a 0 that are always kept in the sum.
_FEW: Final = 16


@final
class Cluster:
    """Nodes by name, with what each of them offers.

    The sum is None until a first node is registered: a program that knows no nodes has no limit at the root. From then
    on the sum holds, also when the last node has gone.

    A resource that only removed nodes have offered is named with a 0. If such names are the larger part of the sum,
    they are dropped: otherwise a cluster whose devices have names of their own would grow without end. Dropping them
    changes no answer, because a closed limit allows nothing of a resource that it does not name.
    """

    __slots__ = ("nodes", "total")

    nodes: dict[str, Resource]
    #: Invariant: the sum over all nodes, and names with a 0.
    total: Resource | None

    def __init__(self) -> None:
        self.nodes = {}
        self.total = None

    def add(self, name: str, offers: Resource) -> None:
        """Register a node; one that is registered with the same resources stays as it is.

        Raises:
            RequestError: a node of that name is registered with other resources.
        """
        if name not in self.nodes:
            self._set(name, offers)
        elif self.nodes[name] != offers:
            raise RequestError("node", name, "a node of that name is registered with other resources")

    def update(self, name: str, offers: Resource) -> None:
        """Change what a registered node offers.

        Raises:
            RequestError: there is no such node.
        """
        if name not in self.nodes:
            raise RequestError("node", name, "there is no such node")
        self._set(name, offers)

    def remove(self, name: str) -> bool:
        """Remove a node, and say whether there was one."""
        if name not in self.nodes:
            return False
        self._set(name, Resource())
        del self.nodes[name]
        return True

    def _set(self, name: str, offers: Resource) -> None:
        before: Mapping[str, int] = self.nodes.get(name, Resource())
        total = dict(self.total or {})
        for resource in {**before, **offers}:
            total[resource] = total.get(resource, 0) + offers.get(resource, 0) - before.get(resource, 0)
        self.nodes[name] = offers
        if sum(1 for amount in total.values() if not amount) > max(_FEW, len(total) // 2):
            # The resources of this change stay: a sum without names would look like no limit.
            total = {name: amount for name, amount in total.items() if amount or name in before or name in offers}
        self.total = Resource(total)

    def restore(self, name: str, offers: Resource | None, total: Resource | None) -> None:
        """Undo a change of one node."""
        if offers is None:
            self.nodes.pop(name, None)
        else:
            self.nodes[name] = offers
        self.total = total
