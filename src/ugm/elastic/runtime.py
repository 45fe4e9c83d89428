"""The runtime of a group: the nodes of the tree of elastic groups, one for each resource of a group.

The resource nodes of one resource form a tree of their own, which does not depend on other resources. A resource node
counts the requests and the usage of its pods only if the maximum of the group names the resource.

A request is passed to the parent only up to the group's maximum. A group that does not lend its minimum requests at
least its minimum. Usage is passed to the parent without a limit. The runtime is computed when it is read, from the root
down.

*Many reads between changes.* A scheduler reads the runtime of a group before every pod, while other groups change their
requests all the time. `ChildShares` keeps sums over the children: minimums, floors, and the needs of the hungry
children. If nothing is left, or enough for all the needs, these sums determine the share of a child. Otherwise a
`FillLevel` gives a lower bound of its share. If the bounds on the path satisfy a group, its runtime is its request.

Otherwise the rounds are computed for all hungry children (`divide_in_rounds`) until the child is satisfied. The parts
of the first round do not depend on requests, so what they leave is kept. What the last round leaves is kept until it
can have changed: if a child that stays unsatisfied requests more or less, the shares of the others do not change. Every
read returns the same as `share` for the current requests.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import InitVar, dataclass, field
from itertools import chain
from math import gcd
from operator import attrgetter, sub
from typing import Final, final

from ugm.configuration.scheduler import ElasticGroup
from ugm.elastic.sharing import Sharer, SharingResult, divide, divide_in_rounds, is_short, scaled_min, shares_of

#: The maximum of a resource that is not limited: above any realistic request.
UNLIMITED: Final = 1 << 128


_name: Final = attrgetter("name")
_requested: Final = attrgetter("limited_request")
_minimum: Final = attrgetter("min")


@final
@dataclass(slots=True, eq=False, repr=False)
class FillLevel:
    """The needs of hungry children, and the level to which an amount fills them.

    If units were divisible, each child would get its need, or its weight times the level if that is less.

    With *n* children there are at most *n* rounds while one of them stays hungry, and a round gives each child less
    than one unit more or less than its proportion. So none gets *n* units less than its weight times the level that the
    rounds reach. This level is at least that of an amount that is smaller by *n* units for each child.
    """

    #: The sum of the needs.
    needs: int = field(default=0, init=False)
    _weights: int = field(default=0, init=False)
    #: The quotient of need and weight, the need, and the weight of each child, sorted.
    _ordered: list[tuple[float, int, int]] = field(default_factory=list, init=False)
    #: How many of the first children the last level satisfied, and their needs and weights.
    _filled: int = field(default=0, init=False)
    _filled_needs: int = field(default=0, init=False)
    _filled_weights: int = field(default=0, init=False)

    def count(self, need: int, weight: int, sign: int) -> None:
        """Add a child if *sign* is 1; remove it if it is -1."""
        child = need / weight, need, weight
        place = bisect_left(self._ordered, child)
        if sign > 0:
            self._ordered.insert(place, child)
        else:
            del self._ordered[place]
        self.needs += sign * need
        self._weights += sign * weight
        if place < self._filled:
            self._filled += sign
            self._filled_needs += sign * need
            self._filled_weights += sign * weight

    def least_part(self, need: int, weight: int, left: int) -> int:
        """Return a lower bound of the part of one of the children, if *left* or more is divided."""
        if left >= self.needs:
            return need
        # The part of the first round.
        least = left * weight // self._weights
        number = len(self._ordered)
        certain = left - number * number
        if least < need and certain > 0:
            rest, weights = self._fill(certain)
            least = max(least, rest * weight // weights - number)
        return min(need, least)

    def _fill(self, amount: int) -> tuple[int, int]:
        """Return what the satisfied children leave of an amount for the others, and the weights of these.

        The amount is less than the needs, so that it does not satisfy all. Takes a step for each child that the amount
        satisfies and the one of the last call does not, or vice versa.
        """
        ordered, filled = self._ordered, self._filled
        rest, weights = amount - self._filled_needs, self._weights - self._filled_weights
        while filled and ordered[filled - 1][1] * weights > rest * ordered[filled - 1][2]:
            filled -= 1
            rest += ordered[filled][1]
            weights += ordered[filled][2]
        while ordered[filled][1] * weights <= rest * ordered[filled][2]:
            rest -= ordered[filled][1]
            weights -= ordered[filled][2]
            filled += 1
        self._filled, self._filled_needs, self._filled_weights = filled, amount - rest, self._weights - weights
        return rest, weights


@final
@dataclass(slots=True, eq=False, repr=False)
class ChildShares:
    """The children of one group that share one resource.

    Args:
        scales: whether minimums are scaled in a shortage.
    """

    scales: bool = True
    _children: list[ResourceNode] = field(default_factory=list, init=False)
    #: The sum of the configured minimums.
    mins: int = field(default=0, init=False)
    #: The sum of the shares before the rounds, if minimums are not scaled.
    floors: int = field(default=0, init=False)
    #: The needs of the hungry children with a weight, beyond the floors.
    _level: FillLevel = field(default_factory=FillLevel, init=False)
    #: The hungry children in order of names, and their weights; None if out of date.
    _hungry: tuple[list[ResourceNode], list[int]] | None = field(default=None, init=False)
    #: The amount that the last first round divided among them, and their parts; negative if it is out of date.
    _first_round: tuple[int, list[int]] = field(default=(-1, []), init=False)
    #: The amount that the last computation divided, and the needs that it left; negative if it is out of date.
    _divided: tuple[int, dict[ResourceNode, int]] = field(default=(-1, {}), init=False)
    #: The result when minimums were last scaled; None if out of date.
    _shortage: SharingResult | None = field(default=None, init=False)

    # Changes

    def add(self, child: ResourceNode) -> None:
        """Add a child with a new name."""
        self._children.append(child)
        self.mins += child.min
        self._count(child, 1)

    def set_request(self, child: ResourceNode, limited_request: int) -> None:
        """Change the request of a child. Takes a binary search among the hungry children."""
        if child.weight > 0 and child.limited_request > child.min and limited_request > child.min:
            self._level.count(child.limited_request - child.min, child.weight, -1)
            self._level.count(limited_request - child.min, child.weight, 1)
            self._shortage = None
            unmet = self._divided[1].get(child, 0)
            left = unmet + limited_request - child.limited_request
            if unmet > 0 and left > 0:
                self._divided[1][child] = left
            else:
                self._divided = -1, {}
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
            self._level.count(request - minimum, child.weight, sign)
            self._hungry, self._first_round, self._divided = None, (-1, []), (-1, {})
        self._shortage = None

    # Reads

    def least_share(self, child: ResourceNode, available: int) -> int:
        """Return a lower bound of the share of a child, for *available* or more."""
        request, minimum = child.limited_request, child.min
        if self._is_short(available):
            minimum = scaled_min(available, minimum, self.mins)
        elif request > minimum and child.weight > 0 and (left := available - self.floors) > 0:
            return minimum + self._level.least_part(request - minimum, child.weight, left)
        return request if request < minimum and child.lends else minimum

    def share(self, child: ResourceNode, available: int) -> int:
        """Return the share of a child.

        Takes constant time if the sums decide, and otherwise a pass over the hungry children for each round.
        """
        if self._is_short(available):
            return self._in_shortage(available).runtime[child.name]
        least, left = self.least_share(child, available), available - self.floors
        if least >= child.limited_request or child.weight <= 0 or left <= 0:
            return least
        if left == self._divided[0]:
            return child.limited_request - self._divided[1].get(child, 0)
        children, weights = self._hungry_children()
        if left != self._first_round[0]:
            self._first_round = left, divide(left, weights)
        needs = list[int](map(sub, map(sub, map(_requested, children), map(_minimum, children)), self._first_round[1]))
        first = children, weights, (), needs
        for keys, _, _, unmet in chain([first], divide_in_rounds(0, children, weights, needs)):
            if (need := unmet[keys.index(child)]) <= 0:
                return child.limited_request
        self._divided = left, dict(zip(keys, unmet, strict=True))
        return child.limited_request - need

    def _is_short(self, available: int) -> bool:
        return self.scales and is_short(available, self.mins, self.floors + self._level.needs)

    def _hungry_children(self) -> tuple[list[ResourceNode], list[int]]:
        if self._hungry is None:
            self._children.sort(key=_name)
            hungry = [child for child in self._children if child.limited_request > child.min and child.weight > 0]
            # Smaller integers take less time, and the proportions are the same.
            divisor = gcd(*[child.weight for child in hungry])
            self._hungry = hungry, [child.weight // divisor for child in hungry]
        return self._hungry

    def _in_shortage(self, available: int) -> SharingResult:
        if self._shortage is None or self._shortage.available != available:
            self._shortage = shares_of(available, self.sharers())
        return self._shortage

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
        return self._in_shortage(available).min[child.name] if self._is_short(available) else child.min

    def sharers(self) -> list[Sharer]:
        """Return the children as arguments of `ugm.elastic.sharing.shares_of`."""
        return [Sharer(one.name, one.limited_request, one.min, one.weight, one.lends) for one in self._children]


@final
@dataclass(slots=True, eq=False, repr=False)
class ResourceNode:
    """One resource of one group: its request, its usage and its runtime."""

    #: The name of the group.
    name: str
    #: The configuration of the group; None for the root, and for a built-in group that nobody has configured.
    group: InitVar[ElasticGroup | None]
    resource: InitVar[str]
    #: Whether the node competes with its siblings. The root and the built-in groups do not.
    competes: bool
    #: The same resource of the parent group; None for the root.
    parent: ResourceNode | None
    #: The children that compete.
    shares: ChildShares
    #: Whether the maximum names the resource. Only then is it counted, and shared among the child groups.
    is_counted: bool = True
    min: int = 0
    #: `UNLIMITED` if it is not limited. Of the root: the amount that the built-in groups leave to all others.
    max: int = UNLIMITED
    weight: int = 0
    lends: bool = True
    #: The requests of the pods in the group, plus the limited requests of its child groups.
    child_request: int = 0
    #: The request up to the maximum. This is the request to the parent.
    limited_request: int = 0
    #: The usage of the pods in and below the group.
    used: int = 0
    non_preemptible_used: int = 0
    #: Whether the usage of the resource is limited.
    is_limited: bool = field(init=False)
    #: Whether the group has a runtime of the resource: its maximum and that of its parent name it.
    is_shared: bool = field(init=False)
    #: The node from which the amounts are shared down to this one, and the nodes on the way with their siblings.
    top: ResourceNode = field(init=False)
    path: tuple[tuple[ChildShares, ResourceNode], ...] = field(default=(), init=False)

    def __post_init__(self, group: ElasticGroup | None, resource: str) -> None:
        self.top = self
        if group is not None:
            maximum = group.max.amounts.get(resource)
            self.is_counted, self.max = maximum is not None, UNLIMITED if maximum is None else maximum
            self.min, self.lends = group.min.amounts.get(resource, 0), group.allow_lent
            self.weight = group.weight.amounts.get(resource, 0)
            self.limited_request = min(self.request, self.max)
        self.is_limited = self.is_counted and (self.parent is None or self.max < UNLIMITED)
        self.is_shared = self.is_limited and (self.parent is None or self.parent.is_counted)
        if self.parent is not None:
            if self.competes:
                self.parent.shares.add(self)
                if self.parent.is_counted:
                    self.top, self.path = self.parent.top, (*self.parent.path, (self.parent.shares, self))
            self.parent.pass_request_up(self.limited_request)

    # Requests and usage

    @property
    def request(self) -> int:
        """The requests in and below the group, but at least the minimum if the group does not lend it."""
        return self.child_request if self.lends else max(self.child_request, self.min)

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

    def pass_usage_up(self, used: int, non_preemptible_used: int) -> None:
        """Count a change of the usage here and in all groups above. The built-in groups are served first."""
        node = self
        while True:
            node.used += used
            node.non_preemptible_used += non_preemptible_used
            parent = node.parent
            if parent is None:
                return
            if not node.competes:
                parent.max -= used
            node = parent

    # Reads

    def runtime(self) -> int:
        """Return the runtime now.

        That of the root is what the built-in groups leave. A group whose parent does not share the resource gets its
        maximum, and so does a built-in group.
        """
        least = exact = self.top.max
        for siblings, node in self.path:
            least = siblings.least_share(node, least)
        if least == self.limited_request and (least >= self.min or self.lends):
            return least
        for siblings, node in self.path:
            exact = siblings.share(node, exact)
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
