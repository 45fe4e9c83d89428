"""The lifecycle of applications: submitted, running, and ended in one of several ways.

This module has no timers. The program calls `time_out_gang` when its own timeout expires.

Source: Apache YuniKorn, user based resource usage tracking, "Application tracking".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, final

from ugm.errors import RequestError
from ugm.partition.admission import AdmissionControl, in_use_reason
from ugm.partition.application import Application, ApplicationInfo, ApplicationState, GangStyle, LedgerEntry
from ugm.partition.events import PartitionClosed
from ugm.partition.model_set import ModelSet
from ugm.partition.state import PartitionState
from ugm.queues import Placement, Submission
from ugm.queues.queue import Queue
from ugm.resources import Resource

__all__ = ["ApplicationLifecycle"]


@final
class ApplicationLifecycle:
    """Adds applications to a partition and ends them. The caller runs the methods as transactions."""

    __slots__ = ("_admission", "_models", "_state")

    def __init__(self, state: PartitionState, models: ModelSet, admission: AdmissionControl) -> None:
        self._state: Final = state
        self._models: Final = models
        self._admission: Final = admission

    # Begin

    def submit(self, submission: Submission, gang_style: GangStyle, quota: Resource | None) -> Placement:
        """Place an application, and add it if a rule has found a queue."""
        state = self._state
        known = state.applications.get(submission.application_id)
        if known is not None:
            self._require_same(known, submission, gang_style)
            self._set_quota(known.queue, quota)
            return Placement(known.queue.queue_path, (), creates=False)
        self._require_open(submission)
        placement = state.place(submission)
        if placement.queue_path is None:
            return placement
        queue = state.tree.create(placement.queue_path)
        self._set_quota(queue, quota)
        self._add(Application(submission, queue, gang_style))
        return placement

    def adopt(self, submission: Submission, gang_style: GangStyle, quota: Resource | None, group: str | None) -> None:
        """Add an application to its previous queue, without placement rules or access lists."""
        state = self._state
        known = state.applications.get(submission.application_id)
        if known is not None:
            self._require_same(known, submission, gang_style)
            self._set_quota(known.queue, quota)
            return
        self._require_open(submission)
        queue = state.tree.create(submission.queue)
        state.count_resources(tuple(queue.quota.names))
        self._set_quota(queue, quota)
        application = Application(submission, queue, gang_style)
        application.is_adopted, application.group = True, group
        self._add(application)

    def _set_quota(self, queue: Queue, quota: Resource | None) -> None:
        """Set the maximum of a queue that the configuration does not name; the latest one holds."""
        if quota is not None and not queue.managed and queue.quota_override != quota:
            self._admission.set_queue_quota(queue, quota)

    def _add(self, application: Application) -> None:
        is_plain = self._state.compiled.schedule is None and not self._state.reserves
        application.allows_fast_path = not self._models and self._state.record is None and is_plain
        self._state.add_application(application)

    def _require_same(self, known: Application, submission: Submission, gang_style: GangStyle) -> None:
        before = known.submission
        # The groups of the user are those of the first submission, whatever they are now.
        pairs: list[tuple[str, object, object]] = [("user", before.user.name, submission.user.name)]
        # The arguments that an adopted application was submitted with are unknown, so any are accepted.
        if not known.is_adopted:
            # Queue names ignore case. The submission may also name the queue in which the application was placed.
            if submission.queue.lower() not in (before.queue.lower(), known.queue.queue_path):
                pairs.append(("queue", before.queue, submission.queue))
            pairs += [("tags", dict(before.tags), dict(submission.tags))]
            pairs += [("gang_style", known.gang_style.value, gang_style.value)]
        for name, mine, theirs in pairs:
            if mine != theirs:
                reason = in_use_reason(name, mine, theirs)
                raise RequestError("application_id", submission.application_id, reason, "id-in-use")

    def _require_open(self, submission: Submission) -> None:
        if self._state.closed:
            raise RequestError(
                "application_id", submission.application_id, "the partition is closed", "partition-closed"
            )

    # End

    def complete(self, application_id: str) -> ApplicationInfo:
        """Remove an application without granted or pending allocations."""
        application = self._admission.require_application(application_id)
        if application.allocations or application.pending:
            kept = f"{len(application.allocations)} granted and {len(application.pending)} pending allocations"
            raise RequestError("application_id", application_id, f"the application has {kept}", "not-empty")
        info = application.info(ApplicationState.COMPLETED)
        self._state.remove_application(application, ApplicationState.COMPLETED)
        return info

    def fail(self, application_id: str) -> tuple[str, ...]:
        """Let an application fail, and return its allocations, which must be released."""
        return self._fail([self._admission.require_application(application_id)])

    def remove(self, application_id: str) -> tuple[str, ...]:
        """Release all allocations of an application, remove it, and return the allocations."""
        application = self._admission.require_application(application_id)
        state, entries = application.state, application.entries()
        self._admission.end([*application.pending.items(), *entries.items()])
        if application_id in self._state.applications:
            self._state.remove_application(application, state)
        return tuple(entries)

    def time_out_gang(self, application_id: str) -> tuple[str, ...]:
        """Stop waiting for a gang, and return the placeholders, which must be released."""
        application = self._admission.require_application(application_id)
        pending = [(name, entry) for name, entry in application.pending.items() if entry.traits.placeholder]
        placeholders = tuple(application.placeholders())
        if not pending and not placeholders:
            return ()
        is_unused = len(placeholders) == len(application.allocations) and not application.has_replaced
        if application.gang_style is GangStyle.HARD and is_unused:
            return self._fail([application])
        self._admission.end(pending)
        return self._terminate(placeholders)

    def terminate(self) -> tuple[str, ...]:
        """Accept no more requests, let all applications fail, and return their allocations, which must be released."""
        if not self._state.closed and self._state.record:
            self._state.record(PartitionClosed())
        self._state.set_closed()
        return self._fail(tuple(self._state.applications.values()))

    def _fail(self, applications: Iterable[Application]) -> tuple[str, ...]:
        self._admission.end([item for application in applications for item in application.pending.items()])
        return tuple(name for application in applications for name in self._fail_one(application))

    def _fail_one(self, application: Application) -> tuple[str, ...]:
        self._state.set_failing(application)
        allocations = self._terminate(application.entries().items())
        self._state.finish_if_idle(application)
        return allocations

    def _terminate(self, allocations: Iterable[tuple[str, LedgerEntry]]) -> tuple[str, ...]:
        """Mark allocations as terminating, and return their ids."""
        entries = tuple(allocations)
        for allocation_id, entry in entries:
            self._state.mark_terminating(allocation_id, entry)
        return tuple(allocation_id for allocation_id, _ in entries)
