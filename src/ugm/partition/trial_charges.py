"""Charges of requests that a search makes to find out what fits, and refunds before it ends."""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias, final

from ugm.model import Claim
from ugm.partition.admission import AdmissionControl
from ugm.partition.application import LedgerEntry
from ugm.partition.model_calls import Call, charge_calls, pending_claim
from ugm.partition.model_set import ModelSet
from ugm.partition.state import PartitionState
from ugm.tracking.holding import Holding

__all__ = ["TrialCharge", "TrialCharges"]

#: What `Application.start` changes.
_Start: TypeAlias = tuple[Holding | None, str | None, bool]


class TrialCharge(NamedTuple):
    """A request that counts as granted, with the data to refund it."""

    entry: LedgerEntry
    claim: Claim
    #: Whether the request is pending, so that quota models count it as waiting.
    is_pending: bool
    #: The attributes of the application before.
    before: _Start

    @property
    def starts(self) -> bool:
        """True if the charge has started the application."""
        return self.before[0] is None


@final
class TrialCharges:
    """Requests that are charged like `AdmissionControl` does, but without a record; the caller holds the lock.

    If the search is interrupted, the lock undoes the charges and rebuilds the counters. Then call `forget`.

    Args:
        state: the partition.
        models: its quota models.
        admission: decides about requests.
    """

    __slots__ = ("_admission", "_models", "_state", "made")

    def __init__(self, state: PartitionState, models: ModelSet, admission: AdmissionControl) -> None:
        self._state: Final = state
        self._models: Final = models
        self._admission: Final = admission
        #: The charges that are not refunded, in their order.
        self.made: Final[list[TrialCharge]] = []

    def charge(self, allocation_id: str, entry: LedgerEntry) -> TrialCharge:
        """Charge a request without a check, and start its application if need be."""
        state, application, claim = self._state, entry.application, entry.claim(allocation_id)
        before = application.holding, application.group, application.has_run
        made = TrialCharge(entry, claim, allocation_id in application.pending, before)
        if not self.made:
            self._models.begin_trial()
        self.made.append(made)
        if self._models:
            self._models.apply(charge_calls(claim, pending=made.is_pending))
        holding = state.holding_of(application)
        holding.charge(self._admission.vector(entry.usage))
        if made.starts:
            state.undo.append((application.undo_start, before))
            state.holding_index.add(holding)
            application.start(holding)
        return made

    def refund_last(self) -> TrialCharge:
        """Refund the last charge, and return it."""
        made = self.made.pop()
        entry, claim, is_pending, before = made
        application = entry.application
        holding = self._state.holding_of(application)
        holding.try_refund(self._admission.vector(entry.usage))
        if made.starts:
            self._state.holding_index.end(holding)
            application.undo_start(*before)
        if self._models:
            calls: list[Call] = [("refund", claim)]
            if is_pending:
                calls.append(("add_pending", pending_claim(claim)))
            self._models.apply(calls)
        if not self.made:
            self._models.end_trial()
        return made

    def refund_all(self) -> None:
        """Refund all charges, the last one first."""
        while self.made:
            self.refund_last()

    def forget(self) -> None:
        """Forget all charges of an interrupted search."""
        self.made.clear()
