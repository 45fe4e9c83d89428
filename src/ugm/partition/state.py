"""The books of a partition: who holds what, under which limits, in which queues.

Everything that a partition knows is here, and the rules that keep it together: which counters there are, and when an
application starts, stops and goes. Nothing here takes the lock, checks what a caller passes, or asks other quota
models; that is the business of `ugm.Partition`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, final

from ugm.arguments import require_vector
from ugm.decision import Violation, over
from ugm.hierarchy import RequestVector
from ugm.operation_lock import OperationLock
from ugm.partition.application import Application, ApplicationState
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
    NodeChanged,
    Preempted,
    QueueQuotaSet,
    Released,
    RequestWithdrawn,
    Resized,
)
from ugm.partition.ledger import AllocationLedger, put
from ugm.partition.ledger_entry import AllocationState, LedgerEntry
from ugm.queues import Cluster, Queue, QueueTree
from ugm.queues.tree import Structure
from ugm.resources import Resource, sum_of
from ugm.tracking.holding import Holding
from ugm.tracking.holding_index import HoldingIndex
from ugm.tracking.limits_in_force import LimitsInForce

__all__ = ["PartitionState"]


@final
class PartitionState:
    """The state of a partition.

    Invariants: every counter follows from `ledger`; an application has a holding exactly while it is running; a queue
    lists exactly the applications that were placed in it and have not gone.

    Each method that changes something other than a counter first lists in `undo` how to undo it.
    """

    __slots__ = (
        "_running",
        "applications",
        "closed",
        "cluster",
        "compiled",
        "holding_index",
        "in_force",
        "is_whole",
        "ledger",
        "tell",
        "tree",
        "undo",
    )

    compiled: CompiledConfig
    #: By application id.
    applications: dict[str, Application]
    #: By allocation id: held, going and pending.
    ledger: AllocationLedger
    #: Whether the partition is being removed, and takes nothing more.
    closed: bool
    #: Takes note of every change; None if nobody follows them.
    tell: Callable[[Event], None] | None
    #: Whether all applications are listed here, so that it is known which resources are in use.
    is_whole: bool
    #: The applications that were running when a rebuild began; None if it has been completed.
    _running: list[Application] | None

    def __init__(
        self,
        compiled: CompiledConfig,
        *,
        user_limits_win: bool,
        lock: OperationLock | None = None,
        tell: Callable[[Event], None] | None = None,
        is_whole: bool = True,
    ) -> None:
        lock = lock or OperationLock()
        #: The undo list of the current operation.
        self.undo: Final = lock.undo
        self.compiled = compiled
        self.tell = tell
        self.is_whole = is_whole
        self.in_force: Final = LimitsInForce(user_limits_win=user_limits_win, managed=True, lock=lock)
        self.in_force.replace_limits(compiled.limits, compiled.specs.names)
        self.holding_index: Final = HoldingIndex(self.in_force)
        self.cluster: Final = Cluster()
        self.tree: Final = QueueTree(compiled.specs, self.in_force.epoch.layout)
        self.applications = {}
        self.ledger = AllocationLedger(self.undo)
        self.closed = False
        self._running = None
        lock.rebuild = self.rebuild
        lock.settle()

    # What is counted

    def swap(self, compiled: CompiledConfig) -> None:
        """Put another configuration in force.

        Takes time in the number of queues, and in that of the applications where something has to be counted that was
        not counted before.
        """
        tree = self.tree
        self.undo.append((self._restore_configuration, (self.compiled, tree.structure())))
        if self.tell:
            self.tell(ConfigurationChanged(self.compiled, compiled))
        self.compiled = compiled
        names = (*compiled.specs.names, *tree.names_outside(compiled.specs))
        if tree.cluster is not None:
            # Somebody may use what is counted, though no node has it and no limit names it any more.
            layout = self.in_force.epoch.layout
            kept = self.in_force.names_to_keep(self._needed_names) if self.is_whole else layout.names
            names = (*names, *tree.cluster, *kept)
        self.in_force.replace_limits(compiled.limits, names, closed=tree.cluster is not None)
        tree.reshape(compiled.specs, self.in_force.epoch.layout)

    def _restore_configuration(self, compiled: CompiledConfig, structure: Structure) -> None:
        self.compiled = compiled
        self.tree.restore(structure)

    def set_closed(self) -> None:
        """Take nothing more."""
        self.undo.append((self._set_closed, (self.closed,)))
        self.closed = True

    def _set_closed(self, closed: bool) -> None:  # noqa: FBT001
        self.closed = closed

    def note_node(self, name: str) -> None:
        """Prepare for a change of a node."""
        self.undo.append((self.cluster.restore, (name, self.cluster.nodes.get(name), self.cluster.total)))

    def follow_node(self, name: str, before: Resource | None) -> None:
        """Let the root allow what all nodes add up to, after one of them has changed."""
        self.resize_cluster()
        after = self.cluster.nodes.get(name)
        if self.tell and before != after:
            self.tell(NodeChanged(name, before, after))

    def resize_cluster(self) -> None:
        """Let the root allow what the registered nodes add up to."""
        total = self.cluster.total
        if total is None:
            return
        was_open = self.tree.cluster is None
        names = (*total, *self.tree.root.usage()) if was_open else tuple(total)
        self.count(names, closed=True)
        self.tree.resize(total)

    def count(self, names: Sequence[str], *, closed: bool | None = None) -> None:
        """Make room in every counter for more resources, and drop unused ones if they are the larger part."""
        in_use = self._needed_names if self.is_whole else None
        if self.in_force.count_resources(names, closed=closed, in_use=in_use):
            self.tree.connect(self.in_force.epoch.layout)

    def _needed_names(self) -> set[str]:
        """Return the resources that a limit, a node or an application names."""
        specs, tree = self.compiled.specs, self.tree
        needed = {*self.in_force.limits.names, *specs.names, *tree.names_outside(specs), *(tree.cluster or ())}
        for application in self.applications.values():
            if application.holding is not None:
                needed.update(application.holding.held())
        return needed

    def count_adopted(self, usage: Resource) -> None:
        """Make room for resources that nobody has, but somebody uses: the counter of the root has to show them."""
        if self.in_force.epoch.layout.closed:
            self.count(tuple(usage))

    def annotate(self, queue: Queue, most: Resource) -> None:
        """Let a queue that the configuration does not name use *most*."""
        self.count(tuple(most))
        self.undo.append((queue.restore_quota, (queue.annotated,)))
        self.tree.annotate(queue, most)
        if self.tell:
            self.tell(QueueQuotaSet(queue.queue_path, most))
        # What runs there already is charged to a counter that is new, or was made for other resources.
        for below in queue.below():
            for application_id in below.applications:
                holding = self.applications[application_id].holding
                if holding is not None:
                    holding.invalidate()

    # The life of an application

    def open(self, application: Application) -> Holding:
        """Return what a running application holds, in line with the limits, or a detached holding that may start it."""
        holding = application.holding
        if holding is not None:
            holding.refresh()
            return holding
        user = application.submission.user
        path, application_id = application.queue.queue_path, application.application_id
        if application.is_placed_in_a_group:
            holding = self.holding_index.detached_in_group(path, application_id, user, application.group)
        else:
            holding = self.holding_index.detached(path, application_id, user)
        holding.quotas = application.queue
        return holding

    def admit(self, application: Application, vector: RequestVector) -> tuple[Violation, ...]:
        """Charge *vector* to an application and start it if need be, or return every limit that it would exceed."""
        holding = self.open(application)
        if application.holding is not None:
            return () if holding.try_charge(vector) else holding.violations_or_charge(vector)
        violations = holding.start(vector)
        if not violations:
            self.started(application, holding)
        return violations

    def charge(self, entry: LedgerEntry, vector: RequestVector) -> None:
        """Charge an entry without checking, starting its application if need be."""
        application = entry.application
        holding = self.open(application)
        holding.charge(vector)
        if application.holding is None:
            self.started(application, holding)

    def started(self, application: Application, holding: Holding) -> None:
        """Note that an application has started with a holding that was detached."""
        self.undo.append((application.undo_start, (application.holding, application.group, application.has_run)))
        self.holding_index.add(holding)
        is_first = not application.has_run
        application.started(holding)
        if is_first:
            self.tell_linked(application)

    def set_failing(self, application: Application) -> None:
        """Let an application fail: it gets nothing more."""
        self.undo.append((application.restore, application.facts()))
        if not application.failing and self.tell:
            self.tell(ApplicationFailing(application.application_id))
        application.failing, application.is_plain = True, False

    def set_replaced(self, application: Application) -> None:
        """Note that a real allocation has taken the place of a placeholder of an application."""
        self.undo.append((application.restore, application.facts()))
        application.has_replaced = True

    def tell_linked(self, application: Application) -> None:
        """Tell which group an application has chosen."""
        if self.tell:
            self.tell(GroupAssigned(application.application_id, application.submission.user.name, application.group))

    def enter(self, application: Application) -> None:
        """List an application in the queue where it was placed."""
        submission, queue = application.submission, application.queue
        self.undo.append((self._relist, (submission.application_id, None)))
        self.applications[submission.application_id] = application
        queue.applications[submission.application_id] = application
        if self.tell:
            application_id, user, asked, tags = submission
            placed, style, adopted = queue.queue_path, application.gang_style, application.is_adopted
            group = application.group
            self.tell(ApplicationSubmitted(application_id, user, placed, asked, dict(tags), style, adopted, group))

    def note(self, allocation_id: str, entry: LedgerEntry, replaces: str = "") -> None:
        """Write an entry that has been charged into the ledger; it may have been pending."""
        self.ledger.write(allocation_id, entry)
        if self.tell:
            self.tell(Allocated(entry.shown(allocation_id), replaces))

    def note_resized(self, allocation_id: str, entry: LedgerEntry, before: Resource) -> None:
        """Write an entry that takes something else into the ledger."""
        self.ledger.write(allocation_id, entry)
        if self.tell:
            self.tell(Resized(entry.shown(allocation_id), before))

    def note_going(self, allocation_id: str, entry: LedgerEntry) -> None:
        """Write an entry that has been told to go into the ledger."""
        if entry.traits.state is not AllocationState.TERMINATING:
            self.ledger.write(allocation_id, entry.in_state(AllocationState.TERMINATING))
            if self.tell:
                self.tell(Preempted(self.ledger[allocation_id].shown(allocation_id)))

    def note_pending(self, allocation_id: str, entry: LedgerEntry) -> None:
        """Write an entry that is not counted into the ledger."""
        self.ledger.write(allocation_id, entry)
        if self.tell:
            self.tell(AllocationRequested(entry.shown(allocation_id)))

    def strike_pending(self, allocation_id: str, entry: LedgerEntry) -> None:
        """Strike an entry that is not counted from the ledger."""
        self.ledger.strike(allocation_id)
        if self.tell:
            self.tell(RequestWithdrawn(entry.shown(allocation_id)))

    def refund(self, entry: LedgerEntry) -> None:
        """Give back what an entry was charged; its application runs on, even with nothing."""
        holding, vector = self.open(entry.application), require_vector("usage", entry.usage, self.in_force.epoch.layout)
        if not holding.try_refund(vector):
            holding.require_held(vector)

    def strike(self, allocation_id: str, entry: LedgerEntry) -> None:
        """Strike an entry that has been given back from the ledger."""
        self.ledger.strike(allocation_id)
        if self.tell:
            self.tell(Released(entry.shown(allocation_id)))

    def settle(self, application: Application) -> None:
        """Stop an application that holds nothing and has nothing pending, and forget it if it has failed."""
        if application.lines or (application.pending and not application.failing):
            return
        holding = application.holding
        if holding is not None:
            self.undo.append((application.undo_start, (holding, application.group, application.has_run)))
            holding.refresh()
            self.holding_index.end(holding)
            application.holding = None
        if application.failing:
            self.forget(application, ApplicationState.FAILED)

    def forget(self, application: Application, state: ApplicationState) -> None:
        """Forget an application that holds nothing and asks for nothing, and the queue that was made for it."""
        self.undo.append((self._relist, (application.application_id, application)))
        self.undo.append((application.restore, application.facts()))
        # Another thread may have found it and wait for the lock.
        application.is_plain = False
        del self.applications[application.application_id]
        del application.queue.applications[application.application_id]
        self.tree.prune(application.queue)
        if self.tell:
            self.tell(ApplicationEnded(application.application_id, state))

    def _relist(self, application_id: str, application: Application | None) -> None:
        dropped = None if application else self.applications.get(application_id)
        if dropped is not None:
            # Another thread may have found it and wait for the lock.
            dropped.is_plain = False
        put(self.applications, application_id, application)

    # After an interruption

    def rebuild(self) -> None:
        """Recompute everything that follows from the applications, their allocations, the configuration and the nodes.

        Takes time in the size of all of these.
        """
        self.ledger.repair(self.applications.values())
        if self._running is None:
            # Found once: a rebuild that is interrupted has forgotten which applications run on with nothing.
            self._running = [application for application in self.applications.values() if application.is_running]
        self.holding_index.clear()
        for application in self.applications.values():
            application.holding = None
        self.tree.list_applications(self.applications)
        names = (*self.compiled.specs.names, *self.tree.names_outside(self.compiled.specs), *self._names_in_use())
        closed = self.cluster.total is not None
        self.in_force.reset_limits(self.compiled.limits, names, closed=closed)
        self.tree.rebuild(self.compiled.specs, self.in_force.epoch.layout, self.cluster.total)
        for application in self._running:
            self._run_again(application)
        self._running = None

    def _names_in_use(self) -> Iterator[str]:
        """Yield the resources that only nodes and allocations name; where nothing is closed, they are not counted."""
        if self.cluster.total is not None:
            yield from self.cluster.total
            for application in self.applications.values():
                for entry in application.entries().values():
                    yield from entry.usage

    def _run_again(self, application: Application) -> None:
        """Let an application run with what its allocations add up to."""
        holding = self.open(application)
        total = sum_of(entry.usage for entry in application.entries().values())
        holding.charge(self.in_force.epoch.layout.vector(total))
        self.holding_index.add(holding)
        application.started(holding)

    # What is exceeded

    def over(self) -> Iterator[Violation]:
        """Yield every limit that is exceeded: of users, groups and queues, each by name, leaf to root."""
        for tracker in self.holding_index.trees():
            for node in tracker.counters():
                yield from over(node)
        counters = [queue.node for queue in self.tree.queues.values() if queue.node is not None]
        for counter in sorted(counters, key=lambda node: (-node.queue_path.count("."), node.queue_path)):
            yield from over(counter)
