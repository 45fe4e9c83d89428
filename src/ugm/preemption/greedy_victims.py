"""The choice of victims step by step, for problems that are too large for a complete search.

The option that covers the largest part of the missing amounts is chosen first, and of equal ones the cheapest. Then
victims are removed until none can be removed, so the set is minimal, but not always of the least cost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from heapq import heapify, heappop, heappush
from math import lcm
from typing import Final, final

from ugm.preemption.options import Option, PlanningProblem
from ugm.preemption.victim_set import VictimSet

__all__ = ["choose_greedily"]


def choose_greedily(problem: PlanningProblem, options: Sequence[Option]) -> list[int] | None:
    """Return the positions of a minimal permitted set, or None."""
    return _GreedyChoice(problem, options).run()


@final
class _GreedyChoice:
    """Takes the options that cover most, and then removes the victims that are not needed."""

    __slots__ = ("_largest", "_options", "_problem", "_victims")

    def __init__(self, problem: PlanningProblem, options: Sequence[Option]) -> None:
        self._problem: Final = problem
        self._options: Final = options
        self._victims = VictimSet(problem)
        #: The largest amount that one victim adds to each target.
        self._largest: Final = [0] * len(problem.targets)
        for option in options:
            for target, amount in option.frees:
                self._largest[target] = max(amount, self._largest[target])

    def run(self) -> list[int] | None:
        """Return the positions of a minimal permitted set, or None."""
        claims = sorted({option.claims for option in self._options}, key=lambda one: (len(one), one))
        demanded = set(range(self._problem.needs))
        # First without options that have claims, and then with more and more claims met.
        for numbers in claims:
            demanded.update(numbers)
            chosen = self._cover(demanded)
            if chosen is not None:
                kept = self._without_needless(chosen)
                return [self._options[index].positions[taken] for index, taken in kept]
        return None

    def _cover(self, demanded: AbstractSet[int]) -> list[tuple[int, int]] | None:
        """Choose options until all demanded targets are reached; options with other claims are left out.

        Returns:
            Per victim the index of the option, and the number of those chosen from it before.
        """
        problem = self._problem
        victims = self._victims = VictimSet(problem)
        scale = lcm(*(problem.targets[target] for target in demanded))
        shares = {target: scale // problem.targets[target] for target in demanded}
        heap = self._first_entries(demanded, shares)
        heapify(heap)
        chosen: list[tuple[int, int]] = []
        while heap and any(victims.remaining[target] > 0 for target in demanded):
            last = self._last(demanded, chosen)
            if last is not None:
                victims.change(self._options[last[0]], 1)
                return [*chosen, last]
            entry = heappop(heap)
            *_, index, taken = entry
            option = self._options[index]
            # What an option covers and the room for it only shrink, so an entry that is up to date is the best one.
            current = self._entry(index, taken, shares)
            if not current[0] or not victims.has_room(option):
                continue
            if current != entry:
                heappush(heap, current)
                continue
            victims.change(option, 1)
            chosen.append((index, taken))
            if taken + 1 < len(option.positions):
                heappush(heap, self._entry(index, taken + 1, shares))
        return None if any(victims.remaining[target] > 0 for target in demanded) else chosen

    def _last(self, demanded: AbstractSet[int], chosen: Sequence[tuple[int, int]]) -> tuple[int, int] | None:
        """Return the cheapest option that alone covers all that is left, with the number of those chosen before.

        Without this search, all entries would be computed again for the last victim.
        """
        remaining = self._victims.remaining
        rest = [(target, remaining[target]) for target in demanded if remaining[target] > 0]
        if any(left > self._largest[target] for target, left in rest):
            return None
        taken = Counter(index for index, _ in chosen)
        for index, option in enumerate(self._options):
            frees = dict(option.frees)
            covers = all(frees.get(target, 0) >= left for target, left in rest) and demanded >= set(option.claims)
            if covers and taken[index] < len(option.positions) and self._victims.has_room(option):
                return index, taken[index]
        return None

    def _first_entries(
        self, demanded: AbstractSet[int], shares: Mapping[int, int]
    ) -> list[tuple[int, int, int, int, int, int]]:
        options = self._options
        if len(demanded) > self._problem.needs:
            usable = (index for index, option in enumerate(options) if demanded >= set(option.claims))
            return [self._entry(index, 0, shares) for index in usable]
        # Without claims, an option covers its share at first.
        return [
            (-share, weight, priority, -positions[0], index, 0)
            for index, (weight, priority, positions, _, _, claims, share) in enumerate(options)
            if not claims
        ]

    def _entry(self, index: int, taken: int, shares: Mapping[int, int]) -> tuple[int, int, int, int, int, int]:
        """Return the key of an option: most covered, then least cost."""
        option, remaining = self._options[index], self._victims.remaining
        covered = 0
        for target, amount in option.frees:
            left = remaining[target]
            if left > 0 and target in shares:
                covered += min(amount, left) * shares[target]
        return -covered, option.weight, option.priority, -option.positions[taken], index, taken

    def _without_needless(self, chosen: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
        """Remove victims until none can be removed: high priorities and old allocations first."""
        options, victims = self._options, self._victims

        def importance(victim: tuple[int, int]) -> tuple[int, int]:
            option = options[victim[0]]
            return -option.priority, option.positions[victim[1]]

        kept = sorted(chosen, key=importance)
        index = 0
        while index < len(kept):
            option = options[kept[index][0]]
            victims.change(option, -1)
            if victims.reaches_targets:
                del kept[index]
                # The claims of the removed victim may be gone, so that an earlier one is needless now.
                index = 0 if option.claims else index
            else:
                victims.change(option, 1)
                index += 1
        return kept
