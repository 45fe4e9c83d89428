"""Repairing what an audit has found."""

from __future__ import annotations

from ugm.partition.admission import Admission
from ugm.partition.audit import AuditReport, Difference, Running
from ugm.partition.books import Books
from ugm.partition.entry import AllocationState, Ask

__all__ = ["reconcile"]


def reconcile(books: Books, admission: Admission, report: AuditReport) -> AuditReport:
    """Make the ledger say what the report says that runs, and return what was repaired."""
    return AuditReport(tuple(told for told in report.differences if _is_repaired(books, admission, told)))


def _is_repaired(books: Books, admission: Admission, told: Difference) -> bool:
    if _ledger(books, told.allocation_id) != told.ledger:
        return False
    if told.truth is not None and told.truth.application_id not in books.applications:
        return False
    if told.truth is None:
        return admission.release(told.allocation_id)
    if told.ledger is not None and told.ledger.application_id == told.truth.application_id:
        admission.correct(told.allocation_id, told.truth.usage)
        return True
    known = books.entries.get(told.allocation_id)
    traits = () if known is None else known.traits[1:]
    # Held by another application, or still pending, perhaps with another size: what runs is what was meant.
    admission.release(told.allocation_id)
    admission.adopt(Ask(*told.truth, *traits))
    return True


def _ledger(books: Books, allocation_id: str) -> Running | None:
    entry = books.entries.get(allocation_id)
    if entry is None or entry.traits.state is AllocationState.PENDING:
        return None
    return Running(allocation_id, entry.application.application_id, entry.usage)
