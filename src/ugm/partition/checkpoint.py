"""Checkpoints: the state of a partition as values, from which a journal restores it.

Counters are left out, because they follow from the ledger. Other quota models keep their own state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from ugm._json_values import JsonMapping
from ugm.partition.allocation import PLAIN, Allocation, AllocationState
from ugm.partition.application import Application, GangStyle, LedgerEntry
from ugm.partition.state import PartitionState
from ugm.queues import QueueSpec, Submission
from ugm.resources import Resource

__all__ = [
    "ApplicationRecord",
    "Checkpoint",
    "ModelRecord",
    "QueueRecord",
    "add_allocation",
    "add_application",
    "checkpoint_of",
    "queue_records",
    "restore",
]

_PENDING: Final = AllocationState.PENDING
_NO_RESERVATIONS: Final[Mapping[str, str]] = MappingProxyType({})
_TERMINATING: Final = AllocationState.TERMINATING


class QueueRecord(NamedTuple):
    """A queue that the configuration in force does not name."""

    spec: QueueSpec
    was_configured: bool
    #: The quota that was set for this queue alone.
    quota_override: Resource | None


class ApplicationRecord(NamedTuple):
    """An application without its allocations."""

    submission: Submission
    queue_path: str
    gang_style: GangStyle
    is_adopted: bool
    #: None for no group; empty if the group is not assigned yet.
    group: str | None
    has_run: bool = False
    has_replaced: bool = False
    failing: bool = False
    #: Whether the application is running, possibly without an allocation.
    is_running: bool = False


class ModelRecord(NamedTuple):
    """The past of a declared quota model."""

    #: The kind and the name of its definition.
    kind: str
    name: str
    #: The result of `ugm.model.PersistentModel.save`.
    past: JsonMapping


class Checkpoint(NamedTuple):
    """The state of a partition without its configuration."""

    closed: bool
    nodes: Mapping[str, Resource]
    #: None until the first node is registered.
    total: Resource | None
    #: Parents before their children.
    queues: tuple[QueueRecord, ...]
    applications: tuple[ApplicationRecord, ...]
    #: In the order of the ledger; can be iterated any number of times.
    allocations: Iterable[Allocation]
    #: The names of the classes of the quota models that the program has added.
    added_models: tuple[str, ...] = ()
    #: The request that reserves capacity for a queue, by the path of the queue.
    reservations: Mapping[str, str] = _NO_RESERVATIONS
    #: The ids of the pending allocations for which a plan of preemption has made room.
    placed: tuple[str, ...] = ()
    #: The time since which queues have been above their maximum, by path.
    reduction_timers: Mapping[str, int] = MappingProxyType({})
    #: The past of declared quota models.
    models: tuple[ModelRecord, ...] = ()


def checkpoint_of(state: PartitionState) -> Checkpoint:
    """Return a checkpoint of a state, in time proportional to its size."""
    return Checkpoint(
        state.closed,
        dict(state.cluster.nodes),
        state.cluster.total,
        tuple(queue_records(state)),
        tuple(map(_application_record, state.applications.values())),
        tuple(entry.to_allocation(name) for name, entry in state.ledger.items()),
        state.added_models,
        state.current_reservations(),
        tuple(state.placed_entries()),
        state.reduction_timers,
    )


def queue_records(state: PartitionState) -> list[QueueRecord]:
    """Return the queues that the configuration in force does not name, parents before their children."""
    unmanaged = (queue for queue in state.tree.root.below() if not queue.managed)
    return [QueueRecord(queue.spec, queue.was_configured, queue.quota_override) for queue in unmanaged]


def _application_record(application: Application) -> ApplicationRecord:
    return ApplicationRecord(
        application.submission,
        application.queue.queue_path,
        application.gang_style,
        application.is_adopted,
        application.group,
        application.has_run,
        application.has_replaced,
        application.failing,
        application.holding is not None,
    )


def restore(state: PartitionState, checkpoint: Checkpoint) -> None:
    """Apply a checkpoint to an empty state, under the configuration of the checkpoint."""
    state.closed, state.added_models = checkpoint.closed, checkpoint.added_models
    state.cluster.nodes.update(checkpoint.nodes)
    state.cluster.total = checkpoint.total
    for queue in checkpoint.queues:
        _restore_queue(state, queue)
    state.tree.connect(state.active_limits.epoch.layout)
    for application in checkpoint.applications:
        _restore_application(state, application)
        state.undo.clear()
    state.resize_cluster()
    _restore_allocations(state, checkpoint.allocations)
    state.reservations.update(checkpoint.reservations)
    state.placed = {name: state.ledger[name] for name in checkpoint.placed}
    state.reduction_timers = dict(checkpoint.reduction_timers)


def _restore_allocations(state: PartitionState, allocations: Iterable[Allocation]) -> None:
    """Add allocations to the ledger, and charge equal plain ones of an application at once: there may be millions."""
    owners, applications = state.ledger.owners, state.applications
    for allocation in allocations:
        allocation_id, application_id, usage = allocation[:3]
        if allocation[3:] == PLAIN:
            application = owners[allocation_id] = applications[application_id]
            application.allocations[allocation_id] = usage
        else:
            add_allocation(state, allocation)
            state.undo.clear()
    for application in applications.values():
        _charge_plain(state, application)
        state.undo.clear()


def _charge_plain(state: PartitionState, application: Application) -> None:
    """Charge the plain allocations of an application."""
    stored = application.allocations.values()
    # Most of the equal usages are one object, and its identity is found faster than its value.
    counts = Counter(map(id, stored))
    for usage in {id(usage): usage for usage in stored if isinstance(usage, Resource)}.values():
        state.count_unoffered(usage)
        total = usage * counts[id(usage)]
        state.charge(LedgerEntry(application, total, PLAIN), state.active_limits.epoch.layout.vector(total))


def _restore_queue(state: PartitionState, record: QueueRecord) -> None:
    queue = state.tree.create(record.spec.queue_path)
    queue.spec, queue.was_configured, queue.quota_override = record
    state.count_resources((*record.spec.names, *queue.quota.names))


def _restore_application(state: PartitionState, record: ApplicationRecord) -> None:
    submission, queue_path, gang_style, is_adopted, group, *past, is_running = record
    application = add_application(state, submission, queue_path, gang_style, is_adopted=is_adopted, group=group)
    application.has_run, application.has_replaced, application.failing = past
    if is_running:
        nothing = Resource()
        state.charge(LedgerEntry(application, nothing, PLAIN), state.active_limits.epoch.layout.vector(nothing))


def add_application(
    state: PartitionState,
    submission: Submission,
    queue_path: str,
    gang_style: GangStyle,
    *,
    is_adopted: bool,
    group: str | None,
) -> Application:
    """Add an application to an existing queue of a state."""
    application = Application(submission, state.tree.queues[queue_path], gang_style)
    application.allows_fast_path, application.is_adopted, application.group = False, is_adopted, group
    state.add_application(application)
    return application


def add_allocation(state: PartitionState, allocation: Allocation) -> LedgerEntry:
    """Add an allocation to the ledger of a state, and charge it unless it is pending."""
    allocation_id, application_id, usage = allocation[:3]
    entry = LedgerEntry(state.applications[application_id], usage, allocation.traits)
    if allocation.state is _PENDING:
        state.write_pending(allocation_id, entry)
        return entry
    if allocation.state is _TERMINATING:
        state.add_terminating(allocation_id)
    known, vector = usage.compiled
    if known is not state.active_limits.epoch.layout:
        state.count_unoffered(usage)
        vector = state.active_limits.epoch.layout.vector(usage)
    state.charge(entry, vector)
    state.write_allocated(allocation_id, entry)
    return entry
