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
    traits = books.entries[told.allocation_id].traits[1:] if told.ledger else ()
    if told.truth is None:
        return admission.release(told.allocation_id)
    # An application that would stop running in between would lose its place, and with it nothing that matters.
    if told.ledger is not None:
        admission.release(told.allocation_id)
    if told.truth.application_id in books.applications:
        admission.adopt(Ask(*told.truth, *traits))
    return True


def _ledger(books: Books, allocation_id: str) -> Running | None:
    entry = books.entries.get(allocation_id)
    if entry is None or entry.traits.state is AllocationState.PENDING:
        return None
    return Running(allocation_id, entry.application.application_id, entry.usage)
