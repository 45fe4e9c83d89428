"""The answer of all limits to a request after victims have left and the requests of earlier plans were granted.

Everything is charged and refunded under the lock, so nothing has changed afterwards.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple, final

from ugm.decision import Violation
from ugm.identity import TrackingType
from ugm.model import SetupViolation
from ugm.partition.admission.admission import AdmissionControl
from ugm.partition.admission.trial_charges import TrialCharges
from ugm.partition.answers.queries import QueryRequest, SubjectQueries
from ugm.partition.engine.model_set import ModelSet
from ugm.partition.engine.state import PartitionState
from ugm.partition.rows import Allocation, AllocationRequest, AllocationState
from ugm.resources import Resource

__all__ = ["PreemptionTrial", "TrialAnswer"]


class TrialAnswer(NamedTuple):
    """The limits that deny a request after some releases."""

    #: The limits of users, groups and queues.
    own: tuple[Violation, ...]
    in_models: tuple[Violation, ...]
    #: Whether it would be granted now, before any release.
    is_allowed: bool
    #: The allocations that the models would evict now; empty if they allow the request, or if that does not help.
    evictions: tuple[str, ...]

    @property
    def denials(self) -> tuple[Violation, ...]:
        """All limits."""
        return self.own + self.in_models

    @property
    def blocking(self) -> tuple[Violation, ...]:
        """The limits that evictions from other queues do not relieve."""
        return tuple(one for one in self.own if one.kind != TrackingType.QUEUE or one.resource is None)


@final
class PreemptionTrial:
    """Finds out whether a request fits after some releases; the caller holds the lock.

    Args:
        state: the partition.
        models: its quota models.
        admission: decides about requests.
        queries: answers questions about subjects.
    """

    __slots__ = ("_admission", "_models", "_queries", "_state")

    def __init__(
        self, state: PartitionState, models: ModelSet, admission: AdmissionControl, queries: SubjectQueries
    ) -> None:
        self._state: Final = state
        self._models: Final = models
        self._admission: Final = admission
        self._queries: Final = queries

    def placed_rows(self, allocation_id: str, placed: Sequence[AllocationRequest]) -> dict[str, Allocation]:
        """Return the requests that count as granted when a request is planned.

        Args:
            allocation_id: the request.
            placed: requests that its caller counts as granted. Those that are granted count already.

        Raises:
            RequestError: the application of one does not exist or is failing, or another property is invalid.
        """
        rows = self._state.placed_rows()
        for one in placed:
            known = self._state.allocations.get(one.allocation_id)
            if known is None:
                new = self._admission.row(one, AllocationState.HELD)
                self._admission.require_not_failing(self._state.owner(new))
                rows.setdefault(one.allocation_id, new)
            elif known.state is AllocationState.PENDING:
                rows.setdefault(one.allocation_id, known)
        rows.pop(allocation_id, None)
        return rows

    def answer(
        self,
        request: AllocationRequest,
        placed: Iterable[Allocation],
        leaving: Collection[Allocation],
        *,
        evicts: bool = False,
    ) -> TrialAnswer:
        """Return the answer of all limits.

        Args:
            request: the request.
            placed: requests that count as granted.
            leaving: allocations that count as released.
            evicts: whether to ask the models for evictions.
        """
        charges = self._charge(placed)
        _, application_id, usage, _, priority, preemptible, duration, *_ = request
        claim = self._queries.claim(application_id, QueryRequest(usage, priority, preemptible, duration))
        is_allowed = not self._queries.own_violations(application_id, usage)
        in_models: tuple[Violation, ...] = ()
        evictions: tuple[str, ...] = ()
        if self._models:
            if self._models.check(claim):
                is_allowed = False
                evictions = self._models.evictions(claim) if evicts else ()
            in_models = self._models.shortage(claim, [self._state.claim(row) for row in leaving])
        own = self._without(leaving, application_id, usage)
        charges.refund_all()
        return TrialAnswer(own, in_models, is_allowed, evictions)

    def _without(self, leaving: Iterable[Allocation], application_id: str, usage: Resource) -> tuple[Violation, ...]:
        """Return the limits of users, groups and queues that deny a request after some releases."""
        for row in leaving:
            self._state.refund(row)
        found = self._queries.own_violations(application_id, usage)
        for row in leaving:
            self._state.charge(row)
        return found

    def _charge(self, placed: Iterable[Allocation]) -> TrialCharges:
        charges = TrialCharges(self._state, self._models)
        for row in placed:
            # A model need not be able to charge a claim for which it is not set up. It never grants the request.
            if not any(isinstance(one, SetupViolation) for one in self._models.check(self._state.claim(row))):
                charges.charge(self._state.owner(row), row)
        return charges
