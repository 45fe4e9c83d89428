"""Applications together with their allocations: admitted, ended, and made equal to the running work of a host.

`ApplicationLifecycle` and `AdmissionControl` change one application or allocation. A host that runs
containers works with whole applications: it requests an application with its containers, ends it, and after a
restart names all that run. Each of these operations is one transaction, so a denial, an error or a crash leaves no
half.

An application that is denied is removed again in the same transaction, and the events of its short life are retracted.
So it is as if it had never been submitted, except that subscribers get the denial.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, final

from ugm.arguments import require_application_id, require_items
from ugm.decision import ALLOWED, Decision, Violation
from ugm.errors import RequestError
from ugm.identity import canonical_path
from ugm.partition.admission import AdmissionControl, in_use_reason
from ugm.partition.allocation import AllocationRequest, AllocationSpec, AllocationState, require_specs
from ugm.partition.application import Application, ApplicationState, GangStyle
from ugm.partition.audit import Difference, RunningAllocation, RunningApplication
from ugm.partition.events import Denied
from ugm.partition.gang import allocate_all
from ugm.partition.lifecycle import ApplicationLifecycle
from ugm.partition.model_set import ModelSet
from ugm.partition.reconcile import in_ledger, reconcile
from ugm.partition.reports import Admission, SyncReport
from ugm.partition.state import PartitionState
from ugm.partition.submission import require_leaf_path, require_submission
from ugm.partition.transaction import Transactions
from ugm.queues import Submission
from ugm.queues.queue import Queue
from ugm.resources import Resource

__all__ = ["RunningWork", "WholeApplications", "require_work"]

_PENDING: Final = AllocationState.PENDING


class RunningWork(NamedTuple):
    """The running work of a host, checked."""

    applications: Mapping[str, tuple[Submission, tuple[AllocationSpec, ...]]]
    #: The application of each allocation.
    owners: Mapping[str, str]
    #: The applications and allocations that are about to run.
    starting: frozenset[str]
    #: The applications and allocations that may be released or ended; None for all.
    among: frozenset[str] | None

    def may_end(self, name: str) -> bool:
        """Return whether an application or allocation that does not run may be ended or released."""
        return name not in self.starting and (self.among is None or name in self.among)


def require_work(
    running: Iterable[RunningApplication], starting: Iterable[str], among: Iterable[str] | None
) -> RunningWork:
    """Return the running work of a host.

    Raises:
        RequestError: an item is invalid, or an id occurs twice.
    """
    applications: dict[str, tuple[Submission, tuple[AllocationSpec, ...]]] = {}
    owners: dict[str, str] = {}
    for item in require_items("running", running):
        if not isinstance(item, RunningApplication):
            raise RequestError("running", item, "expected a RunningApplication")
        submission = require_submission(item.application_id, item.user, require_leaf_path(item.queue_path), item.tags)
        specs = require_specs(item.allocations)
        if item.application_id in applications:
            raise RequestError("running", item.application_id, "the application occurs twice")
        applications[item.application_id] = submission, specs
        for spec in specs:
            if owners.setdefault(spec.allocation_id, item.application_id) != item.application_id:
                raise RequestError("running", spec.allocation_id, "the allocation occurs twice")
    return RunningWork(
        applications, owners, _ids("starting", starting), None if among is None else _ids("among", among)
    )


def _ids(argument: str, ids: Iterable[str]) -> frozenset[str]:
    return frozenset(require_application_id(name) for name in require_items(argument, ids))


@final
class DeniedWithQuotaError(Exception):
    """Undoes an operation that was denied after it had changed the quota of an existing queue."""

    def __init__(self, admission: Admission) -> None:
        super().__init__(admission)
        self.admission: Final = admission


@final
class WholeApplications:
    """Admits, ends and synchronizes applications. The caller runs the methods as transactions."""

    __slots__ = ("_admission", "_lifecycle", "_models", "_state", "_transactions")

    def __init__(
        self,
        state: PartitionState,
        models: ModelSet,
        admission: AdmissionControl,
        lifecycle: ApplicationLifecycle,
        transactions: Transactions,
    ) -> None:
        self._state: Final = state
        self._models: Final = models
        self._admission: Final = admission
        self._lifecycle: Final = lifecycle
        self._transactions: Final = transactions

    # Admission

    def admit(
        self,
        submission: Submission,
        specs: Sequence[AllocationSpec],
        quota: Resource | None,
        decide: Callable[[AllocationRequest], Decision],
    ) -> Admission:
        """Submit an application and grant its allocations, or change nothing.

        Args:
            submission: the application.
            specs: its allocations.
            quota: the quota of a queue that the configuration does not name.
            decide: decides about a single allocation.
        """
        known = self._state.applications.get(submission.application_id)
        self._require_same_allocations(known, submission.application_id, specs)
        queue = None if quota is None else self._existing_queue(known, submission)
        before = None if queue is None else queue.quota_override
        mark = self._transactions.mark()
        placement = self._lifecycle.submit(submission, GangStyle.SOFT, quota)
        if placement.queue_path is None:
            return Admission(placement, None)
        application = self._state.applications[submission.application_id]
        decision = ALLOWED if application.has_run else self._grant(application, specs, decide)
        if decision:
            ledger = self._state.ledger
            return Admission(
                placement,
                decision,
                tuple(ledger[spec.allocation_id].to_allocation(spec.allocation_id) for spec in specs),
            )
        admission = Admission(placement, decision)
        if queue is not None and queue.quota_override != before:
            raise DeniedWithQuotaError(admission)
        if known is None:
            self._state.remove_application(application, ApplicationState.FAILED)
            self._transactions.retract(mark, Denied)
        return admission

    def _require_same_allocations(
        self, known: Application | None, application_id: str, specs: Sequence[AllocationSpec]
    ) -> None:
        """Check that no allocation belongs to another application or has other properties.

        Raises:
            RequestError: one does, or the application has run and does not hold one of them.
        """
        for spec in specs:
            name, entry = spec.allocation_id, self._state.ledger.get(spec.allocation_id)
            if entry is not None and entry.application is not known:
                reason = in_use_reason("application_id", entry.application.application_id, application_id)
                raise RequestError("allocation_id", name, reason, "id-in-use")
            if known is None:
                continue
            requested = self._admission.entry(spec.request(application_id), AllocationState.HELD)
            if not self._admission.is_repeated(name, requested) and known.has_run:
                reason = f"the id is in use with other allocations: {name!r} is not held"
                raise RequestError("application_id", application_id, reason, "id-in-use")

    def _existing_queue(self, known: Application | None, submission: Submission) -> Queue | None:
        if known is not None:
            return known.queue
        path = self._state.place(submission).queue_path
        return None if path is None else self._state.tree.queues.get(canonical_path(path))

    def _grant(
        self,
        application: Application,
        specs: Sequence[AllocationSpec],
        decide: Callable[[AllocationRequest], Decision],
    ) -> Decision:
        requests = [spec.request(application.application_id) for spec in specs]
        if len(requests) == 1:
            return decide(requests[0])
        return allocate_all(self._state, self._models, self._admission, requests)

    def end(self, application_id: str) -> bool:
        """Remove an application with everything that it holds and requests, and return whether it existed."""
        if require_application_id(application_id) not in self._state.applications:
            return False
        self._lifecycle.remove(application_id)
        return True

    # Running work

    def synchronize(self, work: RunningWork, exceeded: Callable[[], tuple[Violation, ...]]) -> SyncReport:
        """Make the applications and allocations equal to the running work of a host.

        Args:
            work: the running work.
            exceeded: returns the limits that are exceeded after it.
        """
        for application_id, (submission, _) in work.applications.items():
            known = self._state.applications.get(application_id)
            if known is not None and known.submission.user.name != submission.user.name:
                reason = in_use_reason("user", known.submission.user.name, submission.user.name)
                raise RequestError("application_id", application_id, reason, "id-in-use")
        before = self._state.applications.keys() | set()
        released = self._release_gone(work)
        self._end_gone(work)
        ended = before - self._state.applications.keys()
        new = work.applications.keys() - self._state.applications.keys()
        adopted: list[str] = []
        corrected: list[str] = []
        for application_id, (submission, specs) in work.applications.items():
            if application_id in new:
                self._lifecycle.adopt(submission, GangStyle.SOFT, None, "")
            for spec in specs:
                self._make_true(spec, application_id, adopted, corrected)
        return SyncReport(
            adopted_applications=_sorted(new),
            adopted=_sorted(adopted),
            corrected=_sorted(corrected),
            released=_sorted(released),
            ended=_sorted(ended),
            exceeded=exceeded(),
        )

    def _release_gone(self, work: RunningWork) -> list[str]:
        gone = [
            (name, entry)
            for name, entry in self._state.ledger.items()
            if entry.traits.state is not _PENDING
            and name not in work.owners
            and work.may_end(name)
            and entry.application.application_id not in work.starting
        ]
        self._admission.end(gone)
        return [name for name, _ in gone]

    def _end_gone(self, work: RunningWork) -> None:
        # The application of an allocation that stays, stays as well.
        owners = {
            entry.application.application_id for name, entry in self._state.ledger.items() if not work.may_end(name)
        }
        named = owners | work.applications.keys()
        for name in [name for name in self._state.applications if name not in named and work.may_end(name)]:
            self._lifecycle.remove(name)

    def _make_true(self, spec: AllocationSpec, application_id: str, adopted: list[str], corrected: list[str]) -> None:
        """Adopt an allocation that the ledger does not have, or correct its size and node."""
        name = spec.allocation_id
        if name not in self._state.ledger:
            entry = self._admission.entry(spec.request(application_id), AllocationState.HELD)
            self._admission.adopt_entry(name, entry)
            adopted.append(name)
            return
        running = RunningAllocation(name, application_id, spec.usage, spec.node)
        held = in_ledger(self._state, name)
        if held is not None and held[:3] == running[:3] and spec.node in {None, held.node}:
            return
        reconcile(self._state, self._admission, [Difference(held, running)])
        (corrected if held is not None and held.application_id == application_id else adopted).append(name)


def _sorted(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(names))
