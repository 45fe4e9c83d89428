"""Changes done again: from the events that were told of them, without checking, deciding or telling anything.

Books that have been through all events hold exactly what those hold that told them. Whatever a decision depended on
(limits, placement rules, the group that was chosen, other quota models) is in the events as it was decided.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from ugm.partition.application import Application
from ugm.partition.checkpoint import listed, write
from ugm.partition.events import (
    Allocated,
    AllocationRequested,
    ApplicationEnded,
    ApplicationFailing,
    ApplicationSubmitted,
    ConfigurationChanged,
    Denied,
    Event,
    GroupAssigned,
    NodeChanged,
    PartitionClosed,
    Preempted,
    QueueQuotaSet,
    Released,
    RequestWithdrawn,
    Resized,
)
from ugm.partition.ledger_entry import AllocationState
from ugm.partition.state import PartitionState
from ugm.queues import Submission

__all__ = ["replay_events"]


def replay_events(state: PartitionState, events: Sequence[Event]) -> None:
    """Do again what was done in one go."""
    for event in events:
        _REDO[type(event)](state, event)
    for event in events:
        if type(event) is Released or type(event) is RequestWithdrawn:
            # Only now: what was given back may have been replaced, and the application has run on.
            application = state.applications.get(event.allocation.application_id)
            if application is not None:
                state.settle(application)
    # What has happened is not undone.
    state.undo.clear()


def _submitted(state: PartitionState, event: ApplicationSubmitted) -> None:
    queue = state.tree.create(event.queue_path)
    state.count(tuple(queue.quota.names))
    tags = MappingProxyType(dict(event.tags))
    submission = Submission(event.application_id, event.user, event.requested_queue, tags)
    style, adopted = event.gang_style, event.is_adopted
    listed(state, submission, queue.queue_path, style, is_adopted=adopted, group=event.group)


def _quota_given(state: PartitionState, event: QueueQuotaSet) -> None:
    state.annotate(state.tree.create(event.queue_path), event.quota)


def _linked(state: PartitionState, event: GroupAssigned) -> None:
    application = state.applications[event.application_id]
    application.group, application.has_run = event.group, True


def _failing(state: PartitionState, event: ApplicationFailing) -> None:
    state.applications[event.application_id].failing = True


def _ended(state: PartitionState, event: ApplicationEnded) -> None:
    application = state.applications[event.application_id]
    state.settle(application)
    if event.application_id in state.applications:
        state.forget(application, event.state)


def _written(state: PartitionState, event: AllocationRequested) -> None:
    write(state, event.allocation)


def _allocated(state: PartitionState, event: Allocated) -> None:
    application: Application = write(state, event.allocation).application
    application.has_replaced |= bool(event.replaces)


def _withdrawn(state: PartitionState, event: RequestWithdrawn) -> None:
    allocation_id = event.allocation.allocation_id
    state.strike_pending(allocation_id, state.ledger[allocation_id])


def _released(state: PartitionState, event: Released) -> None:
    allocation_id = event.allocation.allocation_id
    entry = state.ledger[allocation_id]
    state.refund(entry)
    state.strike(allocation_id, entry)


def _resized(state: PartitionState, event: Resized) -> None:
    allocation_id, usage = event.allocation.allocation_id, event.allocation.usage
    old = state.ledger[allocation_id]
    state.count_adopted(usage)
    state.open(old.application).swap(old.usage, usage)
    state.note_resized(allocation_id, old._replace(usage=usage), old.usage)


def _preempted(state: PartitionState, event: Preempted) -> None:
    allocation_id = event.allocation.allocation_id
    state.note_going(allocation_id, state.ledger[allocation_id].in_state(AllocationState.HELD))


def _node_changed(state: PartitionState, event: NodeChanged) -> None:
    cluster = state.cluster
    if event.after is None:
        cluster.remove(event.name)
    elif event.before is None:
        cluster.add(event.name, event.after)
    else:
        cluster.update(event.name, event.after)
    state.follow_node(event.name, event.before)


def _configured(state: PartitionState, event: ConfigurationChanged) -> None:
    state.swap(event.after)


def _closed(state: PartitionState, _: PartitionClosed) -> None:
    state.closed = True


def _nothing(_state: PartitionState, _event: Denied) -> None:
    """A denial has changed nothing."""


#: What is done for each kind of event; each function takes its own kind.
_REDO: Final[Mapping[type[Event], Callable[[PartitionState, Any], None]]] = {
    ApplicationSubmitted: _submitted,
    QueueQuotaSet: _quota_given,
    GroupAssigned: _linked,
    ApplicationFailing: _failing,
    ApplicationEnded: _ended,
    AllocationRequested: _written,
    RequestWithdrawn: _withdrawn,
    Allocated: _allocated,
    Resized: _resized,
    Preempted: _preempted,
    Released: _released,
    Denied: _nothing,
    NodeChanged: _node_changed,
    ConfigurationChanged: _configured,
    PartitionClosed: _closed,
}
