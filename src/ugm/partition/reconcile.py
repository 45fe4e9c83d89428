"""Repairing what an audit has found."""

from __future__ import annotations

from collections.abc import Sequence

from ugm.partition.admission import Admission
from ugm.partition.audit import AuditReport, Difference, Running
from ugm.partition.ledger_entry import AllocationRequest, AllocationState
from ugm.partition.state import PartitionState

__all__ = ["reconcile"]


def reconcile(state: PartitionState, admission: Admission, differences: Sequence[Difference]) -> AuditReport:
    """Make the ledger say what a report says that runs, and return what was repaired."""
    return AuditReport(tuple(told for told in differences if _is_repaired(state, admission, told)))


def _is_repaired(state: PartitionState, admission: Admission, told: Difference) -> bool:
    name, ledger, truth = told.allocation_id, told.ledger, told.truth
    if _ledger(state, name) != ledger:
        return False
    if truth is None:
        return admission.release(name)
    if truth.application_id not in state.applications:
        return False
    if ledger is not None and ledger.application_id == truth.application_id:
        admission.correct(name, truth.usage)
        return True
    known = state.ledger.get(name)
    # Released or withdrawn: what is asked for may be of another size, or of another application, than what runs.
    admission.release(name)
    admission.adopt(AllocationRequest(*truth, *(known.traits[1:] if known else ())))
    return True


def _ledger(state: PartitionState, allocation_id: str) -> Running | None:
    entry = state.ledger.get(allocation_id)
    if entry is None or entry.traits.state is AllocationState.PENDING:
        return None
    return Running(allocation_id, entry.application.application_id, entry.usage)
