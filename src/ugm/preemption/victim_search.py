"""The search for the set of victims with the least cost.

The problem: a set of victims has to free some amounts with as few allocations as possible, and other sums over its
members must stay within bounds. This contains covering knapsacks, so no method is fast for every input.

The idea: a `VictimProblem` has *targets*, amounts that the victims in and below a queue should free, *bounds*, amounts
that they should not exceed, and *candidates*. It describes requests and reductions alike. The cost of a set is, in the
order of comparison: the amounts that are missing at targets, the amounts beyond bounds, the number of victims, their
weight, their priorities, and their age. Candidates that add the same to each sum form an *option*.

The first set is chosen step by step: the cheapest options are added until nothing is missing, and then those that are
not needed are given back. All other sets are compared with the best one so far. Options are sorted by cost, and a
partial set is abandoned if no later options can lead to less cost.

The search counts its steps, and stops at a limit with the best set that it has found. The limit is a number of steps
and not a time, so equal inputs have equal results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import accumulate, repeat
from math import inf
from operator import mul
from typing import Any, Final, NamedTuple, TypeAlias, final

from ugm.identity import ancestors
from ugm.preemption.queue_usage_tree import Candidates

#: Up to this number of candidates the search has no limit.
ALWAYS_COMPLETE: Final = 14

#: The steps of a search; a step costs a few microseconds.
DEFAULT_STEPS: Final = 1_000


class Sum(NamedTuple):
    """An amount of a resource that the victims in and below a queue should free, or should not exceed."""

    queue_path: str
    resource: str
    amount: int
    #: The cost of each unit that is missing or beyond; 0 if a bound must not be exceeded.
    unit: int = 0
    #: Only victims in and below this queue, but not below that of the target, demand it; None: it is always demanded.
    claimed_below: str | None = None


class VictimProblem(NamedTuple):
    """The choice of victims."""

    #: The amounts that should be freed.
    targets: Sequence[Sum]
    #: The amounts that should not be exceeded.
    bounds: Sequence[Sum]
    candidates: Candidates
    #: By resource, the weight of one unit in the cost.
    weights: Mapping[str, int]
    #: Whether a set counts only if it reaches all targets that are demanded.
    is_strict: bool


class _Option(NamedTuple):
    """Candidates that differ only in their age."""

    weight: int
    priority: int
    #: The negative position of the youngest; options are sorted by it after weight and priority.
    age: int
    #: What one of them adds to each target.
    frees: tuple[int, ...]
    #: The indexes of bounds, with what one of them adds.
    takes: tuple[tuple[int, int], ...]
    #: The targets that must be reached if one of them is chosen.
    claims: tuple[int, ...]
    #: Positions in the ledger, youngest first.
    positions: list[int]


class Chosen(NamedTuple):
    """The result of a search."""

    #: Positions in the ledger, oldest first; None if no set was found.
    positions: tuple[int, ...] | None
    #: Whether the result is proven: no other set costs less, or no set is permitted.
    is_optimal: bool


def choose(problem: VictimProblem, steps: int = DEFAULT_STEPS) -> Chosen:
    """Return the victims with the least cost; *steps* is the limit for more than a few candidates."""
    return _Search(problem, steps).result()


#: What is missing at targets and taken beyond bounds, the number of victims, and their weight.
_Sums: TypeAlias = tuple[int, int, float, int]

#: The priorities (highest first) and the negative positions (oldest first) of victims.
_Ranks: TypeAlias = tuple[list[int], list[int]]


@final
class _VictimSet:
    """A set of victims with its sums; empty at first."""

    def __init__(self, problem: VictimProblem) -> None:
        self._targets: Final = problem.targets
        self._bounds: Final = problem.bounds
        #: The options of the victims by position, in the order in which they were chosen.
        self.members: Final[dict[int, _Option]] = {}
        #: Per target, the amount that is missing.
        self.missing: Final = [target.amount for target in problem.targets]
        #: Per target, how many victims demand it; all targets but claims are always demanded.
        self.demands: Final = [int(target.claimed_below is None) for target in problem.targets]
        #: Per bound, the amount that further victims may take; negative beyond it.
        self._room: Final = [bound.amount for bound in problem.bounds]
        self.weight = 0
        self.beyond = 0

    def add(self, option: _Option, position: int) -> None:
        """Add a victim."""
        self._change(option, 1)
        self.members[position] = option

    def remove(self, position: int) -> None:
        """Remove a victim."""
        self._change(self.members.pop(position), -1)

    def _change(self, option: _Option, sign: int) -> None:
        self.weight += sign * option.weight
        for target, amount in enumerate(option.frees):
            self.missing[target] -= sign * amount
        for bound, amount in option.takes:
            before, self._room[bound] = self._room[bound], self._room[bound] - sign * amount
            self.beyond += self._bounds[bound].unit * (min(0, before) - min(0, self._room[bound]))
        for claim in option.claims:
            self.demands[claim] += sign

    def has_room(self, option: _Option) -> bool:
        """Return whether the bounds permit one victim more."""
        bounds = self._bounds
        return all(self._room[bound] >= amount or bounds[bound].unit for bound, amount in option.takes)

    def beyond_with(self, option: _Option) -> int:
        """Return the cost of what one victim more would take beyond bounds."""
        bounds, room = self._bounds, self._room
        return sum([bounds[at].unit * max(0, amount - max(0, room[at])) for at, amount in option.takes])

    def left(self) -> int:
        """Return the cost of the missing amounts at the demanded targets."""
        sums = zip(self._targets, self.missing, self.demands, strict=True)
        return sum([target.unit * missing for target, missing, demands in sums if demands and missing > 0])

    def ranks(self, further: Sequence[_Option] = ()) -> _Ranks:
        """Return the priorities and ages with the youngest members of *further* options."""
        priorities = [one.priority for one in (*self.members.values(), *further)]
        ages = [*(-position for position in self.members), *(one.age for one in further)]
        return sorted(priorities, reverse=True), sorted(ages, reverse=True)


@final
class _Search:
    """A search for one problem; see the module."""

    def __init__(self, problem: VictimProblem, steps: int) -> None:
        self._problem: Final = problem
        self._targets: Final = problem.targets
        count = sum(map(len, problem.candidates.values()))
        self._steps: float = inf if count <= ALWAYS_COMPLETE else steps
        #: The numbers and resources of the bounds by queue.
        self._bounds_of: Final[dict[str, list[tuple[int, str]]]] = {}
        for at, bound in enumerate(problem.bounds):
            self._bounds_of.setdefault(bound.queue_path, []).append((at, bound.resource))
        self._options: Final = self._sorted_options()
        self._victims = _VictimSet(problem)
        #: The best set; None if there is none.
        self._best: dict[int, _Option] | None = None if problem.is_strict else {}
        # Sets that must reach all targets are compared with a worse one of any number.
        sums: _Sums = (0, 0, inf, 0) if problem.is_strict else (self._victims.left(), 0, 0, 0)
        self._best_cost: tuple[_Sums, _Ranks] = sums, ([], [])

    def _sums(self, queue_path: str) -> tuple[list[str], list[tuple[int, str]], list[tuple[int, str]]]:
        """Return the sums to which the allocations of a queue add.

        Returns:
            Per target, the resource that counts, or an empty text if none does; the numbers and resources of bounds;
            and those of the targets that a victim demands if it uses the resource.
        """
        above, targets = dict.fromkeys(ancestors(queue_path)), [*enumerate(self._targets)]
        names = [one.resource if one.queue_path in above else "" for _, one in targets]
        bounds = [bound for path in above for bound in self._bounds_of.get(path, ())]
        claimed = [(at, one.resource) for at, one in targets if one.claimed_below in above and not names[at]]
        return names, bounds, claimed

    def _sorted_options(self) -> list[_Option]:
        """Return the options, the cheapest first. `map` takes half as long as comprehensions."""
        candidates, weights, nothing = self._problem.candidates, self._problem.weights, repeat(0)
        places = {path: self._sums(path) for path in {one.queue_path for one in candidates}}
        merged: dict[tuple[Any, ...], list[int]] = {}
        for one, positions in candidates.items():
            usage, (names, bounds, claimed) = one.usage.amounts, places[one.queue_path]
            weight = sum(map(mul, usage.values(), map(weights.get, usage, nothing)))
            frees = tuple(map(usage.get, names, nothing))
            takes = tuple([(bound, usage[name]) for bound, name in bounds if usage.get(name)])
            claims = tuple([target for target, name in claimed if usage.get(name)])
            merged.setdefault((weight, one.priority, frees, takes, claims), []).extend(positions)
        youngest = ((key, sorted(members, reverse=True)) for key, members in merged.items())
        return sorted(_Option._make((*key[:2], -members[0], *key[2:], members)) for key, members in youngest)

    def result(self) -> Chosen:
        """Find the best set."""
        self._choose_greedily()
        is_optimal = self._compare()
        if self._best is None:
            return Chosen(None, is_optimal)
        self._victims = _VictimSet(self._problem)
        for position, option in self._best.items():
            self._victims.add(option, position)
        # A search that was stopped may have found a better set with needless victims.
        self._remove_needless()
        return Chosen(tuple(sorted(self._victims.members)), is_optimal)

    def _record(self) -> None:
        """Keep the set if it is the best so far."""
        victims = self._victims
        sums = victims.left(), victims.beyond, len(victims.members), victims.weight
        if sums <= self._best_cost[0] and (cost := (sums, victims.ranks())) < self._best_cost:
            self._best_cost, self._best = cost, dict(victims.members)

    # The comparison of all sets

    def _compare(self) -> bool:
        """Compare all sets with the best set, and return whether the steps suffice.

        A set has its options in ascending order, so none is visited twice.
        """
        options, victims, path = self._options, _VictimSet(self._problem), list[int]()
        self._victims, supplies = victims, _supplies(options)
        index = taken = 0
        while True:
            if index < len(options) and self._may_improve(options[index], supplies[index]):
                self._steps -= 1
                if self._steps < 0:
                    return False
                option = options[index]
                if taken < len(option.positions) and victims.has_room(option):
                    victims.add(option, option.positions[taken])
                    path.append(index)
                    taken += 1
                    self._record()
                else:
                    index, taken = index + 1, 0
            elif path:
                victims.remove(next(reversed(victims.members)))
                index, taken = path.pop() + 1, 0
            else:
                return True

    def _may_improve(self, option: _Option, supply: Sequence[tuple[int, int]]) -> bool:
        """Return whether an option and later ones may lead to less cost.

        Args:
            option: the option.
            supply: per target, what one victim can add at most, and what all can add.
        """
        victims, left, further = self._victims, 0, 1
        for target, missing, demands, (most, total) in zip(
            self._targets, victims.missing, victims.demands, supply, strict=True
        ):
            if demands and missing > 0:
                left += max(0, missing - total) * target.unit
                if most:
                    further = max(further, -(-min(missing, total) // most))
        weight = victims.weight + further * option.weight
        least: _Sums = left, victims.beyond, len(victims.members) + further, weight
        sums, ranks = self._best_cost
        return least < sums or (least == sums and victims.ranks([option] * further) < ranks)

    # The choice step by step

    def _choose_greedily(self) -> None:
        """Record a set without needless victims, chosen step by step, if there is one.

        First only options without claims are chosen, and then those with more and more claims, which are demanded too.
        """
        demanded = {index for index, target in enumerate(self._targets) if target.claimed_below is None}
        for claims in sorted({option.claims for option in self._options}, key=lambda one: (len(one), one)):
            demanded.update(claims)
            self._victims = _VictimSet(self._problem)
            self._cover(demanded)
            if not self._problem.is_strict or not any(self._victims.missing[target] > 0 for target in demanded):
                self._remove_needless()
                self._record()
                return

    def _cover(self, demanded: set[int]) -> None:
        """Choose the options that take least beyond bounds and free most, until nothing is missing."""
        victims, missing, options = self._victims, self._victims.missing, self._options
        units = [target.unit if index in demanded else 0 for index, target in enumerate(self._targets)]

        def entry(index: int, taken: int) -> tuple[int, ...]:
            weight, priority, _, frees, _, _, positions = option = options[index]
            covered = sum(map(mul, units, map(min, frees, map(max, missing, repeat(0)))))
            return victims.beyond_with(option), -covered, weight, priority, -positions[taken], index, taken

        heap = [entry(index, 0) for index, option in enumerate(options) if demanded.issuperset(option.claims)]
        heapify(heap)
        while heap and any(missing[target] > 0 for target in demanded):
            first = heappop(heap)
            *_, index, taken = first
            # An option costs more and covers less with every victim, so an entry that is up to date is the best one.
            current, option = entry(index, taken), options[index]
            if not current[1] or not victims.has_room(option):
                continue
            if current == first:
                victims.add(option, option.positions[taken])
                taken += 1
            if taken < len(option.positions):
                heappush(heap, entry(index, taken))

    def _remove_needless(self) -> None:
        """Remove victims until none can be removed: high priorities and old allocations first."""
        victims, left, count = self._victims, self._victims.left(), 0
        # The claims of a removed victim may be gone, so that an earlier one is needless now.
        while count != len(victims.members):
            count = len(victims.members)
            for position, option in sorted(victims.members.items(), key=lambda one: (-one[1].priority, one[0])):
                victims.remove(position)
                if victims.left() > left:
                    victims.add(option, position)


def _supplies(options: Sequence[_Option]) -> Sequence[Sequence[tuple[int, int]]]:
    """Return per option and target what this option and later ones add at most: one victim, and all together."""
    backwards = options[::-1]
    counts = [len(option.positions) for option in backwards]
    columns = [
        [*zip(accumulate(amounts, max), accumulate(map(mul, amounts, counts)), strict=True)][::-1]
        for amounts in zip(*[option.frees for option in backwards], strict=True)
    ]
    return list(zip(*columns, strict=True))
