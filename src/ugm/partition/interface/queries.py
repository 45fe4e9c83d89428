"""The queries of a partition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING

from ugm.arguments import require_amounts, require_names, require_resource, require_user, require_whole
from ugm.identity import TrackingType, canonical_path, require_name
from ugm.partition.answers.queries import require_query_submission, require_subject
from ugm.partition.interface.parts import PartitionParts
from ugm.partition.rows import AllocationRequest
from ugm.queues.tree import queue_state
from ugm.resources import sum_of

if TYPE_CHECKING:
    from ugm.configuration import PartitionConfig
    from ugm.decision import Decision, EffectiveLimit, Violation
    from ugm.identity import UserGroup
    from ugm.model import AccountState
    from ugm.partition.answers.model_queries import ModelReport
    from ugm.partition.answers.reports import (
        ApplicationReport,
        Explanation,
        LimitUtilization,
        OwnedAllocation,
        Subject,
        SubmissionReport,
    )
    from ugm.partition.answers.snapshot import OwnerLimits, PartitionSnapshot
    from ugm.partition.engine.application import ApplicationCopy, ApplicationInfo, PendingHeadroom
    from ugm.partition.rows import Allocation
    from ugm.queues import Placement, QueueState
    from ugm.resources import Resource
    from ugm.tracking import GroupUsage, UserUsage


class QueryOperations(PartitionParts):
    """The queries of a partition."""

    def check(
        self,
        subject: Subject,
        usage: Resource,
        *,
        priority: int = 0,
        preemptible: bool = True,
        duration: int | None = None,
    ) -> Decision:
        """Return the answer that `allocate` would give to one more allocation now.

        For a user in a queue it is the answer to the first allocation after a `submit`. Another thread may use the
        resources in between; only the answer of `allocate` is binding.

        Raises:
            RequestError: the application does not exist or is failing, the partition is closed, or an argument
                is invalid.
        """
        query = AllocationRequest("", "", usage, priority=priority, preemptible=preemptible, duration=duration)
        return self._read(self._subject_queries.check, require_subject(subject), query)

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
        """Return the answer of `check` with the largest holders of each short resource, the limits and the headroom.

        All parts show the same moment. The time depends on the number of applications that are charged to the limits.
        Under the lock, their amounts are only copied.

        Args:
            subject: as for `check`.
            usage: as for `check`.
            priority: as for `check`.
            preemptible: as for `check`.
            max_holders: the number of holders for each exceeded limit.
            duration: as for `check`.

        Raises:
            RequestError: as for `check`, or *max_holders* is not a number.
        """
        require_whole("max_holders", max_holders)
        query = AllocationRequest("", "", usage, priority=priority, preemptible=preemptible, duration=duration)
        return self._read(self._subject_queries.explain, require_subject(subject), query, max_holders)()

    def headroom(self, subject: Subject, *, duration: int | None = None) -> Resource | None:
        """Return the amounts that the subject may still use, for each limited resource.

        With a *duration*, they are the amounts for an allocation that promises to end after this number of seconds.

        Every request within the headroom fits all resource limits at the same moment, and one unit more of any resource
        does not. Limits of users, groups and queues, the size of the cluster and other quota models count. If a model
        lets a request choose between much of one resource and much of another, the resources are filled in the order of
        their names: each gets as much as is allowed together with those before it.

        If a model denies even an empty request, for example because the application has no group in a quota tree, the
        amount of every resource that a limit, a node or a model names is 0. No request is granted then, not even of
        another resource.

        Returns:
            None if no resource is limited. An amount is negative if a limit was reduced below the usage. In a partition
            with nodes, a resource that is missing from the result and that no node offers is unavailable.

        Raises:
            RequestError: the application does not exist, or an argument is invalid.
        """
        return self._read(self._subject_queries.headroom, require_subject(subject), duration)

    def pending_headroom(self, subject: Subject) -> PendingHeadroom:
        """Return the pending requests and the applications that the subject may still add.

        An application is counted from its submission to its end. For an application, the number of further
        applications is that of its user.

        Returns:
            Every value is None if the configuration does not limit pending work.

        Raises:
            RequestError: the application does not exist, or an argument is invalid.
        """
        return self._read(self._subject_queries.pending_headroom, require_subject(subject))

    def limits(self, subject: Subject) -> tuple[EffectiveLimit, ...]:
        """Return every limit for the subject, and the place where it is set.

        The limits of users, groups and queues come first, then those on pending work, and then those of other quota
        models that report them. The kind of a limit on pending work is for example ``pending user`` or ``submitted
        queue``; its numbers of applications are those of pending requests, or of submitted applications.

        Raises:
            RequestError: the application does not exist, or an argument is invalid.
        """
        return self._read(self._subject_queries.limits, require_subject(subject))

    def place(self, user: UserGroup, queue: str = "", tags: Mapping[str, str] | None = None) -> Placement:
        """Return the queue in which `submit` would place an application now, with the result of every rule.

        Raises:
            RequestError: an argument is invalid.
        """
        submission = require_query_submission(user, queue, tags)
        return self._read(self._state.place, submission)

    def explain_submission(
        self,
        user: UserGroup,
        queue: str,
        usage: Resource,
        tags: Mapping[str, str] | None = None,
        *,
        quota: Resource | None = None,
        max_holders: int = 3,
        duration: int | None = None,
    ) -> SubmissionReport:
        """Return the placement of a new application, and the answer to its first allocation, at one moment.

        Args:
            user: the owner of the application.
            queue: the requested queue; empty for none.
            usage: the resources of the allocation.
            tags: as for `submit`.
            quota: as for `submit`.
            max_holders: as for `explain`.
            duration: as for `allocate`.

        Raises:
            RequestError: an argument is invalid, or the partition is closed.
        """
        require_whole("max_holders", max_holders)
        submission = require_query_submission(user, queue, tags)
        amounts = self._require_listed("usage", require_resource("usage", usage))
        maximum = self._require_listed("quota", require_amounts("quota", quota))
        explain_submission = self._subject_queries.explain_submission
        return self._read(explain_submission, submission, amounts, maximum, duration, max_holders)()

    def application(self, application_id: str) -> ApplicationInfo | None:
        """Return the current state of an application, or None if it does not exist."""
        found = self.applications_by_id((require_name("application_id", application_id),))
        return found[0] if found else None

    def applications(self, queue_path: str | None = None) -> tuple[ApplicationInfo, ...]:
        """Return all applications, or those in and below a queue, sorted by id.

        Raises:
            RequestError: the queue does not exist.
        """
        copies = self._read(self._copy_applications, queue_path)
        return tuple(sorted((one.info() for one in copies), key=attrgetter("application_id")))

    def _copy_applications(self, queue_path: str | None) -> list[ApplicationCopy]:
        listed, found = self._state.applications, list(self._state.applications.values())
        if queue_path is not None:
            below = self._admission.require_queue(queue_path).below()
            found = [listed[name] for queue in below for name in queue.applications]
        return [one.copy() for one in found]

    def applications_by_id(self, application_ids: Iterable[str]) -> tuple[ApplicationInfo, ...]:
        """Return those of the given applications that exist, in the given order, at one moment.

        Raises:
            RequestError: an id is not a text of 1 to 256 characters.
        """
        names, listed = require_names("application_ids", application_ids), self._state.applications
        return self._read(lambda: tuple(listed[name].info() for name in names if name in listed))

    def application_ids(self) -> tuple[str, ...]:
        """Return the ids of all applications, sorted."""
        return self._names(self._state.applications)

    def application_report(
        self, application_id: str, *, max_pending: int = 10, max_holders: int = 3
    ) -> ApplicationReport | None:
        """Return an application with its limits, and explanations for its first pending allocations.

        Args:
            application_id: the application.
            max_pending: the number of pending allocations to explain.
            max_holders: as for `explain`.

        Returns:
            None if the application does not exist.

        Raises:
            RequestError: an argument is invalid.
        """
        name = require_name("application_id", application_id)
        require_whole("max_pending", max_pending)
        require_whole("max_holders", max_holders)
        return self._read(self._subject_queries.application_report, name, max_pending, max_holders)()

    def allocation(self, allocation_id: str) -> Allocation | None:
        """Return the current state of an allocation, which may be pending, or None if it does not exist."""
        return self._read(self._state.allocations.get, require_name("allocation_id", allocation_id))

    def allocations(self, application_id: str | None = None) -> tuple[Allocation, ...]:
        """Return all allocations, or those of one application, including pending ones, sorted by id.

        Raises:
            RequestError: the application does not exist.
        """
        rows = self._read(self._copy_allocations, application_id)
        return tuple(rows[name] for name in sorted(rows))

    def _copy_allocations(self, application_id: str | None) -> dict[str, Allocation]:
        if application_id is None:
            return dict(self._state.allocations)
        application = self._admission.require_application(application_id)
        return application.allocations | application.pending

    def allocations_by_id(self, allocation_ids: Iterable[str]) -> tuple[OwnedAllocation, ...]:
        """Return those of the given allocations that exist, with their owners, in the given order, at one moment.

        Raises:
            RequestError: an id is not a text of 1 to 256 characters.
        """
        from ugm.partition.answers.reports import owned_allocations  # noqa: PLC0415 - see `_Part`

        return self._read(owned_allocations, self._state, require_names("allocation_ids", allocation_ids))

    def allocation_ids(self) -> tuple[str, ...]:
        """Return the ids of all allocations, including pending ones, sorted."""
        return self._names(self._state.allocations)

    @property
    def config(self) -> PartitionConfig | None:
        """The configuration in force, as it was passed; None if there is none."""
        return self._state.compiled.config

    def queue(self, queue_path: str = "root") -> QueueState | None:
        """Return the current state of a queue with all queues below it, or None if it does not exist.

        The time depends on the number of applications in and below it.
        """
        return self._read(self._queue, canonical_path(queue_path))

    def _queue(self, queue_path: str) -> QueueState | None:
        found = self._state.tree.queues.get(queue_path)
        return None if found is None else queue_state(found, self._state.tree.cluster)

    def queue_paths(self) -> tuple[str, ...]:
        """Return the paths of all queues, sorted: parents before children."""
        return self._names(self._state.tree.queues)

    def queue_headroom(self, queue_path: str, *, cluster: bool = True) -> Resource | None:
        """Return for each limited resource the minimum that is free in the queue and its parents.

        Args:
            queue_path: the queue.
            cluster: whether the size of the cluster counts.

        Returns:
            None if no resource is limited. An amount is negative if usage exceeds a limit.

        Raises:
            RequestError: the queue does not exist.
        """
        tree, require_queue = self._state.tree, self._admission.require_queue
        return self._read(lambda: tree.headroom(require_queue(queue_path).queue_path, cluster=cluster))

    def queue_maximum(self, queue_path: str) -> Resource | None:
        """Return for each limited resource the minimum of the maxima of the queue and its parents.

        Raises:
            RequestError: the queue does not exist.
        """
        tree, require_queue = self._state.tree, self._admission.require_queue
        return self._read(lambda: tree.maximum(require_queue(queue_path).queue_path))

    def pending(self, queue_path: str) -> tuple[int, Resource]:
        """Return the number and the sum of the pending allocations in a queue itself; zero if it does not exist."""
        usages = self._read(self._pending_usages, canonical_path(queue_path))
        return len(usages), sum_of(usages)

    def _pending_usages(self, queue_path: str) -> list[Resource]:
        found, applications = self._state.tree.queues.get(queue_path), self._state.applications
        names = () if found is None else found.applications
        return [row.usage for name in names for row in applications[name].pending.values()]

    def nodes(self) -> dict[str, Resource]:
        """Return the resources of every registered node, by name."""
        return self._read(lambda: dict(sorted(self._state.cluster.nodes.items())))

    def users(self) -> tuple[UserUsage, ...]:
        """Return the usage of every user in each queue, with the limits there, sorted by name."""
        return tuple(copy.usage().user_usage() for copy in self._read(self._copy_owners, TrackingType.USER))

    def user(self, name: str) -> UserUsage | None:
        """Return the usage of a user in each queue, with the limits there; None if the user runs nothing."""
        found = self._owner(TrackingType.USER, name)
        return None if found is None else found.usage().user_usage()

    def user_names(self) -> tuple[str, ...]:
        """Return the names of all users with running applications, sorted."""
        return self._names(self._state.holding_index.users)

    def groups(self) -> tuple[GroupUsage, ...]:
        """Return the usage of every group in each queue, with the limits there, sorted by name."""
        return tuple(copy.usage().group_usage() for copy in self._read(self._copy_owners, TrackingType.GROUP))

    def group(self, name: str) -> GroupUsage | None:
        """Return the usage of a group in each queue, with the limits there; None if nothing is charged to it."""
        found = self._owner(TrackingType.GROUP, name)
        return None if found is None else found.usage().group_usage()

    def group_names(self) -> tuple[str, ...]:
        """Return the names of all groups with charged applications, sorted."""
        return self._names(self._state.holding_index.groups)

    def _owner(self, kind: TrackingType, name: str) -> OwnerLimits | None:
        from ugm.partition.answers.snapshot import copy_owner  # noqa: PLC0415 - see `_Part`

        return self._read(copy_owner, self._state, kind, require_name("name", name))

    def _copy_owners(self, kind: TrackingType) -> list[OwnerLimits]:
        from ugm.partition.answers.snapshot import copy_owner  # noqa: PLC0415 - see `_Part`

        index = self._state.holding_index
        names = sorted(index.users if kind is TrackingType.USER else index.groups)
        return [copy for name in names if (copy := copy_owner(self._state, kind, name)) is not None]

    def exceeded_limits(self) -> tuple[Violation, ...]:
        """Return every limit that is exceeded.

        The limits of users, groups and queues come first, each by name, leaf to root. Those on pending work follow, and
        then those of other quota models that report them.
        """
        return self._read(self._exceeded_limits)

    def model_utilization(self) -> tuple[LimitUtilization, ...]:
        """Return the utilization of the most used limit of every owner of limits in other quota models.

        An owner is for example an elastic group or a node of a quota tree. Sorted by kind and name.
        """
        return self._read(self._model_queries.utilization)

    def budget_accounts(self, user: UserGroup | None = None, queue_path: str | None = None) -> tuple[AccountState, ...]:
        """Return the accounts of budgets: limit, settled, committed and remaining amounts, and when they are renewed.

        Args:
            user: only the accounts that count allocations of this user; None for all accounts that exist.
            queue_path: only the accounts of budgets that apply in this queue; None for all queues.

        Returns:
            The accounts in the order of their budgets, then by owner and resource.

        Raises:
            RequestError: an argument is invalid.
        """
        owner = None if user is None else require_user(user)
        path = None if queue_path is None else canonical_path(queue_path)
        return self._read(self._model_queries.budget_accounts, owner, path)

    def model_reports(self) -> tuple[ModelReport, ...]:
        """Return the state and the definition of every other quota model, as plain data, in their order."""
        return tuple(report() for report in self._read(self._model_queries.capture_reports))

    def snapshot(self) -> PartitionSnapshot:
        """Return a copy of the partition at this moment, from which all other values can be computed.

        The lock is held for about half a microsecond for each queue and application.
        """
        from ugm.partition.answers.snapshot import copy_snapshot  # noqa: PLC0415 - see `_Part`

        return copy_snapshot(self._state, self._read)

    def _names(self, index: Mapping[str, object]) -> tuple[str, ...]:
        return tuple(sorted(self._read(list, index)))
