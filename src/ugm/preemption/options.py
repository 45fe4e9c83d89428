"""The candidates of a plan as options, and the sums that restrict the choice of victims.

A set of victims is permitted if three kinds of sums over its members stay within limits; see
`ugm.preemption.eligibility`. Here they become vectors: *targets* must be reached, the missing amounts always and the
claims of chosen victims, and *bounds* must not be exceeded. Candidates that add the same to every sum are merged into
one option. Its members differ only in their age, so the youngest is chosen first.

The waste of a set is the sum of what its victims use, each resource divided by the kept amount at the root, minus a
constant. So each option has a weight, an integer on a common scale.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, chain
from math import lcm
from typing import Final, NamedTuple, TypeAlias, final

from ugm.preemption.eligibility import Point, Situation
from ugm.preemption.queue_usage_tree import AllocationClass

__all__ = ["Amounts", "Option", "PlanningProblem"]

#: Pairs of an index and an amount.
Amounts: TypeAlias = tuple[tuple[int, int], ...]


class Option(NamedTuple):
    """Candidates that no rule and no bound distinguishes."""

    weight: int
    priority: int
    #: Youngest first.
    positions: Sequence[int]
    #: What one of them adds to the targets.
    frees: Amounts
    #: What one of them adds to the bounds.
    takes: Amounts
    #: The claims that must be met if one of them is chosen.
    claims: tuple[int, ...]
    #: The part of all missing amounts that one of them covers, on a common scale.
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
        "_candidates",
        "_claims",
        "_columns",
        "_largest",
        "_options",
        "_shares",
        "_situation",
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
        scale = lcm(*needs.values())
        self.total_share = scale * self.needs
        self._candidates: Final = usable if self.can_suffice else ()
        #: Per target, what each candidate adds to it; and the part of all missing amounts that each candidate covers.
        self._columns: Final = self._amounts(points)
        self._shares: Final = self._covered(scale)
        self._largest: Final = self._largest_sums()
        kept = {name: amount for name, amount in situation.tree.root.kept.items() if amount}
        scale = lcm(*kept.values())
        #: The waste of one unit of a resource.
        self._weights: Final = {name: scale // amount for name, amount in kept.items()}
        #: The options of the candidates, made when they are needed.
        self._options: Final[list[Option | None]] = [None] * len(self._candidates)

    @property
    def candidate_count(self) -> int:
        """The number of candidates."""
        return sum([len(one.positions) for one in self._candidates])

    def _amounts(self, points: Iterable[Point]) -> list[list[int]]:
        roles = self._situation.roles
        usages = [(one.usage, roles[one.node.path].level) for one in self._candidates]
        return [
            [usage.get(name, 0) if level <= place else 0 for usage, level in usages]  # type: ignore[operator] # needs and claims are at levels
            for place, name in points
        ]

    def _covered(self, scale: int) -> list[int]:
        shares = [0] * len(self._candidates)
        for column, target in zip(self._columns[: self.needs], self.targets, strict=False):
            unit = scale // target
            shares = [share + unit * min(amount, target) for share, amount in zip(shares, column, strict=True)]
        return shares

    # Bounds on the number of victims

    def _largest_sums(self) -> list[list[int]]:
        """Return the sums of the 0, 1, 2 and so on largest amounts: per missing amount, and of the shares."""
        counts = [len(one.positions) for one in self._candidates]
        listed = [*self._columns[: self.needs], self._shares]
        if sum(counts) > len(counts):
            pairs = (zip(values, counts, strict=True) for values in listed)
            listed = [[value for value, count in values for _ in range(count)] for values in pairs]
        return [list(accumulate(sorted(values, reverse=True), initial=0)) for values in listed]

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
        usable: Sequence[int] = range(len(self._candidates))
        for values, least in zip((*self._columns[: self.needs], self._shares), self._least(number), strict=True):
            if least > 0:
                usable = [index for index in usable if values[index] >= least]
        first: dict[tuple[object, ...], Option] = {}
        equal: dict[tuple[object, ...], list[Option]] = {}
        for index in usable:
            option = self._options[index] or self._option(index)
            key = option[:2] + option[3:]
            known = first.setdefault(key, option)
            if known is not option:
                equal.setdefault(key, [known]).append(option)
        merged = first | {key: _merged(options) for key, options in equal.items()}
        return sorted(merged.values(), key=_option_cost)

    def _option(self, index: int) -> Option:
        """Return the option of one candidate."""
        one, weights = self._candidates[index], self._weights
        weight = 0
        for name, amount in one.usage.items():
            weight += weights[name] * amount
        claims: tuple[int, ...] = ()
        if self._claims:
            level = self._situation.roles[one.node.path].level
            claims = tuple([self._claims[point] for point in _claims_of(one, self._situation, level)])
        takes = self._takes(one.node.path, one.usage) if self._bounds else ()
        frees = tuple([(target, column[index]) for target, column in enumerate(self._columns) if column[index]])
        values = weight, one.priority, one.positions[::-1], frees, takes, claims, self._shares[index]
        # `Option(...)` takes twice as long.
        option = tuple.__new__(Option, values)
        self._options[index] = option
        return option

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


def _merged(options: Sequence[Option]) -> Option:
    """Return one option for several that differ in their positions."""
    positions = chain.from_iterable([option.positions for option in options])
    return options[0]._replace(positions=sorted(positions, reverse=True))


def _option_cost(option: Option) -> tuple[int, int, int]:
    weight, priority, positions = option[:3]
    return weight, priority, -positions[0]


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
        offered: dict[str, list[tuple[Mapping[str, int], int]]] = {}
        for one in candidates:
            offered.setdefault(one.node.path, []).append((one.usage, len(one.positions)))
        sums = {
            name: {path: sum([usage.get(name, 0) * count for usage, count in pairs]) for path, pairs in offered.items()}
            for name in situation.reachable[0]
        }
        self._sums: Final = sums

    def can_suffice(self) -> bool:
        """Return whether all candidates cover the missing amounts, if each queue keeps its guarantee."""
        for name in self._sums:
            sums = self._summed(name, are_bounded=True)
            # The victims that count for the node are all of them, as at the root.
            levels = zip((*self._situation.path, self._situation.tree.root), self._situation.missing, strict=True)
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
