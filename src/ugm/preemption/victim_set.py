"""A set of victims while it is chosen: its sums, compared with the targets and the bounds of the problem."""

from __future__ import annotations

from typing import Final, final

from ugm.preemption.options import Option, PlanningProblem

__all__ = ["VictimSet"]


@final
class VictimSet:
    """The sums over the victims that are chosen so far; empty at first.

    Args:
        problem: the choice of victims.
    """

    __slots__ = ("_room", "claimed", "missing_share", "remaining", "weight")

    #: The sum of the weights.
    weight: int
    #: A lower bound of the share that is missing: a part may be covered twice.
    missing_share: int

    def __init__(self, problem: PlanningProblem) -> None:
        #: Per target, the amount that is still missing.
        self.remaining: Final = list(problem.targets)
        #: Per target, how many victims demand it; the missing amounts of the request are always demanded.
        self.claimed: Final = [1] * problem.needs + [0] * (len(problem.targets) - problem.needs)
        #: Per bound, the amount that further victims may take.
        self._room: Final = list(problem.bounds)
        self.weight = 0
        self.missing_share = problem.total_share

    def change(self, option: Option, sign: int) -> None:
        """Add a member of an option if the sign is 1, and remove one if it is -1."""
        self.weight += sign * option.weight
        self.missing_share -= sign * option.share
        for target, amount in option.frees:
            self.remaining[target] -= sign * amount
        for bound, amount in option.takes:
            self._room[bound] -= sign * amount
        for claim in option.claims:
            self.claimed[claim] += sign

    def has_room(self, option: Option) -> bool:
        """Return whether the bounds allow another member of an option."""
        for bound, amount in option.takes:  # noqa: SIM110 - most options take nothing, and a generator takes longer
            if self._room[bound] < amount:
                return False
        return True

    @property
    def reaches_targets(self) -> bool:
        """True if all demanded targets are reached."""
        return not any(left > 0 and claimed for left, claimed in zip(self.remaining, self.claimed, strict=True))
