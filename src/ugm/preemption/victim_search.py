"""The search for the set of victims with the least cost.

The problem: a set of victims has to cover the missing amounts with as few allocations as possible, within bounds. This
contains covering knapsacks, so no method is fast for every input.

The idea: the sets are tried by number: 1, 2, 3 and so on. For each number, only candidates remain that can be part of
such a set at all. They are merged into options, sorted by cost: least waste, lowest priority, youngest. A partial set
is abandoned if the largest amounts of the remaining options cannot cover the missing amounts, if a bound is exceeded,
or if the best completion costs more than the best set so far.

The search counts its steps, and stops at a limit. Then the best set that it has found is used, or a set that is chosen
step by step. The limit is a number of steps and not a time, so equal inputs have equal results.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Final, NamedTuple, TypeAlias, final

from ugm.preemption.eligibility import Situation
from ugm.preemption.greedy_victims import choose_greedily
from ugm.preemption.options import Option, PlanningProblem
from ugm.preemption.queue_usage_tree import AllocationClass
from ugm.preemption.victim_set import VictimSet

__all__ = ["ALWAYS_COMPLETE", "DEFAULT_STEPS", "Chosen", "StepLimitReachedError", "choose"]

#: Up to this number of candidates the search has no limit.
ALWAYS_COMPLETE: Final = 14

#: A set of more victims is not searched for, because the search is recursive.
_MOST_VICTIMS: Final = 200

#: To find the options among this many candidates costs about a step.
_CANDIDATES_PER_STEP: Final = 32

#: The steps of a search; a step costs about a microsecond of a fast processor.
DEFAULT_STEPS: Final = 5_000

#: The waste, the priorities (highest first) and the negative positions (oldest first) of a set.
_Cost: TypeAlias = tuple[int, list[int], list[int]]


class StepLimitReachedError(Exception):
    """A search has used all its steps."""


class Chosen(NamedTuple):
    """The result of a search."""

    #: Positions in the ledger, oldest first; None if no set was found.
    positions: tuple[int, ...] | None
    #: Whether the result is proven: no other set costs less, or no set is permitted.
    is_optimal: bool


def choose(situation: Situation, candidates: Sequence[AllocationClass], steps: int = DEFAULT_STEPS) -> Chosen:
    """Return the victims with the least cost.

    Args:
        situation: the missing amounts and the bounds.
        candidates: the classes of allocations that may be victims.
        steps: the limit of the search.
    """
    problem = PlanningProblem(situation, candidates)
    if not problem.can_suffice:
        return Chosen(None, is_optimal=True)
    count = problem.candidate_count
    budget = _Budget(None if count <= ALWAYS_COMPLETE else steps)
    options: list[Option] = []
    try:
        for number in range(problem.fewest(), count + 1):
            budget.spend(count // _CANDIDATES_PER_STEP)
            options = problem.options(number)
            search = _Search(problem, options, number, budget)
            search.run()
            if search.best is not None:
                # If the search was stopped, all smaller sets are excluded nevertheless, so the set is minimal.
                return Chosen(_sorted(search.best), is_optimal=search.is_complete)
    except StepLimitReachedError:
        # The options of the last number are nearly always enough.
        found = choose_greedily(problem, options) or choose_greedily(problem, problem.options())
        return Chosen(_sorted(found), is_optimal=False)
    return Chosen(None, is_optimal=True)


def _sorted(positions: Iterable[int] | None) -> tuple[int, ...] | None:
    return None if positions is None else tuple(sorted(positions))


@final
class _Budget:
    """The steps that are left.

    Args:
        steps: the limit; None for no limit.
    """

    __slots__ = ("_left",)

    def __init__(self, steps: int | None) -> None:
        self._left = steps

    def spend(self, steps: int) -> None:
        """Count steps."""
        if self._left is not None:
            self._left -= steps
            if self._left < 0:
                raise StepLimitReachedError


@final
class _Search:
    """A search through all sets with a given number of victims; see the module."""

    __slots__ = (
        "_best_cost",
        "_budget",
        "_chosen",
        "_largest",
        "_largest_share",
        "_number",
        "_options",
        "_victims",
        "best",
        "is_complete",
    )

    #: The positions of the best set so far.
    best: list[int] | None
    #: Whether all sets were compared.
    is_complete: bool

    def __init__(self, problem: PlanningProblem, options: Sequence[Option], number: int, budget: _Budget) -> None:
        if number > _MOST_VICTIMS:
            raise StepLimitReachedError
        # A search that cannot compare all options for each victim finds little.
        budget.spend((number - 1) * len(options) // 4)
        self._number: Final = number
        self._budget: Final = budget
        self._options: Final = options
        #: The largest share of each option and those after it.
        self._largest_share: Final = _suffix_maxima([option.share for option in self._options])
        #: Per target, the largest amount of each option and those after it.
        amounts = [[0] * len(options) for _ in problem.targets]
        for index, option in enumerate(options):
            for target, amount in option.frees:
                amounts[target][index] = amount
        self._largest: Final = list(map(_suffix_maxima, amounts))
        self._chosen: Final[list[tuple[int, int]]] = []
        #: The sums of the chosen victims.
        self._victims: Final = VictimSet(problem)
        self._best_cost: _Cost | None = None
        self.best = None
        self.is_complete = False

    def run(self) -> None:
        """Find the best set.

        Raises:
            StepLimitReachedError: the search was stopped before it has found a set.
        """
        try:
            self._extend(0, 0, self._number)
            self.is_complete = True
        except StepLimitReachedError:
            if self.best is None:
                raise

    def _extend(self, first: int, used: int, number: int) -> None:
        """Try every way to add *number* victims from the options at *first* and later ones.

        Args:
            first: the index of an option.
            used: how many members of this option are chosen.
            number: the number of victims to add.
        """
        spend, victims = self._budget.spend, self._victims
        for index in range(first, len(self._options)):
            # The costs of large sets take longer to compare.
            spend(1 + len(self._chosen) // 10)
            option = self._options[index]
            if not self._can_reach(index, number) or not self._can_improve(option, number):
                return
            taken = used if index == first else 0
            if taken < len(option.positions) and victims.has_room(option):
                victims.change(option, 1)
                self._chosen.append((index, taken))
                if number > 1:
                    self._extend(index, taken + 1, number - 1)
                else:
                    self._record()
                self._chosen.pop()
                victims.change(option, -1)

    def _can_reach(self, index: int, number: int) -> bool:
        """Return whether *number* victims from an option and later ones can free the missing amounts."""
        victims = self._victims
        for target, remaining in enumerate(victims.remaining):
            if remaining > 0 and victims.claimed[target] and remaining > number * self._largest[target][index]:
                return False
        return victims.missing_share <= number * self._largest_share[index]

    def _can_improve(self, option: Option, number: int) -> bool:
        """Return whether *number* victims from an option and later ones can cost less than the best set."""
        if self._best_cost is None:
            return True
        weight, priorities, ages = self._best_cost
        least = self._victims.weight + number * option.weight
        if least != weight:
            return least < weight
        own = sorted([*self._priorities(), *[option.priority] * number], reverse=True)
        if own != priorities:
            return own < priorities
        return sorted([*self._ages(), *[-option.positions[0]] * number], reverse=True) < ages

    def _priorities(self) -> list[int]:
        return [self._options[index].priority for index, _ in self._chosen]

    def _ages(self) -> list[int]:
        return [-self._options[index].positions[taken] for index, taken in self._chosen]

    def _record(self) -> None:
        """Keep the chosen set if it is permitted and the best so far."""
        if not self._victims.reaches_targets:
            return
        cost = self._victims.weight, sorted(self._priorities(), reverse=True), sorted(self._ages(), reverse=True)
        if self._best_cost is None or cost < self._best_cost:
            self._best_cost = cost
            self.best = [-age for age in cost[2]]


def _suffix_maxima(amounts: Sequence[int]) -> list[int]:
    return list(accumulate(reversed(amounts), max))[::-1]
