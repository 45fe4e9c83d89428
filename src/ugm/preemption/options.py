"""The candidates of a plan as options, and the sums that restrict the choice of victims.

A set of victims is lawful if three kinds of sums over its members stay within limits; see `ugm.preemption.laws`.
Here they become vectors: *targets* must be reached, the missing amounts always and the claims of chosen victims, and
*bounds* must not be exceeded. Candidates that add the same to every sum are merged into one option. Its members differ
only in their age, so the youngest is chosen first.

The waste of a set is the sum of what its victims use, each resource divided by the kept amount at the root, minus a
constant. So each option has a weight, an integer on a common scale.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from math import lcm
from typing import Final, NamedTuple, TypeAlias, final

from ugm.preemption.laws import Point, Situation
from ugm.preemption.usage_tree import AllocationClass

__all__ = ["Amounts", "Option", "PlanningProblem"]

#: Pairs of an index and an amount.
Amounts: TypeAlias = tuple[tuple[int, int], ...]


class Option(NamedTuple):
    """Candidates that no law and no bound distinguishes."""

    weight: int
    priority: int
    #: Youngest first.
    positions: list[int]
    #: What one of them adds to the targets.
    frees: Amounts
    #: What one of them adds to the bounds.
    takes: Amounts
    #: The claims that must be met if one of them is chosen.
    claims: tuple[int, ...]
    #: The part of all missing amounts that one of them covers, on a common scale.
    share: int


class _Shape(NamedTuple):
    """The facts that all candidates of one level and usage share."""

    frees: Amounts
    weight: int
    claims: tuple[int, ...]
    share: int


@final
class PlanningProblem:
    """The choice of victims.

    Args:
        situation: the missing amounts and the bounds.
        candidates: the classes of allocations that may be victims.
    """

    __slots__ = (
        "_bounds",
        "_bounds_of",
        "_candidate_shapes",
        "_candidates",
        "_claims",
        "_largest",
        "_shapes",
        "_shares",
        "_situation",
        "_targets",
        "_weights",
        "bounds",
        "can_suffice",
        "needs",
        "targets",
        "total_share",
    )

    #: Whether all candidates together cover what is missing, if each queue keeps its guarantee.
    can_suffice: bool
    #: The sums that must be reached: missing amounts first, and then claims.
    targets: list[int]
    #: The number of missing amounts.
    needs: int
    bounds: list[int]
    #: The share of a set that covers all missing amounts exactly.
    total_share: int

    def __init__(self, situation: Situation, candidates: Sequence[AllocationClass]) -> None:
        self._situation: Final = situation
        claims = _claims(situation)
        usable = _with_possible_claims(situation, candidates, claims)
        offers = _Offers(situation, usable)
        self.can_suffice = offers.can_suffice()
        needs: dict[Point, int] = {
            (level, name): amount for level, missing in enumerate(situation.missing) for name, amount in missing.items()
        }
        points = [*needs, *claims]
        self.targets = [*needs.values(), *claims.values()]
        self.needs = len(needs)
        bounds = offers.bounds() if self.can_suffice else {}
        self.bounds = list(bounds.values())
        self._bounds: Final = {point: number for number, point in enumerate(bounds)}
        #: By path, the bounds that the allocations of a queue are subject to.
        self._bounds_of: Final[dict[str, list[tuple[int, str]]]] = {}
        self._claims: Final = {point: number for number, point in enumerate(points) if number >= self.needs}
        #: By level, the targets that an allocation helps with.
        self._targets: Final = [
            [(number, name) for number, (place, name) in enumerate(points) if place >= level]  # type: ignore[operator] # needs and claims are at levels
            for level in range(len(situation.path))
        ]
        scale = lcm(*needs.values())
        self._shares: Final = [scale // amount for amount in needs.values()]
        self.total_share = scale * self.needs
        kept = {name: amount for name, amount in situation.tree.root.kept.items() if amount}
        scale = lcm(*kept.values())
        #: The waste of one unit of a resource.
        self._weights: Final = {name: scale // amount for name, amount in kept.items()}
        self._shapes: Final[dict[tuple[int, int], _Shape]] = {}
        self._candidates: Final = usable if self.can_suffice else ()
        #: In the same order.
        self._candidate_shapes: Final = list(map(self._shape, self._candidates))
        self._largest: Final = self._largest_sums()

    @property
    def candidate_count(self) -> int:
        """The number of candidates."""
        return sum([len(one.positions) for one in self._candidates])

    def _shape(self, one: AllocationClass) -> _Shape:
        level = self._situation.roles[one.node.path].level
        key = level, one.shape
        found = self._shapes.get(key)
        if found is None:
            usage, weights = one.usage, self._weights
            frees = tuple([(number, usage[name]) for number, name in self._targets[level] if name in usage])
            claims = tuple([self._claims[point] for point in _claims_of(one, self._situation, level)])
            weight = sum([weights[name] * amount for name, amount in usage.items()])
            found = self._shapes[key] = _Shape(frees, weight, claims, self._share(frees))
        return found

    def _share(self, frees: Amounts) -> int:
        shares, targets = self._shares, self.targets
        return sum([shares[at] * min(amount, targets[at]) for at, amount in frees if at < self.needs])

    # Bounds on the number of victims

    def _largest_sums(self) -> list[list[int]]:
        """Return the sums of the 0, 1, 2 and so on largest amounts: per missing amount, and of the shares."""
        amounts: list[list[int]] = [[] for _ in range(self.needs + 1)]
        for one, shape in zip(self._candidates, self._candidate_shapes, strict=True):
            count = len(one.positions)
            for number, amount in shape.frees:
                if number < self.needs:
                    amounts[number] += [amount] * count
            amounts[-1] += [shape.share] * count
        for listed in amounts:
            listed.sort(reverse=True)
        return [list(accumulate(listed, initial=0)) for listed in amounts]

    def fewest(self) -> int:
        """Return a number of victims below which the largest amounts do not suffice."""
        needed = [*self.targets[: self.needs], self.total_share]
        return max(
            next(number for number, total in enumerate(sums) if total >= amount)
            for sums, amount in zip(self._largest, needed, strict=True)
        )

    def options(self, number: int | None = None) -> list[Option]:
        """Return the options, the cheapest first.

        Args:
            number: the number of victims. Candidates are left out that, together with one victim less of the largest
                candidates, cannot cover the missing amounts. None leaves none out.
        """
        least = self._least(number)
        merged: dict[tuple[object, ...], Option] = {}
        for one, shape in zip(self._candidates, self._candidate_shapes, strict=True):
            frees, weight, claims, share = shape
            if share < least[-1] or (number and not _reaches(frees, least)):
                continue
            takes = self._takes(one.node.path, one.usage) if self._bounds else ()
            key = (one.shape, frees, one.priority, takes)
            known = merged.get(key)
            if known is None:
                merged[key] = Option(weight, one.priority, list(one.positions), frees, takes, claims, share)
            else:
                known.positions.extend(one.positions)
        for option in merged.values():
            option.positions.sort(reverse=True)
        return sorted(merged.values(), key=_option_cost)

    def _least(self, number: int | None) -> list[int]:
        """Return the amounts that a victim must at least free, per missing amount, and its least share."""
        if number is None:
            return [0] * (self.needs + 1)
        needed = [*self.targets[: self.needs], self.total_share]
        return [
            amount - sums[min(number - 1, len(sums) - 1)] for sums, amount in zip(self._largest, needed, strict=True)
        ]

    def _takes(self, path: str, usage: Mapping[str, int]) -> Amounts:
        bounds = self._bounds_of.get(path)
        if bounds is None:
            guarded = self._situation.roles[path].guarded
            points = [(node.path, name) for node in guarded for name in node.facts.guaranteed]
            bounds = [(self._bounds[point], point[1]) for point in points if point in self._bounds]
            self._bounds_of[path] = bounds
        return tuple([(number, usage[name]) for number, name in bounds if name in usage])


def _reaches(frees: Amounts, least: Sequence[int]) -> bool:
    amounts = dict(frees)
    return all(amounts.get(number, 0) >= amount for number, amount in enumerate(least[:-1]) if amount > 0)


def _option_cost(option: Option) -> tuple[int, int, int]:
    return option.weight, option.priority, -option.positions[0]


def _claims(situation: Situation) -> dict[Point, int]:
    """Return the amounts by which queues of the path would exceed their guarantees."""
    return {
        (level, name): above
        for entitled in situation.entitled
        for name, points in entitled.items()
        for level, above in points
        if above > 0
    }


def _with_possible_claims(
    situation: Situation, candidates: Sequence[AllocationClass], claims: Mapping[Point, int]
) -> Sequence[AllocationClass]:
    """Return the candidates whose claims all candidates together can meet."""
    if not claims:
        return candidates
    usable: list[AllocationClass] = []
    supply = dict.fromkeys(claims, 0)
    # A claim lies below the level of the candidate, so only candidates of lower levels can meet it.
    levels: dict[int, list[AllocationClass]] = {}
    for one in candidates:
        levels.setdefault(situation.roles[one.node.path].level, []).append(one)
    for level in sorted(levels):
        kept = [
            one
            for one in levels[level]
            if all(supply[point] >= claims[point] for point in _claims_of(one, situation, level))
        ]
        usable += kept
        for one in kept:
            for place, name in claims:
                if place >= level:  # type: ignore[operator] # claims are at levels
                    supply[place, name] += one.usage.get(name, 0) * len(one.positions)
    return usable


def _claims_of(one: AllocationClass, situation: Situation, level: int) -> list[Point]:
    entitled = situation.entitled[level]
    return [(below, name) for name in one.usage if name in entitled for below, above in entitled[name] if above > 0]


@final
class _Offers:
    """The sums of all candidates in and below each queue, per missing resource."""

    __slots__ = ("_situation", "_sums")

    def __init__(self, situation: Situation, candidates: Iterable[AllocationClass]) -> None:
        self._situation: Final = situation
        sums: dict[str, dict[str, int]] = {name: {} for name in situation.reachable[0]}
        for one in candidates:
            path, count = one.node.path, len(one.positions)
            for name, amount in one.usage.items():
                if name in sums:
                    offered = sums[name]
                    offered[path] = offered.get(path, 0) + amount * count
        self._sums: Final = sums

    def can_suffice(self) -> bool:
        """Return whether all candidates cover the missing amounts, if each queue keeps its guarantee."""
        for name in self._sums:
            sums = self._summed(name, are_bounded=True)
            levels = zip(self._situation.path, self._situation.missing, strict=True)
            if any(sums.get(node.path, 0) < missing.get(name, 0) for node, missing in levels):
                return False
        return True

    def bounds(self) -> dict[Point, int]:
        """Return the bounds that the candidates exceed together."""
        bounds: dict[Point, int] = {}
        for name in sorted(self._sums):
            for path, amount in self._summed(name, are_bounded=False).items():
                bound = self._bound(path, name)
                if bound is not None and bound < amount:
                    bounds[path, name] = bound
        return bounds

    def _summed(self, name: str, *, are_bounded: bool) -> dict[str, int]:
        sums = dict(self._sums[name])
        for node in reversed(self._situation.tree.nodes.values()):
            amount = sums.get(node.path)
            if amount is None or node.parent is None:
                continue
            bound = self._bound(node.path, name) if are_bounded else None
            if bound is not None and bound < amount:
                amount = sums[node.path] = max(bound, 0)
            sums[node.parent.path] = sums.get(node.parent.path, 0) + amount
        return sums

    def _bound(self, path: str, name: str) -> int | None:
        """Return the amount that a queue outside the path may lose; None for any amount."""
        role = self._situation.roles[path]
        guarded = role.guarded
        # A queue without a guarantee of its own has the role of the queue above.
        if not guarded or guarded[-1].path != path or name not in self._situation.reachable[role.level]:
            return None
        return guarded[-1].above_guarantee(name)
