"""Applications: submitted, admitted with their allocations, and ended in one of several ways.

Each operation is one transaction, so a denial, an error or a crash leaves no half. If an application is denied with its
allocations, all changes of the operation are put back. So it is as if it had never been submitted, except that
subscribers get the denial.

This module has no timers. The program calls `time_out_gang` when its own timeout expires. The group of an application
is selected when it starts: see `ugm.tracking.limits.LimitTable.select_group`.

Source: Apache YuniKorn, user based resource usage tracking, "Application tracking".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from ugm.arguments import require_user
from ugm.decision import ALLOWED, Decision
from ugm.errors import RequestError
from ugm.identity import MAX_DEPTH, MAX_NAME, ROOT, UserGroup, canonical_path, exact_text, require_name
from ugm.partition.admission.admission import AdmissionPart
from ugm.partition.admission.checked_arguments import in_use_reason
from ugm.partition.answers.reports import Admission
from ugm.partition.engine.application import Application, ApplicationInfo, ApplicationState
from ugm.partition.rows import Allocation, AllocationSpec, AllocationState, Change, GangStyle, RequestFields
from ugm.queues import Placement, Submission
from ugm.queues.tree import Queue
from ugm.resources import Resource

#: The longest queue path, with the dots in it.
_LONGEST_PATH: Final = MAX_DEPTH * (MAX_NAME + 1)
_NO_TAGS: Final[Mapping[str, str]] = MappingProxyType({})
_STYLES: Final[Mapping[str, GangStyle]] = {style.value: style for style in GangStyle}


def require_submission(application_id: str, user: UserGroup, queue: str, tags: Mapping[str, str] | None) -> Submission:
    """Return a submission, with a copy of the tags.

    Raises:
        RequestError: an argument has a wrong type, or is too long.
    """
    checked_id = require_name("application_id", application_id)
    require_user(user)
    if not isinstance(queue, str):
        raise RequestError("queue", queue, "expected a queue path, or an empty string for none")
    path = exact_text(queue)
    if len(path) > _LONGEST_PATH:
        raise RequestError("queue", queue, f"it has {len(path)} characters (allowed: up to {_LONGEST_PATH})")
    return Submission(checked_id, user, path, _require_tags(tags))


def _require_tags(tags: object) -> Mapping[str, str]:
    if tags is None:
        return _NO_TAGS
    if not isinstance(tags, Mapping):
        raise RequestError("tags", tags, "expected a mapping of strings")
    copy = {}
    for given, text in dict(tags).items():
        if not isinstance(given, str) or not isinstance(text, str):
            raise RequestError("tags", {given: text}, "expected strings")
        name, value = exact_text(given), exact_text(text)
        if not 0 < len(name) <= MAX_NAME or len(value) > MAX_NAME:
            reason = f"a tag has a name of 1 to {MAX_NAME} characters and a value of up to {MAX_NAME}"
            raise RequestError("tags", {name: value}, reason)
        copy[name] = value
    return MappingProxyType(copy)


def require_leaf_path(queue_path: str) -> str:
    """Return the canonical path of a queue that may contain applications.

    Raises:
        RequestError: the path is invalid, or it is the path of the root.
    """
    path = canonical_path(queue_path)
    if path == ROOT:
        raise RequestError("queue_path", queue_path, "the root takes no applications")
    return path


def require_chosen_group(group: str | None) -> str | None:
    """Return the group that the caller has chosen: a name, None for no group, or an empty string to select it later.

    Raises:
        RequestError: the value is something else.
    """
    return group if group is None or group == "" else require_name("group", group)


def require_gang_style(gang_style: object) -> GangStyle:
    """Return the style of a gang.

    Raises:
        RequestError: the style does not exist.
    """
    style = _STYLES.get(gang_style) if isinstance(gang_style, str) else None
    if style is None:
        raise RequestError("gang_style", gang_style, "expected 'soft' or 'hard'")
    return style


class ApplicationLifecycle(AdmissionPart):
    """Adds applications to a partition and ends them. The caller runs the methods as transactions."""

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
        queue = state.create_queue(placement.queue_path)
        self._set_quota(queue, quota)
        state.add_application(submission, queue, gang_style)
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
        queue = state.create_queue(submission.queue)
        state.count_resources(tuple(queue.quota.names))
        self._set_quota(queue, quota)
        state.add_application(submission, queue, gang_style, is_adopted=True, group=group)

    def _set_quota(self, queue: Queue, quota: Resource | None) -> None:
        """Set the maximum of a queue that the configuration does not name; the latest one holds."""
        if quota is not None and not queue.managed and queue.quota_override != quota:
            self._admission.set_queue_quota(queue, quota)

    def _require_same(self, known: Application, submission: Submission, gang_style: GangStyle) -> None:
        before = known.row
        # The groups of the user are those of the first submission, whatever they are now.
        pairs: list[tuple[str, object, object]] = [("user", before.user.name, submission.user.name)]
        # The arguments that an adopted application was submitted with are unknown, so any are accepted.
        if not known.row.is_adopted:
            # Queue names ignore case. The submission may also name the queue in which the application was placed.
            if submission.queue.lower() not in (before.requested_queue.lower(), before.queue_path):
                pairs.append(("queue", before.requested_queue, submission.queue))
            pairs += [("tags", dict(before.tags), dict(submission.tags))]
            pairs += [("gang_style", known.row.gang_style.value, gang_style.value)]
        for name, mine, theirs in pairs:
            if mine != theirs:
                reason = in_use_reason(name, mine, theirs)
                raise RequestError("application_id", submission.application_id, reason, "id-in-use")

    def _require_open(self, submission: Submission) -> None:
        if self._state.row.closed:
            raise RequestError(
                "application_id", submission.application_id, "the partition is closed", "partition-closed"
            )

    # Begin with allocations

    def admit(
        self,
        submission: Submission,
        specs: Sequence[AllocationSpec],
        quota: Resource | None,
        decide: Callable[[RequestFields], Decision],
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
        mark = len(self._state.lock.changes)
        placement = self.submit(submission, GangStyle.SOFT, quota)
        if placement.queue_path is None:
            return Admission(placement, None)
        application = self._state.applications[submission.application_id]
        decision = ALLOWED if application.row.has_run else self._grant(application, specs, decide)
        if decision:
            return Admission(placement, decision, tuple(self._state.allocations[spec.allocation_id] for spec in specs))
        denials = [one for one in self._state.lock.changes[mark:] if isinstance(one, Change) and one.table == "denial"]
        self._state.revert(mark)
        self._state.lock.changes += denials
        return Admission(placement, decision)

    def _require_same_allocations(
        self, known: Application | None, application_id: str, specs: Sequence[AllocationSpec]
    ) -> None:
        """Check that no allocation belongs to another application or has other properties.

        Raises:
            RequestError: one does, or the application has run and does not hold one of them.
        """
        for spec in specs:
            name, row = spec.allocation_id, self._state.allocations.get(spec.allocation_id)
            if row is not None and (known is None or row.application_id != known.application_id):
                reason = in_use_reason("application_id", row.application_id, application_id)
                raise RequestError("allocation_id", name, reason, "id-in-use")
            if known is None:
                continue
            requested = self._admission.row(spec.request(application_id), AllocationState.HELD)
            if not self._admission.is_repeated(requested) and known.row.has_run:
                reason = f"the id is in use with other allocations: {name!r} is not held"
                raise RequestError("application_id", application_id, reason, "id-in-use")

    def _grant(
        self, application: Application, specs: Sequence[AllocationSpec], decide: Callable[[RequestFields], Decision]
    ) -> Decision:
        requests = [spec.request(application.application_id) for spec in specs]
        if len(requests) == 1:
            return decide(requests[0])
        from ugm.partition.admission.gangs import GangAdmission  # noqa: PLC0415 - few programs need it

        return GangAdmission(self._state, self._models, self._admission).allocate_all(requests)

    def end(self, application_id: str) -> bool:
        """Remove an application with everything that it holds and requests, and return whether it existed."""
        if require_name("application_id", application_id) not in self._state.applications:
            return False
        self.remove(application_id)
        return True

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
        state = ApplicationState.FAILED if application.row.failing else application.state
        names = tuple(application.allocations)
        for row in [*application.pending.values(), *application.allocations.values()]:
            self._admission.take_out(application, row)
        self._state.remove_application(application, state)
        return names

    def time_out_gang(self, application_id: str) -> tuple[str, ...]:
        """Stop waiting for a gang, and return the placeholders, which must be released."""
        application = self._admission.require_application(application_id)
        pending = [row for row in application.pending.values() if row.placeholder]
        placeholders = [row for row in application.allocations.values() if row.placeholder]
        if not pending and not placeholders:
            return ()
        is_unused = len(placeholders) == len(application.allocations) and not application.row.has_replaced
        if application.row.gang_style is GangStyle.HARD and is_unused:
            return self._fail([application])
        self._admission.end(pending)
        return self._terminate(placeholders)

    def terminate(self) -> tuple[str, ...]:
        """Accept no more requests, let all applications fail, and return their allocations, which must be released."""
        self._state.change_partition(closed=True)
        return self._fail(tuple(self._state.applications.values()))

    def _fail(self, applications: Iterable[Application]) -> tuple[str, ...]:
        self._admission.end([row for application in applications for row in application.pending.values()])
        return tuple(name for application in applications for name in self._fail_one(application))

    def _fail_one(self, application: Application) -> tuple[str, ...]:
        self._state.change_application(application, failing=True)
        allocations = self._terminate(list(application.allocations.values()))
        self._state.finish_if_idle(application)
        return allocations

    def _terminate(self, rows: Collection[Allocation]) -> tuple[str, ...]:
        """Mark allocations as terminating, and return their ids."""
        for row in rows:
            self._state.mark_terminating(row)
        return tuple(row.allocation_id for row in rows)
