"""A naive model of a partition, in which every operation changes a list of applications or of allocations.

Every answer is computed from the lists; see `ugm.testing.partition_model_state`. The operations have the names and
arguments of the operations of a `ugm.Partition`. They expect arguments of the right type, and raise
`ugm.RequestError` where the partition does.

Source: Apache YuniKorn, user based resource usage tracking; user based quota enforcement; resource quota management.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, final

from ugm.configuration import PartitionConfig
from ugm.decision import Violation
from ugm.errors import RequestError
from ugm.identity import ROOT, UserGroup
from ugm.model import GangModel, SetupViolation
from ugm.partition import (
    Allocation,
    AllocationRequest,
    AllocationState,
    ApplicationState,
    AuditReport,
    Difference,
    RunningAllocation,
)
from ugm.queues import Submission
from ugm.resources import Resource
from ugm.testing.partition_model_state import UNASSIGNED, PartitionModelState, SubmittedApplication

__all__ = ["PartitionModel"]

_PENDING: Final = AllocationState.PENDING


@final
@dataclass
class PartitionModel(PartitionModelState):
    """A model of one partition.

    >>> model = PartitionModel()
    >>> model.adopt_application("app-1", UserGroup("sue"), "root.prod")
    >>> model.allocate(AllocationRequest("x-1", "app-1", Resource(memory=4)))
    ()
    >>> model.total("app-1")
    Resource(memory=4)
    """

    # The lifecycle of applications

    def submit(
        self,
        application_id: str,
        user: UserGroup,
        queue: str = "",
        *,
        tags: Mapping[str, str] | None = None,
        quota: Resource | None = None,
        gang_style: str = "soft",
    ) -> tuple[str | None, bool]:
        """Place an application, and return its queue (None if no rule matches), and whether the queue was created."""
        new = SubmittedApplication(application_id, user, queue, tags or {}, gang_style, "")
        if self._is_known(new, quota):
            return self.applications[application_id].queue_path, False
        path, _, creates, *_ = self.queues.place(Submission(application_id, user, queue, new.tags))
        if path is None or self.over_submitted(new._replace(queue_path=path)):
            return None, False
        self.queues.create(path)
        self.queues.override_quota(path, quota)
        self.applications[application_id] = new._replace(queue_path=path)
        return path, creates

    def adopt_application(
        self,
        application_id: str,
        user: UserGroup,
        queue_path: str,
        *,
        tags: Mapping[str, str] | None = None,
        quota: Resource | None = None,
        gang_style: str = "soft",
        group: str | None = UNASSIGNED,
    ) -> None:
        """Adopt an application in its queue."""
        path = queue_path.lower()
        if path == ROOT:
            raise RequestError("queue_path", queue_path, "the root takes no applications")
        new = SubmittedApplication(application_id, user, path, tags or {}, gang_style, path, group, is_adopted=True)
        if self._is_known(new, quota):
            return
        self.queues.create(path)
        self.queues.override_quota(path, quota)
        self.applications[application_id] = new

    def set_queue_quota(self, queue_path: str, quota: Resource) -> None:
        """Change the quota of a dynamic queue."""
        if queue_path.lower() not in self.queues.made:
            raise RequestError("queue_path", queue_path, "expected a dynamic queue")
        self.queues.override_quota(queue_path.lower(), quota)

    def _is_known(self, new: SubmittedApplication, quota: Resource | None) -> bool:
        """Return whether an application is known, and set its quota.

        A repeated submission must request the same queue, or the assigned one. After an adoption, it may differ.
        """
        known = self.applications.get(new.application_id)
        if known is None and self.closed:
            raise RequestError("application_id", new.application_id, "the partition is closed", "partition-closed")
        if known is None:
            return False
        as_before = new.queue.lower() in (known.queue.lower(), known.queue_path)
        same = as_before and (new.tags, new.gang_style) == (known.tags, known.gang_style)
        if new.user.name != known.user.name or not (same or known.is_adopted):
            raise RequestError("application_id", new.application_id, "submitted with other arguments", "id-in-use")
        self.queues.override_quota(known.queue_path, quota)
        return True

    def _change(self, application_id: str, **changes: Any) -> None:  # noqa: ANN401 - any field
        self.applications[application_id] = self.applications[application_id]._replace(**changes)

    def _finish_if_idle(self, application_id: str) -> None:
        """Stop an application without allocations, and remove it if it is failing."""
        pending, failing = self.entries(application_id, pending=True), self.applications[application_id].failing
        if self.entries(application_id) or (pending and not failing):
            return
        self._change(application_id, running=False)
        if failing:
            self._remove(application_id)

    def _remove(self, application_id: str) -> None:
        del self.applications[application_id]
        self.keep_allocations(lambda one: one.application_id != application_id)
        self.queues.prune({app.queue_path for app in self.applications.values()})

    def complete(self, application_id: str) -> ApplicationState:
        """Remove an application that has no allocations."""
        self.application(application_id)
        if self.entries(application_id) or self.entries(application_id, pending=True):
            raise RequestError("application_id", application_id, "the application has allocations", "not-empty")
        self._remove(application_id)
        return ApplicationState.COMPLETED

    def fail(self, application_id: str) -> list[str]:
        """Fail an application, and return its allocations to terminate, sorted."""
        self.application(application_id)
        self._change(application_id, failing=True)
        self.keep_allocations(lambda one: one.application_id != application_id or one.state is not _PENDING)
        terminated = self._terminate(self.entries(application_id))
        self._finish_if_idle(application_id)
        return terminated

    def _terminate(self, terminating: Iterable[Allocation]) -> list[str]:
        for one in terminating:
            self.held[one.allocation_id] = one._replace(state=AllocationState.TERMINATING)
        return sorted(one.allocation_id for one in terminating)

    def remove(self, application_id: str) -> list[str]:
        """Remove an application with its allocations, and return these, sorted."""
        self.application(application_id)
        held = self.entries(application_id)
        self._remove(application_id)
        return sorted(one.allocation_id for one in held)

    def time_out_gang(self, application_id: str) -> list[str]:
        """End the wait for a gang, and return the allocations to terminate, sorted."""
        application, held = self.application(application_id), self.entries(application_id)
        pending = [one for one in self.entries(application_id, pending=True) if one.placeholder]
        placeholders = [one for one in held if one.placeholder]
        unused = placeholders == held and not application.has_replaced
        if (pending or placeholders) and application.gang_style == "hard" and unused:
            return self.fail(application_id)
        for one in pending:
            self.release(one.allocation_id)
        return self._terminate(placeholders)

    def terminate(self, *, confirm: bool) -> list[str]:
        """Fail all applications, and return the allocations to terminate, sorted."""
        self.closed = confirm
        return sorted(name for application_id in list(self.applications) for name in self.fail(application_id))

    # Allocations

    def _entry(self, request: AllocationRequest, state: AllocationState = AllocationState.HELD) -> Allocation:
        self.application(request.application_id)
        if any(amount < 0 for amount in request.usage.values()):
            raise RequestError("usage", request.usage, "an amount is negative")
        until = None if state is _PENDING else self._end_of(request.duration)
        given = Allocation(*request[:3], state, *request[3:6], node=request.node)
        return given._replace(until=until, duration=request.duration)

    def _end_of(self, duration: int | None) -> int | None:
        return None if duration is None else self.now + duration

    def _is_repeated(self, one: Allocation) -> bool:
        known = self.held.get(one.allocation_id)
        if known is None:
            return False
        if known.state is _PENDING:
            is_same_promise = one.duration == known.duration
            is_same_node = one.state is not _PENDING or one.node in (None, known.node)
        else:
            is_same_promise = (one.duration is None) == (known.until is None)
            is_same_node = one.node == known.node
        if not is_same_promise or not is_same_node or known[:3] != one[:3] or known[4:7] != one[4:7]:
            raise RequestError("allocation_id", one.allocation_id, "another allocation has the id", "id-in-use")
        return known.state is not _PENDING

    def _require_welcome(self, application_id: str) -> SubmittedApplication:
        if self.applications[application_id].failing:
            raise RequestError("application_id", application_id, "the application is failing", "application-failing")
        return self.applications[application_id]

    def request(self, allocation_id: AllocationRequest) -> tuple[Violation, ...]:
        """Add a pending allocation if limits on pending work allow it; otherwise return the exceeded limits."""
        one = self._entry(allocation_id, _PENDING)
        self._is_repeated(one)
        if one.allocation_id in self.held:
            return ()
        application = self._require_welcome(one.application_id)
        violations = tuple(self.over_pending(application, one.usage))
        if not violations:
            self.held[one.allocation_id] = one
        return violations

    def allocate(self, allocation_id: AllocationRequest) -> tuple[Violation, ...]:
        """Grant an allocation if it fits; otherwise return the exceeded limits."""
        one = self._entry(allocation_id)
        if self._is_repeated(one):
            return ()
        application = self._require_welcome(one.application_id)
        violations = self.exceeded(application, one.usage) + self.denied_by_models(one)
        if not violations:
            self.grant(one)
        return violations

    def check(self, application_id: str, usage: Resource) -> tuple[Violation, ...]:
        """Return the limits that one more allocation would exceed."""
        one = self._entry(AllocationRequest("?", application_id, usage))
        return self.exceeded(self._require_welcome(application_id), usage) + self.denied_by_models(one)

    def headroom(self, application_id: str) -> Resource | None:
        """Return the smallest free amount of each limited resource; None if no limit applies."""
        return self.headroom_at(self.limited_places(self.application(application_id)))

    def allocate_all(self, requests: Iterable[AllocationRequest]) -> tuple[Violation, ...]:
        """Grant several allocations or none, and return the exceeded limits; a limit may occur more than once."""
        wanted: dict[str, Allocation] = {}
        for one in map(self._entry, requests):
            if not self._is_repeated(one):
                self._require_welcome(one.application_id)
                if wanted.setdefault(one.allocation_id, one) != one:
                    raise RequestError("requests", one.allocation_id, "the id is used twice", "id-in-use")
        coming = list(wanted.values())
        violations = self.exceeded_together(coming) + self._gang_denied_by_models(coming)
        if not violations:
            for one in coming:
                self.grant(one)
            return ()
        claims = list(map(self.claim, coming))
        models = (model for model in self.make_models() if isinstance(model, GangModel))
        return (*violations, *(violation for model in models for violation in model.never(claims)))

    def _gang_denied_by_models(self, coming: Iterable[Allocation]) -> tuple[Violation, ...]:
        counted: list[Allocation] = []
        denied: list[Violation] = []
        for one in coming:
            found = self.denied_by_models(one, coming=counted)
            denied += found
            if not any(isinstance(violation, SetupViolation) for violation in found):
                counted.append(one)
        return tuple(denied)

    def _counted(self, argument: str, allocation_id: str) -> Allocation:
        known = self.held.get(allocation_id)
        if known is None or known.state is _PENDING:
            raise RequestError(argument, allocation_id, "there is no such allocation", "allocation-unknown")
        return known

    def replace(self, placeholder_id: str, allocation_id: str, usage: Resource) -> tuple[Violation, ...]:
        """Replace a placeholder by a real allocation if it fits; otherwise return the exceeded limits."""
        known = self.held.get(allocation_id)
        if known is not None and known.state is not _PENDING and placeholder_id not in self.held:
            self._is_repeated(known._replace(usage=usage))
            return ()
        old = self._counted("placeholder_id", placeholder_id)
        if not old.placeholder:
            raise RequestError("placeholder_id", placeholder_id, "expected a placeholder", "state-conflict")
        _, priority, preemptible, *_ = (known or old)[4:]
        duration = known.duration if known is not None and known.state is _PENDING else None
        traits = False, priority, preemptible, duration, old.node
        request = AllocationRequest(allocation_id, old.application_id, usage, *traits)
        new = self._entry(request)
        if self._is_repeated(new):
            raise RequestError("allocation_id", allocation_id, "it is held besides the placeholder", "id-in-use")
        if duration is None:
            new = new._replace(until=old.until, duration=old.duration)
        self._require_welcome(old.application_id)
        violations = self._exchange(old, new)
        if not violations:
            self._change(old.application_id, has_replaced=True)
        return violations

    def resize(self, allocation_id: str, usage: Resource) -> tuple[Violation, ...]:
        """Change the usage of an allocation if it fits; otherwise return the exceeded limits."""
        old = self._counted("allocation_id", allocation_id)
        self._entry(AllocationRequest(allocation_id, old.application_id, usage))
        if old.usage == usage:
            return ()
        if any(more > 0 for more in (usage - old.usage).values()):
            self._require_welcome(old.application_id)
        return self._exchange(old, old._replace(usage=usage))

    def _exchange(self, old: Allocation, new: Allocation) -> tuple[Violation, ...]:
        """Replace an allocation if the growth fits, and further models grant the new one if it is larger."""
        application = self.applications[old.application_id]
        violations = self.exceeded_by_growth(application, old.usage, new.usage)
        if any(more > 0 for more in (new.usage - old.usage).values()) or new[5:] != old[5:]:
            violations += self.denied_by_models(new, leaving=[old.allocation_id])
        if not violations:
            del self.held[old.allocation_id]
            self.grant(new)
        return violations

    def renew(self, allocation_id: str, duration: int | None) -> tuple[Violation, ...]:
        """Change the promised end of an allocation; further models grant a later one."""
        old = self._counted("allocation_id", allocation_id)
        new = old._replace(until=self._end_of(duration), duration=duration)
        if old.state is not AllocationState.HELD:
            raise RequestError("allocation_id", allocation_id, "the allocation is terminating", "state-conflict")
        if old.until == new.until:
            return ()
        violations: tuple[Violation, ...] = ()
        if old.until is None or new.until is None or new.until > old.until:
            self._require_welcome(old.application_id)
            violations = self.denied_by_models(new, leaving=[allocation_id])
        if not violations:
            self.held[allocation_id] = new
        return violations

    def overdue(self) -> list[Allocation]:
        """Return the allocations whose promised end has come."""
        late = [one for one in self.entries() if one.until is not None and one.until <= self.now]
        return sorted(late, key=lambda one: (one.until, one.allocation_id))

    def expire(self) -> list[str]:
        """Mark overdue allocations as terminating."""
        return self._terminate([one for one in self.overdue() if one.state is AllocationState.HELD])

    def release_overdue(self) -> list[str]:
        """Release overdue allocations."""
        return sorted(one.allocation_id for one in self.overdue() if self.release(one.allocation_id))

    def preempt(self, allocation_id: str) -> bool:
        """Mark an allocation as terminating, and return whether it exists."""
        return bool(self._terminate([one for one in self.entries() if one.allocation_id == allocation_id]))

    def release(self, allocation_id: str) -> bool:
        """Release an allocation or withdraw a request, and return whether it existed."""
        gone = self.held.pop(allocation_id, None)
        if gone is not None:
            self._finish_if_idle(gone.application_id)
        return gone is not None

    def adopt(self, allocation_id: AllocationRequest) -> tuple[Violation, ...]:
        """Charge an existing allocation, and return the exceeded limits of its places."""
        one = self._entry(allocation_id)
        if not self._is_repeated(one):
            self.grant(one)
        return tuple(self.exceeded_at(self.places(self.applications[one.application_id])))

    # Configuration and audit

    def configure(self, config: PartitionConfig | None) -> None:
        """Replace the configuration."""
        self.queues.configure(config)
        self.queues.prune({app.queue_path for app in self.applications.values()})

    def leaving(self) -> list[tuple[str, tuple[str, ...]]]:
        """Return every queue that has applications but accepts no more, with these applications."""
        by_queue: dict[str, list[str]] = {}
        for application_id, application in sorted(self.applications.items()):
            by_queue.setdefault(application.queue_path, []).append(application_id)
        leaving = [path for path in sorted(by_queue) if self.queues.is_draining(path) or not self.queues.is_leaf(path)]
        return [(path, tuple(by_queue[path])) for path in leaving]

    def _ledger(self) -> dict[str, RunningAllocation]:
        return {one.allocation_id: RunningAllocation(*one[:3], one.node) for one in self.entries()}

    def audit(self, running: Iterable[RunningAllocation]) -> tuple[Difference, ...]:
        """Return the differences between the ledger and the running allocations."""
        runs, ledger = {one.allocation_id: one for one in running}, self._ledger()
        return tuple(
            Difference(ledger.get(name), runs.get(name), name not in runs or runs[name][1] in self.applications)
            for name in sorted({*ledger, *runs})
            if not _agree(ledger.get(name), runs.get(name))
        )

    def reconcile(self, report: AuditReport) -> tuple[Difference, ...]:
        """Repair the differences that still exist, and return them."""
        return tuple(each for each in report.differences if self._repair(each))

    def _repair(self, difference: Difference) -> bool:
        name, running = difference.allocation_id, difference.running
        if self._ledger().get(name) != difference.ledger or (
            running is not None and running[1] not in self.applications
        ):
            return False
        known = self.held.get(name)
        if running is not None and difference.ledger is not None and known is not None and known[1] == running[1]:
            self.held[name] = known._replace(usage=running.usage, node=running.node or known.node)
            return True
        self.release(name)
        if running is not None:
            old = known or self._entry(AllocationRequest(*running[:3]))
            until = self._end_of(old.duration) if old.state is _PENDING else old.until
            new = old._replace(application_id=running.application_id, state=AllocationState.HELD, until=until)
            self.grant(new._replace(usage=running.usage, node=running.node or old.node))
        return True


def _agree(ledger: RunningAllocation | None, running: RunningAllocation | None) -> bool:
    """Return whether the ledger has what runs; without a node, it may run on any one."""
    if ledger is None or running is None:
        return ledger is running
    found, due = (one._replace(usage=one.usage.without_zeros()) for one in (ledger, running))
    return found == (due if due.node is not None else due._replace(node=found.node))
