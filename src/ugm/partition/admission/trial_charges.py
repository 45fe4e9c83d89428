"""Charges of requests that a search makes to find out what fits, and refunds before it ends."""

from __future__ import annotations

from typing import Final, final

from ugm.partition.engine.application import Application
from ugm.partition.engine.model_set import ModelSet
from ugm.partition.engine.state import PartitionState
from ugm.partition.rows import Allocation, ApplicationRow

__all__ = ["TrialCharges"]


@final
class TrialCharges:
    """Requests that are charged like `AdmissionControl` does, but without a record; the caller holds the lock.

    If the search is interrupted, the lock takes back the charges and rebuilds the counters. Then call `forget`.

    Args:
        state: the partition.
        models: its quota models.
    """

    __slots__ = ("_made", "_models", "_state")

    def __init__(self, state: PartitionState, models: ModelSet) -> None:
        self._state: Final = state
        self._models: Final = models
        #: The requests whose charges are not refunded, each with the row of its application before, if the charge has
        #: started it.
        self._made: Final[list[tuple[Application, Allocation, ApplicationRow | None]]] = []

    def charge(self, application: Application, row: Allocation) -> None:
        """Charge a request without a check, and start its application if need be."""
        state, before = self._state, application.row if application.holding is None else None
        if not self._made:
            state.note_charges()
        self._made.append((application, row, before))
        if self._models:
            self._models.charge(application.claim(row), pending=row.allocation_id in application.pending)
        holding = state.holding_of(application)
        holding.charge(state.vector(row.usage))
        if before is not None:
            group = None if holding.group is None else holding.group.name
            application.row = before._replace(group=group, has_run=True, is_running=True)
            application.holding = holding
            state.holding_index.add(holding)

    def refund_all(self) -> None:
        """Refund all charges, the last one first."""
        while self._made:
            application, row, before = self._made.pop()
            claim, holding = application.claim(row), self._state.holding_of(application)
            holding.try_refund(self._state.vector(row.usage))
            if before is not None:
                self._state.holding_index.end(holding)
                application.holding, application.row = None, before
            if row.allocation_id in application.pending:
                self._models.add_pending_again(claim)
            else:
                self._models.change("refund", claim)

    def forget(self) -> None:
        """Forget all charges of an interrupted search."""
        self._made.clear()
