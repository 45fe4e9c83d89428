"""The state of a partition: applications, allocations, limits, queues and nodes.

The ledger is the only source of truth: every counter follows from it. This module contains the rules that keep both in
agreement: which counters exist, and when an application starts, stops and is removed. It does not take the lock, does
not check arguments and calls no quota model except through `fair_shares`.

Methods that change more than counters append to the undo list how to undo the change. Most of them record the change as
an event, if events are recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, final

from ugm.arguments import require_vector
from ugm.counters import RequestVector, leaf_to_root
from ugm.decision import Violation, already_exceeded
from ugm.fairness import FairShares
from ugm.identity import canonical_path
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
    ReductionTimersStarted,
    Released,
    Renewed,
    RequestPlaced,
    RequestWithdrawn,
    ReservationChanged,
    Resized,
)
from ugm.partition.ledger import AllocationLedger, put
from ugm.partition.pending_usage import PendingUsage
from ugm.queues import Placement, Submission
from ugm.queues.cluster import Cluster
from ugm.queues.queue import Queue
from ugm.queues.specs import QueueSpecs
from ugm.queues.tree import QueueTree, Structure
from ugm.resources import Resource, sum_of
from ugm.tracking.holding import Holding
from ugm.tracking.holding_index import HoldingIndex
from ugm.tracking.limit_epochs import ActiveLimits

__all__ = ["PartitionState"]

#: The size up to which the list of terminating allocations is not cleaned.
_LEAST_TERMINATING: Final = 64


def _no_shares() -> None:
    return None


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
        "_most_terminating",
        "_running",
        "_submitted",
        "active_limits",
        "added_models",
        "applications",
        "closed",
        "cluster",
        "compiled",
        "config_changed",
        "fair_shares",
        "holding_index",
        "ledger",
        "lists_all_applications",
        "placed",
        "record",
        "reduction_timers",
        "reservations",
        "reserves",
        "terminating",
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
    #: Returns the shares of users that order requests, if a quota model has them.
    fair_shares: Callable[[], FairShares | None]
    #: The pending entries for which a plan of preemption has made room, by allocation id. An entry that is no longer
    #: pending has no effect.
    placed: dict[str, LedgerEntry]
    #: The time since which each queue has been above its maximum, by path; see `ugm.partition.reduction_timers`. Never
    #: changed in place.
    reduction_timers: dict[str, int]
    #: The allocations that were marked as terminating. One that has been released since has no effect.
    terminating: set[str]
    #: Called after the configuration or its limits have changed, under the lock; None for a state without a partition.
    config_changed: Callable[[], None] | None
    #: Whether the partition is closed and accepts no more requests.
    closed: bool
    #: The pending request that reserves capacity for a queue, by the path of the queue; the earliest reservation first.
    #: An entry whose request is no longer pending has no effect.
    reservations: dict[str, str]
    #: Whether some queue of the configuration reserves capacity.
    reserves: bool
    #: Records events; None if nothing needs them.
    record: Callable[[Event], None] | None
    lists_all_applications: bool
    #: The size of `terminating` at which it is cleaned.
    _most_terminating: int
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
        self.fair_shares = _no_shares
        self.record = record
        self.lists_all_applications = lists_all_applications
        self.active_limits: Final = ActiveLimits(user_limits_win=user_limits_win, managed=True, lock=lock)
        self.active_limits.replace_limits(compiled.limits, compiled.specs.names)
        self.holding_index: Final = HoldingIndex(self.active_limits)
        self.cluster: Final = Cluster()
        self.tree: Final = QueueTree(compiled.specs, self.active_limits.epoch.layout)
        self.applications = {}
        self.ledger = AllocationLedger(self.undo)
        self.placed = {}
        self.reduction_timers = {}
        self.terminating = set()
        self.closed = False
        self.reservations = {}
        self.reserves = False
        self.config_changed = None
        self._running = None
        self.count_pending()
        self._most_terminating = _LEAST_TERMINATING
        #: The number of the last application that was submitted.
        self._submitted = 0
        lock.rebuild = self.rebuild
        lock.mark_consistent()

    # Configuration, queues and nodes

    def replace_config(self, compiled: CompiledConfig, author: str = "") -> None:
        """Put another configuration in force, on behalf of an author.

        The time depends on the number of queues. It also depends on the number of applications if new resources have to
        be counted.
        """
        if self.record:
            self.record(ConfigurationChanged(self.compiled, compiled, author))
        # A queue that the new configuration leaves out has no schedule any more.
        self._use_config(compiled, self.compiled.unscheduled_specs())

    def follow_schedule(self, now: int) -> bool:
        """Put the limits of the schedule in force, and return whether they have changed.

        The limits follow from the time alone. So this records no event, and an operation that fails later does not undo
        it.
        """
        before, after = self.compiled, self.compiled.at(now)
        if after.active == before.active:
            self.compiled = after
            return False
        self._use_config(after, None)
        self.undo.clear()
        return True

    def _use_config(self, compiled: CompiledConfig, left_out: QueueSpecs | None) -> None:
        tree = self.tree
        self.undo.append((self._restore_config, (self.compiled, tree.structure())))
        self.compiled = compiled
        names = (*compiled.specs.names, *tree.names_outside(compiled.specs, left_out))
        if tree.cluster is not None:
            # Applications may use counted resources that no node has and no limit names now.
            layout = self.active_limits.epoch.layout
            kept = self.active_limits.names_to_keep(self._needed_names) if self.lists_all_applications else layout.names
            names = (*names, *tree.cluster, *kept)
        self.active_limits.replace_limits(compiled.limits, names, closed=tree.cluster is not None)
        tree.reshape(compiled.specs, self.active_limits.epoch.layout, left_out)
        self.count_pending()
        if self.config_changed is not None:
            self.config_changed()

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

    def _set_closed(self, closed: bool) -> None:  # noqa: FBT001 - an undo step
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

    # Placement

    def place(self, submission: Submission) -> Placement:
        """Return where an application would be placed: by the rules, and by the limits on submitted applications."""
        placement = self.compiled.rules.place(submission, self.tree)
        counted = self.ledger.pending_usage
        if counted is None or placement.queue_path is None:
            return placement
        violations = counted.of_submission(canonical_path(placement.queue_path), submission.user)
        return Placement(None, placement.trials, False, violations) if violations else placement  # noqa: FBT003 - a tuple

    # Preemption

    def start_reduction_timers(self, queue_paths: tuple[str, ...], since: int) -> None:
        """Note that queues are above their maximum from now on."""
        before, queues = self.reduction_timers, self.tree.queues
        self.undo.append((self._set_reduction_timers, (before,)))
        kept = {path: start for path, start in before.items() if path in queues}
        self.reduction_timers = kept | dict.fromkeys(queue_paths, since)
        if self.record:
            self.record(ReductionTimersStarted(queue_paths, since))

    def _set_reduction_timers(self, timers: dict[str, int]) -> None:
        self.reduction_timers = timers

    def terminating_entries(self) -> dict[str, LedgerEntry]:
        """Return the terminating allocations, sorted by id."""
        found = ((name, self.ledger.get(name)) for name in sorted(self.terminating))
        return {name: entry for name, entry in found if entry and entry.traits.state is AllocationState.TERMINATING}

    def add_terminating(self, allocation_id: str) -> None:
        """List an allocation that is about to be marked as terminating, and forget those that have been released."""
        if len(self.terminating) >= self._most_terminating:
            self.terminating = set(self.terminating_entries())
            self._most_terminating = max(_LEAST_TERMINATING, 2 * len(self.terminating))
        self.terminating.add(allocation_id)

    def placed_entries(self) -> dict[str, LedgerEntry]:
        """Return the pending entries for which a plan has made room."""
        return {name: entry for name, entry in self.placed.items() if entry.application.pending.get(name) is entry}

    def mark_placed(self, allocation_id: str, entry: LedgerEntry, node: str | None) -> None:
        """Note that a plan has made room for a pending entry, on a node if one is named."""
        placed = self.placed_entries()
        if allocation_id in placed and node in {None, entry.traits.node}:
            return
        if node is not None:
            entry = entry.on_node(node)
            self.ledger.write(allocation_id, entry)
        self.undo.append((self._set_placed, (self.placed,)))
        self.placed = placed | {allocation_id: entry}
        if self.record:
            self.record(RequestPlaced(entry.to_allocation(allocation_id)))

    def _set_placed(self, placed: dict[str, LedgerEntry]) -> None:
        self.placed = placed

    # The life of an application

    def add_application(self, application: Application) -> None:
        """Add an application to the queue in which it was placed."""
        submission, queue = application.submission, application.queue
        self.undo.append((self._restore_application, (submission.application_id, None)))
        self._submitted = application.number = self._submitted + 1
        self.applications[submission.application_id] = application
        queue.applications[submission.application_id] = application
        if self.ledger.pending_usage is not None:
            self.ledger.pending_usage.add_application(application)
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
        violations = holding.admit(vector)
        if not violations and application.holding is None:
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
        holding = self.holding_of(entry.application)
        vector = require_vector("usage", entry.usage, self.active_limits.epoch.layout)
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
        """Stop an application without granted or pending allocations, and remove it if it has failed."""
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
        """Remove an idle application, and the empty queues that it leaves and that the configuration does not name."""
        self.undo.append((self._restore_application, (application.application_id, application)))
        self.undo.append((application.restore_fields, application.mutable_fields()))
        # Another thread may have looked it up and wait for the lock.
        application.allows_fast_path = False
        del self.applications[application.application_id]
        del application.queue.applications[application.application_id]
        if self.ledger.pending_usage is not None:
            self.ledger.pending_usage.remove_application(application)
        self.tree.prune(application.queue)
        if self.record:
            self.record(ApplicationEnded(application.application_id, state))

    def _restore_application(self, application_id: str, application: Application | None) -> None:
        dropped = None if application else self.applications.get(application_id)
        if dropped is not None:
            # Another thread may have looked it up and wait for the lock.
            dropped.allows_fast_path = False
        self._count_restored(application, dropped)
        put(self.applications, application_id, application)

    def _count_restored(self, application: Application | None, dropped: Application | None) -> None:
        counted = self.ledger.pending_usage
        if counted is not None and application is not None and application.application_id not in self.applications:
            counted.add_application(application)
        if counted is not None and dropped is not None:
            counted.remove_application(dropped)

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

    def write_renewed(self, allocation_id: str, entry: LedgerEntry, before: int | None) -> None:
        """Write an entry whose promised end has changed."""
        self.ledger.write(allocation_id, entry)
        if self.record:
            self.record(Renewed(entry.to_allocation(allocation_id), before))

    def write_pending(self, allocation_id: str, entry: LedgerEntry) -> None:
        """Write a pending entry."""
        if self.reservations:
            self._forget_reservations(allocation_id)
        self.ledger.write(allocation_id, entry)
        if self.record:
            self.record(AllocationRequested(entry.to_allocation(allocation_id)))

    def mark_terminating(self, allocation_id: str, entry: LedgerEntry) -> None:
        """Mark an entry as terminating."""
        if entry.traits.state is not AllocationState.TERMINATING:
            entry = entry.in_state(AllocationState.TERMINATING)
            self.add_terminating(allocation_id)
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

    # Reservations

    def current_reservations(self) -> dict[str, str]:
        """Return the pending request that reserves capacity for a queue, by the path of the queue."""
        owners = self.ledger.owners
        return {
            path: name
            for path, name in self.reservations.items()
            if (owner := owners.get(name)) is not None and name in owner.pending
        }

    def set_reservation(self, queue_path: str, allocation_id: str | None) -> None:
        """Let a pending request reserve capacity for a queue in place of the one before; None for no request."""
        before = self.current_reservations().get(queue_path)
        self.undo.append((self._restore_reservations, (dict(self.reservations),)))
        self.reservations.pop(queue_path, None)
        if allocation_id is not None:
            self.reservations[queue_path] = allocation_id
        if self.record:
            self.record(ReservationChanged(queue_path, before, allocation_id))

    def _forget_reservations(self, allocation_id: str) -> None:
        """Forget the reservations of an earlier request with the id of a new one."""
        paths = [path for path, name in self.reservations.items() if name == allocation_id]
        if paths:
            self.undo.append((self._restore_reservations, (dict(self.reservations),)))
        for path in paths:
            del self.reservations[path]

    def _restore_reservations(self, reservations: dict[str, str]) -> None:
        self.reservations.clear()
        self.reservations.update(reservations)

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
        self.count_pending()

    def count_pending(self) -> None:
        """Recount the pending work if the configuration limits it."""
        self.ledger.pending_usage = self._counted_pending()

    def _counted_pending(self) -> PendingUsage | None:
        limits, select = self.compiled.pending, self.active_limits.limits.groups.select_group
        return None if limits is None else PendingUsage(limits, select, self.applications.values())

    def pending_findings(self) -> tuple[str, ...]:
        """Return the differences between the counted pending work and a new count."""
        pending = self.ledger.pending_usage, self._counted_pending()
        counted, expected = ({} if one is None else one.state() for one in pending)
        return tuple(
            f"pending work of {key.kind} {key.name!r} in {key.queue_path}: {counted.get(key)}, not {expected.get(key)}"
            for key in sorted({**counted, **expected})
            if counted.get(key) != expected.get(key)
        )

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
        if self.ledger.pending_usage is not None:
            yield from self.ledger.pending_usage.exceeded()
