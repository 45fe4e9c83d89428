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

    __slots__ = ("_exceeded", "_mark_everything", "_models", "_state", "_timers", "_transactions")

    #: The queues that have been above their maximum since before the limits changed, so that their timers run on; None
    #: if the timers of all others have been started.
    _exceeded: frozenset[str] | None

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
        self._exceeded = None

    @property
    def is_scheduled(self) -> bool:
        """True if limits change with the time."""
        return self._state.compiled.schedule is not None

    def attach(self) -> None:
        """Let every operation read the clock first while limits change with the time."""
        self._models.set_schedule(self._follow if self.is_scheduled else None)

    def _follow(self, now: int, *, changes: bool) -> None:
        """Put the limits of the schedule in force when an operation begins."""
        if now >= self._state.compiled.changes_at:
            self._change_limits(now)
        # A query cannot record that a timer has started.
        if self._exceeded is not None and (changes or not self._transactions.are_recorded):
            before = self._exceeded
            self._state.undo.append((self._set_exceeded, (before,)))
            self._exceeded = None
            self._timers.start(before)

    def _change_limits(self, now: int) -> None:
        state = self._state
        # A restored partition continues the timers of before.
        exceeded = frozenset(state.reduction_timers if state.compiled.active is None else self._timers.exceeded())
        # First: an interruption may leave the limits changed, because they follow from the time alone.
        self._exceeded = exceeded if self._exceeded is None else self._exceeded & exceeded
        if state.follow_schedule(now):
            self._mark_everything()

    def _set_exceeded(self, queue_paths: frozenset[str]) -> None:
        self._exceeded = queue_paths
