"""Granting and giving back: every way in which an allocation enters or leaves the ledger.

The users, groups and queues of a request are one chain of counters, charged by its holding in one go. Other quota
models are called before it: first all are checked, then all are charged, and only then does the ledger change. So a
model that raises finds nothing changed but other models, and those are undone by the undo list of the operation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal, final

from ugm.arguments import require_application_id, require_name, require_vector
from ugm.decision import ALLOWED, Decision, Violation, over
from ugm.errors import RequestError
from ugm.hierarchy import RequestVector
from ugm.identity import canonical_path
from ugm.model import Claim
from ugm.partition.application import Application
from ugm.partition.events import Denied
from ugm.partition.ledger_entry import AllocationRequest, AllocationState, LedgerEntry, traits_of
from ugm.partition.model_set import Call, ModelSet, charging
from ugm.partition.state import PartitionState
from ugm.queues import Queue
from ugm.resources import Resource

__all__ = ["Admission"]

_PENDING: Final = AllocationState.PENDING
#: The id of an allocation that is only asked about; no allocation has it.
_NAMELESS: Final = ""


@final
class Admission:
    """What a partition does to its ledger. The partition holds the lock; arguments are checked here."""

    __slots__ = ("_others", "_state")

    def __init__(self, state: PartitionState, others: ModelSet) -> None:
        self._state: Final = state
        self._others: Final = others

    # What is asked for

    def application(self, application_id: str) -> Application:
        """Return an application.

        Raises:
            RequestError: there is none of that id.
        """
        # First the look-up: a journal of an earlier version may have ids that are too long for a new one.
        found = self._state.applications.get(application_id) if type(application_id) is str else None
        if found is None:
            found = self._state.applications.get(require_application_id(application_id))
        if found is None:
            raise RequestError("application_id", application_id, "there is no such application")
        return found

    def queue(self, queue_path: str) -> Queue:
        """Return a queue.

        Raises:
            RequestError: there is none of that path.
        """
        found = self._state.tree.queues.get(canonical_path(queue_path))
        if found is None:
            raise RequestError("queue_path", queue_path, "there is no such queue")
        return found

    def entry(self, request: AllocationRequest, state: AllocationState) -> LedgerEntry:
        """Return what is asked for as an entry that nothing knows of yet.

        Raises:
            RequestError: an argument cannot be used, or the application may not get anything any more.
        """
        require_name("allocation_id", request.allocation_id)
        application = self.application(request.application_id)
        self.vector(request.usage)
        return LedgerEntry(application, request.usage, traits_of(state, request))

    def require_welcome(self, application: Application) -> None:
        """Make sure that an application may get more.

        Raises:
            RequestError: it is failing.
        """
        if application.failing:
            raise RequestError("application_id", application.application_id, "the application is failing")

    def is_repeated(self, allocation_id: str, entry: LedgerEntry) -> bool:
        """Return whether an allocation is held already, by a call of the same content.

        Raises:
            RequestError: the id stands for something else.
        """
        known = self._state.ledger.get(allocation_id)
        if known is None:
            return False
        self.require_same(allocation_id, known, entry)
        return known.traits.state is not _PENDING

    def require_same(self, allocation_id: str, known: LedgerEntry, entry: LedgerEntry) -> None:
        """Make sure that two entries of one id are for the same.

        Raises:
            RequestError: they are not.
        """
        if not known.is_same(entry):
            reason = f"the id stands for another allocation, of application {known.application.application_id!r}"
            raise RequestError("allocation_id", allocation_id, reason)

    def vector(self, usage: Resource) -> RequestVector:
        """Return what a usage asks of each counter."""
        return require_vector("usage", usage, self._state.in_force.epoch.layout)

    # Granting

    def allocate(self, request: AllocationRequest, *, evict: bool) -> Decision:
        """Charge an allocation everywhere, or nowhere."""
        entry = self.entry(request, AllocationState.HELD)
        if self.is_repeated(request.allocation_id, entry):
            return ALLOWED
        self.require_welcome(entry.application)
        if self._others:
            decision = self._allocate_with_models(request.allocation_id, entry, evict=evict)
        else:
            decision = Decision(self._state.admit(entry.application, self.vector(request.usage)))
            if decision:
                self._state.note(request.allocation_id, entry)
        return self.told([request], decision)

    def told(self, requests: Iterable[AllocationRequest], decision: Decision) -> Decision:
        """Return a decision, after telling of it if it is a denial."""
        if decision:
            return decision if decision.evictions else ALLOWED
        if self._state.tell:
            self._state.tell(Denied(tuple(requests), decision))
        return decision

    def _allocate_with_models(self, allocation_id: str, entry: LedgerEntry, *, evict: bool) -> Decision:
        violations = self.violations(allocation_id, entry)
        evicted = self._evictions(allocation_id, entry) if violations else ()
        if violations and not (evicted and evict):
            return Decision(violations, evicted)
        mark = len(self._state.undo)
        gone = [(name, self._state.ledger[name]) for name in evicted]
        self._others.apply([("refund", other.claim(name)) for name, other in gone])
        if gone and self._others.check(entry.claim(allocation_id)):
            self._others.take_back(mark)
            return Decision(violations)
        self._others.apply(self._charging(allocation_id, entry))
        for _, other in gone:
            self._state.refund(other)
        self._state.charge(entry, self.vector(entry.usage))
        self._state.note(allocation_id, entry)
        for name, _ in gone:
            self._strike(name)
        return Decision((), evicted)

    def check(self, request: AllocationRequest) -> Decision:
        """Return what one more allocation would be told, whatever its id."""
        application = self.application(request.application_id)
        self.vector(request.usage)
        self.require_welcome(application)
        entry = LedgerEntry(application, request.usage, traits_of(AllocationState.HELD, request))
        violations = self.violations(_NAMELESS, entry)
        return Decision(violations, self._evictions(_NAMELESS, entry)) if violations else ALLOWED

    def violations(self, allocation_id: str, entry: LedgerEntry) -> tuple[Violation, ...]:
        """Return every limit that an entry would exceed: of users, groups, queues, and of all other models."""
        found = self._state.open(entry.application).violations(self.vector(entry.usage))
        return found + self._others.check(entry.claim(allocation_id)) if self._others else found

    def charge(self, allocation_id: str, entry: LedgerEntry) -> None:
        """Charge an entry everywhere without checking, and write it into the ledger; nothing if a model raises."""
        if self._others:
            self._others.apply(self._charging(allocation_id, entry))
        self._state.charge(entry, self.vector(entry.usage))
        self._state.note(allocation_id, entry)

    def _charging(self, allocation_id: str, entry: LedgerEntry) -> list[Call]:
        return charging(entry.claim(allocation_id), pending=allocation_id in entry.application.pending)

    # Making way

    def _evictions(self, allocation_id: str, entry: LedgerEntry) -> tuple[str, ...]:
        """Return the allocations whose release would let an entry in; none if no release would."""
        evicted = self._others.evictions(entry.claim(allocation_id))
        if not evicted:
            return ()
        known = [self._state.ledger.get(name) for name in evicted]
        gone = [other for other in known if other is not None and other.traits.state is not _PENDING]
        return evicted if len(gone) == len(known) and self._would_fit_without(gone, entry) else ()

    def _would_fit_without(self, gone: Sequence[LedgerEntry], entry: LedgerEntry) -> bool:
        """Return whether users, groups and queues have room for an entry once others have gone."""
        for other in gone:
            self._state.refund(other)
        violations = self._state.open(entry.application).violations(self.vector(entry.usage))
        for other in gone:
            self._state.charge(other, self.vector(other.usage))
        return not violations

    def _strike(self, allocation_id: str) -> None:
        entry = self._state.ledger[allocation_id]
        self._state.strike(allocation_id, entry)
        self._state.settle(entry.application)

    # Changing what is held

    def known(self, argument: str, allocation_id: str) -> LedgerEntry | None:
        """Return an allocation; None if there is none of that id.

        Raises:
            RequestError: there is none, and the id cannot be one.
        """
        entry = self._state.ledger.get(allocation_id) if type(allocation_id) is str else None
        return self._state.ledger.get(require_name(argument, allocation_id)) if entry is None else entry

    def held(self, argument: str, allocation_id: str) -> LedgerEntry:
        """Return an allocation that is held or going.

        Raises:
            RequestError: there is none of that id.
        """
        entry = self.known(argument, allocation_id)
        if entry is None or entry.traits.state is _PENDING:
            raise RequestError(argument, allocation_id, "there is no such allocation")
        return entry

    def replace(self, placeholder_id: str, allocation_id: str, usage: Resource) -> Decision:
        """Put a real allocation in the place of a placeholder."""
        require_name("placeholder_id", placeholder_id)
        known = self._state.ledger.get(require_name("allocation_id", allocation_id))
        if known is not None and known.traits.state is not _PENDING and placeholder_id not in self._state.ledger:
            self.is_repeated(allocation_id, known._replace(usage=usage))
            return ALLOWED
        old = self.held("placeholder_id", placeholder_id)
        if not old.traits.placeholder:
            raise RequestError("placeholder_id", placeholder_id, "the allocation is no placeholder")
        # What has been asked for has traits of its own.
        _, _, priority, preemptible = (known or old).traits
        request = AllocationRequest(
            allocation_id, old.application.application_id, usage, priority=priority, preemptible=preemptible
        )
        new = self.entry(request, AllocationState.HELD)
        if self.is_repeated(allocation_id, new):
            raise RequestError("allocation_id", allocation_id, "the allocation is held beside the placeholder")
        self.require_welcome(new.application)
        decision = self._exchange(placeholder_id, old, allocation_id, new)
        if decision:
            self._state.set_replaced(new.application)
        return decision

    def resize(self, allocation_id: str, usage: Resource) -> Decision:
        """Let an allocation hold something else from now on."""
        old = self.held("allocation_id", allocation_id)
        self.vector(usage)
        if old.usage == usage:
            return ALLOWED
        if any(amount > 0 for amount in (usage - old.usage).values()):
            self.require_welcome(old.application)
        return self._exchange(allocation_id, old, allocation_id, old._replace(usage=usage))

    def _exchange(self, old_id: str, old: LedgerEntry, new_id: str, new: LedgerEntry) -> Decision:
        """Put one entry in the place of another; only what grows is checked, by other models the whole of it."""
        holding = self._state.open(old.application)
        violations = holding.swap_violations(old.usage, new.usage)
        if self._others:
            violations += self._exchange_models(old.claim(old_id), new_id, new, agreed=not violations)
        if not violations:
            self._swap(old_id, old, new_id, new)
            return ALLOWED
        _, placeholder, priority, preemptible = new.traits
        request = AllocationRequest(
            new_id, new.application.application_id, new.usage, placeholder, priority, preemptible
        )
        return self.told([request], Decision(violations))

    def _swap(self, old_id: str, old: LedgerEntry, new_id: str, new: LedgerEntry) -> None:
        self._state.open(old.application).swap(old.usage, new.usage)
        if old_id == new_id:
            self._state.note_resized(old_id, new, old.usage)
            return
        self._state.strike(old_id, old)
        self._state.note(new_id, new, replaces=old_id)

    def _exchange_models(self, old: Claim, new_id: str, new: LedgerEntry, *, agreed: bool) -> tuple[Violation, ...]:
        """Exchange two claims of all other models if they agree and *agreed*; otherwise return what they say."""
        mark = len(self._state.undo)
        self._others.apply([("refund", old)])
        claim = new.claim(new_id)
        violations = self._others.check(claim) if _takes_more(old, claim) else ()
        if agreed and not violations:
            self._others.apply(self._charging(new_id, new))
        else:
            self._others.take_back(mark)
        return violations

    # Giving back

    def release(self, allocation_id: str) -> bool:
        """Give an allocation back, or withdraw one that is pending, and say whether there was one."""
        entry = self.known("allocation_id", allocation_id)
        if entry is None:
            return False
        self.end([(allocation_id, entry)])
        return True

    def end(self, allocations: Sequence[tuple[str, LedgerEntry]]) -> None:
        """Give allocations back, or withdraw those that are pending: all of them, or none if a model raises."""
        if self._others:
            self._others.apply([(_ending(entry), entry.claim(name)) for name, entry in allocations])
        for name, entry in allocations:
            if entry.traits.state is _PENDING:
                self._state.strike_pending(name, entry)
                self._state.settle(entry.application)
            else:
                self._state.refund(entry)
                self._strike(name)

    # Counting what exists

    def adopt(self, request: AllocationRequest) -> tuple[Violation, ...]:
        """Charge an allocation that exists without checking, and return what is exceeded now."""
        entry = self.entry(request, AllocationState.HELD)
        if not self.is_repeated(request.allocation_id, entry):
            self._state.count_adopted(request.usage)
            self.charge(request.allocation_id, entry)
        return tuple(found for node in self._state.open(entry.application).chain() for found in over(node))

    def correct(self, allocation_id: str, usage: Resource) -> None:
        """Let an allocation hold what it really takes, without checking; it stays as far as it has come."""
        old = self.held("allocation_id", allocation_id)
        new = old._replace(usage=usage)
        self._state.count_adopted(usage)
        if self._others:
            self._others.apply([("refund", old.claim(allocation_id)), ("charge", new.claim(allocation_id))])
        self._state.open(old.application).swap(old.usage, usage)
        self._state.note_resized(allocation_id, new, old.usage)


def _ending(entry: LedgerEntry) -> Literal["forget", "refund"]:
    return "forget" if entry.traits.state is _PENDING else "refund"


def _takes_more(old: Claim, new: Claim) -> bool:
    """Return whether a claim in the place of another is for anything that has not been granted."""
    if any(amount > 0 for amount in (new.usage - old.usage).values()):
        return True
    return (new.priority, new.preemptible) != (old.priority, old.preemptible)
