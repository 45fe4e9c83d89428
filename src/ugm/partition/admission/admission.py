"""AdmissionControl: every way in which an allocation enters the ledger, changes in it, and leaves it.

The limits of users, groups and queues on a request are one chain of counters, which the holding of the application
charges at once. Other quota models are called before that: first all of them check, then all are charged, and only then
the ledger changes. So a model that raises finds nothing changed except other models, whose calls are taken back.

*Exchanges*: a real allocation replaces a placeholder, an allocation gets another size, or its promised end is renewed.
The limits of users, groups and queues check only what grows. Other quota models check the whole allocation, after the
refund of the old one.

*Expiry*: a partition has no timers. The program calls `AdmissionControl.expire` when it wants to, stops the allocations
that are returned, and releases each one. An allocation that is never expired continues to count.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, final

from ugm.arguments import require_exact_name
from ugm.counters import RequestVector
from ugm.decision import ALLOWED, Decision, Violation, already_exceeded
from ugm.errors import RequestError
from ugm.identity import MAX_NAME, require_name
from ugm.model import Claim
from ugm.partition.admission.checked_arguments import CheckedArguments
from ugm.partition.admission.trial_charges import with_prospects
from ugm.partition.engine.application import Application
from ugm.partition.engine.model_set import ModelSet
from ugm.partition.engine.state import PartitionState, ReductionTimers
from ugm.partition.rows import (
    DEFAULT_PRIORITY,
    NO_KINDS,
    Allocation,
    AllocationRequest,
    AllocationState,
    RequestFields,
    allocation_of,
    require_duration,
)
from ugm.queues.tree import Queue
from ugm.resources import Resource
from ugm.tracking.holding import Holding

_HELD: Final = AllocationState.HELD
_PENDING: Final = AllocationState.PENDING
#: `Allocation(...)` takes twice as long.
_new: Final = tuple.__new__
#: The vector of something that is no resource.
_UNCOMPILED: Final = Resource().compiled


@final
class AdmissionControl(CheckedArguments):
    """Grants and releases allocations. The caller holds the lock. Arguments of requests are checked here."""

    def __init__(self, state: PartitionState, models: ModelSet, timers: ReductionTimers) -> None:
        super().__init__(state, models)
        self.timers: Final = timers

    # Requests

    def request(self, request: AllocationRequest) -> Decision:
        """Add a pending allocation if no limit on pending work forbids it."""
        row = self.row(request, _PENDING)
        if row.allocation_id in self._state.allocations:
            self.is_repeated(row)
            return ALLOWED
        application = self._state.owner(row)
        self.require_not_failing(application)
        counted = self._state.pending_usage
        violations = () if counted is None else counted.of_request(application, row.usage)
        if violations:
            return self.deny([request], Decision(violations))
        if self._models:
            self._models.apply([("add_pending", application.claim(row))])
        self._state.write_pending(row)
        return ALLOWED

    # Grants

    def allocate(  # noqa: C901, PLR0912 - every allocation executes it, and calls would take longer
        self, request: RequestFields, objections: Sequence[Violation] = ()
    ) -> Decision:
        """Charge an allocation to all limits and models, or to none. If no limit denies it, the objections do.

        Args:
            request: the request.
            objections: the reasons against a grant, besides limits and models.
        """
        allocation_id, application_id, usage, placeholder, priority, preemptible, duration, node, label, *kinds = (
            request
        )
        state = self._state
        epoch = state.active_limits.epoch
        layout, vector = usage.compiled if isinstance(usage, Resource) else _UNCOMPILED  # type: ignore[redundant-expr]
        application = state.applications.get(application_id) if type(application_id) is str else None
        if application is None:
            application = self.require_application(application_id)
            application_id = application.row.application_id
        if (
            priority is DEFAULT_PRIORITY
            and preemptible is True
            and placeholder is False
            and duration is None
            and node is None
            and label is None
            and kinds == NO_KINDS
            and type(allocation_id) is str
            and 0 < len(allocation_id) <= MAX_NAME
        ):
            # What `allocation_of` returns, in less time: nearly all requests are of this kind.
            row = _new(
                Allocation,
                (allocation_id, application_id, usage, _HELD, False, 0, True, None, None, None, None, None, ()),
            )
        else:
            made = AllocationRequest._make(request)
            require_exact_name("allocation_id", allocation_id)
            row = allocation_of(made._replace(application_id=application_id), _HELD, self.now([made]))
            if kinds != NO_KINDS:
                # Its amounts and its variants have to agree.
                layout = None
        allowed = ALLOWED
        if layout is not epoch.layout:
            variants = None if objections else self.variants
            decision = None if variants is None else variants.grant(application, row)
            if decision is not None:
                return decision
            row = self.assigned(application, row)
            vector = self.request_vector(row.usage)
            if row.assign is not None:
                allowed, objections = granted(row), (*objections, *self.objections(application, row))
        if allocation_id in state.allocations and self.is_repeated(row):
            return allowed
        if application.row.failing:
            self.require_not_failing(application)
        holding = application.holding
        if holding is None or holding.epoch is not epoch:
            holding = state.holding_of(application)
        if self._models.all or objections:
            denial = self._charge_if_all_agree(request, application, row, holding, vector, objections)
        elif application.holding is not None and holding.try_charge(vector):
            denial = None
        else:
            violations = holding.admit(vector)
            denial = self._deny(request, application, row, Decision(violations)) if violations else None
        if denial is not None:
            return denial
        if application.holding is None:
            state.start(application, holding)
        if allocation_id in application.pending:
            state.write(row)
        else:
            state.add(application, row)
        return allowed

    def _charge_if_all_agree(
        self,
        request: RequestFields,
        application: Application,
        row: Allocation,
        holding: Holding,
        vector: RequestVector,
        objections: Sequence[Violation],
    ) -> Decision | None:
        """Charge an allocation to a holding and to all models if all agree; otherwise return the denial."""
        # A model gets the same object for its check and its charge, which may use the result of the check.
        claim = application.claim(row)
        by_models = self._models.check(claim)
        # The counters need not be taken back, because they can be rebuilt.
        by_limits = holding.violations(vector) if by_models or objections else holding.admit(vector)
        if by_limits or by_models:
            evictions = self.evictions(claim, application) if by_models else ()
            violations = with_objections(by_limits + by_models, objections)
            return self._deny(request, application, row, Decision(violations, evictions))
        if objections:
            return self.deny([AllocationRequest._make(request)], Decision(tuple(objections)))
        self._models.charge(claim, waiting=self._state.waiting_usage(row[0]))
        return None

    def _deny(self, request: RequestFields, application: Application, row: Allocation, decision: Decision) -> Decision:
        return self.deny([AllocationRequest._make(request)], decision, ((application, row.usage),))

    def allocate_evicting(self, request: AllocationRequest) -> Decision:
        """Charge an allocation, and release the allocations that quota models evict for it, or do neither."""
        state, mark = self._state, len(self._state.lock.changes)
        decision = self.allocate(request)
        if decision or not decision.evictions:
            return decision
        # Instead of the denial, that of the evictions counts.
        del state.lock.changes[mark:]
        self.end([state.allocations[name] for name in decision.evictions])
        if self.allocate(request):
            return Decision((), decision.evictions)
        state.revert(mark)
        return self.deny([request], decision._replace(evictions=()))

    def evictions(self, claim: Claim, application: Application) -> tuple[str, ...]:
        """Return the allocations whose release would let another one fit; empty if no release would."""
        evictions = self._models.evictions(claim)
        if not evictions:
            return ()
        evicted = [other for other in map(self._state.held, evictions) if other is not None]
        if len(evicted) < len(evictions) or self._state.violations(application, claim.usage, evicted):
            return ()
        return evictions

    def deny(
        self,
        requests: Iterable[AllocationRequest],
        decision: Decision,
        usages: Sequence[tuple[Application, Resource]] = (),
    ) -> Decision:
        """Record a denial and return it, with the changes by a schedule that help.

        Args:
            requests: the requests, which were denied together.
            decision: the denial.
            usages: what their applications would use; none if limits of users, groups and queues have not denied them.
        """
        if usages and self._state.compiled.schedule is not None:
            decision = decision._replace(violations=with_prospects(self._state, decision.violations, usages))
        self._state.deny(tuple(requests), decision)
        return decision

    def violations(self, application: Application, row: Allocation) -> tuple[Violation, ...]:
        """Return every limit of users, groups, queues and other models that an allocation would exceed."""
        found = self._state.violations(application, row.usage)
        if self._models.all:
            found += self._models.check(application.claim(row))
        return with_objections(found, self.objections(application, row))

    def charge(self, row: Allocation) -> None:
        """Charge an allocation without a check, and write it into the ledger; nothing changes if a model raises."""
        if self._models:
            self._models.charge(self._state.claim(row), waiting=self._state.waiting_usage(row.allocation_id))
        self._state.charge(row)
        self._state.write(row)

    # Releases

    def preempt(self, allocation_id: str) -> bool:
        """Mark an allocation as terminating and return whether it exists."""
        row = self.find("allocation_id", allocation_id)
        if row is None or row.state is _PENDING:
            return False
        self._state.mark_terminating(row)
        return True

    def release(self, allocation_id: str) -> bool:
        """Release an allocation or withdraw a pending one, and return whether it existed."""
        row = self._state.allocations.get(allocation_id) if type(allocation_id) is str else None
        if row is None:
            require_name("allocation_id", allocation_id)
            return False
        application = self._state.applications[row.application_id]
        self.take_out(application, row)
        if not application.allocations:
            self._state.finish_if_idle(application)
        return True

    def end(self, rows: Iterable[Allocation]) -> None:
        """Release allocations or withdraw pending ones, of any applications."""
        for row in rows:
            self.release(row.allocation_id)

    def take_out(self, application: Application, row: Allocation) -> None:
        """Release an allocation or withdraw a pending one; its application may have to be finished then."""
        state, models, holding = self._state, self._models, application.holding
        if models.all:
            models.change("remove_pending" if row.state is _PENDING else "refund", application.claim(row))
        if holding is None or row.state is _PENDING:
            # Without a holding, everything is pending.
            state.remove(row.allocation_id)
            return
        if holding.epoch is not state.active_limits.epoch:
            holding.refresh()
        layout, vector = row.usage.compiled
        if layout is not holding.epoch.layout:
            vector = holding.epoch.layout.vector(row.usage)
        if not holding.try_refund(vector):
            holding.require_held(vector)
        state.remove_held(application, row)

    # Existing allocations

    def adopt(self, request: AllocationRequest) -> tuple[Violation, ...]:
        """Charge a requested allocation that exists without a check, and return the limits that are exceeded now."""
        return self.adopt_row(self.row(request, _HELD))

    def adopt_row(self, row: Allocation) -> tuple[Violation, ...]:
        """Charge an existing allocation without a check, and return the limits that are exceeded now."""
        application = self._state.owner(row)
        if not self.is_repeated(row):
            before = self.timers.exceeded(application.queue)
            self._state.count_unoffered(row.usage)
            self.charge(row)
            self.timers.start(before, application.queue)
        chain = self._state.holding_of(application).chain()
        return tuple(found for node in chain for found in already_exceeded(node))

    def correct(self, allocation_id: str, usage: Resource, node: str | None) -> None:
        """Change the usage of an allocation, and its node if one is named, without a check; its state stays."""
        old = self.require_held("allocation_id", allocation_id)
        self.request_vector(usage)
        application = self._state.owner(old)
        new, queue = self._resized(old._replace(node=node or old.node), usage), application.queue
        before = self.timers.exceeded(queue)
        self._state.count_unoffered(usage)
        self._exchange_claims(old, new, checked=False)
        self._swap(old, new)
        self.timers.start(before, queue)

    # Exchanges

    def replace(self, placeholder_id: str, allocation_id: str, usage: Resource, node: str | None = None) -> Decision:
        """Replace a placeholder by a real allocation."""
        require_exact_name("placeholder_id", placeholder_id)
        require_exact_name("allocation_id", allocation_id)
        if node is not None:
            require_exact_name("node", node)
        known = self._state.allocations.get(allocation_id)
        if known is not None and known.state is not _PENDING and placeholder_id not in self._state.allocations:
            self.request_vector(usage)
            again = known._replace(usage=usage, node=node or known.node, assign=None)
            self.is_repeated(again if self.variants is None else self.variants.normal(again))
            return granted(known)
        old = self.require_held("placeholder_id", placeholder_id)
        if not old.placeholder:
            raise RequestError(
                "placeholder_id", placeholder_id, "the allocation is not a placeholder", "state-conflict"
            )
        # A pending allocation may have its own duration; otherwise the promised end of the placeholder stays.
        duration = known.duration if known is not None and known.state is _PENDING else None
        # It also has its own priority and variants.
        request = (known or old).request._replace(
            allocation_id=allocation_id,
            application_id=old.application_id,
            usage=usage,
            placeholder=False,
            duration=duration,
            node=node or old.node,
            assign=None if known is None else known.assign,
        )
        new = self.row(request, _HELD, replaces=old)
        if self.is_repeated(new):
            raise RequestError("allocation_id", allocation_id, "an allocation with this id already exists", "id-in-use")
        if duration is None:
            new = new._replace(until=old.until, duration=old.duration)
        application = self._state.owner(new)
        self.require_not_failing(application)
        decision = self._exchange(old, new)
        if decision:
            self._state.change_application(application, has_replaced=True)
        return decision

    def resize(self, allocation_id: str, usage: Resource) -> Decision:
        """Change the usage of an allocation."""
        old = self.require_held("allocation_id", allocation_id)
        self.request_vector(usage)
        new = self._resized(old, usage)
        if old.usage == new.usage:
            return granted(old)
        if any(amount > 0 for amount in (new.usage - old.usage).values()):
            self.require_not_failing(self._state.owner(old))
        return self._exchange(old, new)

    def _resized(self, old: Allocation, usage: Resource) -> Allocation:
        """Return an allocation with another size, which keeps the variants of the old one as far as possible."""
        return self.assigned(self._state.owner(old), old._replace(usage=usage, assign=None), old)

    def renew(self, allocation_id: str, duration: int | None) -> Decision:
        """Change or remove the promised end of an allocation; quota models check a later one, or none."""
        old = self.require_held("allocation_id", allocation_id)
        if duration is not None:
            require_duration(duration)
        if old.state is not _HELD:
            raise RequestError("allocation_id", allocation_id, "the allocation is terminating", "state-conflict")
        before = old.until
        until = None if duration is None else self._models.clock.now(changes=True) + duration
        new = old._replace(until=until, duration=duration)
        if before == until:
            return ALLOWED
        extends = before is None or until is None or until > before
        if extends:
            self.require_not_failing(self._state.owner(old))
        violations = self._exchange_claims(old, new, checked=extends)
        if violations:
            return self.deny([new.request], Decision(violations))
        self._state.write(new)
        return ALLOWED

    def _exchange(self, old: Allocation, new: Allocation) -> Decision:
        """Replace one allocation by another; limits check only the growth, other models the whole allocation."""
        application = self._state.owner(old)
        holding = self._state.holding_of(application)
        violations = holding.swap_violations(old.usage, new.usage)
        violations = with_objections(violations, self.objections(application, _growth(old, new)))
        violations += self._exchange_claims(old, new, agreed=not violations)
        if not violations:
            self._swap(old, new)
            return granted(new)
        growing = {name: amount for name, amount in new.usage.items() if amount > old.usage.get(name, 0)}
        request = new.request._replace(duration=None)
        return self.deny([request], Decision(violations), [(application, Resource(growing))])

    def _swap(self, old: Allocation, new: Allocation) -> None:
        self._state.holding_of(self._state.owner(old)).swap(old.usage, new.usage)
        if old.allocation_id == new.allocation_id:
            self._state.write(new)
            return
        self._state.remove(old.allocation_id)
        self._state.write(new, replaces=old.allocation_id)

    def _exchange_claims(
        self, old: Allocation, new: Allocation, *, agreed: bool = True, checked: bool = True
    ) -> tuple[Violation, ...]:
        """Exchange two claims of all other models if they agree and *agreed*; otherwise return their violations."""
        if not self._models:
            return ()
        before, claim, mark = self._state.claim(old), self._state.claim(new), len(self._state.lock.changes)
        self._models.change("refund", before)
        violations = self._models.check(claim) if checked and _takes_more(before, claim) else ()
        if agreed and not violations:
            self._models.charge(claim, waiting=self._state.waiting_usage(new.allocation_id))
        else:
            self._models.take_back(mark)
        return violations

    # Expiry

    def overdue(self, now: int | None, *, changes: bool = False) -> tuple[Allocation, ...]:
        """Return the allocations that are still held after their promised end, sorted by end and id."""
        if now is None:
            now = self._models.clock.now(changes=changes)
        elif type(now) is not int:
            raise RequestError("now", now, "expected whole seconds")
        return tuple(self._state.allocations[name] for name in self._state.ends.until(now))

    def expire(self, now: int | None) -> tuple[str, ...]:
        """Mark the overdue allocations as terminating, and return those that were not."""
        found = [row for row in self.overdue(now, changes=True) if row.state is _HELD]
        for row in found:
            self._state.mark_terminating(row)
        return tuple(row.allocation_id for row in found)

    def release_overdue(self, now: int | None) -> tuple[str, ...]:
        """Release the overdue allocations: all of them, or none if a model raises."""
        found = self.overdue(now, changes=True)
        self.end(found)
        return tuple(row.allocation_id for row in found)

    # Quotas

    def set_queue_quota(self, queue: Queue, quota: Resource) -> None:
        """Set the maximum of a queue that the configuration does not name."""
        before = self.timers.exceeded(queue)
        self._state.set_queue_quota(queue, quota)
        self.timers.start(before, queue)


def _growth(old: Allocation, new: Allocation) -> Allocation:
    """Return what an allocation uses more than the one that it replaces."""
    usage, assign = (
        Resource({name: most for name, most in (after - before).items() if most > 0})
        for before, after in ((old.usage, new.usage), (old.assign or Resource(), new.assign or Resource()))
    )
    return new._replace(usage=usage, assign=assign or None)


def with_objections(violations: tuple[Violation, ...], objections: Sequence[Violation]) -> tuple[Violation, ...]:
    """Return violations of limits and models, with the objections that count besides them.

    Without violations, all objections deny a request. With some, an objection counts if it says that waiting does not
    help although all limits say that it does.
    """
    if not violations:
        return tuple(objections)
    if not all(one.can_wait for one in violations):
        return violations
    return violations + tuple(one for one in objections if not one.can_wait)


def granted(row: Allocation) -> Decision:
    """Return the decision that grants an allocation."""
    return ALLOWED if row.assign is None else Decision(assign=row.assign)


def _takes_more(old: Claim, new: Claim) -> bool:
    """Return whether a claim that replaces another needs anything that was not granted."""
    if any(amount > 0 for amount in (new.usage - old.usage).values()):
        return True
    return new[6:] != old[6:]


class AdmissionPart:
    """A part of the engine that works on a state and its quota models through their admission."""

    def __init__(self, state: PartitionState, models: ModelSet, admission: AdmissionControl) -> None:
        self._state: Final = state
        self._models: Final = models
        self._admission: Final = admission
