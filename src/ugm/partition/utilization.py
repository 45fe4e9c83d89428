"""The utilization of limits: which limit of a user or group is used most, and how much of it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from ugm.errors import value_text
from ugm.hierarchy import Node
from ugm.resources import Resource, as_float
from ugm.tracking import EffectiveLimit
from ugm.tracking.holding import HoldingTree

__all__ = ["LimitUtilization", "utilization_of"]


@dataclass(frozen=True, slots=True, repr=False)
class LimitUtilization:
    """The utilization of the most used limit of a user or group."""

    name: str
    #: The usage in all queues together, without zeros.
    usage: Resource
    running_applications: int
    #: The limit with the largest share in use; None if there is no limit on any queue in use.
    limit: EffectiveLimit | None = None
    #: The resource of that limit; None for the number of applications, or if there is no limit.
    resource: str | None = None
    #: The share of that limit that is in use: 1 is all of it. A limit of 0 counts as fully used.
    share: Fraction = Fraction(0)

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value_text(getattr(self, name))}" for name in self.__slots__)
        return f"LimitUtilization({values})"

    def to_dict(self) -> dict[str, object]:
        """Return the utilization for JSON, with the share as a decimal number."""
        return {
            "name": self.name,
            "usage": dict(self.usage),
            "running_applications": self.running_applications,
            "limit": None if self.limit is None else self.limit.to_dict(),
            "resource": self.resource,
            "share": as_float(self.share),
        }


def utilization_of(tree: HoldingTree) -> LimitUtilization:
    """Return the utilization of a user or group; the caller holds the lock."""
    tree.refresh()
    used, maximum = 0, 1
    nearest: tuple[Node, str | None] | None = None
    for node in tree.nodes.values():
        limit = node.limit
        counts: list[tuple[int, int, str | None]] = [
            (most - node.free(name), most, name) for name, most in limit.resources.amounts.items()
        ]
        if limit.applications:
            counts.append((node.running, limit.applications, None))
        for count, most, resource in counts:
            # A limit of 0 counts as used up. Products are exact, and quicker than fractions.
            part, whole = (count, most) if most else (1 + count, 1)
            if nearest is None or part * maximum > used * whole:
                used, maximum, nearest = part, whole, (node, resource)
    return LimitUtilization(
        tree.name,
        tree.total(),
        len(tree.holdings),
        None if nearest is None else EffectiveLimit.of(nearest[0]),
        None if nearest is None else nearest[1],
        Fraction(used, maximum),
    )
