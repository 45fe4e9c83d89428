"""Repairing what an audit has found."""

from __future__ import annotations

from collections.abc import Sequence

from ugm.partition.admission import Admission
from ugm.partition.audit import AuditReport, Difference, Running
from ugm.partition.books import Books
from ugm.partition.entry import AllocationState, Ask

__all__ = ["reconcile"]


def reconcile(books: Books, admission: Admission, differences: Sequence[Difference]) -> AuditReport:
    """Make the ledger say what a report says that runs, and return what was repaired."""
    return AuditReport(tuple(told for told in differences if _is_repaired(books, admission, told)))


def _is_repaired(books: Books, admission: Admission, told: Difference) -> bool:
    name, ledger, truth = told.allocation_id, told.ledger, told.truth
    if _ledger(books, name) != ledger:
        return False
    if truth is None:
        return admission.release(name)
    if truth.application_id not in books.applications:
        return False
    if ledger is not None and ledger.application_id == truth.application_id:
        admission.correct(name, truth.usage)
        return True
    known = books.entries.get(name)
    # Released or withdrawn: what is asked for may be of another size, or of another application, than what runs.
    admission.release(name)
    admission.adopt(Ask(*truth, *(known.traits[1:] if known else ())))
    return True


def _ledger(books: Books, allocation_id: str) -> Running | None:
    entry = books.entries.get(allocation_id)
    if entry is None or entry.traits.state is AllocationState.PENDING:
        return None
    return Running(allocation_id, entry.application.application_id, entry.usage)
