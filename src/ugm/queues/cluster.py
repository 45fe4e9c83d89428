"""The nodes of a cluster and the sum of their resources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, final

from ugm.errors import RequestError
from ugm.resources import Resource

__all__ = ["Cluster"]

#: The number of zero amounts that the sum always keeps.
_KEPT_ZEROS: Final = 16


@final
@dataclass(slots=True, eq=False)
class Cluster:
    """The nodes of a cluster by name, with the resources of each node.

    The sum is None until the first node is registered, so that a program without nodes has no limit at the root. From
    then on the sum is the limit, even after the last node is removed.

    A resource that only removed nodes offered stays in the sum with the amount 0. If more than half of the amounts are
    0, the zeros are dropped: otherwise the sum would grow without bound in a cluster in which every device has its own
    resource name. Dropping them changes no decision, because a closed limit allows nothing of a resource that it does
    not name.
    """

    nodes: dict[str, Resource] = field(default_factory=dict)
    #: Invariant: the sum over all nodes, and names with a 0.
    total: Resource | None = None

    def add(self, name: str, offers: Resource) -> None:
        """Register a node; do nothing if it is already registered with the same resources.

        Raises:
            RequestError: the node is registered with other resources.
        """
        if name not in self.nodes:
            self._set(name, offers)
        elif self.nodes[name] != offers:
            raise RequestError("node", name, "a node of that name is registered with other resources", "id-in-use")

    def update(self, name: str, offers: Resource) -> None:
        """Change the resources of a registered node.

        Raises:
            RequestError: the node is not registered.
        """
        if name not in self.nodes:
            raise RequestError("node", name, "there is no such node", "node-unknown")
        self._set(name, offers)

    def remove(self, name: str) -> bool:
        """Remove a node; return whether it was registered."""
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
        if sum(1 for amount in total.values() if not amount) > max(_KEPT_ZEROS, len(total) // 2):
            # Keep the resources of this change: a sum without names would mean no limit.
            total = {name: amount for name, amount in total.items() if amount or name in before or name in offers}
        self.total = Resource(total)

    def restore(self, name: str, offers: Resource | None, total: Resource | None) -> None:
        """Undo a change of one node."""
        if offers is None:
            self.nodes.pop(name, None)
        else:
            self.nodes[name] = offers
        self.total = total
