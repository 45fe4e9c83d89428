"""The state of a partition: its rows, and everything that follows from them.

The rows are the only source of truth: every counter, index and order follows from them. `Ledger` has the rows. This
module has the rules that keep both in agreement: which queues and counters exist, and when an application starts, stops
and is removed. It does not take the lock, does not check arguments and calls no quota model except through
`fair_shares`.

`ReductionTimers` says since when the usage of each queue has been above its maximum. A timer runs exactly while usage
is above the maximum, but grants and releases must not pay for that. A grant or a release never brings usage above a
maximum, and neither does a cluster that shrinks, because a reduction does not enforce its size. Only a configuration, a
quota, and an allocation that is adopted or corrected can. So these changes alone compare the queues before and after,
and record the timers that they start. A timer has stopped if its queue is within the maximum. Its entry is ignored
then, and the next start replaces it.

Each queue that takes part and is above its maximum has an entry with the time of the change that caused it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, final

from ugm.arguments import require_vector
from ugm.counters import RequestVector, leaf_to_root
from ugm.decision import Violation, already_exceeded
from ugm.engine_lock import EngineLock
from ugm.model import RankingModel
from ugm.partition.config.compiled import CompiledConfig
from ugm.partition.engine.application import Application, ApplicationState, PendingUsage
from ugm.partition.engine.ledger import Ledger
from ugm.partition.engine.transaction import PartitionClock
from ugm.partition.rows import (
    Allocation,
    ApplicationRow,
    Change,
    ConfigurationRow,
    GangStyle,
    NodeRow,
    QueueRow,
    Tables,
)
from ugm.queues import Placement, Submission
from ugm.queues.tree import Cluster, Queue, QueueSpecs, QueueTree
from ugm.resources import Resource, sum_of
from ugm.tracking.holding import Holding
from ugm.tracking.holding_index import HoldingIndex
from ugm.tracking.limits import ActiveLimits

if TYPE_CHECKING:
    from ugm.preemption import ReductionTimer
    from ugm.preemption.settings import PreemptionSettings  # few programs need it


@final
class PartitionState(Ledger):
    """The state of a partition.

    Invariants: an application has a holding exactly while its row says that it is running. A queue lists exactly the
    applications that were placed in it and not removed.

    Args:
        compiled: the configuration in force.
        user_limits_win: whether a user with a limit of its own is exempt from group limits.
        lock: the lock of the partition, which owns the changes of the operation; None for a state without a partition.
    """

    def __init__(self, compiled: CompiledConfig, *, user_limits_win: bool, lock: EngineLock | None = None) -> None:
        super().__init__(compiled, lock or EngineLock())
        self.compiled: CompiledConfig = compiled
        #: The compiled configuration of which `compiled` has the limits of some time.
        self._base: CompiledConfig = compiled
        self._preemption: tuple[CompiledConfig, PreemptionSettings] | None = None
        #: Returns the shares of users that order requests, if a quota model has them.
        self.fair_shares: Callable[[], RankingModel | None] = lambda: None
        #: Whether some queue of the configuration reserves capacity.
        self.reserves: bool = False
        #: Called after the configuration or its limits have changed, under the lock; None without a partition.
        self.config_changed: Callable[[], None] | None = None
        self.active_limits: ActiveLimits = ActiveLimits(user_limits_win=user_limits_win, managed=True, lock=self.lock)
        self.active_limits.replace_limits(compiled.limits, compiled.specs.names)
        self.holding_index: HoldingIndex = HoldingIndex(self.active_limits)
        self.cluster: Cluster = Cluster()
        self.tree: QueueTree = QueueTree(compiled.specs, self.active_limits.epoch.layout)
        self.count_pending()
        self.lock.rebuild, self.lock.revert = self.rebuild, self.revert_all
        self.lock.mark_consistent()

    def revert(self, mark: int) -> None:
        """Put back what the current operation has changed since the list of changes had *mark* items.

        Counters that were charged must have been refunded. The operation continues.
        """
        changes = self.lock.changes
        while len(changes) > mark:
            change = changes[-1]
            if isinstance(change, Change):
                self._put_back(change)
                changes.pop()
            else:
                change.take_back()

    def _put_back(self, change: Change) -> None:
        table, key, old, new, _ = change
        if table not in self.tables.by_name:
            return
        self.set_row(table, key, new, old)
        if table == "queue" and new is not None and (old is None or old.quota != new.quota):
            queue = self.tree.queues[key]
            if old is None:
                self.tree.prune(queue)
            else:
                self._connect_quota(queue, old.quota)
        elif table != "application" or new is None:
            # An operation that goes on after such a change needs a rebuild before the next one.
            self.lock.unsettled = True

    def made_from(self, compiled: CompiledConfig, tables: Tables, counted: Iterable[str]) -> PartitionState:
        """Return a state with other rows; the caller need not hold the lock.

        Args:
            compiled: the configuration of the rows, with the limits of their time.
            tables: the rows.
            counted: resources that are counted, whether a limit names them or not.
        """
        made = PartitionState(compiled, user_limits_win=self.active_limits.user_limits_win)
        made.load({name: rows for name, rows in tables.by_name.items() if name != "configuration"})
        made.rebuild(counted)
        return made

    # The life of an application

    def add_application(
        self,
        submission: Submission,
        queue: Queue,
        gang_style: GangStyle,
        *,
        is_adopted: bool = False,
        group: str | None = "",
    ) -> Application:
        """Add an application to the queue in which it was placed."""
        name, user, requested, tags = submission
        path, number = queue.queue_path, self.submitted + 1
        self.put(
            "application",
            name,
            ApplicationRow(name, user, path, requested, tags, gang_style, is_adopted, number, group),
        )
        return self.applications[name]

    def holding_of(self, application: Application) -> Holding:
        """Return the holding of a running application, refreshed, or a detached holding that may start it."""
        holding = application.holding
        if holding is not None:
            holding.refresh()
            return holding
        row = application.row
        if application.has_chosen_group:
            holding = self.holding_index.detached_in_group(row.queue_path, row.application_id, row.user, row.group)
        else:
            holding = self.holding_index.detached(row.queue_path, row.application_id, row.user)
        holding.queue = application.queue
        return holding

    def charge(self, row: Allocation) -> None:
        """Charge an allocation without a check, and start its application if need be."""
        application = self.owner(row)
        holding = self.holding_of(application)
        holding.charge(self.vector(row.usage))
        if application.holding is None:
            self.start(application, holding)

    def refund(self, row: Allocation) -> None:
        """Refund an allocation; its application continues to run, even without any other allocation."""
        holding, vector = self.holding_of(self.owner(row)), self.vector(row.usage)
        if not holding.try_refund(vector):
            holding.require_held(vector)

    def violations(
        self, application: Application, usage: Resource, leaving: Sequence[Allocation] = ()
    ) -> tuple[Violation, ...]:
        """Return every limit of users, groups, queues and the cluster that one more allocation would exceed.

        Args:
            application: the application, which need not be in the ledger.
            usage: the usage of the allocation.
            leaving: allocations that are released before.
        """
        for row in leaving:
            self.refund(row)
        holding = self.holding_of(application)
        is_running = application.holding is not None
        found = holding.violations(self.vector(usage)) if is_running else holding.violations_of_start(usage)
        for row in leaving:
            self.charge(row)
        return found

    def vector(self, usage: Resource) -> RequestVector:
        """Return the amounts of a usage in the layout of the counters."""
        return require_vector("usage", usage, self.active_limits.epoch.layout)

    def start(self, application: Application, holding: Holding) -> None:
        """Let an application run with a holding that was detached."""
        self.put("application", application.row.application_id, application.running_row(holding))
        application.holding = holding
        self.holding_index.add(holding)

    def restart(self, application: Application) -> None:
        """Let an application run with the sum of its allocations."""
        holding = self.holding_of(application)
        usage = _sum_of_rows(application.allocations.values())
        holding.charge(self.active_limits.epoch.layout.vector(usage))
        application.holding = holding
        self.holding_index.add(holding)

    def stop(self, application: Application) -> None:
        """End the run of an application whose allocations are refunded."""
        holding = self.holding_of(application)
        self.holding_index.end(holding)
        application.holding = None

    def finish_if_idle(self, application: Application) -> None:
        """Stop an application without granted or pending allocations, and remove it if it has failed."""
        if application.allocations or (application.pending and not application.row.failing):
            return
        if application.row.failing:
            self.remove_application(application, ApplicationState.FAILED)
        elif application.holding is not None:
            self.change_application(application, is_running=False)
            self.stop(application)

    def remove_application(self, application: Application, state: ApplicationState) -> None:
        """Remove an idle application, and the empty queues that it leaves and that the configuration does not name."""
        if application.holding is not None:
            self.stop(application)
        self.put("application", application.row.application_id, None, state.value)
        for path in self.tree.prune(application.queue):
            self.put("queue", path, None)

    # Preemption and reservations

    def preemption_settings(self, compiled: CompiledConfig) -> PreemptionSettings:
        """Return the settings of preemption of a configuration; those of the last one are kept."""
        from ugm.preemption.settings import PreemptionSettings  # noqa: PLC0415 - see above

        known = self._preemption
        if known is None or known[0] is not compiled:
            known = self._preemption = compiled, PreemptionSettings(compiled.config)
        return known[1]

    def start_reduction_timers(self, queue_paths: tuple[str, ...], since: int) -> None:
        """Note that queues are above their maximum from now on."""
        kept = {path: start for path, start in self.row.reduction_timers.items() if path in self.tree.queues}
        timers = MappingProxyType(kept | dict.fromkeys(queue_paths, since))
        self.put("partition", "", self.row._replace(reduction_timers=timers), "timers")

    def write_pending(self, row: Allocation) -> None:
        """Write a new pending allocation. A reservation of an earlier request with its id is none of it."""
        if row.allocation_id in self.row.reservations.values():
            left = {path: name for path, name in self.row.reservations.items() if name != row.allocation_id}
            self.change_partition(reservations=MappingProxyType(left))
        self.write(row)

    def current_reservations(self) -> dict[str, str]:
        """Return the pending request that reserves capacity for a queue, by the path of the queue."""
        return {path: name for path, name in self.row.reservations.items() if name in self.tables.requests}

    def set_reservation(self, queue_path: str, allocation_id: str | None) -> None:
        """Let a pending request reserve capacity for a queue in place of the one before; None for no request."""
        current = self.current_reservations()
        self.change_partition(reservations=MappingProxyType(dict(current)))
        current.pop(queue_path, None)
        if allocation_id is not None:
            current[queue_path] = allocation_id
        self.put("partition", "", self.row._replace(reservations=MappingProxyType(current)), queue_path)

    # Configuration and queues

    def replace_config(self, compiled: CompiledConfig, author: str = "") -> None:
        """Put another configuration in force, on behalf of an author.

        The time depends on the number of queues. It also depends on the number of applications if new resources have to
        be counted.
        """
        self.put("configuration", "", ConfigurationRow(compiled, author))
        # A queue that the new configuration leaves out has no schedule any more.
        left_out = self.compiled.unscheduled_specs()
        self._base = compiled
        self._use_config(compiled, left_out)
        unnamed = {path: _queue_row(queue) for path, queue in self.tree.queues.items() if not queue.managed}
        rows = self.tables.queues
        for path in [path for path in rows if path not in unnamed]:
            self.put("queue", path, None)
        for path, row in unnamed.items():
            if rows.get(path) != row:
                self.put("queue", path, row)

    def follow_schedule(self, now: int) -> bool:
        """Put the limits of the schedule in force, and return whether they have changed.

        The limits follow from the time alone, so no row changes.
        """
        before, after = self.compiled, self.compiled.at(now)
        if after.active == before.active:
            self.compiled = after
            return False
        self._use_config(after, None)
        return True

    def _use_config(self, compiled: CompiledConfig, left_out: QueueSpecs | None) -> None:
        tree = self.tree
        self.compiled = compiled
        names = (*compiled.specs.names, *tree.names_outside(compiled.specs, left_out))
        if tree.cluster is not None:
            # Applications may use counted resources that no node has and no limit names now.
            names = (*names, *tree.cluster, *self.active_limits.names_to_keep(self._needed_names))
        self.active_limits.replace_limits(compiled.limits, names, closed=tree.cluster is not None)
        tree.reshape(compiled.specs, self.active_limits.epoch.layout, left_out)
        self.count_pending()
        if self.config_changed is not None:
            self.config_changed()

    def create_queue(self, queue_path: str) -> Queue:
        """Return a queue, which is created with the missing ones above it if it does not exist."""
        queue = self.tree.queues.get(queue_path)
        if queue is None:
            before = self.tree.nearest(queue_path)
            queue = self.tree.create(queue_path)
            created = [one for one in queue.lineage() if one.queue_path.startswith(f"{before.queue_path}.")]
            for one in reversed(created):
                self.put("queue", one.queue_path, _queue_row(one))
        return queue

    def set_queue_quota(self, queue: Queue, quota: Resource) -> None:
        """Set the maximum of a queue that the configuration does not name."""
        self.count_resources(tuple(quota))
        self.put("queue", queue.queue_path, _queue_row(queue)._replace(quota=quota))
        self._connect_quota(queue, quota)

    def _connect_quota(self, queue: Queue, quota: Resource | None) -> None:
        self.tree.override_quota(queue, quota)
        # Running applications there are charged to a new counter, or to one that was made for other resources.
        for below in queue.below():
            for application_id in below.applications:
                holding = self.applications[application_id].holding
                if holding is not None:
                    holding.invalidate()

    def place(self, submission: Submission) -> Placement:
        """Return where an application would be placed: by the rules, and by the limits on submitted applications."""
        placement = self.compiled.rules.place(submission, self.tree)
        counted = self.pending_usage
        if counted is None or placement.queue_path is None:
            return placement
        violations = counted.of_submission(placement.queue_path, submission.user)
        return Placement(None, placement.trials, False, violations) if violations else placement  # noqa: FBT003 - a tuple

    def count_pending(self) -> None:
        """Recount the pending work if the configuration limits it."""
        limits, select = self.compiled.pending, self.active_limits.limits.groups.select_group
        usage = None if limits is None else PendingUsage(limits, select, self.applications.values())
        self.pending_usage: PendingUsage | None = usage

    # Nodes and counted resources

    def write_node(self, name: str) -> None:
        """Write the row of a node that has been added, changed or removed, and adjust the maximum of the root."""
        offers, before = self.cluster.nodes.get(name), self.tables.nodes.get(name)
        self.change_partition(cluster=self.cluster.total)
        self.resize_cluster()
        row = None if offers is None else NodeRow(name, offers)
        if row != before:
            self.put("node", name, row)

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
        if self.active_limits.count_resources(names, closed=closed, in_use=self._needed_names):
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

    # After an interruption

    def rebuild(self, counted: Iterable[str] = ()) -> None:
        """Make everything again that follows from the rows and the time, and count some resources in any case."""
        tables, row = self.tables, self.tables.configuration[""]
        if row.compiled is not self._base:
            self.compiled = self._base = row.compiled
        self.holding_index.clear()
        self.cluster.nodes = {name: node.offers for name, node in tables.nodes.items()}
        self.cluster.total = self.row.cluster
        self.tree.load(self.compiled.specs, tables.queues.values())
        self.list_everything()
        names = (*counted, *self.compiled.specs.names, *self.tree.names_outside(self.compiled.specs))
        if self.cluster.total is not None:
            names += (*self.cluster.total, *(name for one in self.allocations.values() for name in one.usage))
        self.active_limits.replace_limits(self.compiled.limits, names, closed=self.cluster.total is not None)
        self.tree.cluster = self.cluster.total
        self.tree.connect(self.active_limits.epoch.layout)
        for application in self.applications.values():
            if application.row.is_running:
                self.restart(application)
        self.count_pending()
        self.mark_everything()

    # Exceeded limits

    def exceeded_limits(self) -> Iterator[Violation]:
        """Yield every limit of users, groups and queues that is exceeded, each by name, leaf to root."""
        for tracker in self.holding_index.trees():
            for counter in tracker.sorted_counters():
                yield from already_exceeded(counter)
        counters = [queue.counter for queue in self.tree.queues.values() if queue.counter is not None]
        for counter in leaf_to_root(counters):
            yield from already_exceeded(counter)
        if self.pending_usage is not None:
            yield from self.pending_usage.exceeded()


def _sum_of_rows(rows: Collection[Allocation]) -> Resource:
    """Return the sum of the usages; nearly all of them are a few objects, which are counted first."""
    counts = Counter(id(row.usage) for row in rows)
    by_id = {id(row.usage): row.usage for row in rows}
    return sum_of(by_id[each] * number for each, number in counts.items())


def _queue_row(queue: Queue) -> QueueRow:
    return QueueRow(queue.spec, queue.was_configured, queue.quota_override)


def exceeded_queues(state: PartitionState, queues: Iterable[Queue] | None = None) -> dict[str, int]:
    """Return the queues above their maximum that take part in reductions, with their delays.

    Args:
        state: the state.
        queues: the queues to look at; None for all.
    """
    config = state.compiled.config
    if config is None or config.preemption.quota_preemption_enabled is not True:
        return {}
    reduction_delay = state.preemption_settings(state.compiled).reduction_delay
    listed = state.tree.queues.values() if queues is None else queues
    exceeded = [queue.queue_path for queue in listed if _is_above_maximum(queue)]
    return {path: delay for path in exceeded if (delay := reduction_delay(path))}


def _is_above_maximum(queue: Queue) -> bool:
    counter = queue.counter
    if counter is None or queue.parent is None:
        # The maximum of the root is the size of the cluster.
        return False
    return any(counter.free(name) < 0 for name in counter.limit.resources)


@final
class ReductionTimers:
    """Starts and lists the timers of a partition. The caller holds the lock.

    Args:
        state: the state of the partition.
        clock: the clock of the partition.
    """

    def __init__(self, state: PartitionState, clock: PartitionClock) -> None:
        self._state: Final = state
        self._clock: Final = clock
        #: The queues that have been above their maximum since before a schedule changed the limits, so that their
        #: timers run on; None if the timers of all others have been started since.
        self.continuing: frozenset[str] | None = None

    def keep_running(self) -> None:
        """Note which queues are above their maximum, before a schedule changes the limits."""
        exceeded = frozenset(self.exceeded())
        self.continuing = exceeded if self.continuing is None else self.continuing & exceeded

    def set_continuing(self, queue_paths: frozenset[str]) -> None:
        """Restore `continuing`, because an operation is put back."""
        self.continuing = queue_paths

    def exceeded(self, queue: Queue | None = None) -> dict[str, int]:
        """Return the queues above their maximum that take part, with their delays; for `start`.

        Args:
            queue: the queue that a change concerns, with those above it; None for all queues.
        """
        return exceeded_queues(self._state, None if queue is None else queue.lineage())

    def start(self, before: Collection[str], queue: Queue | None = None) -> None:
        """Start the timers of the queues that a change has brought above their maximum.

        Args:
            before: the result of `exceeded` before the change.
            queue: as for `exceeded`.
        """
        started = tuple(sorted(path for path in self.exceeded(queue) if path not in before))
        if started:
            self._state.start_reduction_timers(started, self._clock.now(changes=True))

    def running(self) -> tuple[ReductionTimer, ...]:
        """Return the running timers, sorted by path."""
        from ugm.preemption import ReductionTimer  # noqa: PLC0415 - as above

        # A schedule may have lowered maxima since the last change; the next change starts these timers.
        timers, continuing, now = self._state.row.reduction_timers, self.continuing, self._clock.latest
        since = {path: start for path, start in timers.items() if continuing is None or path in continuing}
        exceeded = sorted(self.exceeded().items())
        return tuple(ReductionTimer(path, since.get(path, now), delay) for path, delay in exceeded)
