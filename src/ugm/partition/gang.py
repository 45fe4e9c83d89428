"""Gangs: several allocations that are granted together, or not at all.

Users, groups and queues charge them as a `ugm.tracking.batch.BatchCharge`: each is checked as if those before it had
been granted, and a denial contains the sum of their requests for a limit. Other quota models check the allocations one
by one, each after those before it have been charged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from ugm.decision import ALLOWED, Decision, Violation
from ugm.errors import RequestError
from ugm.partition.admission import Admission
from ugm.partition.allocation import AllocationRequest, AllocationState
from ugm.partition.application import LedgerEntry
from ugm.partition.model_set import ModelSet, charge_calls
from ugm.partition.state import PartitionState
from ugm.resources import Resource
from ugm.tracking.batch import BatchCharge

__all__ = ["allocate_all", "require_requests"]


def require_requests(requests: Iterable[AllocationRequest | tuple[str, str, Resource]]) -> list[AllocationRequest]:
    """Return the requests of a gang. The iterable is foreign code, so it is read before the lock is taken.

    Raises:
        RequestError: an item is neither an AllocationRequest nor a tuple of its parts.
    """
    try:
        return [AllocationRequest(*request) for request in requests]
    except TypeError as error:
        raise RequestError("requests", requests, "expected AllocationRequests, or tuples of their parts") from error


def allocate_all(
    state: PartitionState, models: ModelSet, admission: Admission, requests: Sequence[AllocationRequest]
) -> Decision:
    """Charge all allocations of a gang, or none; those that are held already count as granted.

    Raises:
        RequestError: an argument is invalid; nothing has changed.
    """
    entries = _new_entries(admission, requests)
    applications = dict.fromkeys(entry.application for entry in entries.values())
    first_runs = [application for application in applications if not application.has_run]
    charges, undo_starts = _charge_limits(state, admission, entries)
    violations = charges.exceeded()
    if models:
        violations += _charge_models(state, models, entries, agreed=not violations)
    if violations:
        charges.roll_back()
        for undo_start in undo_starts:
            undo_start()
        return admission.deny(requests, Decision(violations))
    for application in first_runs:
        state.record_group(application)
    for allocation_id, entry in entries.items():
        state.write_allocated(allocation_id, entry)
    return ALLOWED


def _new_entries(admission: Admission, requests: Sequence[AllocationRequest]) -> dict[str, LedgerEntry]:
    """Return the entries of the requests that are not held yet, by allocation id."""
    entries: dict[str, LedgerEntry] = {}
    now = admission.now(requests)
    for request in requests:
        entry = admission.entry(request, AllocationState.HELD, now)
        if not admission.is_repeated(request.allocation_id, entry):
            admission.require_not_failing(entry.application)
            admission.require_same(request.allocation_id, entries.setdefault(request.allocation_id, entry), entry)
    return entries


def _charge_limits(
    state: PartitionState, admission: Admission, entries: Mapping[str, LedgerEntry]
) -> tuple[BatchCharge, list[Callable[[], None]]]:
    """Charge the limits of users, groups and queues; return the charges, and functions that undo each start."""
    charges = BatchCharge(state.holding_index)
    undo_starts: list[Callable[[], None]] = []
    for entry in entries.values():
        application = entry.application
        holding = state.holding_of(application)
        charges.charge(holding, entry.usage, admission.vector(entry.usage))
        if application.holding is None:
            fields = application.mutable_fields()
            undo_starts.append(partial(application.restore_fields, *fields))
            state.undo.append((application.restore_fields, fields))
            application.start(holding)
    return charges, undo_starts


def _charge_models(
    state: PartitionState, models: ModelSet, entries: Mapping[str, LedgerEntry], *, agreed: bool
) -> tuple[Violation, ...]:
    """Charge all other models if they agree and *agreed*; otherwise return their violations."""
    mark = len(state.undo)
    for allocation_id, entry in entries.items():
        claim = entry.claim(allocation_id)
        violations = models.check(claim)
        if violations:
            models.undo_since(mark)
            return violations
        models.apply(charge_calls(claim, pending=allocation_id in entry.application.pending))
    if not agreed:
        models.undo_since(mark)
    return ()
