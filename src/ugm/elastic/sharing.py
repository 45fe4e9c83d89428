"""How the groups below one group share what it has of one resource: pure functions of exact integers.

Every group first gets what it asks for, up to its minimum. What is left is dealt among those that ask for more, the
*hungry*, in proportion to their weights, in rounds: who has been given too much returns it for the next round. A round
deals every unit; whole parts go first, and the units that remain go to the largest remainders, equal ones by name.

If the groups ask for more than there is and the minimums alone are more than there is, the minimums are scaled down in
proportion first. A group without weight cannot borrow, so what it asks for counts up to its minimum here. If something
is left after the rounds, it goes to those groups without weight that miss a part of their minimum, in proportion to
their minimums.

No group gets more than it asks for, except a group that does not lend its minimum. A group that asks for more never
gets less: as long as there is enough, every group has all that counts of its request, and when there is not, everything
is handed out, and the others take no more than what counted of their requests. The rounds depend neither on the order
of events nor on that of the groups.

Source: Koordinator, multi-hierarchy elastic quota management, "Calculate RuntimeQuota".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import compress
from operator import sub
from typing import NamedTuple, TypeVar

__all__ = ["Round", "Shared", "Sharer", "deal", "deal_once", "is_short", "scaled", "share"]

#: Whatever stands for one of the hungry.
WhoT = TypeVar("WhoT")


class Sharer(NamedTuple):
    """A group as its siblings see it, in one resource."""

    name: str
    #: What it asks of the group above: its request, up to its maximum.
    wanted: int
    #: What it is guaranteed, as configured.
    min: int
    #: How strongly it competes; nothing is dealt to a weight of 0 or less.
    weight: int
    #: Whether others may use what it does not ask for of its minimum.
    lends: bool = True

    def floor(self, least: int) -> int:
        """Return what it gets before anything is dealt, if *least* is its minimum in force."""
        return self.wanted if self.wanted < least and self.lends else least

    @property
    def due(self) -> int:
        """The part of the request that can be met: without weight, nothing beyond the minimum."""
        floor = self.floor(self.min)
        return max(self.wanted, floor) if self.weight > 0 else floor


class Round(NamedTuple):
    """One round of dealing."""

    #: What was dealt.
    left: int
    #: The sum of the weights of the hungry.
    weight: int
    #: What each of the hungry was given, by name; more than it needed goes into the next round.
    given: dict[str, int]


class Shared(NamedTuple):
    """How one resource was shared, and every step on the way."""

    #: What there was to share.
    available: int
    #: By name, in the order of names, like all that follows.
    runtime: dict[str, int]
    #: The minimums in force: scaled down if they are more than there is, and raised again by what the rounds have left.
    least: dict[str, int]
    #: What each group got before the rounds.
    floor: dict[str, int]
    rounds: tuple[Round, ...]

    @property
    def unused(self) -> int:
        """What nobody got. Less than nothing if the minimums are more than there is, and were not scaled."""
        return self.available - sum(self.runtime.values())


def share(available: int, sharers: Iterable[Sharer], *, scale: bool = True) -> Shared:
    """Share out one resource. Costs a pass over the sharers, and one over the hungry for each round.

    Args:
        available: what there is; less than nothing is the same as nothing.
        sharers: the groups, in any order; their names differ.
        scale: whether to scale the minimums when they are more than there is.

    >>> of = {"A": (5, 10, 0), "B": (20, 15, 60), "C": (40, 20, 50), "D": (50, 15, 80)}
    >>> share(100, [Sharer(name, *rest) for name, rest in of.items()]).runtime
    {'A': 5, 'B': 20, 'C': 35, 'D': 40}
    """
    ordered = sorted(sharers)
    min_sum = sum(one.min for one in ordered)
    short = scale and is_short(available, min_sum, sum(one.due for one in ordered))
    least = {one.name: scaled(available, one.min, min_sum) if short else one.min for one in ordered}
    floor = {one.name: one.floor(least[one.name]) for one in ordered}
    runtime, left = dict(floor), available - sum(floor.values())
    rounds = tuple(_rounds(left, [(one.name, one.weight, one.wanted) for one in ordered if one.weight > 0], runtime))
    if short:
        owed = [(one.name, one.min, one.due) for one in ordered if one.weight <= 0]
        for _ in _rounds(available - sum(runtime.values()), owed, runtime):
            pass
        least.update((name, least[name] + runtime[name] - floor[name]) for name, _, _ in owed)
    return Shared(available, runtime, least, floor, rounds)


def _rounds(left: int, sharers: Iterable[tuple[str, int, int]], runtime: dict[str, int]) -> Iterator[Round]:
    """Deal in rounds, and yield each.

    Args:
        left: what to deal.
        sharers: name, weight, and how much each may have, in the order of names.
        runtime: what each has; is added to.
    """
    hungry = [(name, weight, most) for name, weight, most in sharers if runtime[name] < most]
    while left > 0 and hungry:
        weights = [weight for _, weight, _ in hungry]
        given = dict(zip([name for name, _, _ in hungry], deal_once(left, weights), strict=True))
        left = 0
        for name, _, most in hungry:
            got = runtime[name] + given[name]
            runtime[name] = min(got, most)
            left += got - runtime[name]
        yield Round(sum(given.values()), sum(weights), given)
        hungry = [(name, weight, most) for name, weight, most in hungry if runtime[name] < most]


def is_short(available: int, min_sum: int, wanted_sum: int) -> bool:
    """Return whether minimums have to be scaled: both they and what is asked for are more than there is."""
    return 0 < min_sum > available < wanted_sum


def scaled(available: int, least: int, min_sum: int) -> int:
    """Return a minimum in proportion to what there is, rounded down; the sum of the minimums is more than nothing.

    >>> scaled(100, 40, 120)
    33
    """
    return max(available, 0) * least // min_sum


def deal(first: Sequence[int], who: Sequence[WhoT], weights: Sequence[int], needs: Sequence[int]) -> dict[WhoT, int]:
    """Deal in rounds until nothing is left or nobody hungry, and return what the hungry still miss.

    The same rounds as in `share`, for those who need no account of them.

    Args:
        first: what the first round deals: `deal_once` of what is left to these weights.
        who: the hungry, in the order of their names.
        weights: theirs, all positive.
        needs: what each needs, all positive.

    >>> deal(deal_once(45, [60, 50, 80]), "BCD", [60, 50, 80], [5, 20, 35])
    {'C': 5, 'D': 10}
    """
    parts = first
    while who:
        needs = list(map(sub, needs, parts))
        left = -sum([need for need in needs if need < 0])
        hungry = [need > 0 for need in needs]
        who, weights, needs = (
            list(compress(who, hungry)),
            list(compress(weights, hungry)),
            list(compress(needs, hungry)),
        )
        if not left:
            break
        parts = deal_once(left, weights)
    return dict(zip(who, needs, strict=True))


def deal_once(left: int, weights: Sequence[int]) -> list[int]:
    """Deal in proportion to the weights by largest remainder; of equal remainders the first goes first.

    >>> deal_once(5, [1, 1, 1])
    [2, 2, 1]
    """
    whole = sum(weights)
    products = [weight * left for weight in weights]
    parts = [product // whole for product in products]
    units = left - sum(parts)
    if units:
        remainders = [product % whole for product in products]
        # The sort is stable, also in reverse: equal remainders stay in the order of names.
        for one in sorted(range(len(weights)), key=remainders.__getitem__, reverse=True)[:units]:
            parts[one] += 1
    return parts
