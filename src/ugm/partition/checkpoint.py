"""Everything that the books of a partition hold, as values: what a journal keeps, and makes books of again.

Counters are left out: they follow from the rest. So are other quota models, which keep their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from ugm.partition.application import Application, GangStyle
from ugm.partition.ledger_entry import PLAIN, Allocation, AllocationState, LedgerEntry, shared_traits
from ugm.partition.state import PartitionState
from ugm.queues import QueueSpec, Submission
from ugm.resources import Resource

__all__ = ["ApplicationRecord", "Checkpoint", "QueueRecord", "checkpoint_of", "listed", "restore", "write"]

_PENDING: Final = AllocationState.PENDING


class QueueRecord(NamedTuple):
    """A queue that the configuration in force does not name."""

    spec: QueueSpec
    has_left: bool
    #: What it was given for itself.
    annotated: Resource | None


class ApplicationRecord(NamedTuple):
    """An application without its allocations."""

    submission: Submission
    queue_path: str
    gang_style: GangStyle
    is_adopted: bool
    #: None for none, empty where it is still to be chosen.
    group: str | None
    has_run: bool
    has_replaced: bool
    failing: bool
    #: Whether it is running; it may be without holding anything.
    is_running: bool


class Checkpoint(NamedTuple):
    """The state of a partition, but for its configuration."""

    closed: bool
    nodes: Mapping[str, Resource]
    #: None until a first node is registered.
    total: Resource | None
    #: Parents before their children.
    queues: tuple[QueueRecord, ...]
    applications: tuple[ApplicationRecord, ...]
    #: Held, going and pending, in the order of the ledger; may be read any number of times.
    allocations: Iterable[Allocation]


def checkpoint_of(state: PartitionState) -> Checkpoint:
    """Return what some books hold; takes time in their size."""
    made = (queue for queue in state.tree.root.below() if not queue.managed)
    return Checkpoint(
        state.closed,
        dict(state.cluster.nodes),
        state.cluster.total,
        tuple(QueueRecord(queue.spec, queue.has_left, queue.annotated) for queue in made),
        tuple(map(_application_image, state.applications.values())),
        tuple(entry.shown(name) for name, entry in state.ledger.items()),
    )


def _application_image(application: Application) -> ApplicationRecord:
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


def restore(state: PartitionState, image: Checkpoint) -> None:
    """Let books that hold nothing, under the configuration of an image, hold what it says."""
    state.closed = image.closed
    state.cluster.nodes.update(image.nodes)
    state.cluster.total = image.total
    for queue in image.queues:
        _restore_queue(state, queue)
    state.tree.connect(state.in_force.epoch.layout)
    for told in image.applications:
        _restore_application(state, told)
    state.resize_cluster()
    for allocation in image.allocations:
        write(state, allocation)
        state.undo.clear()


def _restore_queue(state: PartitionState, image: QueueRecord) -> None:
    queue = state.tree.create(image.spec.queue_path)
    queue.spec, queue.has_left, queue.annotated = image
    state.count((*image.spec.names, *queue.quota.names))


def _restore_application(state: PartitionState, image: ApplicationRecord) -> None:
    submission, queue_path, gang_style, is_adopted, group, *past, is_running = image
    application = listed(state, submission, queue_path, gang_style, is_adopted=is_adopted, group=group)
    application.has_run, application.has_replaced, application.failing = past
    if is_running:
        nothing = Resource()
        state.charge(LedgerEntry(application, nothing, PLAIN), state.in_force.epoch.layout.vector(nothing))


def listed(
    state: PartitionState,
    submission: Submission,
    queue_path: str,
    gang_style: GangStyle,
    *,
    is_adopted: bool,
    group: str | None,
) -> Application:
    """List an application in a queue that is there, in books that somebody will follow."""
    application = Application(submission, state.tree.queues[queue_path], gang_style)
    application.is_plain, application.is_adopted, application.group = False, is_adopted, group
    state.enter(application)
    return application


def write(state: PartitionState, allocation: Allocation) -> LedgerEntry:
    """Write an allocation into books that list its application, and charge it if it is not pending."""
    allocation_id, application_id, usage, *traits = allocation
    entry = LedgerEntry(state.applications[application_id], usage, shared_traits(*traits))
    if allocation.state is _PENDING:
        state.note_pending(allocation_id, entry)
        return entry
    known, vector = usage.compiled
    if known is not state.in_force.epoch.layout:
        state.count_adopted(usage)
        vector = state.in_force.epoch.layout.vector(usage)
    state.charge(entry, vector)
    state.note(allocation_id, entry)
    return entry
