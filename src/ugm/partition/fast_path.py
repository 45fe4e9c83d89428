"""The fast path: `allocate`, `release` and `check` for plain allocations, which are nearly all.

An allocation is *plain* if it has the default priority, is preemptible and is not a placeholder. An application is
plain (`Application.is_plain`) if only users, groups and queues limit it, nothing is recorded, and it may get more. For
such requests a decision is a walk over the counters of the application, and the change is two assignments. The
functions of this module do exactly that; everything else is left to `ugm.partition.admission`. Both give the same
answers, which a property test compares.

`ugm.Partition` uses these functions as its methods, so that no call is added. The reasons for their guards:

- *The application is looked up before the lock is taken.* A look-up costs less there. An application that another
  thread removes in between is not plain any more when the lock is held.
- *`settled` is compared with the epoch of the holding.* If both are the same object, no operation was interrupted, and
  the limits have not changed since the counters of the holding were collected.
- *The layout of the usage is compared with the layout in force.* A usage remembers its vector for the layout in which
  it was used last.
- *Identities instead of types.* ``priority is DEFAULT_PRIORITY`` and ``placeholder is False`` reject values of other
  types without a test of the type. The slow path rejects those that are invalid.
- *The order of assignments.* The entry in `AllocationLedger.owners` commits an allocation. An interruption before it
  leaves an entry in the application that the next operation removes; an interruption after it leaves counters that the
  next operation rebuilds.
- *No `try` inside of the block of the lock.* See `ugm.operation_lock`.

If changes are recorded, a plain allocation still avoids the slow path. It is then a transaction whose decision is
`_decide_recorded`.
"""

from __future__ import annotations

from typing import Final, Protocol

from ugm.decision import ALLOWED, Decision
from ugm.hierarchy import RequestVector, fits
from ugm.identity import MAX_NAME
from ugm.operation_lock import CHANGING, OperationLock
from ugm.partition.admission import Admission
from ugm.partition.allocation import DEFAULT_PRIORITY, Allocation, AllocationRequest, AllocationState
from ugm.partition.application import Application
from ugm.partition.events import Allocated
from ugm.partition.interface import AbstractPartition, documented_by
from ugm.partition.state import PartitionState
from ugm.partition.subject import Subject
from ugm.partition.subject_queries import SubjectQueries, require_subject
from ugm.partition.transaction import Transactions
from ugm.resources import Resource

__all__ = ["allocate", "check", "release"]

_HELD: Final = AllocationState.HELD


class _Engine(Protocol):
    """The parts of a partition that the fast path uses."""

    @property
    def _lock(self) -> OperationLock: ...
    @property
    def _state(self) -> PartitionState: ...
    @property
    def _applications(self) -> dict[str, Application]: ...
    @property
    def _owners(self) -> dict[str, Application]: ...
    @property
    def _admission(self) -> Admission: ...
    @property
    def _subject_queries(self) -> SubjectQueries: ...
    @property
    def _transactions(self) -> Transactions: ...
    @property
    def _is_recorded_alone(self) -> bool: ...


@documented_by(AbstractPartition.allocate)
def allocate(
    self: _Engine,
    allocation_id: str,
    application_id: str,
    usage: Resource,
    *,
    placeholder: bool = False,
    priority: int = 0,
    preemptible: bool = True,
) -> Decision:
    lock = self._lock
    try:
        # Before the lock: an application that is removed by then is not plain any more.
        application = self._applications.get(application_id)
    except TypeError:
        # An id that is not hashable is rejected below.
        application = None
    try:
        with lock:
            settled, lock.settled = lock.settled, CHANGING
            if (
                application is not None
                and application.is_plain
                and type(allocation_id) is str
                and allocation_id not in self._owners
                and allocation_id
                and len(allocation_id) <= 256  # noqa: PLR2004 - `MAX_NAME`; to look it up costs 1 % of an allocation
                and placeholder is False
                and preemptible is True
                and priority is DEFAULT_PRIORITY
                and type(usage) is Resource
            ):
                holding = application.holding
                layout, vector = usage.compiled
                if holding is not None and holding.epoch is settled and layout is settled.layout:
                    if holding.try_charge(vector):
                        # In this order: the second assignment commits the change.
                        application.allocations[allocation_id] = usage
                        self._owners[allocation_id] = application
                        lock.settled = settled
                        return ALLOWED
                    violations = holding.violations(vector)
                    if violations:
                        lock.settled = settled
                        return Decision(violations)
                if settled is lock.token:
                    if layout is self._state.in_force.epoch.layout:
                        return _start(self, application, allocation_id, usage, vector)
                    return lock.run_locked(settled, _start_new_size, self, application, allocation_id, usage)
            lock.settled = settled
    except BaseException as error:
        lock.release_after_error(error)
        raise
    request = AllocationRequest(allocation_id, application_id, usage, placeholder, priority, preemptible)
    if self._is_recorded_alone:
        return self._transactions.grow(_decide_recorded, self, request)
    return self._transactions.grow(self._admission.allocate, request)


def _start(
    self: _Engine, application: Application, allocation_id: str, usage: Resource, vector: RequestVector
) -> Decision:
    """Grant an allocation that starts a plain application, or is its first since the limits have changed."""
    state, lock = self._state, self._lock
    violations = state.admit(application, vector)
    if not violations:
        # In this order: the second assignment commits the change.
        application.allocations[allocation_id] = usage
        self._owners[allocation_id] = application
        lock.undo.clear()
    lock.settled = lock.token
    return Decision(violations) if violations else ALLOWED


def _start_new_size(self: _Engine, application: Application, allocation_id: str, usage: Resource) -> Decision:
    """Do the same for a usage that has no vector in the layout in force yet."""
    return _start(self, application, allocation_id, usage, self._admission.vector(usage))


def _decide_recorded(self: _Engine, request: AllocationRequest) -> Decision:
    """Decide about an allocation in a partition that records its changes; the decision of a transaction."""
    allocation_id, application_id, usage, placeholder, priority, preemptible = request
    application = self._applications.get(application_id) if type(application_id) is str else None
    if (
        application is not None
        and not application.failing
        and type(allocation_id) is str
        and allocation_id not in self._owners
        and 0 < len(allocation_id) <= MAX_NAME
        and placeholder is False
        and preemptible is True
        and priority is DEFAULT_PRIORITY
        and type(usage) is Resource
    ):
        holding = application.holding
        layout, vector = usage.compiled
        if (
            holding is not None
            and holding.epoch is self._lock.token
            and layout is holding.epoch.layout
            and holding.try_charge(vector)
        ):
            self._lock.undo.append((self._state.ledger.undo_grant, (allocation_id, application)))
            application.allocations[allocation_id] = usage
            self._owners[allocation_id] = application
            allocation = Allocation(allocation_id, application_id, usage, _HELD, False, 0, True)  # noqa: FBT003 - a value
            self._transactions.record(Allocated(allocation))
            return ALLOWED
    return self._admission.allocate(request)


@documented_by(AbstractPartition.release)
def release(self: _Engine, allocation_id: str) -> bool:
    lock, owners = self._lock, self._owners
    try:
        # Before the lock: the allocations that the application has by then decide.
        application = owners.get(allocation_id)
    except TypeError:
        # An id that is not hashable is rejected below.
        application = None
    try:
        with lock:
            settled, lock.settled = lock.settled, CHANGING
            if application is not None and application.is_plain:
                holding, usage = application.holding, application.allocations.get(allocation_id)
                if holding is not None and holding.epoch is settled and type(usage) is Resource:
                    # Read once: another partition, under another lock, may use the same object.
                    layout, vector = usage.compiled
                    if layout is not settled.layout:
                        vector = settled.layout.vector(usage)
                    if holding.try_refund(vector):
                        # In this order: the first deletion commits the change.
                        del owners[allocation_id], application.allocations[allocation_id]
                        if not application.allocations:
                            self._state.finish_if_idle(application)
                            lock.undo.clear()
                        lock.settled = settled
                        return True
            lock.settled = settled
    except BaseException as error:
        lock.release_after_error(error)
        raise
    return self._transactions.shrink(self._admission.release, allocation_id)


@documented_by(AbstractPartition.check)
def check(self: _Engine, subject: Subject, usage: Resource, *, priority: int = 0, preemptible: bool = True) -> Decision:
    lock = self._lock
    try:
        with lock:
            settled, lock.settled = lock.settled, CHANGING
            application = self._applications.get(subject) if type(subject) is str else None
            if (
                application is not None
                and application.is_plain
                and priority is DEFAULT_PRIORITY
                and preemptible is True
                and type(usage) is Resource
            ):
                holding = application.holding
                if holding is not None and holding.epoch is settled:
                    layout, vector = usage.compiled
                    if layout is settled.layout and fits(holding.checked, vector):
                        lock.settled = settled
                        return ALLOWED
            lock.settled = settled
    except BaseException as error:
        lock.release_after_error(error)
        raise
    return lock.run(self._subject_queries.check, require_subject(subject), usage, priority, preemptible)
