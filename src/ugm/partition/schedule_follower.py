"""Limits that follow the schedule of a configuration: each operation begins with those of its time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from ugm.partition.model_set import ModelSet
from ugm.partition.reduction_timers import ReductionTimers
from ugm.partition.state import PartitionState
from ugm.partition.transaction import Transactions

__all__ = ["ScheduleFollower"]


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

    __slots__ = ("_are_timers_due", "_mark_everything", "_models", "_state", "_timers", "_transactions")

    #: Whether limits have changed since the timers were last started.
    _are_timers_due: bool

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
        self._are_timers_due = False

    @property
    def is_scheduled(self) -> bool:
        """True if limits change with the time."""
        return self._state.compiled.schedule is not None

    def attach(self) -> None:
        """Let every operation read the clock first while limits change with the time."""
        self._models.set_schedule(self._follow if self.is_scheduled else None)

    def _follow(self, now: int, *, changes: bool) -> None:
        """Put the limits of the schedule in force when an operation begins."""
        if self._state.follow_schedule(now):
            self._are_timers_due = True
            self._mark_everything()
        # A query cannot record that a timer has started.
        if self._are_timers_due and (changes or not self._transactions.are_recorded):
            self._state.undo.append((self._set_timers_due, ()))
            self._are_timers_due = False
            self._timers.start_missing()

    def _set_timers_due(self) -> None:
        self._are_timers_due = True
