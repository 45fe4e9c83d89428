"""The books of a partition: who holds what, under which limits, in which queues.

Everything that a partition knows is here, and the rules that keep it together: which counters there are, and when an
application starts, stops and goes. Nothing here takes the lock, checks what a caller passes, or asks other quota
models; that is the business of `ugm.Partition`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, Protocol, Self, final

from ugm.decision import Violation, over
from ugm.hierarchy import Row
from ugm.partition.application import Application
from ugm.partition.entry import AllocationState, Entry
from ugm.queues import Cluster, PlacementRules, Queue, QueueSettings, QueueSpecs, QueueTree
from ugm.queues.placement import RuleConfig
from ugm.resources import Resource
from ugm.tracking.holding import Holding
from ugm.tracking.ledger import Ledger
from ugm.tracking.limits import Limits, LimitsInForce, PartitionLimits, QueueLimits

__all__ = ["Books", "Compiled", "PartitionQueue", "PartitionSettings"]


class PartitionQueue(QueueSettings, QueueLimits, Protocol):
    """A queue of a configuration, with its quota and the limits of users and groups."""

    @property
    def queues(self) -> Sequence[PartitionQueue]:
        """The queues directly below."""
        ...


class PartitionSettings(PartitionLimits, Protocol):
    """A partition of a configuration."""

    @property
    def root(self) -> PartitionQueue:
        """The queue above all others."""
        ...

    @property
    def placement_rules(self) -> Sequence[RuleConfig]:
        """How applications find their queue."""
        ...


class Compiled(NamedTuple):
    """A configuration, ready to be put in force by one assignment after the other, none of which can fail."""

    limits: Limits
    specs: QueueSpecs
    rules: PlacementRules
    #: What the rules were compiled from, for comparing.
    rule_configs: tuple[RuleConfig, ...]

    @classmethod
    def of(cls, config: PartitionSettings | None) -> Self:
        """Compile a configuration; None has no limits, and a root without queues.

        Raises:
            RequestError: something in it cannot be used.
        """
        if config is None:
            return cls(Limits.compile(None), QueueSpecs.compile(None), PlacementRules.compile(()), ())
        rules = PlacementRules.compile(config.placement_rules)
        return cls(Limits.compile(config), QueueSpecs.compile(config.root), rules, tuple(config.placement_rules))


@final
class Books:
    """The state of a partition.

    Invariants: every counter follows from `entries`; an application has a holding exactly while it is running; a queue
    lists exactly the applications that were placed in it and have not gone.
    """

    __slots__ = ("applications", "closed", "cluster", "compiled", "entries", "in_force", "ledger", "tree")

    compiled: Compiled
    #: By application id.
    applications: dict[str, Application]
    #: By allocation id: held, going and pending.
    entries: dict[str, Entry]
    #: Whether the partition is being removed, and takes nothing more.
    closed: bool

    def __init__(self, compiled: Compiled, *, user_limits_win: bool) -> None:
        self.compiled = compiled
        self.in_force: Final = LimitsInForce(user_limits_win=user_limits_win, managed=True)
        self.in_force.swap(compiled.limits, compiled.specs.names)
        self.ledger: Final = Ledger(self.in_force)
        self.cluster: Final = Cluster()
        self.tree: Final = QueueTree(compiled.specs, self.in_force.epoch.layout)
        self.applications = {}
        self.entries = {}
        self.closed = False

    # What is counted

    def swap(self, compiled: Compiled) -> None:
        """Put another configuration in force.

        Takes time in the number of queues, and in that of the applications where something has to be counted that was
        not counted before.
        """
        self.compiled = compiled
        tree = self.tree
        names = (*compiled.specs.names, *tree.names_beside(compiled.specs))
        if tree.cluster is not None:
            names = (*names, *tree.cluster, *self._held_names())
        self.in_force.swap(compiled.limits, names, closed=tree.cluster is not None)
        tree.reshape(compiled.specs, self.in_force.epoch.layout)

    def resize_cluster(self) -> None:
        """Let the root allow what the registered nodes add up to."""
        total = self.cluster.total
        if total is None:
            return
        was_open = self.tree.cluster is None
        names = (*total, *self._held_names()) if was_open else tuple(total)
        self.count(names, closed=True)
        self.tree.resize(total)

    def count(self, names: Sequence[str], *, closed: bool | None = None) -> None:
        """Make room in every counter for more resources."""
        if self.in_force.count(names, closed=closed):
            self.tree.connect(self.in_force.epoch.layout)

    def annotate(self, queue: Queue, most: Resource) -> None:
        """Let a queue that the configuration does not name use *most*."""
        self.count(tuple(most))
        self.tree.annotate(queue, most)
        # The queue may have a counter now that it did not have before: whatever runs below has to find it.
        for below in queue.below():
            for application_id in below.applications:
                holding = self.applications[application_id].holding
                if holding is not None:
                    holding.invalidate()

    def count_adopted(self, usage: Resource) -> None:
        """Make room for resources that nobody has, but somebody uses: the counter of the root has to show them."""
        if self.in_force.epoch.layout.closed:
            self.count(tuple(usage))

    def _held_names(self) -> set[str]:
        return {name for entry in self.entries.values() for name in entry.usage}

    # The life of an application

    def open(self, application: Application) -> Holding:
        """Return what a running application holds, in line with the limits, or a detached holding that may start it."""
        holding = application.holding
        if holding is not None:
            holding.align()
            return holding
        user = application.submission.user
        path, application_id = application.queue.queue_path, application.application_id
        if application.is_placed_in_a_group:
            holding = self.ledger.reopen(path, application_id, user, application.group)
        else:
            holding = self.ledger.open(path, application_id, user)
        holding.quotas = application.queue
        return holding

    def charge(self, entry: Entry, row: Row) -> None:
        """Charge an entry without checking, starting its application if need be."""
        application = entry.application
        holding = self.open(application)
        holding.add(row)
        if application.holding is None:
            self.started(application, holding)

    def started(self, application: Application, holding: Holding) -> None:
        """Note that an application has started with a holding that was detached."""
        self.ledger.list(holding)
        application.started(holding)

    def note(self, allocation_id: str, entry: Entry) -> None:
        """Write an entry that has been charged into the ledger."""
        self.forget_pending(allocation_id)
        self.entries[allocation_id] = entry
        entry.application.entries[allocation_id] = entry

    def note_pending(self, allocation_id: str, entry: Entry) -> None:
        """Write an entry that is not counted into the ledger."""
        self.entries[allocation_id] = entry
        entry.application.pending[allocation_id] = entry

    def forget_pending(self, allocation_id: str) -> None:
        """Strike an entry that is not counted, if there is one."""
        entry = self.entries.get(allocation_id)
        if entry is not None and entry.traits.state is AllocationState.PENDING:
            del self.entries[allocation_id]
            del entry.application.pending[allocation_id]

    def refund(self, entry: Entry) -> None:
        """Give back what an entry was charged; its application runs on, even with nothing."""
        self.open(entry.application).take(self.in_force.epoch.layout.row(entry.usage))

    def strike(self, allocation_id: str, entry: Entry) -> None:
        """Strike an entry that has been given back from the ledger."""
        del self.entries[allocation_id]
        del entry.application.entries[allocation_id]

    def settle(self, application: Application) -> None:
        """Stop an application that holds nothing and has nothing pending, and forget it if it has failed."""
        if application.entries or (application.pending and not application.failing):
            return
        if application.holding is not None:
            application.holding.align()
            self.ledger.end(application.holding)
            application.holding = None
        if application.failing:
            self.forget(application)

    def forget(self, application: Application) -> None:
        """Forget an application that holds nothing, and the queue that was made for it."""
        for allocation_id in tuple(application.pending):
            self.forget_pending(allocation_id)
        del self.applications[application.application_id]
        del application.queue.applications[application.application_id]
        self.tree.prune(application.queue)

    # What is exceeded

    def over(self) -> Iterator[Violation]:
        """Yield every limit that is exceeded: of users, groups and queues, each by name, leaf to root."""
        for tracker in self.ledger.trackers():
            for node in tracker.in_line():
                yield from over(node)
        for queue in self.tree.root.below():
            if queue.node is not None:
                yield from over(queue.node)
