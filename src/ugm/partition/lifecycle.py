"""The life of applications: submitted, asking, running, and ended in one way or another.

Nothing here waits. Whatever takes a while, such as the time that a gang has to come together, is ended by a call of the
embedding program.

Source: Apache YuniKorn, user based resource usage tracking, "Application tracking".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, final

from ugm.errors import RequestError
from ugm.partition.admission import Admission
from ugm.partition.application import Application, ApplicationInfo, ApplicationState, GangStyle
from ugm.partition.events import PartitionClosed
from ugm.partition.ledger_entry import AllocationRequest, AllocationState, LedgerEntry
from ugm.partition.model_set import ModelSet
from ugm.partition.state import PartitionState
from ugm.queues import Placement, Queue, Submission
from ugm.resources import Resource

__all__ = ["ApplicationLifecycle"]


@final
class ApplicationLifecycle:
    """What a partition does to its applications. The partition holds the lock."""

    __slots__ = ("_admission", "_others", "_state")

    def __init__(self, state: PartitionState, others: ModelSet, admission: Admission) -> None:
        self._state: Final = state
        self._others: Final = others
        self._admission: Final = admission

    # Beginning

    def submit(self, submission: Submission, gang_style: GangStyle, quota: Resource | None) -> Placement:
        """Place an application, and list it if that succeeds."""
        state = self._state
        known = state.applications.get(submission.application_id)
        if known is not None:
            self._require_same(known, submission, gang_style)
            self.set_queue_quota(known.queue, quota)
            return Placement(known.queue.queue_path, (), creates=False)
        self._require_open(submission)
        placement = state.compiled.rules.place(submission, state.tree)
        if placement.queue_path is None:
            return placement
        queue = state.tree.create(placement.queue_path)
        self.set_queue_quota(queue, quota)
        self._enter(Application(submission, queue, gang_style))
        return placement

    def adopt(self, submission: Submission, gang_style: GangStyle, quota: Resource | None, group: str | None) -> None:
        """List an application where it was placed before, whatever the rules, the queues and their lists say now."""
        state = self._state
        known = state.applications.get(submission.application_id)
        if known is not None:
            self._require_same(known, submission, gang_style)
            self.set_queue_quota(known.queue, quota)
            return
        self._require_open(submission)
        queue = state.tree.create(submission.queue)
        state.count(tuple(queue.quota.names))
        self.set_queue_quota(queue, quota)
        application = Application(submission, queue, gang_style)
        application.is_adopted, application.group = True, group
        self._enter(application)

    def set_queue_quota(self, queue: Queue, quota: Resource | None) -> None:
        """Let a queue that the configuration does not name use *quota*; the latest one holds."""
        if quota is not None and not queue.managed and queue.annotated != quota:
            self._state.annotate(queue, quota)

    def change_quota(self, queue_path: str, quota: Resource) -> None:
        """Do what `set_queue_quota` does for a queue that has to be there.

        Raises:
            RequestError: there is no such queue, or the configuration names it.
        """
        queue = self._admission.queue(queue_path)
        if queue.managed:
            raise RequestError("queue_path", queue_path, "the configuration says what the queue may use")
        self.set_queue_quota(queue, quota)

    def _enter(self, application: Application) -> None:
        application.is_plain = not self._others and self._state.tell is None
        self._state.enter(application)

    def _require_same(self, known: Application, submission: Submission, gang_style: GangStyle) -> None:
        before = known.submission
        # The groups of the user are those of the first submission, whatever they are now.
        same = before.user.name == submission.user.name
        # What an adopted application was submitted with is not known: whoever submits it once more finds it.
        if same and not known.is_adopted:
            # Queue names are the same in any case; and the queue itself may be named where rules have found it.
            asked = submission.queue.lower() in (before.queue.lower(), known.queue.queue_path)
            same = asked and before.tags == submission.tags and known.gang_style is gang_style
        if not same:
            reason = "the id stands for an application submitted otherwise"
            raise RequestError("application_id", submission.application_id, reason)

    def _require_open(self, submission: Submission) -> None:
        if self._state.closed:
            raise RequestError("application_id", submission.application_id, "the partition is being removed")

    # Asking

    def request(self, request: AllocationRequest) -> None:
        """Count an allocation as pending."""
        entry = self._admission.entry(request, AllocationState.PENDING)
        known = self._state.ledger.get(request.allocation_id)
        if known is not None:
            self._admission.require_same(request.allocation_id, known, entry)
            return
        self._admission.require_welcome(entry.application)
        if self._others:
            self._others.apply([("expect", entry.claim(request.allocation_id))])
        self._state.note_pending(request.allocation_id, entry)

    def preempt(self, allocation_id: str) -> bool:
        """Tell an allocation to go, and say whether there is one that could be told."""
        entry = self._admission.known("allocation_id", allocation_id)
        if entry is None or entry.traits.state is AllocationState.PENDING:
            return False
        self._tell_to_go([(allocation_id, entry)])
        return True

    def _tell_to_go(self, allocations: Iterable[tuple[str, LedgerEntry]]) -> tuple[str, ...]:
        told = tuple(allocations)
        for allocation_id, entry in told:
            self._state.note_going(allocation_id, entry)
        return tuple(allocation_id for allocation_id, _ in told)

    # Ending

    def time_out_gang(self, application: Application) -> tuple[str, ...]:
        """End the wait for a gang, and return the placeholders that have to be released."""
        pending = [(name, entry) for name, entry in application.pending.items() if entry.traits.placeholder]
        placeholders = tuple(application.placeholders())
        if not pending and not placeholders:
            return ()
        is_unused = len(placeholders) == len(application.lines) and not application.has_replaced
        if application.gang_style is GangStyle.HARD and is_unused:
            return self.fail(application)
        self._admission.end(pending)
        return self._tell_to_go(placeholders)

    def fail(self, *applications: Application) -> tuple[str, ...]:
        """Let applications fail, and return the allocations that have to be released."""
        self._admission.end([item for application in applications for item in application.pending.items()])
        return tuple(name for application in applications for name in self._fail_alone(application))

    def _fail_alone(self, application: Application) -> tuple[str, ...]:
        self._state.set_failing(application)
        told = self._tell_to_go(application.entries().items())
        self._state.settle(application)
        return told

    def complete(self, application: Application) -> ApplicationInfo:
        """Forget an application that holds nothing and for which nothing is pending."""
        if application.lines or application.pending:
            kept = f"{len(application.lines)} allocations and {len(application.pending)} pending"
            raise RequestError("application_id", application.application_id, f"the application has {kept}")
        told = application.shown(ApplicationState.COMPLETED)
        self._state.forget(application, ApplicationState.COMPLETED)
        return told

    def remove(self, application: Application) -> tuple[str, ...]:
        """Give back all that an application holds, forget it, and return what it held."""
        state = application.state
        held = application.entries()
        self._admission.end([*application.pending.items(), *held.items()])
        if application.application_id in self._state.applications:
            self._state.forget(application, state)
        return tuple(held)

    def close(self) -> tuple[str, ...]:
        """Take nothing more, let all applications fail, and return the allocations that have to be released."""
        if not self._state.closed and self._state.tell:
            self._state.tell(PartitionClosed())
        self._state.set_closed()
        return self.fail(*self._state.applications.values())
