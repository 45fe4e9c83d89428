"""What can be asked of a partition. Nothing of this changes an answer, and all that comes out is a frozen value.

A page, a metric or an explanation needs no more than a `PartitionView`; only a scheduler needs the `ugm.Partition`.
"""

from __future__ import annotations

from typing import Final

from ugm.arguments import require_name
from ugm.decision import ALLOWED, Decision, Violation
from ugm.hierarchy import fits, headroom
from ugm.identity import UserGroup, canonical_path
from ugm.operation_lock import CHANGING, exclusive
from ugm.partition.application import Application, ApplicationInfo
from ugm.partition.audit import verify
from ugm.partition.explanation import Explanation, explain, require_holder_count
from ugm.partition.ledger_entry import DEFAULT_PRIORITY, Allocation, AllocationRequest, LedgerEntry
from ugm.partition.model_set import ModelSet
from ugm.partition.reports import Reports
from ugm.partition.state import PartitionState
from ugm.partition.survey import effective
from ugm.queues import QueueState, queue_state
from ugm.resources import Resource
from ugm.tracking import EffectiveLimit, GroupUsage, UserUsage
from ugm.tracking.holding import Holding
from ugm.tracking.snapshot import copies_of

__all__ = ["PartitionView"]


class PartitionView(Reports):
    """The read-only face of a `ugm.Partition`."""

    __slots__ = ("_applications",)

    def __init__(self, state: PartitionState, others: ModelSet) -> None:
        super().__init__(state, others)
        self._applications: Final = state.applications

    def __repr__(self) -> str:
        # Without the lock: a debugger may ask while another thread holds it.
        tree, applications, allocations = self._state.tree, self._applications, self._state.ledger.owners
        counts = f"queues={len(tree.queues)} applications={len(applications)} allocations={len(allocations)}"
        return f"<{type(self).__name__} {counts}>"

    # What would be

    def check(self, application_id: str, usage: Resource, *, priority: int = 0, preemptible: bool = True) -> Decision:
        """Return what `Partition.allocate` would answer now to one more allocation of an application.

        Another thread may be granted the room in between; only `Partition.allocate` itself is binding.

        Raises:
            RequestError: there is no such application, it is failing, or an argument cannot be used.
        """
        lock = self._lock
        try:
            with lock:
                settled, lock.settled = lock.settled, CHANGING
                application = self._applications.get(application_id) if type(application_id) is str else None
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
                request = AllocationRequest("", application_id, usage, priority=priority, preemptible=preemptible)
                return lock.attempt(settled, self._admission.check, request)
        except BaseException as error:
            lock.let_go_after(error)
            raise

    def explain(
        self, application_id: str, usage: Resource, *, priority: int = 0, preemptible: bool = True, most: int = 3
    ) -> Explanation:
        """Return what `check` does, and for every limit in the way the *most* largest holders of what is missing.

        Takes time in the number of applications that are charged to those limits; under the lock, what they hold is
        only copied.

        Raises:
            RequestError: as for `check`, or *most* is no number.
        """
        require_holder_count(most)
        request = AllocationRequest("", application_id, usage, priority=priority, preemptible=preemptible)
        return explain(*self._lock.run(self._decided, lambda: self._admission.check(request)), most)

    @exclusive
    def headroom(self, application_id: str) -> Resource | None:
        """Return how much more an application may use: the least that any limit leaves, for each limited resource.

        Users, groups, queues and the size of the cluster count, other quota models do not.

        Returns:
            None where nothing limits resources. An amount is negative where a limit was lowered below the usage. Once
            the cluster has nodes, a resource that is not named and that no node offers is not to be had.

        Raises:
            RequestError: there is no such application.
        """
        holding = self._state.open(self._admission.application(application_id))
        return headroom(holding.enforced(holding.chain()))

    @exclusive
    def effective_limits(self, application_id: str) -> tuple[EffectiveLimit, ...]:
        """Return every limit of users, groups and queues that holds for an application, and where it is set.

        Raises:
            RequestError: there is no such application.
        """
        return _limits(self._state.open(self._admission.application(application_id)))

    # Applications and allocations

    @exclusive
    def application(self, application_id: str) -> ApplicationInfo | None:
        """Return an application as it is now; None if there is none of that id, or none any more."""
        found = self._applications.get(require_name("application_id", application_id))
        return None if found is None else found.shown()

    @exclusive
    def applications(self, queue_path: str | None = None) -> tuple[ApplicationInfo, ...]:
        """Return all applications, or those in and below a queue, sorted by id.

        Raises:
            RequestError: there is no such queue.
        """
        if queue_path is None:
            found = self._applications
        else:
            below = self._admission.queue(queue_path).below()
            found = {name: self._applications[name] for queue in below for name in queue.applications}
        return tuple(found[name].shown() for name in sorted(found))

    @exclusive
    def allocation(self, allocation_id: str) -> Allocation | None:
        """Return an allocation as it is now, pending ones included; None if there is none of that id."""
        entry = self._state.ledger.get(require_name("allocation_id", allocation_id))
        return None if entry is None else entry.shown(allocation_id)

    def allocations(self, application_id: str | None = None) -> tuple[Allocation, ...]:
        """Return all allocations, or those of one application, pending ones included, sorted by id.

        Raises:
            RequestError: there is no such application.
        """
        found = [
            application.entry_of(line).shown(name)
            for application, lines in self._lines(application_id)
            for name, line in lines.items()
        ]
        return tuple(sorted(found))

    @exclusive
    def _lines(self, application_id: str | None) -> list[tuple[Application, dict[str, Resource | LedgerEntry]]]:
        """Copy the allocations of all applications, or of one; what they show is worked out without the lock."""
        if application_id is None:
            listing = list(self._applications.values())
        else:
            listing = [self._admission.application(application_id)]
        return [(application, {**application.lines, **application.pending}) for application in listing]

    # Queues, users and groups

    @exclusive
    def queue(self, queue_path: str = "root") -> QueueState | None:
        """Return a queue as it is now, with all queues below it; None if there is no such queue.

        Takes time in the number of applications in and below it.
        """
        path = canonical_path(queue_path)
        found = self._state.tree.queues.get(path)
        return None if found is None else queue_state(found, self._state.tree.cluster)

    @exclusive
    def queue_headroom(self, queue_path: str, *, cluster: bool = True) -> Resource | None:
        """Return the least that any queue from *queue_path* up leaves, for each limited resource.

        Args:
            queue_path: the queue.
            cluster: whether the size of the cluster counts, too.

        Returns:
            None where nothing limits resources. An amount is negative where more is used than allowed.

        Raises:
            RequestError: there is no such queue.
        """
        return self._state.tree.headroom(self._admission.queue(queue_path).queue_path, cluster=cluster)

    @exclusive
    def queue_maximum(self, queue_path: str) -> Resource | None:
        """Return the most that could ever be used in a queue: the least that any queue from there up allows.

        Raises:
            RequestError: there is no such queue.
        """
        return self._state.tree.most(self._admission.queue(queue_path).queue_path)

    def users(self) -> tuple[UserUsage, ...]:
        """Return what every user uses in which queues, with the limits there, sorted by name."""
        copies = self._lock.run(copies_of, self._state.holding_index.users)
        return tuple(copy.user_usage() for copy in copies)

    def groups(self) -> tuple[GroupUsage, ...]:
        """Return what every group uses in which queues, with the limits there, sorted by name."""
        copies = self._lock.run(copies_of, self._state.holding_index.groups)
        return tuple(copy.group_usage() for copy in copies)

    @exclusive
    def effective_limits_of(self, user: UserGroup, queue_path: str) -> tuple[EffectiveLimit, ...]:
        """Return every limit that would hold for an application of a user in a queue, and where it is set.

        Raises:
            RequestError: there is no such queue, or the user is none.
        """
        return _limits(self._would_be(user, self._admission.queue(queue_path).queue_path))

    @exclusive
    def nodes(self) -> dict[str, Resource]:
        """Return what every registered node offers, by name."""
        return dict(sorted(self._state.cluster.nodes.items()))

    @exclusive
    def over_limit(self) -> tuple[Violation, ...]:
        """Return every limit of users, groups and queues that is exceeded now, each by name, leaf to root."""
        return tuple(self._state.over())

    @exclusive
    def verify(self) -> None:
        """Recompute every counter from the ledger, and compare.

        Raises:
            InvariantError: something differs. That is a bug in ugm, and worth a report.
        """
        verify(self._state)


def _limits(holding: Holding) -> tuple[EffectiveLimit, ...]:
    """Return the limits that a holding must fit."""
    return effective(holding.enforced(holding.chain()))
