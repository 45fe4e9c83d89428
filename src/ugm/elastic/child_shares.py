"""The sharing of one resource among the children of one group, maintained incrementally.

The problem: a scheduler reads the runtime of a group before every pod, while other groups change their requests all the
time. Sharing all over again for every read (`ugm.elastic.sharing.shares_of`) costs a pass over all siblings.

The idea: `ChildShares` keeps sums over the children: minimums, floors, and the needs and weights of the hungry
children. If nothing is left, or enough for all the needs, these sums determine the share of a child. Otherwise a lower
bound is often sufficient, because a bound that equals the request of the child is its share.

**The bound.** The first round gives one bound. A guess about the hungry children that will be satisfied gives another:
let N be the needs of those, and call the others *open*, o in number and W in weight. There are at most as many rounds
as hungry children, h, and the rounding of each round changes a part by less than one unit. Let L be the amount per unit
of weight that all rounds together divide. No child gets more than its weight times L plus h, so the amount that is left
is at most N + W L + o h. A child that is not satisfied gets more than its weight times L minus h. A child of weight w
is therefore satisfied, or gets at least w (left - N - o h) / W - h. The guess is the outcome of the last exact
computation, corrected by every read.

**Exact shares.** If the bound is not sufficient, the rounds are computed for all hungry children at once. The needs
that remain unsatisfied are stored until they can have changed. If a child that is not satisfied requests more, the
shares of the others do not change.

Invariant: every read returns the same as `share` for the current requests. Earlier reads have no influence, even if an
exception from outside has interrupted them.

The cost: a change takes constant time. So does a read that the sums or the bound decide. Any other read takes a pass
over the hungry children for each round, unless the result is stored. The available amount is passed to each read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
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
    #: Whether `_children` are sorted by name.
    _is_sorted: bool = field(default=True, init=False)
    #: The sum of the configured minimums.
    mins: int = field(default=0, init=False)
    #: The sum of the shares before the rounds, if minimums are not scaled.
    floors: int = field(default=0, init=False)
    #: The number of hungry children with a weight, the sum of their needs beyond the floors, and that of their weights.
    _hungry: int = field(default=0, init=False)
    _needs: int = field(default=0, init=False)
    _weights: int = field(default=0, init=False)
    #: The hungry children and their weights, sorted by name; None if out of date.
    _hungry_order: tuple[list[SharingChild], list[int]] | None = field(default=None, init=False)
    #: The amount that the last first round divided among them, and its parts.
    _first_round: tuple[int, list[int]] = field(default=(-1, []), init=False)
    #: The hungry children that are guessed to stay unsatisfied, with their unsatisfied needs if `_divided` is positive.
    _open: dict[SharingChild, int] = field(default_factory=dict, init=False)
    #: The sums of the needs and the weights of the open children.
    _open_needs: int = field(default=0, init=False)
    _open_weights: int = field(default=0, init=False)
    #: The amount that the last computation divided; negative if its result is out of date.
    _divided: int = field(default=-1, init=False)
    #: The available amount when minimums were last scaled, and all shares; None if out of date.
    _shortage: tuple[int, dict[str, int]] | None = field(default=None, init=False)

    def __len__(self) -> int:
        return len(self._children)

    # Changes

    def add(self, child: SharingChild) -> None:
        """Add a child with a new name."""
        self._children[child.name] = child
        self._is_sorted = False
        self._count(child, 1)

    def remove(self, child: SharingChild) -> None:
        """Remove a child."""
        del self._children[child.name]
        self._count(child, -1)

    def set_request(self, child: SharingChild, limited_request: int) -> None:
        """Change the request of a child, in constant time."""
        before, minimum = child.limited_request, child.min
        if before > minimum < limited_request:
            child.limited_request = limited_request
            if child.weight > 0:
                # This is most calls, so it is not a function of its own.
                more, missing = limited_request - before, self._open.get(child)
                self._shortage = None
                self._needs += more
                if missing is not None:
                    self._open_needs += more
                if missing and missing + more > 0:
                    self._open[child] = missing + more
                else:
                    self._divided = -1
            return
        self._shortage = None
        if child.lends:
            self.floors += min(limited_request, minimum) - min(before, minimum)
        if before > minimum:
            self._count_hungry(child, -1)
        child.limited_request = limited_request
        if limited_request > minimum:
            self._count_hungry(child, 1)

    def _count(self, child: SharingChild, sign: int) -> None:
        """Add a child to all sums, or subtract it."""
        request, minimum = child.limited_request, child.min
        floor = request if request < minimum and child.lends else minimum
        self.mins += sign * minimum
        self.floors += sign * floor
        if request > minimum:
            self._count_hungry(child, sign)
        self._shortage = None

    def _count_hungry(self, child: SharingChild, sign: int) -> None:
        """Add a child that requests more than its minimum to the sums of the rounds, or subtract it."""
        if child.weight > 0:
            need, weight = sign * (child.limited_request - child.min), sign * child.weight
            self._hungry += sign
            self._needs += need
            self._weights += weight
            if sign > 0 or self._open.pop(child, None) is not None:
                self._open_needs += need
                self._open_weights += weight
            if sign > 0:
                self._open[child] = 0
            self._hungry_order = None
            self._divided = -1

    def _guess(self, child: SharingChild, *, is_open: bool) -> None:
        """Guess whether a hungry child stays unsatisfied."""
        if (child in self._open) is is_open:
            return
        try:
            sign = 1 if is_open else -1
            self._open_needs += sign * (child.limited_request - child.min)
            self._open_weights += sign * child.weight
            if is_open:
                self._open[child] = 0
            elif self._open.pop(child):
                # Its unsatisfied need at the last computation is lost.
                self._divided = -1
        except BaseException:
            self._sum_open()
            raise

    def _sum_open(self) -> None:
        """Compute the sums of the open children. The last computation is out of date then."""
        self._divided = -1
        self._open_needs = sum([child.limited_request - child.min for child in self._open])
        self._open_weights = sum([child.weight for child in self._open])

    # Reads

    def lower_bound(self, child: SharingChild, available: int) -> int:
        """Return a lower bound of the share of a child, for *available* or more, in constant time.

        If the bound equals the request of the child, it is the share.
        """
        request, minimum = child.limited_request, child.min
        if self.scales and is_short(available, self.mins, self.floors + self._needs):
            minimum = scaled_min(available, minimum, self.mins)
        elif request > minimum and child.weight > 0:
            left = available - self.floors
            if left >= self._needs:
                return request
            return minimum + self._part_lower_bound(child, left) if left > 0 else minimum
        return request if request < minimum and child.lends else minimum

    def lower_bound_with(self, child: SharingChild, request: int, available: int) -> int:
        """Return a lower bound of the share that a child would have with another request, like `lower_bound`.

        Changes nothing.
        """
        before, minimum, floors, needs = child.limited_request, child.min, self.floors, self._needs
        need = request - minimum
        if before < minimum or need < 0:
            if child.lends:
                floors += min(request, minimum) - min(before, minimum)
            if child.weight > 0:
                needs += max(need, 0) - max(before - minimum, 0)
        elif child.weight > 0:
            needs += request - before
        if self.scales and is_short(available, self.mins, floors + needs):
            minimum = scaled_min(available, minimum, self.mins)
        elif need > 0 and child.weight > 0:
            left = available - floors
            if left >= needs:
                return request
            return minimum + self._part_with(child, need, left, needs) if left > 0 else minimum
        return request if request < minimum and child.lends else minimum

    def _part_with(self, child: SharingChild, need: int, left: int, needs: int) -> int:
        """Return a lower bound of what all rounds would give to a child with another need, like `_part_lower_bound`.

        Args:
            child: the child.
            need: its need beyond the minimum.
            left: the amount that is left for the rounds.
            needs: the needs of all hungry children, including this one.
        """
        weight, rounds, weights = child.weight, self._hungry, self._weights
        before = child.limited_request - child.min
        if before <= 0:
            rounds, weights = rounds + 1, weights + weight
        part = weight * left // weights
        if part >= need:
            return need
        open_needs, open_weights, count = self._open_needs + need, self._open_weights, len(self._open)
        if child in self._open:
            open_needs -= before
        else:
            open_weights, count = open_weights + weight, count + 1
        all_rounds = weight * (left - needs + open_needs - count * rounds) // open_weights - rounds
        return min(max(part, all_rounds), need)

    def _part_lower_bound(self, child: SharingChild, left: int) -> int:
        """Return a lower bound of what all rounds give to a hungry child, and correct the guess."""
        need, weight, rounds = child.limited_request - child.min, child.weight, self._hungry
        self._guess(child, is_open=True)
        rest = left - self._needs + self._open_needs - len(self._open) * rounds
        first_round, all_rounds = weight * left // self._weights, weight * rest // self._open_weights - rounds
        part = max(all_rounds, first_round)
        if part < need:
            return part
        self._guess(child, is_open=False)
        return need

    def exact_share(self, child: SharingChild, available: int) -> int:
        """Return the share of a child.

        Takes constant time if the sums decide, and otherwise a pass over the hungry children for each round.
        """
        if self.scales and is_short(available, self.mins, self.floors + self._needs):
            return self._shares_in_shortage(available)[child.name]
        request, minimum = child.limited_request, child.min
        left = available - self.floors
        if request <= minimum or left <= 0 or child.weight <= 0 or left >= self._needs:
            return self.lower_bound(child, available)
        if left != self._divided:
            self._divide(left)
        return request - self._open.get(child, 0)

    def _divide(self, left: int) -> None:
        if self._hungry_order is None:
            hungry = [child for child in self._sorted() if child.limited_request > child.min and child.weight > 0]
            # In this order: an exception from outside must not leave the parts of other children.
            self._first_round = -1, []
            self._hungry_order = hungry, [child.weight for child in hungry]
        hungry, weights = self._hungry_order
        # The first round is the largest. It does not depend on the requests of hungry children.
        if self._first_round[0] != left:
            self._first_round = left, divide(left, weights)
        needs = [child.limited_request - child.min for child in hungry]
        found = divide_in_rounds(self._first_round[1], hungry, weights, needs)
        try:
            self._open = found
            self._sum_open()
            self._divided = left
        except BaseException:
            self._sum_open()
            raise

    def _shares_in_shortage(self, available: int) -> dict[str, int]:
        if self._shortage is None or self._shortage[0] != available:
            self._shortage = (available, shares_of(available, self.sharers()).runtime)
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
        if not self.scales or not is_short(available, self.mins, self.floors + self._needs):
            return child.min
        least = scaled_min(available, child.min, self.mins)
        if child.weight > 0:
            return least
        floor = min(child.limited_request, least) if child.lends else least
        return least + self._shares_in_shortage(available)[child.name] - floor

    def sharers(self) -> list[Sharer]:
        """Return the children as arguments of `ugm.elastic.sharing.shares_of`, sorted by name."""
        return [Sharer(one.name, one.limited_request, one.min, one.weight, one.lends) for one in self._sorted()]

    def _sorted(self) -> list[SharingChild]:
        if not self._is_sorted:
            self._children = dict(sorted(self._children.items()))
            self._is_sorted = True
        return list(self._children.values())
