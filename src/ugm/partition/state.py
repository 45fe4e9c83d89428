"""The state of a partition: applications, allocations, limits, queues and nodes.

The ledger is the only source of truth: every counter follows from it. This module contains the rules that keep both in
agreement: which counters exist, and when an application starts, stops and is removed. It does not take the lock, does
not check arguments and does not know other quota models.

Every method that changes more than a counter first appends to the undo list how to undo the change, and then records
the change as an event, if events are recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, final

from ugm.arguments import require_vector
from ugm.decision import Violation, already_exceeded
from ugm.hierarchy import RequestVector, leaf_to_root
from ugm.operation_lock import OperationLock
from ugm.partition.allocation import AllocationState
from ugm.partition.application import Application, ApplicationState, LedgerEntry
from ugm.partition.compiled_config import CompiledConfig
from ugm.partition.events import (
    Allocated,
    AllocationRequested,
    ApplicationEnded,
    ApplicationFailing,
    ApplicationSubmitted,
    ConfigurationChanged,
    Event,
    GroupAssigned,
    ModelsChanged,
    NodeChanged,
    Preempted,
    QueueQuotaSet,
    Released,
    RequestWithdrawn,
    Resized,
)
from ugm.partition.ledger import AllocationLedger, put
from ugm.queues.cluster import Cluster
from ugm.queues.queue import Queue
from ugm.queues.tree import QueueTree, Structure
from ugm.resources import Resource, sum_of
from ugm.tracking.active_limits import ActiveLimits
from ugm.tracking.holding import Holding
from ugm.tracking.holding_index import HoldingIndex

__all__ = ["PartitionState"]


@final
class PartitionState:
    """The state of a partition.

    Invariants: every counter follows from `ledger`. An application has a holding exactly while it is running. A queue
    lists exactly the applications that were placed in it and not removed.

    Args:
        compiled: the configuration in force.
        user_limits_win: whether a user with a limit of its own is exempt from group limits.
        lock: the lock of the partition, which owns the undo list; None for a state without a partition.
        record: records events; None if nothing needs them.
        lists_all_applications: whether all applications are listed here, so that the resources in use are known.
    """

    __slots__ = (
        "_running",
        "_submitted",
        "active_limits",
        "added_models",
        "applications",
        "closed",
        "cluster",
        "compiled",
        "holding_index",
        "ledger",
        "lists_all_applications",
        "record",
        "tree",
        "undo",
    )

    compiled: CompiledConfig
    #: The names of the classes of the quota models that the program has added, in their order.
    added_models: tuple[str, ...]
    #: By application id.
    applications: dict[str, Application]
    #: Held, terminating and pending allocations by id.
    ledger: AllocationLedger
    #: Whether the partition is being removed and accepts no more requests.
    closed: bool
    #: Records events; None if nothing needs them.
    record: Callable[[Event], None] | None
    lists_all_applications: bool
    #: The applications that were running when a rebuild began; None if it has been completed.
    _running: list[Application] | None

    def __init__(
        self,
        compiled: CompiledConfig,
        *,
        user_limits_win: bool,
        lock: OperationLock | None = None,
        record: Callable[[Event], None] | None = None,
        lists_all_applications: bool = True,
    ) -> None:
        lock = lock or OperationLock()
        #: The undo list of the current operation.
        self.undo: Final = lock.undo
        self.compiled = compiled
        self.added_models = ()
        self.record = record
        self.lists_all_applications = lists_all_applications
        self.active_limits: Final = ActiveLimits(user_limits_win=user_limits_win, managed=True, lock=lock)
        self.active_limits.replace_limits(compiled.limits, compiled.specs.names)
        self.holding_index: Final = HoldingIndex(self.active_limits)
        self.cluster: Final = Cluster()
        self.tree: Final = QueueTree(compiled.specs, self.active_limits.epoch.layout)
        self.applications = {}
        self.ledger = AllocationLedger(self.undo)
        self.closed = False
        self._running = None
        #: The number of the last application that was submitted.
        self._submitted = 0
        lock.rebuild = self.rebuild
        lock.mark_consistent()

    # Configuration, queues and nodes

    def replace_config(self, compiled: CompiledConfig) -> None:
        """Put another configuration in force.

        The time depends on the number of queues. It also depends on the number of applications if new resources have to
        be counted.
        """
        tree = self.tree
        self.undo.append((self._restore_config, (self.compiled, tree.structure())))
        if self.record:
            self.record(ConfigurationChanged(self.compiled, compiled))
        self.compiled = compiled
        names = (*compiled.specs.names, *tree.names_outside(compiled.specs))
        if tree.cluster is not None:
            # Applications may use counted resources that no node has and no limit names any more.
            layout = self.active_limits.epoch.layout
            kept = self.active_limits.names_to_keep(self._needed_names) if self.lists_all_applications else layout.names
            names = (*names, *tree.cluster, *kept)
        self.active_limits.replace_limits(compiled.limits, names, closed=tree.cluster is not None)
        tree.reshape(compiled.specs, self.active_limits.epoch.layout)

    def _restore_config(self, compiled: CompiledConfig, structure: Structure) -> None:
        self.compiled = compiled
        self.tree.restore(structure)

    def set_added_models(self, names: tuple[str, ...]) -> None:
        """Note which quota models the program adds."""
        before = self.added_models
        if names == before:
            return
        self.undo.append((self._set_added_models, (before,)))
        self.added_models = names
        if self.record:
            self.record(ModelsChanged(before, names))

    def _set_added_models(self, names: tuple[str, ...]) -> None:
        self.added_models = names

    def set_closed(self) -> None:
        """Accept no more requests."""
        self.undo.append((self._set_closed, (self.closed,)))
        self.closed = True

    def _set_closed(self, closed: bool) -> None:  # noqa: FBT001
        self.closed = closed

    def prepare_node_change(self, name: str) -> None:
        """List how to undo a change of a node that follows."""
        self.undo.append((self.cluster.restore, (name, self.cluster.nodes.get(name), self.cluster.total)))

    def finish_node_change(self, name: str, before: Resource | None) -> None:
        """Adjust the maximum of the root after a node has changed."""
        self.resize_cluster()
        after = self.cluster.nodes.get(name)
        if self.record and before != after:
            self.record(NodeChanged(name, before, after))

    def resize_cluster(self) -> None:
        """Set the maximum of the root to the sum of the registered nodes."""
        total = self.cluster.total
        if total is None:
            return
        was_open = self.tree.cluster is None
        names = (*total, *self.tree.root.usage()) if was_open else tuple(total)
        self.count_resources(names, closed=True)
        self.tree.resize(total)

    def count_resources(self, names: Sequence[str], *, closed: bool | None = None) -> None:
        """Let every counter count more resources, and drop unused ones if most are unused."""
        in_use = self._needed_names if self.lists_all_applications else None
        if self.active_limits.count_resources(names, closed=closed, in_use=in_use):
            self.tree.connect(self.active_limits.epoch.layout)

    def _needed_names(self) -> set[str]:
        """Return the resources that a limit, a node or an application names."""
        specs, tree = self.compiled.specs, self.tree
        needed = {*self.active_limits.limits.names, *specs.names, *tree.names_outside(specs), *(tree.cluster or ())}
        for application in self.applications.values():
            if application.holding is not None:
                needed.update(application.holding.held())
        return needed

    def count_unoffered(self, usage: Resource) -> None:
        """Count the resources of an adopted allocation although no node offers them, so that the root shows them."""
        if self.active_limits.epoch.layout.closed:
            self.count_resources(tuple(usage))

    def set_queue_quota(self, queue: Queue, quota: Resource) -> None:
        """Set the maximum of a queue that the configuration does not name."""
        self.count_resources(tuple(quota))
        self.undo.append((queue.restore_quota, (queue.quota_override,)))
        self.tree.override_quota(queue, quota)
        if self.record:
            self.record(QueueQuotaSet(queue.queue_path, quota))
        # Running applications there are charged to a new counter, or to one that was made for other resources.
        for below in queue.below():
            for application_id in below.applications:
                holding = self.applications[application_id].holding
                if holding is not None:
                    holding.invalidate()

    # The life of an application

    def add_application(self, application: Application) -> None:
        """Add an application to the queue in which it was placed."""
        submission, queue = application.submission, application.queue
        self.undo.append((self._restore_application, (submission.application_id, None)))
        self._submitted = application.number = self._submitted + 1
        self.applications[submission.application_id] = application
        queue.applications[submission.application_id] = application
        if self.record:
            self.record(
                ApplicationSubmitted(
                    application_id=submission.application_id,
                    user=submission.user,
                    queue_path=queue.queue_path,
                    requested_queue=submission.queue,
                    tags=dict(submission.tags),
                    gang_style=application.gang_style,
                    is_adopted=application.is_adopted,
                    group=application.group,
                )
            )

    def holding_of(self, application: Application) -> Holding:
        """Return the holding of a running application, refreshed, or a detached holding that may start it."""
        holding = application.holding
        if holding is not None:
            holding.refresh()
            return holding
        user = application.submission.user
        path, application_id = application.queue.queue_path, application.application_id
        if application.has_chosen_group:
            holding = self.holding_index.detached_in_group(path, application_id, user, application.group)
        else:
            holding = self.holding_index.detached(path, application_id, user)
        holding.queue = application.queue
        return holding

    def admit(self, application: Application, vector: RequestVector) -> tuple[Violation, ...]:
        """Charge *vector* to an application and start it if need be, or return every limit that it would exceed."""
        holding = self.holding_of(application)
        if application.holding is not None:
            return () if holding.try_charge(vector) else holding.violations_or_charge(vector)
        violations = holding.start(vector)
        if not violations:
            self.start(application, holding)
        return violations

    def charge(self, entry: LedgerEntry, vector: RequestVector) -> None:
        """Charge an entry without a check, and start its application if need be."""
        application = entry.application
        holding = self.holding_of(application)
        holding.charge(vector)
        if application.holding is None:
            self.start(application, holding)

    def refund(self, entry: LedgerEntry) -> None:
        """Refund an entry; its application continues to run, even without any other allocation."""
        holding, vector = (
            self.holding_of(entry.application),
            require_vector("usage", entry.usage, self.active_limits.epoch.layout),
        )
        if not holding.try_refund(vector):
            holding.require_held(vector)

    def start(self, application: Application, holding: Holding) -> None:
        """Let an application run with a holding that was detached."""
        self.undo.append((application.undo_start, (application.holding, application.group, application.has_run)))
        self.holding_index.add(holding)
        is_first = not application.has_run
        application.start(holding)
        if is_first:
            self.record_group(application)

    def record_group(self, application: Application) -> None:
        """Record the group that an application has chosen."""
        if self.record:
            application_id, user = application.application_id, application.submission.user.name
            self.record(GroupAssigned(application_id, user, application.group))

    def set_failing(self, application: Application) -> None:
        """Let an application fail: it receives no more allocations."""
        self.undo.append((application.restore_fields, application.mutable_fields()))
        if not application.failing and self.record:
            self.record(ApplicationFailing(application.application_id))
        application.failing, application.allows_fast_path = True, False

    def mark_replaced(self, application: Application) -> None:
        """Note that a real allocation has replaced a placeholder of an application."""
        self.undo.append((application.restore_fields, application.mutable_fields()))
        application.has_replaced = True

    def finish_if_idle(self, application: Application) -> None:
        """Stop an application without allocations and pending allocations, and remove it if it has failed."""
        if application.allocations or (application.pending and not application.failing):
            return
        holding = application.holding
        if holding is not None:
            self.undo.append((application.undo_start, (holding, application.group, application.has_run)))
            holding.refresh()
            self.holding_index.end(holding)
            application.holding = None
        if application.failing:
            self.remove_application(application, ApplicationState.FAILED)

    def remove_application(self, application: Application, state: ApplicationState) -> None:
        """Remove an idle application, and the queue that was created for it."""
        self.undo.append((self._restore_application, (application.application_id, application)))
        self.undo.append((application.restore_fields, application.mutable_fields()))
        # Another thread may have looked it up and wait for the lock.
        application.allows_fast_path = False
        del self.applications[application.application_id]
        del application.queue.applications[application.application_id]
        self.tree.prune(application.queue)
        if self.record:
            self.record(ApplicationEnded(application.application_id, state))

    def _restore_application(self, application_id: str, application: Application | None) -> None:
        dropped = None if application else self.applications.get(application_id)
        if dropped is not None:
            # Another thread may have looked it up and wait for the lock.
            dropped.allows_fast_path = False
        put(self.applications, application_id, application)

    # Entries of the ledger

    def write_allocated(self, allocation_id: str, entry: LedgerEntry, replaces: str = "") -> None:
        """Write an entry that has been charged, which may have been pending."""
        self.ledger.write(allocation_id, entry)
        if self.record:
            self.record(Allocated(entry.to_allocation(allocation_id), replaces))

    def write_resized(self, allocation_id: str, entry: LedgerEntry, before: Resource) -> None:
        """Write an entry whose usage has changed."""
        self.ledger.write(allocation_id, entry)
        if self.record:
            self.record(Resized(entry.to_allocation(allocation_id), before))

    def write_pending(self, allocation_id: str, entry: LedgerEntry) -> None:
        """Write a pending entry."""
        self.ledger.write(allocation_id, entry)
        if self.record:
            self.record(AllocationRequested(entry.to_allocation(allocation_id)))

    def mark_terminating(self, allocation_id: str, entry: LedgerEntry) -> None:
        """Mark an entry as terminating."""
        if entry.traits.state is not AllocationState.TERMINATING:
            entry = entry.in_state(AllocationState.TERMINATING)
            self.ledger.write(allocation_id, entry)
            if self.record:
                self.record(Preempted(entry.to_allocation(allocation_id)))

    def remove_released(self, allocation_id: str, entry: LedgerEntry) -> None:
        """Remove an entry that has been refunded."""
        self.ledger.remove(allocation_id)
        if self.record:
            self.record(Released(entry.to_allocation(allocation_id)))

    def remove_pending(self, allocation_id: str, entry: LedgerEntry) -> None:
        """Remove a pending entry."""
        self.ledger.remove(allocation_id)
        if self.record:
            self.record(RequestWithdrawn(entry.to_allocation(allocation_id)))

    # After an interruption

    def rebuild(self) -> None:
        """Recompute everything that follows from the ledger, the applications, the configuration and the nodes."""
        self.ledger.repair(self.applications.values())
        if self._running is None:
            # Once: a rebuild that is interrupted has lost which applications run without allocations.
            self._running = [application for application in self.applications.values() if application.is_running]
        self.holding_index.clear()
        for application in self.applications.values():
            application.holding = None
        self.tree.rebuild_links(self.applications)
        names = (*self.compiled.specs.names, *self.tree.names_outside(self.compiled.specs), *self._names_in_use())
        closed = self.cluster.total is not None
        self.active_limits.reset_limits(self.compiled.limits, names, closed=closed)
        self.tree.rebuild(self.compiled.specs, self.active_limits.epoch.layout, self.cluster.total)
        for application in self._running:
            self._restart(application)
        self._running = None

    def _names_in_use(self) -> Iterator[str]:
        """Yield the resources of nodes and allocations, which are counted only if the cluster is closed."""
        if self.cluster.total is not None:
            yield from self.cluster.total
            for application in self.applications.values():
                for entry in application.entries().values():
                    yield from entry.usage

    def _restart(self, application: Application) -> None:
        """Let an application run with the sum of its allocations."""
        holding = self.holding_of(application)
        total = sum_of(entry.usage for entry in application.entries().values())
        holding.charge(self.active_limits.epoch.layout.vector(total))
        self.holding_index.add(holding)
        application.start(holding)

    # Exceeded limits

    def exceeded_limits(self) -> Iterator[Violation]:
        """Yield every limit of users, groups and queues that is exceeded, each by name, leaf to root."""
        for tracker in self.holding_index.trees():
            for counter in tracker.sorted_counters():
                yield from already_exceeded(counter)
        counters = [queue.counter for queue in self.tree.queues.values() if queue.counter is not None]
        for counter in leaf_to_root(counters):
            yield from already_exceeded(counter)
