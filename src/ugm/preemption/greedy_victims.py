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

__all__ = ["choose_greedily"]


def choose_greedily(problem: PlanningProblem, options: Sequence[Option]) -> list[int] | None:
    """Return the positions of a minimal lawful set, or None."""
    return _GreedyChoice(problem, options).run()


@final
class _GreedyChoice:
    """Takes the options that cover most, and then removes the victims that are not needed."""

    __slots__ = ("_claimed", "_largest", "_options", "_problem", "_remaining", "_room")

    def __init__(self, problem: PlanningProblem, options: Sequence[Option]) -> None:
        self._problem: Final = problem
        self._options: Final = options
        self._remaining = list(problem.targets)
        self._room = list(problem.bounds)
        self._claimed = [0] * len(problem.targets)
        #: The largest amount that one victim adds to each target.
        self._largest: Final = [0] * len(problem.targets)
        for option in options:
            for target, amount in option.frees:
                self._largest[target] = max(amount, self._largest[target])

    def run(self) -> list[int] | None:
        """Return the positions of a minimal lawful set, or None."""
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
        self._remaining, self._room = list(problem.targets), list(problem.bounds)
        self._claimed = [0] * len(problem.targets)
        scale = lcm(*(problem.targets[target] for target in demanded))
        shares = {target: scale // problem.targets[target] for target in demanded}
        heap = self._first_entries(demanded, shares)
        heapify(heap)
        chosen: list[tuple[int, int]] = []
        while heap and any(self._remaining[target] > 0 for target in demanded):
            last = self._last(demanded, chosen)
            if last is not None:
                self._change(self._options[last[0]], 1)
                return [*chosen, last]
            entry = heappop(heap)
            *_, index, taken = entry
            option = self._options[index]
            # What an option covers and the room for it only shrink, so an entry that is up to date is the best one.
            current = self._entry(index, taken, shares)
            if not current[0] or not self._has_room(option):
                continue
            if current != entry:
                heappush(heap, current)
                continue
            self._change(option, 1)
            chosen.append((index, taken))
            if taken + 1 < len(option.positions):
                heappush(heap, self._entry(index, taken + 1, shares))
        return None if any(self._remaining[target] > 0 for target in demanded) else chosen

    def _last(self, demanded: AbstractSet[int], chosen: Sequence[tuple[int, int]]) -> tuple[int, int] | None:
        """Return the cheapest option that alone covers all that is left, with the number of those chosen before.

        Without this search, all entries would be computed again for the last victim.
        """
        rest = [(target, self._remaining[target]) for target in demanded if self._remaining[target] > 0]
        if any(left > self._largest[target] for target, left in rest):
            return None
        taken = Counter(index for index, _ in chosen)
        for index, option in enumerate(self._options):
            frees = dict(option.frees)
            covers = all(frees.get(target, 0) >= left for target, left in rest) and demanded >= set(option.claims)
            if covers and taken[index] < len(option.positions) and self._has_room(option):
                return index, taken[index]
        return None

    def _has_room(self, option: Option) -> bool:
        return not any(self._room[bound] < amount for bound, amount in option.takes)

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
        option, remaining = self._options[index], self._remaining
        covered = 0
        for target, amount in option.frees:
            left = remaining[target]
            if left > 0 and target in shares:
                covered += min(amount, left) * shares[target]
        return -covered, option.weight, option.priority, -option.positions[taken], index, taken

    def _change(self, option: Option, sign: int) -> None:
        for target, amount in option.frees:
            self._remaining[target] -= sign * amount
        for bound, amount in option.takes:
            self._room[bound] -= sign * amount
        for claim in option.claims:
            self._claimed[claim] += sign

    def _without_needless(self, chosen: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
        """Remove victims until none can be removed: high priorities and old allocations first."""
        options = self._options

        def importance(victim: tuple[int, int]) -> tuple[int, int]:
            option = options[victim[0]]
            return -option.priority, option.positions[victim[1]]

        kept = sorted(chosen, key=importance)
        index = 0
        while index < len(kept):
            option = options[kept[index][0]]
            self._change(option, -1)
            if self._is_lawful():
                del kept[index]
                # The claims of the removed victim may be gone, so that an earlier one is needless now.
                index = 0 if option.claims else index
            else:
                self._change(option, 1)
                index += 1
        return kept

    def _is_lawful(self) -> bool:
        demanded = (number < self._problem.needs or self._claimed[number] for number in range(len(self._remaining)))
        return not any(left > 0 and is_demanded for left, is_demanded in zip(self._remaining, demanded, strict=True))
