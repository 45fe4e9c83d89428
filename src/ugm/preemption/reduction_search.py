"""The choice of victims for the reduction of one queue.

The cost of a set has five parts, compared in this order: the excess that is left, the amount that leaves give beyond
their shares, the number of victims, their priorities, and their age. All amounts are parts of the excess of their
resource, on a common scale of integers.

First a set is chosen step by step: what takes least beyond a share, and of those what reduces the excess most. Then all
sets are compared with it, as long as the limit of steps permits. A partial set is abandoned if all remaining candidates
together cannot lead to less cost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush
from math import lcm
from typing import Final, NamedTuple, TypeAlias, final

from ugm.preemption.queue_usage_tree import AllocationClass
from ugm.preemption.victim_search import ALWAYS_COMPLETE, Chosen, StepLimitReachedError

__all__ = ["ReductionProgress", "choose_reduction"]

#: The excess left, the amount beyond shares, the number, the priorities (highest first) and the negative positions.
_Cost: TypeAlias = tuple[int, int, int, list[int], list[int]]

#: More options are not searched through, because the search is recursive.
_MOST_OPTIONS: Final = 200


@final
class ReductionProgress:
    """The excess of a queue, what was taken of it, and from where.

    Args:
        excess: the excess of the queue.
        shares: the shares of the leaves, by path.
        bounds: what may be taken from each queue with a guarantee, by path.
        overshoot: whether a leaf may give more than its share.
    """

    __slots__ = ("_beyond", "_bounds", "_left", "_overshoot", "_scales", "_shares")

    def __init__(
        self,
        excess: Mapping[str, int],
        shares: Mapping[str, Mapping[str, int]],
        bounds: Mapping[str, Mapping[str, int]],
        *,
        overshoot: bool,
    ) -> None:
        scale = lcm(*excess.values())
        #: The part of the excess of a resource that one unit of it is.
        self._scales: Final = {name: scale // amount for name, amount in excess.items()}
        #: The excess that is left; negative if more was taken.
        self._left: Final = dict(excess)
        #: The share that is left of each leaf and resource; negative if more was taken.
        self._shares: Final = {path: dict(share) for path, share in shares.items()}
        self._bounds: Final = {path: dict(bound) for path, bound in bounds.items()}
        self._overshoot: Final = overshoot
        self._beyond = 0

    @property
    def left(self) -> int:
        """The excess that is left, on the common scale."""
        return sum([self._scales[name] * amount for name, amount in self._left.items() if amount > 0])

    @property
    def beyond(self) -> int:
        """The amount that leaves have given beyond their shares, on the common scale."""
        return self._beyond

    def least_left(self, offered: Mapping[str, int]) -> int:
        """Return the excess that is left if all of *offered* is taken."""
        rest = ((name, amount - offered.get(name, 0)) for name, amount in self._left.items())
        return sum([self._scales[name] * amount for name, amount in rest if amount > 0])

    def is_permitted(self, one: AllocationClass) -> bool:
        """Return whether one allocation more may be taken."""
        usage = one.usage
        share = self._shares.get(one.node.path, {})
        if not self._overshoot and any(usage[name] > share.get(name, 0) for name in usage if name in self._left):
            return False
        return not any(
            usage[name] > amount
            for node in one.node.lineage()
            for name, amount in self._bounds.get(node.path, {}).items()
            if name in usage
        )

    def gain(self, one: AllocationClass) -> int:
        """Return how much of the excess one allocation more would take."""
        return sum(
            self._scales[name] * min(amount, self._left[name])
            for name, amount in one.usage.items()
            if self._left.get(name, 0) > 0
        )

    def beyond_with(self, one: AllocationClass) -> int:
        """Return how much of one allocation more would be beyond the share of its leaf."""
        share = self._shares.get(one.node.path, {})
        return sum(
            self._scales[name] * (amount - min(amount, max(0, share.get(name, 0))))
            for name, amount in one.usage.items()
            if name in self._scales
        )

    def change(self, one: AllocationClass, sign: int) -> None:
        """Take one allocation more, or undo that."""
        usage, path = one.usage, one.node.path
        if sign > 0:
            self._beyond += self.beyond_with(one)
        share = self._shares.setdefault(path, {})
        for name, amount in usage.items():
            if name in self._left:
                self._left[name] -= sign * amount
                share[name] = share.get(name, 0) - sign * amount
        if sign < 0:
            self._beyond -= self.beyond_with(one)
        for node in one.node.lineage():
            bounds = self._bounds.get(node.path)
            for name in bounds or ():
                if bounds is not None and name in usage:
                    bounds[name] -= sign * usage[name]


class _Option(NamedTuple):
    """The candidates of a class, youngest first."""

    one: AllocationClass
    positions: Sequence[int]


def choose_reduction(
    candidates: Sequence[tuple[AllocationClass, Sequence[int]]], progress: ReductionProgress, steps: int
) -> Chosen:
    """Return the victims with the least cost; there may be none.

    Args:
        candidates: the classes of allocations that may be victims, with the positions of their members.
        progress: the excess of the queue, and what was taken of it.
        steps: the limit of the search; it does not apply to a few candidates.
    """
    options = [_Option(one, sorted(positions, reverse=True)) for one, positions in candidates if positions]
    options.sort(key=lambda option: (option.one.priority, -option.positions[0]))
    search = _Search(options, progress, None if sum(len(o.positions) for o in options) <= ALWAYS_COMPLETE else steps)
    search.run()
    return Chosen(tuple(sorted(search.best)), search.is_complete)


@final
class _Search:
    """The search for one queue; see the module."""

    __slots__ = ("_best_cost", "_chosen", "_limit", "_offered", "_options", "_progress", "best", "is_complete")

    best: list[int]
    is_complete: bool

    def __init__(self, options: Sequence[_Option], progress: ReductionProgress, steps: int | None) -> None:
        self._options: Final = options
        self._progress: Final = progress
        self._limit = steps
        self._chosen: Final[list[tuple[int, int]]] = []
        #: The usage of each option and those after it.
        self._offered: Final = _sums(options)
        self.best = []
        self._best_cost = self._cost()
        self.is_complete = False

    def run(self) -> None:
        """Find the best set."""
        self._choose_greedily()
        self._record()
        for index, taken in reversed(self._chosen):
            self._progress.change(self._options[index].one, -1)
            del taken
        self._chosen.clear()
        try:
            if len(self._options) <= _MOST_OPTIONS:
                self._extend(0)
                self.is_complete = True
        except StepLimitReachedError:
            pass

    def _cost(self) -> _Cost:
        priorities = sorted([self._options[index].one.priority for index, _ in self._chosen], reverse=True)
        ages = sorted([-self._options[index].positions[taken] for index, taken in self._chosen], reverse=True)
        return self._progress.left, self._progress.beyond, len(self._chosen), priorities, ages

    def _record(self) -> None:
        cost = self._cost()
        if cost < self._best_cost:
            self._best_cost = cost
            self.best = [-age for age in cost[4]]

    def _extend(self, index: int) -> None:
        """Try every number of victims from each option at *index* and later ones."""
        if self._limit is not None:
            self._limit -= 1
            if self._limit < 0:
                raise StepLimitReachedError
        if not self._can_improve(index):
            return
        if index == len(self._options):
            self._record()
            return
        option, taken = self._options[index], 0
        while taken < len(option.positions) and self._progress.is_permitted(option.one):
            self._progress.change(option.one, 1)
            self._chosen.append((index, taken))
            taken += 1
        # Many victims first, because the excess that is left matters most.
        while True:
            self._extend(index + 1)
            if not taken:
                return
            taken -= 1
            self._chosen.pop()
            self._progress.change(option.one, -1)

    def _can_improve(self, index: int) -> bool:
        """Return whether the options at *index* and later ones can lead to less cost."""
        least = self._progress.least_left(self._offered[index])
        return (least, self._progress.beyond, len(self._chosen)) <= self._best_cost[:3]

    def _choose_greedily(self) -> None:
        """Choose victims step by step, and remove those that are not needed."""
        heap = [self._entry(index, 0) for index in range(len(self._options))]
        heapify(heap)
        while heap:
            entry = heappop(heap)
            *_, index, taken = entry
            option = self._options[index]
            current = self._entry(index, taken)
            if not current[1] or not self._progress.is_permitted(option.one):
                continue
            if current == entry:
                self._progress.change(option.one, 1)
                self._chosen.append((index, taken))
                taken += 1
            if taken < len(option.positions):
                heappush(heap, self._entry(index, taken))
        self._remove_needless()

    def _entry(self, index: int, taken: int) -> tuple[int, int, int, int, int, int]:
        option = self._options[index]
        one, position = option
        beyond, gain = self._progress.beyond_with(one), self._progress.gain(one)
        return beyond, -gain, one.priority, -position[taken], index, taken

    def _remove_needless(self) -> None:
        left = self._progress.left
        for victim in sorted(self._chosen, key=lambda chosen: self._importance(*chosen)):
            one = self._options[victim[0]].one
            self._progress.change(one, -1)
            if self._progress.left == left:
                self._chosen.remove(victim)
            else:
                self._progress.change(one, 1)

    def _importance(self, index: int, taken: int) -> tuple[int, int]:
        option = self._options[index]
        return -option.one.priority, option.positions[taken]


def _sums(options: Sequence[_Option]) -> list[dict[str, int]]:
    """Return the sums of the usages of each option and those after it, and nothing at the end."""
    sums: list[dict[str, int]] = [{}]
    for one, positions in reversed(options):
        total = dict(sums[-1])
        for name, amount in one.usage.items():
            total[name] = total.get(name, 0) + amount * len(positions)
        sums.append(total)
    return sums[::-1]
