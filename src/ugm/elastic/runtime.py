"""The runtime of a group: the nodes of the tree of elastic groups, one for each resource of a group.

The resource nodes of one resource form a tree of their own, which does not depend on other resources. A resource node
stores the request and usage of its pods even if the maximum of the group does not name the resource, but counts them
only if it does.

A request is passed to the parent only up to the group's maximum. A group that does not lend its minimum requests at
least its minimum. Usage is passed to the parent without a limit. The runtime is computed when it is read, from the root
down.

*Many reads between changes.* A scheduler reads the runtime of a group before every pod, while other groups change their
requests all the time. `ChildShares` keeps sums over the children: minimums, floors, and the needs of the hungry
children. If nothing is left, or enough for all the needs, these sums determine the share of a child. A child whose part
of the first round is enough needs no other rounds. Otherwise all rounds are computed for all hungry children at once
(`divide_in_rounds`), and what they leave unsatisfied is kept until it can have changed. If a child that stays
unsatisfied requests more or less, the shares of the others do not change. Every read returns the same as `share` for
the current requests.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import InitVar, dataclass, field
from itertools import pairwise
from math import gcd
from operator import attrgetter, sub
from typing import Final, NamedTuple, final

from ugm.elastic.group import ElasticGroup
from ugm.elastic.sharing import Sharer, divide, divide_in_rounds, is_short, scaled_min, shares_of
from ugm.resources import Resource

__all__ = ["UNLIMITED", "UNLIMITED_TERMS", "ChildShares", "GroupNode", "ResourceNode", "ResourceTerms"]

#: The maximum of a resource that is not limited: above any realistic request.
UNLIMITED: Final = 1 << 128


class ResourceTerms(NamedTuple):
    """The configuration of a group for one resource."""

    #: Whether the maximum names the resource. Only then is it counted, and shared among the child groups.
    is_counted: bool
    min: int
    #: `UNLIMITED` if it is not limited.
    max: int
    weight: int
    lends: bool


#: For groups without a configuration: the root, and built-in groups that nobody has configured.
UNLIMITED_TERMS: Final = ResourceTerms(is_counted=True, min=0, max=UNLIMITED, weight=0, lends=True)


_requested: Final = attrgetter("limited_request")
_minimum: Final = attrgetter("min")


@final
@dataclass(slots=True, eq=False, repr=False)
class ChildShares:
    """The children of one group that share one resource.

    Args:
        scales: whether minimums are scaled in a shortage.
    """

    scales: bool = True
    _children: dict[str, ResourceNode] = field(default_factory=dict, init=False)
    #: The sum of the configured minimums.
    mins: int = field(default=0, init=False)
    #: The sum of the shares before the rounds, if minimums are not scaled.
    floors: int = field(default=0, init=False)
    #: The sum of the needs of the hungry children with a weight, beyond the floors.
    _needs: int = field(default=0, init=False)
    #: The sum of their weights.
    _weights: int = field(default=0, init=False)
    #: The hungry children in order of names, and their weights; None if out of date.
    _hungry: tuple[list[ResourceNode], list[int]] | None = field(default=None, init=False)
    #: The amount that the last first round divided among them, and their parts. It does not depend on their requests.
    _first_round: tuple[int, list[int]] = field(default=(-1, []), init=False)
    #: The amount that the last computation divided, and the needs that it left; negative if it is out of date.
    _divided: int = field(default=-1, init=False)
    _unmet: dict[ResourceNode, int] = field(default_factory=dict, init=False)
    #: The available amount when minimums were last scaled, and all shares; None if out of date.
    _shortage: tuple[int, dict[str, int]] | None = field(default=None, init=False)

    def __len__(self) -> int:
        return len(self._children)

    # Changes

    def add(self, child: ResourceNode) -> None:
        """Add a child with a new name."""
        self._children[child.name] = child
        self.mins += child.min
        self._count(child, 1)

    def remove(self, child: ResourceNode) -> None:
        """Remove a child."""
        del self._children[child.name]
        self.mins -= child.min
        self._count(child, -1)

    def set_request(self, child: ResourceNode, limited_request: int) -> None:
        """Change the request of a child, in constant time."""
        more = limited_request - child.limited_request
        left = self._unmet.get(child, 0) + more
        if child.weight > 0 and child.limited_request > child.min and limited_request > child.min:
            self._needs += more
            self._shortage = None
            if more < left > 0:
                self._unmet[child] = left
            else:
                self._divided = -1
            child.limited_request = limited_request
            return
        self._count(child, -1)
        child.limited_request = limited_request
        self._count(child, 1)

    def _count(self, child: ResourceNode, sign: int) -> None:
        """Add a child to the sums that depend on its request, or subtract it."""
        request, minimum = child.limited_request, child.min
        self.floors += sign * (request if request < minimum and child.lends else minimum)
        if request > minimum and child.weight > 0:
            self._needs += sign * (request - minimum)
            self._weights += sign * child.weight
            self._hungry, self._first_round, self._divided = None, (-1, []), -1
            self._unmet.pop(child, None)
        self._shortage = None

    # Reads

    def least_share(self, child: ResourceNode, available: int) -> int:
        """Return a lower bound of the share of a child, for *available* or more, in constant time.

        It is the share before the rounds and the part of the first round.
        """
        request, minimum = child.limited_request, child.min
        if self._is_short(available):
            minimum = scaled_min(available, minimum, self.mins)
        elif request > minimum and child.weight > 0 and (left := available - self.floors) > 0:
            return request if left >= self._needs else min(request, minimum + left * child.weight // self._weights)
        return request if request < minimum and child.lends else minimum

    def share(self, child: ResourceNode, available: int) -> int:
        """Return the share of a child.

        Takes constant time if the sums decide, and otherwise a pass over the hungry children for each round.
        """
        if self._is_short(available):
            return self._shares_in_shortage(available)[child.name]
        request, minimum = child.limited_request, child.min
        if request <= minimum:
            return request if child.lends else minimum
        left = available - self.floors
        if left <= 0 or child.weight <= 0:
            return minimum
        # If the part of the first round is enough, no other rounds are needed.
        if left >= self._needs or left * child.weight // self._weights >= request - minimum:
            return request
        if left != self._divided:
            self._divide(left)
        return request - self._unmet.get(child, 0)

    def _is_short(self, available: int) -> bool:
        return self.scales and is_short(available, self.mins, self.floors + self._needs)

    def _divide(self, left: int) -> None:
        if self._hungry is None:
            ordered = [child for _, child in sorted(self._children.items())]
            hungry = [child for child in ordered if child.limited_request > child.min and child.weight > 0]
            # Smaller integers take less time, and the proportions are the same.
            divisor = gcd(*[child.weight for child in hungry])
            self._hungry = hungry, [child.weight // divisor for child in hungry]
        children, weights = self._hungry
        if self._first_round[0] != left:
            self._first_round = left, divide(left, weights)
        needs = list(map(sub, map(_requested, children), map(_minimum, children)))
        self._unmet, self._divided = divide_in_rounds(self._first_round[1], children, weights, needs), left

    def _shares_in_shortage(self, available: int) -> dict[str, int]:
        if self._shortage is None or self._shortage[0] != available:
            self._shortage = available, shares_of(available, self.sharers()).runtime
        return self._shortage[1]

    def scaled_min(self, child: ResourceNode, available: int) -> int:
        """Return the minimum of a child, scaled if the sum of the minimums exceeds the available amount.

        The scaled minimum is in force only if the requests exceed the available amount as well.
        """
        if self.scales and 0 < self.mins > available:
            return scaled_min(available, child.min, self.mins)
        return child.min

    def min_in_force(self, child: ResourceNode, available: int) -> int:
        """Return the minimum of a child, scaled only if the requests exceed the available amount as well.

        A child without weight may use more of its minimum than its scaled part, if others leave it.
        """
        if not self._is_short(available):
            return child.min
        least = scaled_min(available, child.min, self.mins)
        if child.weight > 0:
            return least
        floor = min(child.limited_request, least) if child.lends else least
        return least + self._shares_in_shortage(available)[child.name] - floor

    def sharers(self) -> list[Sharer]:
        """Return the children as arguments of `ugm.elastic.sharing.shares_of`."""
        children = self._children.values()
        return [Sharer(one.name, one.limited_request, one.min, one.weight, one.lends) for one in children]


@final
@dataclass(slots=True, eq=False, repr=False)
class ResourceNode:
    """One resource of one group: its request, its usage and its runtime.

    A node is created without a parent and then attached.
    """

    #: The name of the group.
    name: str
    terms: InitVar[ResourceTerms]
    #: Whether the node competes with its siblings. The root and the built-in groups do not.
    competes: bool
    #: The children that compete.
    shares: ChildShares
    #: The same resource of the parent group; None for the root.
    parent: ResourceNode | None = None
    #: Requests and usage of the pods directly in the group, counted or not.
    own_request: int = 0
    own_non_preemptible_request: int = 0
    own_used: int = 0
    own_non_preemptible_used: int = 0
    #: The requests of the pods in the group, plus the limited requests of its child groups.
    child_request: int = 0
    #: The request up to the maximum. This is the request to the parent.
    limited_request: int = 0
    #: The usage of the pods in and below the group.
    used: int = 0
    non_preemptible_request: int = 0
    non_preemptible_used: int = 0
    is_counted: bool = field(init=False)
    min: int = field(init=False)
    #: Of the root: the amount that the built-in groups leave to all others.
    max: int = field(init=False)
    weight: int = field(init=False)
    lends: bool = field(init=False)

    def __post_init__(self, terms: ResourceTerms) -> None:
        self._adopt(terms)

    def _adopt(self, terms: ResourceTerms) -> None:
        self.is_counted, self.min, self.max, self.weight, self.lends = terms
        self.limited_request = min(self.request, self.max)

    # The place in the tree

    def attach(self, parent: ResourceNode) -> None:
        """Add the node to a parent, with all requests and usage in and below it."""
        self.parent = parent
        if self.competes:
            parent.shares.add(self)
        parent.pass_request_up(self.limited_request)
        if self._is_used:
            parent.pass_usage_up(self.non_preemptible_request, self.used, self.non_preemptible_used)

    def detach(self) -> None:
        """Undo `attach`."""
        parent = self.parent
        if parent is None:
            return
        if self.competes:
            parent.shares.remove(self)
        self.parent = None
        parent.pass_request_up(-self.limited_request)
        if self._is_used:
            parent.pass_usage_up(-self.non_preemptible_request, -self.used, -self.non_preemptible_used)

    @property
    def _is_used(self) -> bool:
        return bool(self.used or self.non_preemptible_request or self.non_preemptible_used)

    def set_terms(self, terms: ResourceTerms) -> None:
        """Replace the configuration."""
        parent = self.parent
        self.detach()
        self._count_own(-1)
        self.is_counted = terms.is_counted
        self._count_own(1)
        self._adopt(terms)
        if parent is not None:
            self.attach(parent)

    def _count_own(self, sign: int) -> None:
        if self.is_counted:
            self.child_request += sign * self.own_request
            self.non_preemptible_request += sign * self.own_non_preemptible_request
            self.used += sign * self.own_used
            self.non_preemptible_used += sign * self.own_non_preemptible_used

    # Requests and usage

    @property
    def request(self) -> int:
        """The requests in and below the group, but at least the minimum if the group does not lend it."""
        return self.child_request if self.lends else max(self.child_request, self.min)

    def change_request(self, delta: int, non_preemptible: int = 0) -> None:
        """Count a change of the requests of pods directly in the group; *non_preemptible* is a part of *delta*."""
        self.own_request += delta
        self.own_non_preemptible_request += non_preemptible
        if self.is_counted:
            self.pass_request_up(delta)
            if non_preemptible:
                self.pass_usage_up(non_preemptible, 0, 0)

    def change_used(self, delta: int, non_preemptible: int = 0) -> None:
        """Count a change of the usage of pods directly in the group; *non_preemptible* is a part of *delta*."""
        self.own_used += delta
        self.own_non_preemptible_used += non_preemptible
        if self.is_counted:
            self.pass_usage_up(0, delta, non_preemptible)

    def pass_request_up(self, delta: int) -> None:
        """Count a change of the requests here and above, until a maximum or minimum absorbs it."""
        node = self
        while delta:
            child_request = node.child_request = node.child_request + delta
            parent = node.parent
            if parent is None:
                return
            limited_request = child_request if node.lends or child_request > node.min else node.min
            if limited_request > node.max:  # noqa: PLR1730 - a call of `min` takes longer
                limited_request = node.max
            delta = limited_request - node.limited_request
            if delta:
                if node.competes:
                    parent.shares.set_request(node, limited_request)
                else:
                    node.limited_request = limited_request
                node = parent

    def pass_usage_up(self, non_preemptible_request: int, used: int, non_preemptible_used: int) -> None:
        """Count a change of the usage, and of the non-preemptible amounts, here and in all groups above."""
        node: ResourceNode | None = self
        while node is not None:
            node.non_preemptible_request += non_preemptible_request
            node.used += used
            node.non_preemptible_used += non_preemptible_used
            node = node.parent

    # Reads

    @property
    def is_limited(self) -> bool:
        """True if the usage of the resource is limited."""
        return self.is_counted and self.max < UNLIMITED

    @property
    def is_shared(self) -> bool:
        """True if the group has a runtime of the resource: its maximum and that of its parent name it."""
        return self.is_limited and (self.parent is None or self.parent.is_counted)

    def runtime(self) -> int:
        """Return the runtime now.

        That of the root is what the built-in groups leave. A group whose parent does not share the resource gets its
        maximum, and so does a built-in group.
        """
        node, path = self, []
        while node.competes and node.parent is not None and node.parent.is_counted:
            path.append(node)
            node = node.parent
        path.append(node)
        least = exact = node.max
        for above, below in pairwise(reversed(path)):
            least = above.shares.least_share(below, least)
        if least == self.limited_request and (least >= self.min or self.lends):
            return least
        for above, below in pairwise(reversed(path)):
            exact = above.shares.share(below, exact)
        return exact

    def scaled_min(self) -> int:
        """Return the minimum, scaled if the minimums of all siblings exceed the available amount."""
        parent = self.parent
        if parent is None or not self.competes:
            return self.min
        return parent.shares.scaled_min(self, parent.runtime())

    def borrowed(self) -> int:
        """Return the part of the runtime beyond the minimum in force; negative if others may use a part of it.

        A group that does not compete borrows and lends nothing.
        """
        parent = self.parent
        if parent is None or not self.competes or not self.is_shared:
            return 0
        return self.runtime() - parent.shares.min_in_force(self, parent.runtime())


@final
@dataclass(slots=True, eq=False, repr=False)
class GroupNode:
    """One group in the tree, with its child groups and its resources."""

    name: str
    #: None for a built-in group that is not configured.
    group: ElasticGroup | None
    #: None for the root.
    parent: GroupNode | None
    #: By name, in the order in which they were added.
    children: dict[str, GroupNode] = field(default_factory=dict)
    #: The position in the order in which groups were added to their parents.
    arrival: int = 0
    #: The nodes of all resources that the group names, or that a pod or group below requests.
    resources: dict[str, ResourceNode] = field(default_factory=dict)

    def terms(self, resource: str) -> ResourceTerms:
        """Return the configuration for a resource."""
        group = self.group
        if group is None or self.parent is None:
            return UNLIMITED_TERMS
        maximum = group.max.amounts.get(resource)
        return ResourceTerms(
            maximum is not None,
            group.min.amounts.get(resource, 0),
            UNLIMITED if maximum is None else maximum,
            group.weight.amounts.get(resource, 0),
            group.allow_lent,
        )

    def amounts(self, field: str) -> Resource:
        """Return a field of the nodes of all resources, without zeros."""
        return Resource({name: amount for name, node in self.resources.items() if (amount := getattr(node, field))})

    def walk(self) -> Iterator[GroupNode]:
        """Yield the group and all groups below it, parents before children."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack += reversed(node.children.values())

    def path(self) -> Iterator[GroupNode]:
        """Yield the group and all groups above it, the root last."""
        node: GroupNode | None = self
        while node is not None:
            yield node
            node = node.parent

    @property
    def depth(self) -> int:
        """The number of groups from the root to this one, both included."""
        return len(list(self.path()))

    def is_below(self, name: str) -> bool:
        """Return whether this is the group of that name, or below it."""
        return any(node.name == name for node in self.path())
