"""Repair of the differences that an audit has found."""

from __future__ import annotations

from collections.abc import Sequence

from ugm.partition.admission import AdmissionControl
from ugm.partition.allocation import AllocationRequest, AllocationState
from ugm.partition.application import LedgerEntry
from ugm.partition.audit import AuditReport, Difference, RunningAllocation
from ugm.partition.state import PartitionState

__all__ = ["in_ledger", "reconcile"]


def reconcile(state: PartitionState, admission: AdmissionControl, differences: Sequence[Difference]) -> AuditReport:
    """Repair the differences that still exist, and return them."""
    return AuditReport(tuple(one for one in differences if _is_repaired(state, admission, one)))


def _is_repaired(state: PartitionState, admission: AdmissionControl, difference: Difference) -> bool:
    name, ledger, running = difference.allocation_id, difference.ledger, difference.running
    if in_ledger(state, name) != ledger:
        return False
    if running is None:
        return admission.release(name)
    if running.application_id not in state.applications:
        return False
    if ledger is not None and ledger.application_id == running.application_id:
        admission.correct(name, running.usage, running.node)
        return True
    known = state.ledger.get(name)
    # Also a pending allocation: its size or application may differ from the running one.
    admission.release(name)
    admission.adopt_entry(name, _entry(admission, running, known))
    return True


def _entry(admission: AdmissionControl, running: RunningAllocation, known: LedgerEntry | None) -> LedgerEntry:
    """Return the entry of a running allocation, with the properties and the promised end that are known."""
    if known is None:
        return admission.entry(AllocationRequest(*running[:3], node=running.node), AllocationState.HELD)
    state, placeholder, priority, preemptible, until, duration, node = known.traits
    promised = duration if state is AllocationState.PENDING else None
    request = AllocationRequest(*running[:3], placeholder, priority, preemptible, promised, running.node or node)
    entry = admission.entry(request, AllocationState.HELD)
    return entry if promised is not None else entry.with_promise(until, duration)


def in_ledger(state: PartitionState, allocation_id: str) -> RunningAllocation | None:
    """Return an allocation of the ledger as a running one; None if it is pending or does not exist."""
    entry = state.ledger.get(allocation_id)
    if entry is None or entry.traits.state is AllocationState.PENDING:
        return None
    return RunningAllocation(allocation_id, entry.application.application_id, entry.usage, entry.traits.node)
