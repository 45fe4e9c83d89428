"""The fast path: `allocate`, `release`, `check` and `explain` for plain allocations, which are nearly all.

An allocation is *plain* if it has the default priority, is preemptible, is no placeholder, promises no end and names no
node. An application allows the fast path if only users, groups and queues limit it, nothing is recorded, and it may get
more. For such requests a decision is a walk over the counters of the application, and the change is two assignments.
The methods of this module do exactly that; everything else is left to `ugm.partition.admission`. Both give the same
answers, which a property test compares.

The reasons for the guards:

- *The application is looked up before the lock is taken.* A look-up costs less there. An application that another
  thread removes in between no longer allows the fast path when the lock is held.
- *`valid_epoch` is compared with the epoch of the holding.* If both are the same object, no operation was interrupted,
  and the limits have not changed since the counters of the holding were collected.
- *The layout of the usage is compared with the layout in force.* A usage remembers its vector for the layout in which
  it was used last.
- *Identities instead of types.* ``priority is DEFAULT_PRIORITY`` and ``placeholder is False`` reject values of other
  types without a test of the type. The general path rejects those that are invalid.
- *The order of assignments.* The entry in `AllocationLedger.owners` makes a grant final. An interruption before it
  leaves an entry in the application that the next operation removes; an interruption after it leaves counters that the
  next operation rebuilds.
- *No `try` inside of the block of the lock.* See `ugm.operation_lock`.

If changes are recorded, if other quota models take part, or if limits change by a schedule, a change is a transaction.
Then `TransactionPath` decides about *usual* requests: the allocation id is new, and the limits have not changed since
the counters of the holding were collected. It leaves all other requests to the admission. If nothing is recorded, the
decision runs under the lock that is held already, because the other steps of a transaction would do nothing.

`explain` is in this module because the explanation of a grant is the walk of `check` with a copy of the limits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from ugm.counters import RequestVector, fits
from ugm.decision import ALLOWED, Decision, Explanation, effective_limits
from ugm.identity import MAX_NAME
from ugm.operation_lock import CHANGING, OperationLock
from ugm.partition.admission import AdmissionControl
from ugm.partition.allocation import (
    DEFAULT_PRIORITY,
    NO_USAGE,
    PLAIN,
    Allocation,
    AllocationRequest,
    AllocationState,
    request_of,
    require_duration,
    shared_traits,
    traits_of,
)
from ugm.partition.application import Application, LedgerEntry
from ugm.partition.events import Allocated, Released
from ugm.partition.explanation import require_holder_count
from ugm.partition.interface import AbstractPartition
from ugm.partition.model_set import ModelSet
from ugm.partition.state import PartitionState
from ugm.partition.subject import Subject
from ugm.partition.subject_queries import QueryRequest, SubjectQueries, require_subject
from ugm.partition.transaction import Transactions
from ugm.resources import Resource
from ugm.tracking.holding import Holding

__all__ = ["PartitionBase", "RecordedPath", "ReservingPath", "TransactionPath"]

_HELD: Final = AllocationState.HELD


@final
class TransactionPath:
    """The decisions about usual requests in partitions that record changes, or have quota models or a schedule.

    The caller holds the lock, and runs a method as the decision of a transaction. It decides like the method of
    `AdmissionControl` of the same name, and passes on every request that is not usual.

    The order of the steps follows from the rule for models, which may raise: first the counters of the holding are
    charged, then all models check, and then all models are charged. The counters need no undo step, because they can
    be rebuilt.
    """

    __slots__ = ("_admission", "_applications", "_lock", "_models", "_owners", "_state")

    def __init__(self, state: PartitionState, models: ModelSet, admission: AdmissionControl) -> None:
        self._state: Final = state
        self._models: Final = models
        self._admission: Final = admission
        self._lock: Final = state.active_limits.lock
        self._applications: Final = state.applications
        self._owners: Final = state.ledger.owners

    # Grants

    def allocate(self, request: AllocationRequest) -> Decision:
        """Decide like `AdmissionControl.allocate`."""
        allocation_id, application_id, usage, placeholder, priority, preemptible, duration, node = request
        application = self._applications.get(application_id) if type(application_id) is str else None
        if (
            application is not None
            and not application.failing
            and type(allocation_id) is str
            and allocation_id not in self._owners
            and 0 < len(allocation_id) <= MAX_NAME
            and placeholder is False
            and type(usage) is Resource
        ):
            holding = application.holding
            if holding is None or holding.epoch is self._lock.epoch:
                layout, vector = usage.compiled
                epoch = self._state.active_limits.epoch
                if layout is not epoch.layout:
                    vector = epoch.layout.request_vector(usage)
                stored: Resource | LedgerEntry = usage
                if duration is not None:
                    require_duration(duration)
                    until = self._models.clock.now(changes=True) + duration
                    if priority is DEFAULT_PRIORITY and preemptible is True and node is None:
                        traits = shared_traits(_HELD, False, 0, True, until, duration)  # noqa: FBT003 - cached
                    else:
                        traits = traits_of(_HELD, request, until - duration)
                    # `LedgerEntry(...)` takes longer.
                    stored = tuple.__new__(LedgerEntry, (application, usage, traits))
                    self._state.ledger.ends.add(until, allocation_id)
                elif priority is not DEFAULT_PRIORITY or preemptible is not True or node is not None:
                    stored = LedgerEntry(application, usage, traits_of(_HELD, request))
                if holding is None:
                    return self._start(request, application, vector, stored)
                if holding.try_charge(vector):
                    return self._grant(request, application, holding, vector, stored)
        return self._admission.allocate(request)

    def _start(
        self,
        request: AllocationRequest,
        application: Application,
        vector: RequestVector,
        stored: Resource | LedgerEntry,
    ) -> Decision:
        """Decide about an allocation that starts an application. Here the models check first."""
        models, holding = self._models, self._state.holding_of(application)
        claim = application.claim(request.allocation_id, stored)
        found = models.check(claim)
        violations = holding.violations(vector) if found else holding.start(vector)
        if found or violations:
            return self._admission.deny_new(request, claim, violations, found)
        if models.all:
            models.change("charge", claim)
        self._state.start(application, holding)
        return self._write(request.allocation_id, application, stored)

    def _grant(
        self,
        request: AllocationRequest,
        application: Application,
        holding: Holding,
        vector: RequestVector,
        stored: Resource | LedgerEntry,
    ) -> Decision:
        """Grant an allocation that the holding is charged with, unless a model objects."""
        allocation_id, models = request.allocation_id, self._models
        if models.all:
            claim = application.claim(allocation_id, stored)
            try:
                violations = models.check(claim)
            except BaseException:
                # If the error is harmless, the counters must be correct. After any other error they are rebuilt.
                holding.try_refund(vector)
                raise
            if violations:
                holding.try_refund(vector)
                return self._admission.deny_new(request, claim, (), violations)
            models.change("charge", claim)
        return self._write(allocation_id, application, stored)

    def _write(self, allocation_id: str, application: Application, stored: Resource | LedgerEntry) -> Decision:
        """Write an allocation that is charged into the ledger."""
        self._lock.undo.append((self._state.ledger.undo_grant, (allocation_id, application)))
        application.allocations[allocation_id] = stored
        self._owners[allocation_id] = application
        record = self._state.record
        if record is not None:
            # `Allocated(...)` takes longer.
            record(tuple.__new__(Allocated, (_value(allocation_id, application, stored), "")))
        return ALLOWED

    # Releases

    def release(self, allocation_id: str) -> bool:
        """Decide like `AdmissionControl.release`."""
        application = self._owners.get(allocation_id) if type(allocation_id) is str else None
        if application is None:
            return self._admission.release(allocation_id)
        holding, stored = application.holding, application.allocations.get(allocation_id)
        if holding is None or stored is None or holding.epoch is not self._lock.epoch:
            return self._admission.release(allocation_id)
        models = self._models
        if models.all:
            models.change("refund", application.claim(allocation_id, stored))
        usage = stored if type(stored) is Resource else application.to_entry(stored).usage
        layout, vector = usage.compiled
        if layout is not holding.epoch.layout:
            vector = holding.epoch.layout.vector(usage)
        if not holding.try_refund(vector):
            holding.require_held(vector)
        self._lock.undo.append((self._state.ledger.undo_release, (allocation_id, application, stored)))
        del self._owners[allocation_id], application.allocations[allocation_id]
        record = self._state.record
        if record is not None:
            record(tuple.__new__(Released, (_value(allocation_id, application, stored),)))
        if not application.allocations:
            self._state.finish_if_idle(application)
        return True

    # Checks

    def check(self, request: AllocationRequest) -> Decision:
        """Decide like `AdmissionControl.check`."""
        _, application_id, usage, _, priority, preemptible, duration, _ = request
        application = self._applications.get(application_id) if type(application_id) is str else None
        if (
            application is not None
            and not application.failing
            and priority is DEFAULT_PRIORITY
            and preemptible is True
            and duration is None
            and type(usage) is Resource
        ):
            holding = application.holding
            if holding is not None and holding.epoch is self._lock.epoch:
                layout, vector = usage.compiled
                if (
                    layout is holding.epoch.layout
                    and fits(holding.checked, vector)
                    and not self._models.check(application.claim("", usage))
                ):
                    return ALLOWED
        self._admission.request_vector(usage)
        return self._admission.check(request)


@final
class ReservingPath:
    """The decisions in partitions with queues that reserve capacity: grants respect and make reservations."""

    __slots__ = ("allocate", "check", "release")

    def __init__(
        self, path: AdmissionControl | TransactionPath, allocate: Callable[[AllocationRequest], Decision]
    ) -> None:
        self.allocate: Final = allocate
        self.check: Final = path.check
        self.release: Final = path.release


class PartitionBase(AbstractPartition):
    """The methods of `ugm.Partition` that have a fast path: a base class, because delegation would cost a call."""

    __slots__ = (
        "_admission",
        "_applications",
        "_decisions",
        "_has_models_only",
        "_is_recorded_without_models",
        "_lock",
        "_models",
        "_owners",
        "_state",
        "_subject_queries",
        "_transactions",
    )

    _admission: AdmissionControl
    _lock: OperationLock
    _state: PartitionState
    _subject_queries: SubjectQueries
    _transactions: Transactions
    #: References into the state.
    _applications: dict[str, Application]
    _owners: dict[str, Application]
    _models: ModelSet
    #: Whether other quota models take part, and nothing is recorded.
    _has_models_only: bool
    #: Decides if the fast path does not: the `TransactionPath` if changes are recorded, with models or a schedule, and
    #: otherwise the `AdmissionControl`.
    _decisions: AdmissionControl | TransactionPath | ReservingPath
    #: Whether changes are recorded, and no other quota model takes part.
    _is_recorded_without_models: bool

    def allocate(
        self,
        allocation_id: str | AllocationRequest,
        application_id: str = "",
        usage: Resource = NO_USAGE,
        *,
        placeholder: bool = False,
        priority: int = 0,
        preemptible: bool = True,
        duration: int | None = None,
        node: str | None = None,
    ) -> Decision:
        lock = self._lock
        try:
            # Before the lock: an application that is removed by then no longer allows the fast path.
            application = self._applications.get(application_id)
        except TypeError:
            # An id that is not hashable is rejected below.
            application = None
        try:
            with lock:
                epoch = lock.valid_epoch
                lock.valid_epoch = CHANGING
                if (
                    application is not None
                    and application.allows_fast_path
                    and type(allocation_id) is str
                    and allocation_id not in self._owners
                    and allocation_id
                    and len(allocation_id) <= 256  # noqa: PLR2004 - `MAX_NAME`; to look it up costs 1 % of an allocation
                    and placeholder is False
                    and preemptible is True
                    and priority is DEFAULT_PRIORITY
                    and duration is None
                    and node is None
                    and type(usage) is Resource
                ):
                    holding = application.holding
                    layout, vector = usage.compiled
                    if holding is not None and holding.epoch is epoch and layout is epoch.layout:
                        if holding.try_charge(vector):
                            # In this order: the second assignment makes the change final.
                            application.allocations[allocation_id] = usage
                            self._owners[allocation_id] = application
                            lock.valid_epoch = epoch
                            return ALLOWED
                        violations = holding.violations(vector)
                        if violations:
                            lock.valid_epoch = epoch
                            return Decision(violations)
                    if epoch is lock.epoch:
                        if layout is self._state.active_limits.epoch.layout:
                            return self._decide_plain(application, allocation_id, usage, vector)
                        return lock.run_locked(epoch, self._decide_uncompiled, application, allocation_id, usage)
                if self._has_models_only:
                    traits = placeholder, priority, preemptible, duration, node
                    request = request_of(allocation_id, application_id, usage, traits)
                    return lock.run_locked(epoch, self._decisions.allocate, request)
                lock.valid_epoch = epoch
        except BaseException as error:
            lock.release_after_error(error)
            raise
        traits = placeholder, priority, preemptible, duration, node
        request = request_of(allocation_id, application_id, usage, traits)
        return self._transactions.run(self._decisions.allocate, request)

    def _decide_plain(
        self, application: Application, allocation_id: str, usage: Resource, vector: RequestVector
    ) -> Decision:
        """Decide about a plain allocation for which the holding has no valid chain, or none at all."""
        state, lock = self._state, self._lock
        violations = state.admit(application, vector)
        if not violations:
            # In this order: the second assignment makes the change final.
            application.allocations[allocation_id] = usage
            self._owners[allocation_id] = application
            lock.undo.clear()
        lock.valid_epoch = lock.epoch
        return Decision(violations) if violations else ALLOWED

    def _decide_uncompiled(self, application: Application, allocation_id: str, usage: Resource) -> Decision:
        """Decide about a plain allocation whose usage has no vector in the layout in force yet."""
        vector = self._state.active_limits.epoch.layout.request_vector(usage)
        return self._decide_plain(application, allocation_id, usage, vector)

    def release(self, allocation_id: str) -> bool:
        lock, owners = self._lock, self._owners
        try:
            # Before the lock. Under the lock, `application.allocations` shows whether it still has the allocation.
            application = owners.get(allocation_id)
        except TypeError:
            # An id that is not hashable is rejected below.
            application = None
        try:
            with lock:
                epoch = lock.valid_epoch
                lock.valid_epoch = CHANGING
                if application is not None and application.allows_fast_path:
                    holding, usage = application.holding, application.allocations.get(allocation_id)
                    if holding is not None and holding.epoch is epoch and type(usage) is Resource:
                        # Read once: another partition, under another lock, may use the same object.
                        layout, vector = usage.compiled
                        if layout is not epoch.layout:
                            vector = epoch.layout.vector(usage)
                        if holding.try_refund(vector):
                            # In this order: the first deletion makes the change final.
                            del owners[allocation_id], application.allocations[allocation_id]
                            if not application.allocations:
                                self._state.finish_if_idle(application)
                                lock.undo.clear()
                            lock.valid_epoch = epoch
                            return True
                if self._has_models_only:
                    return lock.run_locked(epoch, self._decisions.release, allocation_id)
                lock.valid_epoch = epoch
        except BaseException as error:
            lock.release_after_error(error)
            raise
        return self._transactions.run_release(self._decisions.release, allocation_id)

    def check(
        self,
        subject: Subject,
        usage: Resource,
        *,
        priority: int = 0,
        preemptible: bool = True,
        duration: int | None = None,
    ) -> Decision:
        lock = self._lock
        try:
            with lock:
                epoch = lock.valid_epoch
                lock.valid_epoch = CHANGING
                application = self._applications.get(subject) if type(subject) is str else None
                if (
                    application is not None
                    and application.allows_fast_path
                    and priority is DEFAULT_PRIORITY
                    and preemptible is True
                    and duration is None
                    and type(usage) is Resource
                ):
                    holding = application.holding
                    if holding is not None and holding.epoch is epoch:
                        layout, vector = usage.compiled
                        if layout is epoch.layout and fits(holding.checked, vector):
                            lock.valid_epoch = epoch
                            return ALLOWED
                if self._has_models_only and type(subject) is str:
                    request = AllocationRequest("", subject, usage, False, priority, preemptible, duration)  # noqa: FBT003 - a tuple
                    return lock.run_locked(epoch, self._decisions.check, request)
                lock.valid_epoch = epoch
        except BaseException as error:
            lock.release_after_error(error)
            raise
        query = QueryRequest(usage, priority, preemptible, duration)
        return lock.run(self._subject_queries.check, require_subject(subject), query)

    def explain(
        self,
        subject: Subject,
        usage: Resource,
        *,
        priority: int = 0,
        preemptible: bool = True,
        max_holders: int = 3,
        duration: int | None = None,
    ) -> Explanation:
        if (
            type(subject) is str
            and priority is DEFAULT_PRIORITY
            and preemptible is True
            and duration is None
            and type(max_holders) is int
            and max_holders >= 0
            and type(usage) is Resource
        ):
            granted = self._explain_grant(subject, usage)
            if granted is not None:
                return granted
        require_holder_count(max_holders)
        query = QueryRequest(usage, priority, preemptible, duration)
        data = self._lock.run(self._subject_queries.explain, require_subject(subject), query)
        return data.explanation(max_holders)

    def _explain_grant(self, application_id: str, usage: Resource) -> Explanation | None:
        """Explain an allocation that a running application would get; None if another path has to decide."""
        lock, layout = self._lock, self._state.active_limits.epoch.layout
        application = self._applications.get(application_id)
        if application is None or self._state.ledger.pending_usage is not None or self._state.compiled.schedule:
            return None
        # Before the lock: the error for a negative amount must not look like an interrupted operation.
        vector = layout.request_vector(usage)
        try:
            with lock:
                epoch = lock.valid_epoch
                lock.valid_epoch = CHANGING
                limits = None
                # A query records nothing, so it does not matter whether changes are recorded.
                if application.allows_fast_path or (self._is_recorded_without_models and not application.failing):
                    holding = application.holding
                    if holding is not None and holding.epoch is epoch and layout is epoch.layout:
                        limits = effective_limits(holding.checked) if fits(holding.checked, vector) else None
                lock.valid_epoch = epoch
        except BaseException as error:
            lock.release_after_error(error)
            raise
        return None if limits is None else Explanation(ALLOWED, (), limits, application.queue.queue_path)


def _value(allocation_id: str, application: Application, stored: Resource | LedgerEntry) -> Allocation:
    """Return a stored allocation as a value for callers."""
    if type(stored) is Resource:
        # `Allocation(...)` takes twice as long.
        fields = (allocation_id, application.submission.application_id, stored, *PLAIN)
        return tuple.__new__(Allocation, fields)
    return application.to_entry(stored).to_allocation(allocation_id)


class RecordedPath(PartitionBase):
    """The same methods of a partition with a log, for which the fast path would never decide.

    They do not take the lock for an attempt. In a forked process, it may be held by a thread that does not exist there.
    """

    __slots__ = ()

    def allocate(
        self,
        allocation_id: str | AllocationRequest,
        application_id: str = "",
        usage: Resource = NO_USAGE,
        *,
        placeholder: bool = False,
        priority: int = 0,
        preemptible: bool = True,
        duration: int | None = None,
        node: str | None = None,
    ) -> Decision:
        if type(allocation_id) is str:
            request = AllocationRequest(
                allocation_id, application_id, usage, placeholder, priority, preemptible, duration, node
            )
        else:
            traits = placeholder, priority, preemptible, duration, node
            request = request_of(allocation_id, application_id, usage, traits)
        return self._transactions.run_recorded(self._decisions.allocate, request, True)  # noqa: FBT003 - for speed

    def release(self, allocation_id: str) -> bool:
        return self._transactions.run_recorded(self._decisions.release, allocation_id, False)  # noqa: FBT003 - as above
