"""AdmissionControl: every way in which an allocation enters, changes or leaves the ledger, outside the fast path.

The limits of users, groups and queues on a request are one chain of counters, which the holding of the application
charges at once. Other quota models are called before that: first all of them check, then all are charged, and only then
the ledger changes. So a model that raises finds nothing changed except other models, and the undo list of the operation
undoes those.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal, final

from ugm.arguments import require_application_id, require_exact_name, require_name, require_request, require_vector
from ugm.counters import RequestVector
from ugm.decision import ALLOWED, Decision, Violation, already_exceeded
from ugm.errors import RequestError
from ugm.identity import canonical_path
from ugm.model import Claim
from ugm.partition.allocation import AllocationRequest, AllocationState, require_duration, traits_of
from ugm.partition.application import Application, LedgerEntry
from ugm.partition.emptied import with_prospects
from ugm.partition.events import Denied
from ugm.partition.model_calls import Call, charge_calls
from ugm.partition.model_set import ModelSet
from ugm.partition.reduction_timers import ReductionTimers
from ugm.partition.state import PartitionState
from ugm.queues.queue import Queue
from ugm.resources import Resource

__all__ = ["AdmissionControl", "in_use_reason"]

_HELD: Final = AllocationState.HELD
_PENDING: Final = AllocationState.PENDING
#: The allocation id of a query; no allocation has it.
_NO_ALLOCATION: Final = ""


@final
class AdmissionControl:
    """Grants, changes and releases allocations. The caller holds the lock. Arguments of requests are checked here."""

    __slots__ = ("_models", "_state", "_timers")

    def __init__(self, state: PartitionState, models: ModelSet, timers: ReductionTimers) -> None:
        self._state: Final = state
        self._models: Final = models
        self._timers: Final = timers

    # Arguments

    def require_application(self, application_id: str) -> Application:
        """Return an application.

        Raises:
            RequestError: it does not exist.
        """
        # First the look-up: a journal of an earlier version may have ids that are too long for a new application.
        found = self._state.applications.get(application_id) if type(application_id) is str else None
        if found is None:
            found = self._state.applications.get(require_application_id(application_id))
        if found is None:
            raise RequestError("application_id", application_id, "there is no such application", "application-unknown")
        return found

    def require_queue(self, queue_path: str) -> Queue:
        """Return a queue.

        Raises:
            RequestError: it does not exist.
        """
        found = self._state.tree.queues.get(canonical_path(queue_path))
        if found is None:
            raise RequestError("queue_path", queue_path, "there is no such queue", "queue-unknown")
        return found

    def entry(self, request: AllocationRequest, state: AllocationState, now: int | None = None) -> LedgerEntry:
        """Return the entry of a request, which is not in the ledger yet.

        Args:
            request: the request.
            state: the state of the allocation.
            now: the time of the call if it is known; otherwise the clock is read if a duration is promised.

        Raises:
            RequestError: an argument is invalid, or the application does not exist.
        """
        require_exact_name("allocation_id", request.allocation_id)
        application = self.require_application(request.application_id)
        self.request_vector(request.usage)
        return LedgerEntry(application, request.usage, traits_of(state, request, self.now([request], now)))

    def now(self, requests: Iterable[AllocationRequest], known: int | None = None, *, changes: bool = True) -> int:
        """Return the time of the call if a request promises a duration; otherwise the clock is not read.

        Args:
            requests: the requests of the call.
            known: the time of the call, if the clock has been read.
            changes: whether the call is a change.
        """
        clock = self._models.clock
        if known is None and any(request.duration is not None for request in requests):
            return clock.now(changes=changes)
        return clock.latest if known is None else known

    def vector(self, usage: Resource) -> RequestVector:
        """Return the amounts of a usage in the layout of the counters."""
        return require_vector("usage", usage, self._state.active_limits.epoch.layout)

    def request_vector(self, usage: Resource) -> RequestVector:
        """Return the same of a request, after a check of the names of its resources."""
        return require_request("usage", usage, self._state.active_limits.epoch.layout)

    def require_not_failing(self, application: Application) -> None:
        """Check that an application may get more.

        Raises:
            RequestError: it is failing.
        """
        if application.failing:
            raise RequestError(
                "application_id", application.application_id, "the application is failing", "application-failing"
            )

    def is_repeated(self, allocation_id: str, entry: LedgerEntry) -> bool:
        """Return whether an allocation is held already, because the call repeats an earlier one.

        Raises:
            RequestError: the id belongs to another allocation.
        """
        known = self._state.ledger.get(allocation_id)
        if known is None:
            return False
        is_pending = known.traits.state is _PENDING
        if is_pending and (entry.traits.state is not _PENDING or entry.traits.node is None):
            # The grant names the node, or a plan has named it for a request without one.
            entry = entry.on_node(known.traits.node)
        first, duration = known.traits.until, known.traits.duration
        if first is not None and entry.traits.duration is not None:
            # The first end holds, whether it was renewed or not.
            entry = entry.with_promise(first, duration)
        self.require_same(allocation_id, known, entry)
        return not is_pending

    def require_same(self, allocation_id: str, known: LedgerEntry, entry: LedgerEntry) -> None:
        """Check that two entries of one id describe the same allocation.

        Raises:
            RequestError: they do not.
        """
        difference = known.difference(entry)
        if difference is not None:
            raise RequestError("allocation_id", allocation_id, in_use_reason(*difference), "id-in-use")

    def find(self, argument: str, allocation_id: str) -> LedgerEntry | None:
        """Return an allocation, or None if it does not exist.

        Raises:
            RequestError: it does not exist, and the id is invalid.
        """
        entry = self._state.ledger.get(allocation_id) if type(allocation_id) is str else None
        return self._state.ledger.get(require_name(argument, allocation_id)) if entry is None else entry

    def require_held(self, argument: str, allocation_id: str) -> LedgerEntry:
        """Return a held or terminating allocation.

        Raises:
            RequestError: it does not exist.
        """
        entry = self.find(argument, allocation_id)
        if entry is None or entry.traits.state is _PENDING:
            raise RequestError(argument, allocation_id, "there is no such allocation", "allocation-unknown")
        return entry

    # Requests

    def request(self, request: AllocationRequest) -> Decision:
        """Add a pending allocation if no limit on pending work forbids it."""
        entry = self.entry(request, _PENDING)
        if request.allocation_id in self._state.ledger:
            self.is_repeated(request.allocation_id, entry)
            return ALLOWED
        self.require_not_failing(entry.application)
        counted = self._state.ledger.pending_usage
        violations = () if counted is None else counted.of_request(entry.application, entry.usage)
        if violations:
            return self.deny([request], Decision(violations))
        if self._models:
            self._models.apply([("add_pending", entry.claim(request.allocation_id))])
        self._state.write_pending(request.allocation_id, entry)
        return ALLOWED

    # Grants

    def allocate(self, request: AllocationRequest) -> Decision:
        """Charge an allocation to all limits and models, or to none."""
        entry = self.entry(request, _HELD)
        if self.is_repeated(request.allocation_id, entry):
            return ALLOWED
        self.require_not_failing(entry.application)
        return self._charge_unless_denied(request, entry, ())

    def allocate_entry(
        self, request: AllocationRequest, entry: LedgerEntry, objections: Sequence[Violation]
    ) -> Decision:
        """Decide like `allocate` about an entry. If no limit denies it, the objections do.

        Args:
            request: the request.
            entry: its entry.
            objections: the reasons against a grant, besides limits and models.
        """
        if self.is_repeated(request.allocation_id, entry):
            return ALLOWED
        self.require_not_failing(entry.application)
        return self._charge_unless_denied(request, entry, objections)

    def _charge_unless_denied(
        self, request: AllocationRequest, entry: LedgerEntry, objections: Sequence[Violation]
    ) -> Decision:
        state, models, application = self._state, self._models, entry.application
        vector = self.vector(entry.usage)
        if not models.all and not objections:
            violations = state.admit(application, vector)
            if violations:
                return self.deny([request], Decision(violations), (entry,))
            state.write_allocated(request.allocation_id, entry)
            return ALLOWED
        holding = state.holding_of(application)
        # A model gets the same object for its check and its charge, which may use the result of the check.
        claim = entry.claim(request.allocation_id)
        by_models = models.check(claim)
        # The counters need no undo step, because they can be rebuilt.
        by_limits = holding.violations(vector) if by_models or objections else holding.admit(vector)
        if by_limits or by_models:
            evictions = self._evictions(claim, entry) if by_models else ()
            return self.deny([request], Decision(by_limits + by_models, evictions), (entry,))
        if objections:
            return self.deny([request], Decision(tuple(objections)))
        models.apply(charge_calls(claim, pending=request.allocation_id in application.pending))
        if application.holding is None:
            state.start(application, holding)
        state.write_allocated(request.allocation_id, entry)
        return ALLOWED

    def allocate_evicting(self, request: AllocationRequest) -> Decision:
        """Charge an allocation, and release the allocations that quota models evict for it, or do neither."""
        entry = self.entry(request, _HELD)
        if self.is_repeated(request.allocation_id, entry):
            return ALLOWED
        self.require_not_failing(entry.application)
        # A model gets the same object for its check, its evictions and its charge, which may use what it found first.
        claim = entry.claim(request.allocation_id)
        by_limits = self._state.holding_of(entry.application).violations(self.vector(entry.usage))
        by_models = self._models.check(claim)
        if not by_limits and not by_models:
            self._evict(claim, entry, ())
            return ALLOWED
        evictions = self._evictions(claim, entry) if by_models else ()
        if not evictions or not self._evict(claim, entry, evictions):
            return self.deny([request], Decision(by_limits + by_models), (entry,))
        return Decision((), evictions)

    def _evict(self, claim: Claim, entry: LedgerEntry, evictions: Sequence[str]) -> bool:
        """Charge an entry in place of its evictions, if it has any, and return whether the models agree to that."""
        mark = len(self._state.undo)
        evicted = [(name, self._state.ledger[name]) for name in evictions]
        self._models.apply([("refund", other.claim(name)) for name, other in evicted])
        if evicted and self._models.check(claim):
            self._models.undo_since(mark)
            return False
        allocation_id = claim.allocation_id
        self._models.apply(charge_calls(claim, pending=allocation_id in entry.application.pending))
        # In the order of the calls of the models: a journal repeats them for models that depend on the past.
        for name, other in evicted:
            self._state.refund(other)
            self._state.remove_released(name, other)
        self._charge_limits(allocation_id, entry)
        for _, other in evicted:
            self._state.finish_if_idle(other.application)
        return True

    def _evictions(self, claim: Claim, entry: LedgerEntry) -> tuple[str, ...]:
        """Return the allocations whose release would let an entry fit; empty if no release would."""
        evictions = self._models.evictions(claim)
        if not evictions:
            return ()
        known = [self._state.ledger.get(name) for name in evictions]
        evicted = [other for other in known if other is not None and other.traits.state is not _PENDING]
        return evictions if len(evicted) == len(known) and self._fits_without(evicted, entry) else ()

    def _fits_without(self, evicted: Sequence[LedgerEntry], entry: LedgerEntry) -> bool:
        """Return whether an entry fits the limits of users, groups and queues after the release of others."""
        for other in evicted:
            self._state.refund(other)
        violations = self._state.holding_of(entry.application).violations(self.vector(entry.usage))
        for other in evicted:
            self._state.charge(other, self.vector(other.usage))
        return not violations

    def deny(
        self, requests: Iterable[AllocationRequest], decision: Decision, entries: Sequence[LedgerEntry] = ()
    ) -> Decision:
        """Record a denial and return it, with the changes by a schedule that help.

        Args:
            requests: the requests, which were denied together.
            decision: the denial.
            entries: their entries; none if limits of users, groups and queues have not denied them.
        """
        if entries and self._state.compiled.schedule is not None:
            decision = decision._replace(violations=with_prospects(self._state, decision.violations, entries))
        if self._state.record:
            self._state.record(Denied(tuple(requests), decision))
        return decision

    def deny_new(
        self,
        request: AllocationRequest,
        claim: Claim,
        by_limits: tuple[Violation, ...],
        by_models: tuple[Violation, ...],
    ) -> Decision:
        """Deny an allocation with a new id.

        Args:
            request: the request.
            claim: its claim, which the models have checked.
            by_limits: the limits of users, groups and queues that it exceeds.
            by_models: the limits of models that it exceeds.
        """
        entry = self.entry(request, _HELD)
        evictions = self._evictions(claim, entry) if by_models else ()
        return self.deny([request], Decision(by_limits + by_models, evictions), (entry,))

    def check(self, request: AllocationRequest) -> Decision:
        """Return the answer that a request would get, for any allocation id."""
        application, vector = self.require_application(request.application_id), self.vector(request.usage)
        self.require_not_failing(application)
        now = self.now([request], changes=False)
        entry = LedgerEntry(application, request.usage, traits_of(_HELD, request, now))
        claim = entry.claim(_NO_ALLOCATION)
        by_limits, by_models = self._state.holding_of(application).violations(vector), self._models.check(claim)
        if not by_limits and not by_models:
            return ALLOWED
        by_limits = with_prospects(self._state, by_limits, (entry,))
        return Decision(by_limits + by_models, self._evictions(claim, entry) if by_models else ())

    def violations(self, allocation_id: str, entry: LedgerEntry) -> tuple[Violation, ...]:
        """Return every limit of users, groups, queues and other models that an entry would exceed."""
        found = self._state.holding_of(entry.application).violations(self.vector(entry.usage))
        return found + self._models.check(entry.claim(allocation_id)) if self._models else found

    def charge(self, allocation_id: str, entry: LedgerEntry) -> None:
        """Charge an entry without a check, and write it into the ledger; nothing changes if a model raises."""
        if self._models:
            self._models.apply(self._charging(allocation_id, entry))
        self._charge_limits(allocation_id, entry)

    def _charge_limits(self, allocation_id: str, entry: LedgerEntry) -> None:
        """Charge an entry that the models have charged, and write it into the ledger."""
        self._state.charge(entry, self.vector(entry.usage))
        self._state.write_allocated(allocation_id, entry)

    def _charging(self, allocation_id: str, entry: LedgerEntry) -> list[Call]:
        return charge_calls(entry.claim(allocation_id), pending=allocation_id in entry.application.pending)

    # Changes

    def replace(self, placeholder_id: str, allocation_id: str, usage: Resource, node: str | None = None) -> Decision:
        """Replace a placeholder by a real allocation."""
        require_exact_name("placeholder_id", placeholder_id)
        require_exact_name("allocation_id", allocation_id)
        if node is not None:
            require_exact_name("node", node)
        known = self._state.ledger.get(allocation_id)
        if known is not None and known.traits.state is not _PENDING and placeholder_id not in self._state.ledger:
            self.is_repeated(allocation_id, known._replace(usage=usage).on_node(node or known.traits.node))
            return ALLOWED
        old = self.require_held("placeholder_id", placeholder_id)
        if not old.traits.placeholder:
            raise RequestError(
                "placeholder_id", placeholder_id, "the allocation is not a placeholder", "state-conflict"
            )
        # A pending allocation has its own priority.
        _, _, priority, preemptible, *_ = (known or old).traits
        application_id = old.application.application_id
        # It may also have its own duration; otherwise the promised end of the placeholder stays.
        duration = known.traits.duration if known is not None and known.traits.state is _PENDING else None
        traits = False, priority, preemptible, duration, node or old.traits.node
        request = AllocationRequest(allocation_id, application_id, usage, *traits)
        new = self.entry(request, _HELD)
        if self.is_repeated(allocation_id, new):
            raise RequestError("allocation_id", allocation_id, "an allocation with this id already exists", "id-in-use")
        if duration is None:
            new = new.with_promise(old.traits.until, old.traits.duration)
        self.require_not_failing(new.application)
        decision = self._exchange(placeholder_id, old, allocation_id, new)
        if decision:
            self._state.mark_replaced(new.application)
        return decision

    def resize(self, allocation_id: str, usage: Resource) -> Decision:
        """Change the usage of an allocation."""
        old = self.require_held("allocation_id", allocation_id)
        self.request_vector(usage)
        if old.usage == usage:
            return ALLOWED
        if any(amount > 0 for amount in (usage - old.usage).values()):
            self.require_not_failing(old.application)
        return self._exchange(allocation_id, old, allocation_id, old._replace(usage=usage))

    def renew(self, allocation_id: str, duration: int | None) -> Decision:
        """Change or remove the promised end of an allocation; quota models check a later one, or none."""
        old = self.require_held("allocation_id", allocation_id)
        if duration is not None:
            require_duration(duration)
        if old.traits.state is not _HELD:
            raise RequestError("allocation_id", allocation_id, "the allocation is terminating", "state-conflict")
        before = old.traits.until
        until = None if duration is None else self._models.clock.now(changes=True) + duration
        new = old.with_promise(until, duration)
        if before == until:
            return ALLOWED
        extends = before is None or until is None or until > before
        if extends:
            self.require_not_failing(old.application)
        violations = self._renewal_violations(allocation_id, old, new, extends=extends)
        if violations:
            return self._deny_exchange(allocation_id, new, violations, duration=duration)
        self._state.write_renewed(allocation_id, new, before)
        return ALLOWED

    def _renewal_violations(
        self, allocation_id: str, old: LedgerEntry, new: LedgerEntry, *, extends: bool
    ) -> tuple[Violation, ...]:
        """Exchange two claims of all models unless they object; only a later end is checked."""
        if not self._models:
            return ()
        if extends:
            return self._exchange_claims(old.claim(allocation_id), allocation_id, new, agreed=True)
        self._models.expect_exchange(allocation_id, allocation_id)
        self._models.apply([("refund", old.claim(allocation_id)), ("charge", new.claim(allocation_id))])
        return ()

    def _exchange(self, old_id: str, old: LedgerEntry, new_id: str, new: LedgerEntry) -> Decision:
        """Replace one entry by another; limits check only the growth, other models the whole entry."""
        holding = self._state.holding_of(old.application)
        violations = holding.swap_violations(old.usage, new.usage)
        if self._models:
            violations += self._exchange_claims(old.claim(old_id), new_id, new, agreed=not violations)
        if not violations:
            self._swap(old_id, old, new_id, new)
            return ALLOWED
        growing = {name: amount for name, amount in new.usage.items() if amount > old.usage.get(name, 0)}
        return self._deny_exchange(new_id, new, violations, [new._replace(usage=Resource(growing))])

    def _deny_exchange(
        self,
        allocation_id: str,
        new: LedgerEntry,
        violations: tuple[Violation, ...],
        entries: Sequence[LedgerEntry] = (),
        duration: int | None = None,
    ) -> Decision:
        application_id, (_, placeholder, priority, preemptible, _, _, node) = new.application.application_id, new.traits
        request = AllocationRequest(
            allocation_id, application_id, new.usage, placeholder, priority, preemptible, duration, node
        )
        return self.deny([request], Decision(violations), entries)

    def _swap(self, old_id: str, old: LedgerEntry, new_id: str, new: LedgerEntry) -> None:
        self._state.holding_of(old.application).swap(old.usage, new.usage)
        if old_id == new_id:
            self._state.write_resized(old_id, new, old.usage)
            return
        self._state.remove_released(old_id, old)
        self._state.write_allocated(new_id, new, replaces=old_id)

    def _exchange_claims(self, old: Claim, new_id: str, new: LedgerEntry, *, agreed: bool) -> tuple[Violation, ...]:
        """Exchange two claims of all other models if they agree and *agreed*; otherwise return their violations."""
        mark = len(self._state.undo)
        self._models.expect_exchange(old.allocation_id, new_id)
        self._models.apply([("refund", old)])
        claim = new.claim(new_id)
        violations = self._models.check(claim) if _takes_more(old, claim) else ()
        if agreed and not violations:
            self._models.apply(self._charging(new_id, new))
        else:
            self._models.undo_since(mark)
        return violations

    # Releases

    def preempt(self, allocation_id: str) -> bool:
        """Mark an allocation as terminating and return whether it exists."""
        entry = self.find("allocation_id", allocation_id)
        if entry is None or entry.traits.state is _PENDING:
            return False
        self._state.mark_terminating(allocation_id, entry)
        return True

    def release(self, allocation_id: str) -> bool:
        """Release an allocation or withdraw a pending one, and return whether it existed."""
        entry = self.find("allocation_id", allocation_id)
        if entry is None:
            return False
        self.end([(allocation_id, entry)])
        return True

    def end(self, allocations: Sequence[tuple[str, LedgerEntry]]) -> None:
        """Release allocations or withdraw pending ones: all of them, or none if a model raises."""
        if self._models:
            self._models.apply([(_ending(entry), entry.claim(name)) for name, entry in allocations])
        for name, entry in allocations:
            if entry.traits.state is _PENDING:
                self._state.remove_pending(name, entry)
                self._state.finish_if_idle(entry.application)
            else:
                self._state.refund(entry)
                self._remove(name)

    def _remove(self, allocation_id: str) -> None:
        entry = self._state.ledger[allocation_id]
        self._state.remove_released(allocation_id, entry)
        self._state.finish_if_idle(entry.application)

    # Existing allocations

    def adopt(self, request: AllocationRequest) -> tuple[Violation, ...]:
        """Charge an existing allocation without a check, and return the limits that are exceeded now."""
        return self.adopt_entry(request.allocation_id, self.entry(request, _HELD))

    def adopt_entry(self, allocation_id: str, entry: LedgerEntry) -> tuple[Violation, ...]:
        """Adopt an entry, which may have a promised end."""
        if not self.is_repeated(allocation_id, entry):
            queue = entry.application.queue
            before = self._timers.exceeded(queue)
            self._state.count_unoffered(entry.usage)
            self.charge(allocation_id, entry)
            self._timers.start(before, queue)
        return tuple(
            found for node in self._state.holding_of(entry.application).chain() for found in already_exceeded(node)
        )

    def correct(self, allocation_id: str, usage: Resource, node: str | None) -> None:
        """Change the usage of an allocation, and its node if one is named, without a check; its state stays."""
        old = self.require_held("allocation_id", allocation_id)
        self.request_vector(usage)
        new, queue = old._replace(usage=usage).on_node(node or old.traits.node), old.application.queue
        before = self._timers.exceeded(queue)
        self._state.count_unoffered(usage)
        if self._models:
            self._models.expect_exchange(allocation_id, allocation_id)
            self._models.apply([("refund", old.claim(allocation_id)), ("charge", new.claim(allocation_id))])
        self._state.holding_of(old.application).swap(old.usage, usage)
        self._state.write_resized(allocation_id, new, old.usage)
        self._timers.start(before, queue)

    # Quotas

    def set_queue_quota(self, queue: Queue, quota: Resource) -> None:
        """Set the maximum of a queue that the configuration does not name."""
        before = self._timers.exceeded(queue)
        self._state.set_queue_quota(queue, quota)
        self._timers.start(before, queue)


def in_use_reason(name: str, known: object, requested: object) -> str:
    """Return the reason why an id cannot be used again: a property differs."""
    known_text, requested_text = (value if isinstance(value, Resource) else repr(value) for value in (known, requested))
    return f"the id is in use with another {name}: {known_text} in use, {requested_text} requested"


def _ending(entry: LedgerEntry) -> Literal["remove_pending", "refund"]:
    return "remove_pending" if entry.traits.state is _PENDING else "refund"


def _takes_more(old: Claim, new: Claim) -> bool:
    """Return whether a claim that replaces another needs anything that was not granted."""
    if any(amount > 0 for amount in (new.usage - old.usage).values()):
        return True
    return new[-3:] != old[-3:]
