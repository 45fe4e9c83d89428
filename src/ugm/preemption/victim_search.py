"""The search for the set of victims with the least cost.

The problem: a set of victims has to free some amounts with as few allocations as possible, and other sums over its
members must stay within bounds. This contains covering knapsacks, so no method is fast for every input.

The idea: a `Problem` has *targets*, amounts that the victims in and below a queue should free, *bounds*, amounts that
they should not exceed, and *candidates*. It describes requests and reductions alike. The cost of a set is, in the order
of comparison: the amounts that are missing at targets, the amounts beyond bounds, the number of victims, their weight,
their priorities, and their age. Candidates that add the same to each sum form an *option*.

The first set is chosen step by step: the cheapest options are added until nothing is missing, and then those that are
not needed are given back. All other sets are compared with the best one so far. Options are sorted by cost, and a
partial set is abandoned if no later options can lead to less cost.

The search counts its steps, and stops at a limit with the best set that it has found. The limit is a number of steps
and not a time, so equal inputs have equal results.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import accumulate, repeat
from math import inf
from operator import ge, mul
from typing import Any, Final, NamedTuple, TypeAlias, final

from ugm.identity import ancestors
from ugm.preemption.queue_usage_tree import Candidates

__all__ = ["DEFAULT_STEPS", "Bound", "Chosen", "Problem", "Target", "choose"]

#: Up to this number of candidates the search has no limit.
ALWAYS_COMPLETE: Final = 14

#: The steps of a search; a step costs a few microseconds.
DEFAULT_STEPS: Final = 1_000


class Target(NamedTuple):
    """An amount of a resource that the victims in and below a queue should free."""

    queue_path: str
    resource: str
    amount: int
    #: The cost of each unit that is missing.
    unit: int
    #: Only victims in and below this queue, but not below that of the target, demand it; None: it is always demanded.
    claimed_below: str | None = None


class Bound(NamedTuple):
    """An amount of a resource that the victims in and below a queue should not exceed."""

    queue_path: str
    resource: str
    amount: int
    #: The cost of each unit beyond it; None if the bound must not be exceeded.
    unit: int | None = None


class Problem(NamedTuple):
    """The choice of victims."""

    targets: Sequence[Target]
    bounds: Sequence[Bound]
    candidates: Candidates
    #: By resource, the weight of one unit in the cost.
    weights: Mapping[str, int]
    #: Whether a set counts only if it reaches all targets that are demanded.
    is_strict: bool


#: The number of a target or bound, and the resource that counts.
_Sum: TypeAlias = tuple[int, str]


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
    #: Positions in the ledger, youngest first. An array, because the garbage collector does not visit it.
    positions: array[int]


class Chosen(NamedTuple):
    """The result of a search."""

    #: Positions in the ledger, oldest first; None if no set was found.
    positions: tuple[int, ...] | None
    #: Whether the result is proven: no other set costs less, or no set is permitted.
    is_optimal: bool


def choose(problem: Problem, steps: int = DEFAULT_STEPS) -> Chosen:
    """Return the victims with the least cost; *steps* is the limit for more than a few candidates."""
    return _Search(problem, steps).result()


#: A victim: its option, and the number of members of it that were chosen before.
_Member: TypeAlias = tuple[_Option, int]

#: What is missing at targets and taken beyond bounds, the number of victims, and their weight.
_Sums: TypeAlias = tuple[int, int, float, int]

#: The priorities (highest first) and the negative positions (oldest first) of victims.
_Ranks: TypeAlias = tuple[list[int], list[int]]


@final
class _VictimSet:
    """A set of victims with its sums; empty at first."""

    def __init__(self, targets: Sequence[Target], bounds: Sequence[Bound]) -> None:
        self._targets: Final = targets
        self._bounds: Final = bounds
        self.members: Final[list[_Member]] = []
        #: Per target, the amount that is missing.
        self.missing: Final = [target.amount for target in targets]
        #: Per target, how many victims demand it; all targets but claims are always demanded.
        self.demands: Final = [int(target.claimed_below is None) for target in targets]
        #: Per bound, the amount that further victims may take.
        self._room: Final = [bound.amount for bound in bounds]
        self.weight = 0
        self.beyond = 0

    def add(self, option: _Option, taken: int) -> None:
        """Add a victim."""
        self.beyond += self.beyond_with(option) if option.takes else 0
        self._change(option, 1)
        self.members.append((option, taken))

    def remove(self, number: int = -1) -> None:
        """Remove a victim, by default the last one."""
        option, _ = self.members.pop(number)
        self._change(option, -1)
        self.beyond -= self.beyond_with(option) if option.takes else 0

    def _change(self, option: _Option, sign: int) -> None:
        self.weight += sign * option.weight
        for target, amount in enumerate(option.frees):
            self.missing[target] -= sign * amount
        for bound, amount in option.takes:
            self._room[bound] -= sign * amount
        for claim in option.claims:
            self.demands[claim] += sign

    def has_room(self, option: _Option) -> bool:
        """Return whether the bounds permit one victim more."""
        bounds = self._bounds
        return all(self._room[bound] >= amount or bounds[bound].unit is not None for bound, amount in option.takes)

    def beyond_with(self, option: _Option) -> int:
        """Return the cost of what one victim more would take beyond bounds."""
        beyond, bounds = 0, self._bounds
        for bound, amount in option.takes:
            unit = bounds[bound].unit
            if unit is not None:
                beyond += unit * (amount - min(amount, max(0, self._room[bound])))
        return beyond

    def left(self) -> int:
        """Return the cost of the missing amounts at the demanded targets."""
        sums = zip(self._targets, self.missing, self.demands, strict=True)
        return sum([target.unit * missing for target, missing, demands in sums if demands and missing > 0])

    def ranks(self, option: _Option | None = None, number: int = 0) -> _Ranks:
        """Return the priorities and ages with *number* further victims from an option."""
        members = self.members if option is None else [*self.members, *[(option, 0)] * number]
        priorities = sorted([one.priority for one, _ in members], reverse=True)
        return priorities, sorted([-one.positions[taken] for one, taken in members], reverse=True)


@final
class _Search:
    """A search for one problem; see the module."""

    def __init__(self, problem: Problem, steps: int) -> None:
        self._problem: Final = problem
        self._targets: Final = problem.targets
        count = sum(map(len, problem.candidates.values()))
        self._steps: float = inf if count <= ALWAYS_COMPLETE else steps
        self._options: Final = self._sorted_options()
        self._victims = self._no_victims()
        #: The members of the best set; None if there is none.
        self._best: list[_Member] | None = None if problem.is_strict else []
        # Sets that must reach all targets are compared with a worse one of any number.
        sums: _Sums = (0, 0, inf, 0) if problem.is_strict else (self._victims.left(), 0, 0, 0)
        self._best_cost: tuple[_Sums, _Ranks] = sums, ([], [])

    def _no_victims(self) -> _VictimSet:
        return _VictimSet(self._targets, self._problem.bounds)

    def _sums(self, queue_path: str) -> tuple[Sequence[str], Sequence[_Sum], Sequence[_Sum]]:
        """Return the sums to which the allocations of a queue add.

        Returns:
            Per target, the resource that counts, or an empty text if none does; the bounds; and the targets that a
            victim demands if it uses the resource.
        """
        above = list(ancestors(queue_path))
        names = [target.resource if target.queue_path in above else "" for target in self._targets]
        bounds = [(at, one.resource) for at, one in enumerate(self._problem.bounds) if one.queue_path in above]
        claimed = [target.claimed_below in above and target.queue_path not in above for target in self._targets]
        claims = [(number, self._targets[number].resource) for number, is_claimed in enumerate(claimed) if is_claimed]
        return names, bounds, claims

    def _sorted_options(self) -> list[_Option]:
        """Return the options, the cheapest first. `map` takes half as long as comprehensions."""
        candidates, weights, nothing = self._problem.candidates, self._problem.weights, repeat(0)
        places = {path: self._sums(path) for path in {one.queue_path for one in candidates}}
        merged: dict[tuple[Any, ...], array[int]] = {}
        for one, positions in candidates.items():
            usage, (names, bounds, claimed) = one.usage.amounts, places[one.queue_path]
            weight = sum(map(mul, usage.values(), map(weights.get, usage, nothing)))
            frees = tuple(map(usage.get, names, nothing))
            takes = tuple([(bound, usage[name]) for bound, name in bounds if usage.get(name)])
            claims = tuple([target for target, name in claimed if usage.get(name)])
            merged.setdefault((weight, one.priority, frees, takes, claims), array("q")).extend(positions)
        options = []
        for (weight, priority, frees, takes, claims), members in merged.items():
            youngest = array("q", sorted(members, reverse=True))
            options.append(_Option(weight, priority, -youngest[0], frees, takes, claims, youngest))
        return sorted(options)

    def result(self) -> Chosen:
        """Find the best set."""
        self._choose_greedily()
        is_optimal = self._compare()
        if not is_optimal:
            self._victims = self._no_victims()
            for member in self._best or ():
                self._victims.add(*member)
            self._remove_needless()
            self._best = None if self._best is None else self._victims.members
        if self._best is None:
            return Chosen(None, is_optimal)
        return Chosen(tuple(sorted(option.positions[taken] for option, taken in self._best)), is_optimal)

    def _record(self) -> None:
        """Keep the set if it is the best so far."""
        victims = self._victims
        sums = victims.left(), victims.beyond, len(victims.members), victims.weight
        if sums <= self._best_cost[0]:
            cost = sums, victims.ranks()
            if cost < self._best_cost:
                self._best_cost, self._best = cost, list(victims.members)

    # The comparison of all sets

    def _compare(self) -> bool:
        """Compare all sets with the best set, and return whether the steps suffice.

        A set has its options in ascending order, so none is visited twice.
        """
        victims, options = self._no_victims(), self._usable()
        self._victims, supplies, path = victims, self._supplies(options), list[int]()
        index = taken = 0
        while True:
            if index < len(options):
                self._steps -= 1
                if self._steps < 0:
                    return False
            if index < len(options) and self._may_improve(options[index], supplies[index]):
                option = options[index]
                if taken < len(option.positions) and victims.has_room(option):
                    victims.add(option, taken)
                    path.append(index)
                    taken += 1
                    self._record()
                else:
                    index, taken = index + 1, 0
            elif path:
                victims.remove()
                index, taken = path.pop() + 1, 0
            else:
                return True

    def _usable(self) -> list[_Option]:
        """Return the options that can be part of a set with no more victims than the best one."""
        (left, beyond, number, _), _ = self._best_cost
        if left or beyond or number == inf:
            return self._options
        largest = map(max, zip(*[option.frees for option in self._options], strict=True))
        least = [
            target.amount - (int(number) - 1) * most if target.claimed_below is None else 0
            for target, most in zip(self._targets, largest, strict=False)
        ]
        return [option for option in self._options if all(map(ge, option.frees, least))]

    @staticmethod
    def _supplies(options: Sequence[_Option]) -> Sequence[Sequence[tuple[int, int]]]:
        """Return per option and target what this option and later ones add at most: one victim, and all together."""
        backwards = options[::-1]
        counts = [len(option.positions) for option in backwards]
        columns = [
            [*zip(accumulate(amounts, max), accumulate(map(mul, amounts, counts)), strict=True)][::-1]
            for amounts in zip(*[option.frees for option in backwards], strict=True)
        ]
        return list(zip(*columns, strict=True))

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
        if least != self._best_cost[0]:
            return least < self._best_cost[0]
        return victims.ranks(option, further) < self._best_cost[1]

    # The choice step by step

    def _choose_greedily(self) -> None:
        """Record a set without needless victims, chosen step by step, if there is one.

        First only options without claims are chosen, and then those with more and more claims, which are demanded too.
        """
        options = self._options
        demanded = {index for index, target in enumerate(self._targets) if target.claimed_below is None}
        for claims in sorted({option.claims for option in options}, key=lambda one: (len(one), one)):
            demanded.update(claims)
            self._victims = self._no_victims()
            self._cover(options, demanded)
            if not self._problem.is_strict or not any(self._victims.missing[target] > 0 for target in demanded):
                self._remove_needless()
                self._record()
                return

    def _cover(self, options: Sequence[_Option], demanded: set[int]) -> None:
        """Choose the options that take least beyond bounds and free most, until nothing is missing."""
        victims, missing = self._victims, self._victims.missing
        units = [target.unit if index in demanded else 0 for index, target in enumerate(self._targets)]

        def entry(index: int, taken: int) -> tuple[int, ...]:
            weight, priority, _, frees, takes, _, positions = option = options[index]
            beyond = victims.beyond_with(option) if takes else 0
            covered = sum(map(mul, units, map(min, frees, map(max, missing, repeat(0)))))
            return beyond, -covered, weight, priority, -positions[taken], index, taken

        heap = [entry(index, 0) for index, option in enumerate(options) if demanded.issuperset(option.claims)]
        heapify(heap)
        while heap and any(missing[target] > 0 for target in demanded):
            first = heappop(heap)
            *_, index, taken = first
            # An option costs more and covers less with every victim, so an entry that is up to date is the best one.
            current = entry(index, taken)
            if not current[1] or not victims.has_room(options[index]):
                continue
            if current != first:
                heappush(heap, current)
                continue
            victims.add(options[index], taken)
            if taken + 1 < len(options[index].positions):
                heappush(heap, entry(index, taken + 1))

    def _remove_needless(self) -> None:
        """Remove victims until none can be removed: high priorities and old allocations first."""
        victims, left = self._victims, self._victims.left()
        victims.members.sort(key=lambda member: (-member[0].priority, member[0].positions[member[1]]))
        number = 0
        while number < len(victims.members):
            option, taken = victims.members[number]
            victims.remove(number)
            if victims.left() <= left:
                # The claims of the removed victim may be gone, so that an earlier one is needless now.
                number = 0 if option.claims else number
            else:
                victims.add(option, taken)
                victims.members.insert(number, victims.members.pop())
                number += 1
