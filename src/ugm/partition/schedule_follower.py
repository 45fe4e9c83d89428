"""Limits that follow the schedule of a configuration: each operation begins with those of its time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from ugm.partition.model_set import ModelSet
from ugm.partition.reduction_timers import ReductionTimers
from ugm.partition.state import PartitionState
from ugm.partition.transaction import Transactions

__all__ = ["ScheduleFollower"]

#: A timer starts again if the limits have changed more often than this since the last operation, so that no operation
#: takes much longer than the others.
_MOST_STEPS: Final = 10


@final
class ScheduleFollower:
    """Puts the limits of a schedule in force, and starts the timers of reductions that lower limits cause.

    Args:
        state: the partition.
        models: its quota models, which read the clock when an operation begins.
        timers: the timers of reductions.
        transactions: runs the changes of the partition.
        mark_everything: called after limits have changed.
    """

    __slots__ = ("_mark_everything", "_models", "_state", "_timers", "_transactions")

    def __init__(
        self,
        state: PartitionState,
        models: ModelSet,
        timers: ReductionTimers,
        transactions: Transactions,
        mark_everything: Callable[[], None],
    ) -> None:
        self._state: Final = state
        self._models: Final = models
        self._timers: Final = timers
        self._transactions: Final = transactions
        self._mark_everything: Final = mark_everything

    @property
    def is_scheduled(self) -> bool:
        """True if limits change with the time."""
        return self._state.compiled.schedule is not None

    def attach(self) -> None:
        """Let every operation read the clock first while limits change with the time."""
        self._models.set_schedule(self._follow if self.is_scheduled else None)

    def restore(self, second: int) -> None:
        """Put the limits in force that were in force in the second of the last change; called before all operations.

        So the next operation finds which timers run, as if the partition had never stopped.
        """
        if self.is_scheduled:
            self._state.follow_schedule(second)

    def _follow(self, now: int, *, changes: bool) -> None:
        """Put the limits of the schedule in force when an operation begins."""
        if now >= self._state.compiled.changes_at:
            self._change_limits(now)
        timers = self._timers
        # A query cannot record that a timer has started.
        if timers.continuing is not None and (changes or not self._transactions.are_recorded):
            before = timers.continuing
            self._state.undo.append((timers.set_continuing, (before,)))
            timers.continuing = None
            timers.start(before)

    def _change_limits(self, now: int) -> None:
        """Change the limits, step by step while a timer runs, because it stops if a limit rises in between."""
        state, timers, steps = self._state, self._timers, 0
        while self.is_scheduled and (changes_at := state.compiled.changes_at) <= now:
            # First: an interruption may leave the limits changed, because they follow from the time alone.
            timers.keep_running()
            steps += 1
            if steps > _MOST_STEPS:
                timers.continuing = frozenset()
            is_known = state.compiled.active is not None
            if state.follow_schedule(changes_at if is_known and timers.continuing else now):
                self._mark_everything()
