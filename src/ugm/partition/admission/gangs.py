"""Gangs: several allocations that are granted together, or not at all.

Gangs with placeholders wait instead: `ugm.partition.admission.admission` replaces the placeholders. Every allocation is
checked as if those before it had been granted, even if they were denied. A denial contains every limit that denies one
of them, of all models:

* Users, groups and queues charge them as a `ugm.tracking.holding_index.BatchCharge`. A violation contains the sum of
  their requests for the limit.
* Other quota models check and charge the claims one by one. A violation contains the request of the first allocation
  that the limit denies, or of one that it can never allow. Only the model knows what several claims need together:
  those of a quota tree may be held at different nodes. If they can never fit together (`ugm.model.GangModel`), the
  violation contains their sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, final

from ugm.decision import ALLOWED, Decision, Violation
from ugm.model import SetupViolation
from ugm.partition.admission.admission import AdmissionPart, with_objections
from ugm.partition.admission.trial_charges import charge_limits
from ugm.partition.engine.application import Application
from ugm.partition.rows import Allocation, AllocationRequest, AllocationState
from ugm.resources import Resource
from ugm.tracking.holding import DETACHED
from ugm.tracking.holding_index import BatchCharge

#: After a denial, other quota models check a gang up to this number of allocations. A quota tree undoes as many charges
#: exactly, order included.
_MAX_CHARGES_TO_UNDO: Final = 100


def _add_denials(denials: dict[object, Violation], violations: Sequence[Violation]) -> None:
    """Add the violations of one allocation. Of each limit, keep the first, or one for which waiting cannot help."""
    limits = [violation[:5] for violation in violations]
    for position, violation in enumerate(violations):
        # Two models may have limits of the same name.
        limit = limits[position], limits[:position].count(limits[position])
        known = denials.setdefault(limit, violation)
        if known.can_wait and not violation.can_wait:
            denials[limit] = violation


def _with_never(violations: Iterable[Violation], never: Iterable[Violation]) -> tuple[Violation, ...]:
    """Return violations with those that waiting cannot help, which replace others of the same limit."""
    known = {one[:5]: one for one in never}
    return (*(known.pop(one[:5], one) for one in violations), *known.values())


@final
class GangAdmission(AdmissionPart):
    """Grants several allocations together. The caller runs the methods as transactions."""

    def allocate_all(self, requests: Sequence[AllocationRequest]) -> Decision:
        """Charge all allocations of a gang, or none; those that are held already count as granted.

        Raises:
            RequestError: an argument is invalid; nothing has changed.
        """
        state, models, rows = self._state, self._models, self._new_rows(requests)
        mark = len(state.lock.changes)
        state.note_charges()
        charges, objections = BatchCharge(state.holding_index), list[Violation]()
        usages: list[tuple[Application, Resource]] = []
        for name, requested in rows.items():
            # Amounts of any variant are assigned after those before are charged.
            application = state.owner(requested)
            rows[name] = row = self._admission.assigned(application, requested)
            objections += self._admission.objections(application, row)
            usages.append((application, row.usage))
            charge_limits(state, charges, application, row.usage)
        violations = with_objections(charges.exceeded(), objections)
        if models:
            violations += self._charge_models(rows.values(), agreed=not violations)
        if violations and models:
            violations = _with_never(violations, models.never([state.claim(row) for row in rows.values()]))
        if violations:
            charges.roll_back()
            for application, _ in usages:
                if application.holding is not None and application.holding.epoch is DETACHED:
                    application.holding = None
            state.revert(mark)
            return self._admission.deny(requests, Decision(violations), usages)
        for row in rows.values():
            state.write(row)
        return ALLOWED

    def _new_rows(self, requests: Sequence[AllocationRequest]) -> dict[str, Allocation]:
        """Return the rows of the requests that are not held yet, by allocation id, with their open amounts."""
        rows: dict[str, Allocation] = {}
        admission = self._admission
        now = admission.now(requests)
        for request in requests:
            row = admission.row(request, AllocationState.PENDING).granted(now)
            if not admission.is_repeated(row):
                admission.require_not_failing(self._state.owner(row))
                admission.require_same(rows.setdefault(row.allocation_id, row), row)
        return rows

    def _charge_models(self, rows: Iterable[Allocation], *, agreed: bool) -> tuple[Violation, ...]:
        """Charge all models if they agree and *agreed*; otherwise return every limit that denies an allocation."""
        mark = len(self._state.lock.changes)
        denials: dict[object, Violation] = {}
        for number, row in enumerate(rows):
            if denials and number >= _MAX_CHARGES_TO_UNDO:
                break
            claim = self._state.claim(row)
            denied = self._models.check(claim)
            _add_denials(denials, denied)
            # A model need not be able to charge a claim for which it is not set up.
            if not any(isinstance(violation, SetupViolation) for violation in denied):
                self._models.charge(claim, waiting=self._state.waiting_usage(row.allocation_id))
        if denials or not agreed:
            self._models.take_back(mark)
        return tuple(denials.values())
