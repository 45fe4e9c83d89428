"""Gangs without placeholders: several allocations that are granted together, or not at all.

`ugm.partition.admission` replaces placeholders, and `ugm.partition.lifecycle` ends the wait for a gang.

Every allocation is checked as if those before it had been granted, even if they were denied. A denial contains every
limit that denies one of them, of all models:

* Users, groups and queues charge them as a `ugm.tracking.batch.BatchCharge`. A violation contains the sum of their
  requests for the limit.
* Other quota models check and charge the claims one by one. A violation contains the request of the first allocation
  that the limit denies, or of one that it can never allow. Only the model knows what several claims need together:
  those of a quota tree may be held at different nodes. If they can never fit together (`ugm.model.GangModel`), the
  violation contains their sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from ugm.decision import ALLOWED, Decision, Violation, with_never
from ugm.errors import RequestError
from ugm.model import SetupViolation
from ugm.partition.admission import AdmissionControl
from ugm.partition.allocation import AllocationRequest, AllocationState
from ugm.partition.application import LedgerEntry
from ugm.partition.emptied import charge_limits
from ugm.partition.model_calls import charge_calls
from ugm.partition.model_set import ModelSet
from ugm.partition.state import PartitionState
from ugm.resources import Resource

__all__ = ["allocate_all", "require_requests"]

#: After a denial, other quota models check a gang up to this number of allocations. A quota tree undoes as many charges
#: exactly, order included.
_MAX_CHARGES_TO_UNDO: Final = 100


def require_requests(
    requests: Iterable[AllocationRequest | tuple[str, str, Resource]], argument: str = "requests"
) -> list[AllocationRequest]:
    """Return several requests. The iterable is foreign code, so it is read before the lock is taken.

    Raises:
        RequestError: an item is neither an AllocationRequest nor a tuple of its parts.
    """
    try:
        return [AllocationRequest(*request) for request in requests]
    except TypeError as error:
        raise RequestError(argument, requests, "expected AllocationRequests, or tuples of their parts") from error


def allocate_all(
    state: PartitionState, models: ModelSet, admission: AdmissionControl, requests: Sequence[AllocationRequest]
) -> Decision:
    """Charge all allocations of a gang, or none; those that are held already count as granted.

    Raises:
        RequestError: an argument is invalid; nothing has changed.
    """
    entries = _new_entries(admission, requests)
    applications = dict.fromkeys(entry.application for entry in entries.values())
    first_runs = [application for application in applications if not application.has_run]
    charges, undo_starts = charge_limits(state, entries.values())
    violations = charges.exceeded()
    if models:
        violations += _charge_models(state, models, entries, agreed=not violations)
    if violations and models:
        violations = with_never(violations, models.never([entry.claim(name) for name, entry in entries.items()]))
    if violations:
        charges.roll_back()
        for undo_start in undo_starts:
            undo_start()
        return admission.deny(requests, Decision(violations), tuple(entries.values()))
    for application in first_runs:
        state.record_group(application)
    for allocation_id, entry in entries.items():
        state.write_allocated(allocation_id, entry)
    return ALLOWED


def _new_entries(admission: AdmissionControl, requests: Sequence[AllocationRequest]) -> dict[str, LedgerEntry]:
    """Return the entries of the requests that are not held yet, by allocation id."""
    entries: dict[str, LedgerEntry] = {}
    now = admission.now(requests)
    for request in requests:
        entry = admission.entry(request, AllocationState.HELD, now)
        if not admission.is_repeated(request.allocation_id, entry):
            admission.require_not_failing(entry.application)
            admission.require_same(request.allocation_id, entries.setdefault(request.allocation_id, entry), entry)
    return entries


def _charge_models(
    state: PartitionState, models: ModelSet, entries: Mapping[str, LedgerEntry], *, agreed: bool
) -> tuple[Violation, ...]:
    """Charge all other models if they agree and *agreed*; otherwise return every limit that denies an allocation."""
    mark = len(state.undo)
    denials: dict[object, Violation] = {}
    for number, (allocation_id, entry) in enumerate(entries.items()):
        if denials and number >= _MAX_CHARGES_TO_UNDO:
            break
        claim = entry.claim(allocation_id)
        denied = models.check(claim)
        _add_denials(denials, denied)
        # A model need not be able to charge a claim for which it is not set up.
        if not any(isinstance(violation, SetupViolation) for violation in denied):
            models.apply(charge_calls(claim, pending=allocation_id in entry.application.pending))
    if denials or not agreed:
        models.undo_since(mark)
    return tuple(denials.values())


def _add_denials(denials: dict[object, Violation], violations: Sequence[Violation]) -> None:
    """Add the violations of one allocation. Of each limit, keep the first, or one for which waiting cannot help."""
    limits = [violation[:5] for violation in violations]
    for position, violation in enumerate(violations):
        # Two models may have limits of the same name.
        limit = limits[position], limits[:position].count(limits[position])
        known = denials.setdefault(limit, violation)
        if known.can_wait and not violation.can_wait:
            denials[limit] = violation
