"""The sharing of one resource among the children of one group, for many reads between changes.

A scheduler reads the runtime of a group before every pod, while other groups change their requests all the time.
`ChildShares` keeps sums over the children: minimums, floors, and the needs of the hungry children. If nothing is left,
or enough for all the needs, these sums determine the share of a child. A child whose part of the first round is enough
needs no other rounds. Otherwise all rounds are computed for all hungry children at once
(`ugm.elastic.sharing.divide_in_rounds`), and what they leave unsatisfied is kept until it can have changed. If a child
that stays unsatisfied requests more or less, the shares of the others do not change.

Every read returns the same as `ugm.elastic.sharing.share` for the current requests.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import gcd
from typing import Protocol, final

from ugm.elastic.sharing import Sharer, divide, divide_in_rounds, is_short, scaled_min, shares_of

__all__ = ["ChildShares", "SharingChild"]


class SharingChild(Protocol):
    """A child group that shares one resource with its siblings."""

    name: str
    #: The request of the group, up to its maximum.
    limited_request: int
    #: The configured minimum.
    min: int
    weight: int
    lends: bool


@final
@dataclass(slots=True, eq=False, repr=False)
class ChildShares:
    """The children of one group that share one resource.

    Args:
        scales: whether minimums are scaled in a shortage.
    """

    scales: bool = True
    _children: dict[str, SharingChild] = field(default_factory=dict, init=False)
    #: The sum of the configured minimums.
    mins: int = field(default=0, init=False)
    #: The sum of the shares before the rounds, if minimums are not scaled.
    floors: int = field(default=0, init=False)
    #: The sum of the needs of the hungry children with a weight, beyond the floors.
    _needs: int = field(default=0, init=False)
    #: The sum of their weights.
    _weights: int = field(default=0, init=False)
    #: The amount that the last first round divided among the hungry children, their parts in order of names, and their
    #: weights; negative if out of date. It does not depend on the requests of children that stay hungry.
    _first_round: tuple[int, dict[SharingChild, int], list[int]] = field(default=(-1, {}, []), init=False)
    #: The amount that the last computation divided, and the needs that it left; negative if it is out of date.
    _divided: int = field(default=-1, init=False)
    _unmet: dict[SharingChild, int] = field(default_factory=dict, init=False)
    #: The available amount when minimums were last scaled, and all shares; None if out of date.
    _shortage: tuple[int, dict[str, int]] | None = field(default=None, init=False)

    def __len__(self) -> int:
        return len(self._children)

    # Changes

    def add(self, child: SharingChild) -> None:
        """Add a child with a new name."""
        self._children[child.name] = child
        self.mins += child.min
        self._count(child, 1)

    def remove(self, child: SharingChild) -> None:
        """Remove a child."""
        del self._children[child.name]
        self.mins -= child.min
        self._count(child, -1)

    def set_request(self, child: SharingChild, limited_request: int) -> None:
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

    def _count(self, child: SharingChild, sign: int) -> None:
        """Add a child to the sums that depend on its request, or subtract it."""
        request, minimum = child.limited_request, child.min
        self.floors += sign * (request if request < minimum and child.lends else minimum)
        if request > minimum and child.weight > 0:
            self._needs += sign * (request - minimum)
            self._weights += sign * child.weight
            self._first_round, self._divided = (-1, {}, []), -1
            self._unmet.pop(child, None)
        self._shortage = None

    # Reads

    def least_share(self, child: SharingChild, available: int) -> int:
        """Return a lower bound of the share of a child, for *available* or more, in constant time.

        It is the share before the rounds and the part of the first round.
        """
        request, minimum = child.limited_request, child.min
        if self._is_short(available):
            minimum = scaled_min(available, minimum, self.mins)
        elif request > minimum and child.weight > 0 and (left := available - self.floors) > 0:
            return request if left >= self._needs else min(request, minimum + left * child.weight // self._weights)
        return request if request < minimum and child.lends else minimum

    def share(self, child: SharingChild, available: int) -> int:
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
        if left >= self._needs:
            return request
        if self._first_parts(left)[child] >= request - minimum:
            return request
        if left != self._divided:
            self._divide(left)
        return request - self._unmet.get(child, 0)

    def _is_short(self, available: int) -> bool:
        return self.scales and is_short(available, self.mins, self.floors + self._needs)

    def _first_parts(self, left: int) -> dict[SharingChild, int]:
        known, parts, weights = self._first_round
        if known == left:
            return parts
        hungry: Iterable[SharingChild] = parts
        if not weights:
            children = (child for _, child in sorted(self._children.items()))
            hungry = [child for child in children if child.limited_request > child.min and child.weight > 0]
            # Smaller integers take less time, and the proportions are the same.
            divisor = gcd(*[child.weight for child in hungry])
            weights = [child.weight // divisor for child in hungry]
        parts = dict(zip(hungry, divide(left, weights), strict=True))
        self._first_round = left, parts, weights
        return parts

    def _divide(self, left: int) -> None:
        _, parts, weights = self._first_round
        needs = [child.limited_request - child.min for child in parts]
        self._unmet = divide_in_rounds(list(parts.values()), list(parts), weights, needs)
        self._divided = left

    def _shares_in_shortage(self, available: int) -> dict[str, int]:
        if self._shortage is None or self._shortage[0] != available:
            self._shortage = available, shares_of(available, self.sharers()).runtime
        return self._shortage[1]

    def scaled_min(self, child: SharingChild, available: int) -> int:
        """Return the minimum of a child, scaled if the sum of the minimums exceeds the available amount.

        The scaled minimum is in force only if the requests exceed the available amount as well.
        """
        if self.scales and 0 < self.mins > available:
            return scaled_min(available, child.min, self.mins)
        return child.min

    def min_in_force(self, child: SharingChild, available: int) -> int:
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
