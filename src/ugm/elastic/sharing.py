"""The sharing of a resource among the child groups of one group, in exact integers.

The problem: every group has a guaranteed minimum, a maximum, a weight and a request. The unused part of the minimums of
idle groups should be lent to busy groups in proportion to their weights, and returned on demand. The result must use
every unit, must not depend on the order of groups or events, and must be computed without rounding errors.

The idea: each group first gets its request up to its minimum (its *floor*). Groups that request more are *hungry*. What
is left is divided among the hungry in rounds, in proportion to their weights. A group that would exceed its request
returns the rest, which the next round divides among those that are still hungry. Within a round the whole parts are
assigned first, then single units to the largest remainders, and in order of names for equal remainders. A group without
weight cannot borrow, so its request counts only up to its minimum.

Example: a parent has 100. A, B, C and D request 5, 20, 40 and 50 with minimums of 10, 15, 20 and 15. Their floors are
5, 15, 20 and 15, so 45 is left. Round 1 divides it by the weights 60, 50 and 80 of B, C and D into 14, 12 and 19. B
needs only 5 and returns 9, which round 2 divides among C and D: A, B, C and D get 5, 20, 35 and 40.

Shortage: if both the requests and the minimums exceed the available amount, the minimums are first scaled down in
proportion. What the rounds leave goes to groups without weight that miss a part of their minimum, in proportion to
their minimums.

Invariants: no group gets more than its request, except a group that does not lend its minimum. A larger request never
leads to a smaller share. If the available amount is sufficient, every group gets all of its request that counts;
otherwise the whole available amount is handed out.

The cost: `share` makes one pass over the groups, and one over the hungry groups for each round.

Source: Koordinator, multi-hierarchy elastic quota management, "Calculate RuntimeQuota".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import compress, repeat
from operator import gt, mul, sub
from typing import NamedTuple, TypeAlias, TypeVar

from ugm._json_values import JsonObject
from ugm.arguments import require_instances
from ugm.errors import RequestError
from ugm.identity import require_name

KeyT = TypeVar("KeyT")

#: The hungry groups of a round, their weights, their parts, and what each needs afterwards: at most 0 if it has enough.
Round: TypeAlias = tuple[Sequence[KeyT], Sequence[int], Sequence[int], Sequence[int]]


class Sharer(NamedTuple):
    """A group that takes part in the sharing of one resource."""

    name: str
    #: The request of the group, up to its maximum.
    request: int
    #: The configured minimum.
    min: int
    #: A group with a weight of 0 or less gets nothing beyond its minimum.
    weight: int
    #: Whether other groups may use the part of the minimum that the group does not request.
    lends: bool = True

    def floor(self, minimum: int) -> int:
        """Return the share before the rounds, given the minimum in force."""
        return self.request if self.request < minimum and self.lends else minimum

    @property
    def countable(self) -> int:
        """The part of the request that can be granted: without weight, nothing beyond the minimum."""
        floor = self.floor(self.min)
        return max(self.request, floor) if self.weight > 0 else floor


class SharingRound(NamedTuple):
    """One round of dividing the remaining amount."""

    #: The divided amount.
    left: int
    #: The sum of the weights of the hungry groups.
    weight: int
    #: The part of each hungry group, by name. What exceeds its request is divided again in the next round.
    given: dict[str, int]


@dataclass(frozen=True, slots=True)
class SharingResult:
    """The result of sharing one resource, with every step. The dictionaries are sorted by group."""

    #: The amount to share.
    available: int
    #: The share of each group.
    runtime: dict[str, int]
    #: The minimums in force: scaled down in a shortage. That of a group without weight includes its part of the rest.
    min: dict[str, int]
    #: The share of each group before the rounds.
    floor: dict[str, int]
    rounds: tuple[SharingRound, ...]

    @property
    def unused(self) -> int:
        """The amount that no group got. Negative if the minimums exceed the available amount and are not scaled."""
        return self.available - sum(self.runtime.values())

    def to_dict(self) -> JsonObject:
        """Return the result for JSON."""
        return {**asdict(self), "rounds": [each._asdict() for each in self.rounds]}


def share(available: int, sharers: Iterable[Sharer], *, scale: bool = True) -> SharingResult:
    """Share one resource. Takes a pass over the groups, and one over the hungry groups for each round.

    Args:
        available: the amount to share; a negative amount counts as 0.
        sharers: the groups, in any order, with different names.
        scale: whether to scale the minimums in a shortage.

    Raises:
        RequestError: an argument has the wrong type, or two groups have the same name.

    >>> groups = {"A": (5, 10, 0), "B": (20, 15, 60), "C": (40, 20, 50), "D": (50, 15, 80)}
    >>> share(100, [Sharer(name, *amounts) for name, amounts in groups.items()]).runtime
    {'A': 5, 'B': 20, 'C': 35, 'D': 40}
    """
    if type(available) is not int:
        raise RequestError("available", available, "expected an int")
    if type(scale) is not bool:
        raise RequestError("scale", scale, "expected True or False")
    given = require_instances("sharers", sharers, Sharer)
    for one in given:
        _require_sharer(one)
    if len({one.name for one in given}) < len(given):
        raise RequestError("sharers", given, "expected groups with different names")
    return shares_of(available, given, scale=scale)


def _require_sharer(sharer: Sharer) -> None:
    name, *amounts, lends = sharer
    require_name("sharer.name", name)
    if not all(type(amount) is int for amount in amounts) or type(lends) is not bool:
        raise RequestError("sharers", sharer, "expected ints as amounts, and True or False as lends")


def shares_of(available: int, sharers: Iterable[Sharer], *, scale: bool = True) -> SharingResult:
    """Do the same without a check of the arguments."""
    ordered = sorted(sharers)
    min_sum = sum(one.min for one in ordered)
    short = scale and is_short(available, min_sum, sum(one.countable for one in ordered))
    minimums = {one.name: scaled_min(available, one.min, min_sum) if short else one.min for one in ordered}
    floor = {one.name: one.floor(minimums[one.name]) for one in ordered}
    runtime = dict(floor)
    rounds = tuple(_rounds(available, runtime, {one.name: (one.weight, one.request) for one in ordered}))
    if short:
        weightless = {one.name: (one.min, one.countable) for one in ordered if one.weight <= 0}
        for _ in _rounds(available, runtime, weightless):
            pass
        minimums.update((name, minimums[name] + runtime[name] - floor[name]) for name in weightless)
    return SharingResult(available, runtime, minimums, floor, rounds)


def _rounds(available: int, runtime: dict[str, int], groups: Mapping[str, tuple[int, int]]) -> Iterator[SharingRound]:
    """Divide the rest of an amount, and yield each round.

    Args:
        available: the amount.
        runtime: the share of each group; increased by its parts.
        groups: the weight and the largest share of each group, in order of names.
    """
    hungry = [name for name, (weight, most) in groups.items() if weight > 0 and runtime[name] < most]
    weights, needs = [groups[name][0] for name in hungry], [groups[name][1] - runtime[name] for name in hungry]
    left = available - sum(runtime.values())
    for names, shared, given, unmet in divide_in_rounds(left, hungry, weights, needs):
        runtime.update((name, groups[name][1] - max(need, 0)) for name, need in zip(names, unmet, strict=True))
        yield SharingRound(sum(given), sum(shared), dict(zip(names, given, strict=True)))


def is_short(available: int, min_sum: int, request_sum: int) -> bool:
    """Return whether minimums must be scaled: both their sum and the requests exceed the available amount."""
    return 0 < min_sum > available < request_sum


def scaled_min(available: int, minimum: int, min_sum: int) -> int:
    """Return a minimum in proportion to the available amount, rounded down. The sum of the minimums is positive.

    >>> scaled_min(100, 40, 120)
    33
    """
    return max(available, 0) * minimum // min_sum


def divide_in_rounds(
    left: int, keys: Sequence[KeyT], weights: Sequence[int], needs: Sequence[int]
) -> Iterator[Round[KeyT]]:
    """Divide in rounds until nothing is left or no group is hungry, and yield each round.

    Args:
        left: the amount to divide.
        keys: the groups, in order of names.
        weights: their weights, all positive.
        needs: how much each needs. A group with a negative amount is not hungry, and returns that amount at first.

    >>> [round[3] for round in divide_in_rounds(45, "BCD", [60, 50, 80], [5, 20, 35])]
    [[-9, 8, 16], [5, 10]]
    """
    total = sum(needs)
    while True:
        hungry = list(map(gt, needs, repeat(0)))
        keys, weights = list(compress(keys, hungry)), list(compress(weights, hungry))
        needs = list(compress(needs, hungry))
        # What the satisfied groups return: their needs are negative.
        left += sum(needs) - total
        if left <= 0 or not keys:
            return
        parts = divide(left, weights)
        needs = list(map(sub, needs, parts))
        total, left = sum(needs), 0
        yield keys, weights, parts, needs
        if min(needs) > 0:
            return


def divide(amount: int, weights: Sequence[int]) -> list[int]:
    """Divide an amount in proportion to one or more weights by largest remainder. Of equal remainders, the first wins.

    >>> divide(5, [1, 1, 1])
    [2, 2, 1]
    """
    shares = map(divmod, map(mul, repeat(amount), weights), repeat(sum(weights)))
    parts, remainders = map(list, zip(*shares, strict=True))
    units = amount - sum(parts)
    if units:
        for at in sorted(range(len(parts)), key=remainders.__getitem__, reverse=True)[:units]:
            parts[at] += 1
    return parts
