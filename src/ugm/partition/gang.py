"""Several allocations as one: all of them are granted, or none.

Users, groups and queues charge them as a `ugm.tracking.batch.BatchCharge`: each request is checked as if those before
it had been granted, and a denial reports the total of all requests for a limit. Other quota models are asked one by
one, each after those before it have been charged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ugm.decision import ALLOWED, Decision, Violation
from ugm.errors import RequestError
from ugm.partition.admission import Admission
from ugm.partition.application import Application
from ugm.partition.ledger_entry import AllocationRequest, AllocationState, LedgerEntry
from ugm.partition.model_set import ModelSet, charging
from ugm.partition.state import PartitionState
from ugm.resources import Resource
from ugm.tracking.batch import BatchCharge

__all__ = ["allocate_all", "asks_of"]


def asks_of(requests: Iterable[AllocationRequest | tuple[str, str, Resource]]) -> list[AllocationRequest]:
    """Return what is asked for together.

    Raises:
        RequestError: something among it is no Ask, and no tuple of its parts.
    """
    try:
        return [AllocationRequest(*request) for request in requests]
    except TypeError as error:
        raise RequestError("requests", requests, "expected AllocationRequests, or tuples of their parts") from error


def allocate_all(
    state: PartitionState, others: ModelSet, admission: Admission, requests: Sequence[AllocationRequest]
) -> Decision:
    """Charge all of several allocations, or none; those that are held already count as granted.

    Raises:
        RequestError: an argument cannot be used; nothing has changed.
    """
    wanted = _wanted(admission, requests)
    applications = dict.fromkeys(entry.application for entry in wanted.values())
    newcomers = [application for application in applications if not application.has_run]
    demand, started = _together(state, admission, wanted)
    violations = demand.exceeded()
    if others:
        violations += _charge_models(state, others, wanted, agreed=not violations)
    if violations:
        demand.take_back()
        for application, facts in started:
            application.restore(*facts)
        return admission.told(requests, Decision(violations))
    for application in newcomers:
        state.tell_linked(application)
    for allocation_id, entry in wanted.items():
        state.note(allocation_id, entry)
    return ALLOWED


def _wanted(admission: Admission, requests: Sequence[AllocationRequest]) -> dict[str, LedgerEntry]:
    """Return what is not held yet, by allocation id."""
    wanted: dict[str, LedgerEntry] = {}
    for request in requests:
        entry = admission.entry(request, AllocationState.HELD)
        if not admission.is_repeated(request.allocation_id, entry):
            admission.require_welcome(entry.application)
            admission.require_same(request.allocation_id, wanted.setdefault(request.allocation_id, entry), entry)
    return wanted


def _together(
    state: PartitionState, admission: Admission, wanted: Mapping[str, LedgerEntry]
) -> tuple[BatchCharge, list[tuple[Application, tuple[Any, ...]]]]:
    """Charge everything to users, groups and queues; return that, and what the applications were that started."""
    demand = BatchCharge(state.holding_index)
    started = []
    for entry in wanted.values():
        application = entry.application
        holding = state.open(application)
        demand.charge(holding, entry.usage, admission.vector(entry.usage))
        if application.holding is None:
            started.append((application, application.facts()))
            state.undo.append((application.restore, application.facts()))
            application.started(holding)
    return demand, started


def _charge_models(
    state: PartitionState, others: ModelSet, wanted: Mapping[str, LedgerEntry], *, agreed: bool
) -> tuple[Violation, ...]:
    """Charge everything to all other models if they agree and *agreed*; otherwise return what they say."""
    mark = len(state.undo)
    for allocation_id, entry in wanted.items():
        claim = entry.claim(allocation_id)
        violations = others.check(claim)
        if violations:
            others.take_back(mark)
            return violations
        others.apply(charging(claim, pending=allocation_id in entry.application.pending))
    if not agreed:
        others.take_back(mark)
    return ()
