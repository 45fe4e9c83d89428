"""Explain how a runtime is computed, and which groups use more than their minimum while a pod is denied.

`explain` repeats the sharing among the siblings of a group (`ugm.elastic.sharing`) and keeps its steps. `shortage`
compares the usage of other groups with their minimums. Neither needs data beyond those of the tree.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import NamedTuple

from ugm._json_values import JsonObject
from ugm.arguments import require_instance, require_name
from ugm.decision import Violation
from ugm.elastic.admission import GROUP, MINIMUM
from ugm.elastic.nodes import UNLIMITED, ResourceNode
from ugm.elastic.sharing import SharingResult, SharingRound, shares_of
from ugm.elastic.tree import ElasticTree
from ugm.errors import RequestError, fields_text
from ugm.resources import format_amount

__all__ = ["GroupShare", "RuntimeCap", "RuntimeExplanation", "Shortage", "explain", "shortage"]


class RuntimeCap(StrEnum):
    """The reason why a group does not get a larger runtime."""

    REQUEST = "its request"
    MAX = "its maximum"
    WEIGHT = "its minimum, because it has no weight"
    OTHERS = "the shares of the other groups"
    NOT_LENT = "its minimum, which it does not lend"


@dataclass(frozen=True, slots=True, repr=False)
class GroupShare:
    """The share of one group in one resource, with its configuration."""

    group: str
    #: The configured minimum.
    min: int
    #: The minimum in force. It is scaled down if the minimums and the requests both exceed the available amount.
    min_in_force: int
    #: None if the resource is not limited.
    max: int | None
    weight: int
    request: int
    #: The amount that the group gets.
    runtime: int
    used: int
    cap: RuntimeCap

    def __repr__(self) -> str:
        return fields_text(self, {name: getattr(self, name) for name in self.__slots__})

    @property
    def lent(self) -> int:
        """The part of its minimum that other groups may use."""
        return max(self.min_in_force - self.runtime, 0)

    @property
    def borrowed(self) -> int:
        """The amount that the group gets beyond its minimum."""
        return max(self.runtime - self.min_in_force, 0)


@dataclass(frozen=True, slots=True, repr=False)
class RuntimeExplanation:
    """The computation of the runtime of one group in one resource."""

    group: str
    resource: str
    #: The parent group, which shares the resource.
    parent: str
    #: The amount to share.
    available: int
    #: The shares of all child groups of the parent, sorted by name.
    shares: tuple[GroupShare, ...]
    rounds: tuple[SharingRound, ...]

    def __repr__(self) -> str:
        return fields_text(self, {name: getattr(self, name) for name in self.__slots__})

    @property
    def share(self) -> GroupShare:
        """The share of the group itself."""
        return next(share for share in self.shares if share.group == self.group)

    @property
    def lenders(self) -> tuple[GroupShare, ...]:
        """The shares of the siblings that lend a part of their minimum."""
        return tuple(share for share in self.shares if share.lent and share.group != self.group)

    @property
    def unused(self) -> int:
        """The amount that no group gets. Negative if unscaled minimums exceed the available amount."""
        return self.available - sum(share.runtime for share in self.shares)

    def to_dict(self) -> JsonObject:
        """Return the explanation for JSON."""
        shares = [{**asdict(share), "cap": str(share.cap)} for share in self.shares]
        return {**asdict(self), "shares": shares, "rounds": [each._asdict() for each in self.rounds]}

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        def amount(number: int) -> str:
            return format_amount(self.resource, number)

        own = self.share
        limit = "unlimited" if own.max is None else amount(own.max)
        yield f"elastic group {self.group!r} gets {amount(own.runtime)} {self.resource}"
        yield f"  requests {amount(own.request)}; min {amount(own.min)}, max {limit}, weight {own.weight}"
        if own.min_in_force < own.min:
            yield f"  min scaled down to {amount(own.min_in_force)}, because the minimums exceed the available amount"
        yield f"  {self.parent!r} shares {amount(self.available)}"
        for lender in self.lenders:
            yield f"  {lender.group!r} lends {amount(lender.lent)}"
        for number, each in enumerate(self.rounds, 1):
            if self.group in each.given:
                given = amount(each.given[self.group])
                yield f"  round {number} divides {amount(each.left)} by a total weight of {each.weight}: gets {given}"
        if own.borrowed:
            yield f"  borrows {amount(own.borrowed)}"
        yield f"  limited by {own.cap}"


class Shortage(NamedTuple):
    """The amount that a denied pod lacks, and the groups that use more than their minimum."""

    #: The group that denies the pod.
    group: str
    resource: str
    missing: int
    #: The siblings of the group and of its ancestors that use more than their minimum, with the excess; largest first.
    borrowers: tuple[tuple[str, int], ...]

    def __repr__(self) -> str:
        return fields_text(self, self._asdict())

    def __str__(self) -> str:
        missing = f"elastic group {self.group!r}: {format_amount(self.resource, self.missing)} {self.resource} missing"
        borrowed = [f"{name!r} borrows {format_amount(self.resource, amount)}" for name, amount in self.borrowers]
        return "; ".join([missing, *borrowed])


def explain(tree: ElasticTree, group: str, resource: str) -> RuntimeExplanation:
    """Return how the runtime of a group is computed.

    Costs the computation of the parent's runtime, and one sharing among the children of the parent.

    Raises:
        GroupError: the group is unknown.
        RequestError: the group has no runtime of the resource: its maximum does not name it, it is the root or built
            in, or its parent does not share the resource. Or an argument has the wrong type.
    """
    require_instance("tree", tree, ElasticTree)
    require_name("resource", resource)
    node = tree.node(group).resources.get(resource)
    if node is None or node.parent is None or not (node.is_shared and node.competes):
        raise RequestError("resource", resource, f"it is not shared with {group!r}")
    parent = node.parent
    result = shares_of(parent.runtime(), parent.shares.sharers(), scale=tree.scale_min)
    shares = tuple(_group_share(tree.node(name).resources[resource], result) for name in result.runtime)
    return RuntimeExplanation(group, resource, parent.name, result.available, shares, result.rounds)


def _group_share(node: ResourceNode, result: SharingResult) -> GroupShare:
    runtime = result.runtime[node.name]
    return GroupShare(
        group=node.name,
        min=node.min,
        min_in_force=result.min[node.name],
        max=None if node.max >= UNLIMITED else node.max,
        weight=node.weight,
        request=node.request,
        runtime=runtime,
        used=node.used,
        cap=_cap(node, runtime),
    )


def _cap(node: ResourceNode, runtime: int) -> RuntimeCap:
    if runtime > node.child_request and not node.lends:
        return RuntimeCap.NOT_LENT
    if runtime >= node.request:
        return RuntimeCap.REQUEST
    if runtime >= node.limited_request:
        return RuntimeCap.MAX
    return RuntimeCap.OTHERS if node.weight > 0 else RuntimeCap.WEIGHT


def shortage(tree: ElasticTree, violation: Violation) -> Shortage:
    """Return the amount that a pod lacks because of *violation*, and the groups that borrow.

    If the violated limit is the minimum of the group, there are no borrowers: only the non-preemptible pods of the
    group itself count against that limit.

    Raises:
        GroupError: the group is unknown.
        RequestError: the violation is not one of an elastic group, or *tree* is not an ElasticTree.
    """
    require_instance("tree", tree, ElasticTree)
    if getattr(violation, "kind", None) not in (GROUP, MINIMUM) or violation.resource is None:
        raise RequestError("violation", violation, "expected a violation of an elastic group")
    borrowers: dict[str, int] = {}
    if violation.kind != MINIMUM:
        for group in tree.node(violation.name).path():
            for sibling in group.parent.children.values() if group.parent else ():
                node = sibling.resources.get(violation.resource)
                if node is not None and node.competes and sibling is not group and node.used > node.min:
                    borrowers[sibling.name] = node.used - node.min
    ordered = sorted(borrowers.items(), key=lambda each: (-each[1], each[0]))
    return Shortage(violation.name, violation.resource, violation.shortfall, tuple(ordered))
