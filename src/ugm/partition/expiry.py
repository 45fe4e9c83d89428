"""Expiry: the allocations that are still held after their promised end.

A partition has no timers. The program calls `expire` when it wants to, for example every few seconds, stops the
allocations that are returned, and releases each one. An allocation that is never expired continues to count.
"""

from __future__ import annotations

from typing import Final, final

from ugm.errors import RequestError
from ugm.partition.admission import AdmissionControl
from ugm.partition.allocation import Allocation, AllocationState
from ugm.partition.model_set import ModelSet
from ugm.partition.state import PartitionState

__all__ = ["Expiry", "require_instant"]


def require_instant(now: int | None) -> int | None:
    """Return a time in seconds, or None for the clock of the partition, after checking it.

    Raises:
        RequestError: it is neither.
    """
    if now is not None and type(now) is not int:
        raise RequestError("now", now, "expected whole seconds")
    return now


@final
class Expiry:
    """Lists and ends overdue allocations. The caller holds the lock."""

    __slots__ = ("_admission", "_models", "_state")

    def __init__(self, state: PartitionState, models: ModelSet, admission: AdmissionControl) -> None:
        self._state: Final = state
        self._models: Final = models
        self._admission: Final = admission

    def overdue(self, now: int | None) -> tuple[Allocation, ...]:
        """Return the overdue allocations, sorted by end and id."""
        ledger = self._state.ledger
        return tuple(ledger[name].to_allocation(name) for name in self._names(now, changes=False))

    def expire(self, now: int | None) -> tuple[str, ...]:
        """Mark the overdue allocations as terminating, and return those that were not."""
        ledger, terminating = self._state.ledger, AllocationState.TERMINATING
        found = [name for name in self._names(now, changes=True) if ledger[name].traits.state is not terminating]
        for name in found:
            self._state.mark_terminating(name, ledger[name])
        return tuple(found)

    def release_overdue(self, now: int | None) -> tuple[str, ...]:
        """Release the overdue allocations: all of them, or none if a model raises."""
        found = self._names(now, changes=True)
        self._admission.end([(name, self._state.ledger[name]) for name in found])
        return tuple(found)

    def _names(self, now: int | None, *, changes: bool) -> list[str]:
        instant = self._models.clock.now(changes=changes) if now is None else now
        return self._state.ledger.ends.until(instant)
