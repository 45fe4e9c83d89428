"""Replay of events: applies recorded changes to a state, without checks, decisions or new events.

A state to which all events of a partition were applied equals the state of the partition. Everything that a decision
depended on (limits, placement rules, the assigned group, other quota models) is in the events as it was decided.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

from ugm.partition.allocation import Allocation, AllocationState
from ugm.partition.checkpoint import add_allocation, add_application
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
    PartitionClosed,
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
from ugm.partition.state import PartitionState
from ugm.queues import Submission
from ugm.resources import Resource

__all__ = ["replay_events"]


def replay_events(state: PartitionState, events: Sequence[Event]) -> None:
    """Apply the events of one change to a state."""
    for event in events:
        _replay_ledger_event(state, event)
    for event in events:
        if type(event) is Released or type(event) is RequestWithdrawn:
            # After all events: the change may have replaced the allocation, so that its application goes on.
            application = state.applications.get(event.allocation.application_id)
            if application is not None:
                state.finish_if_idle(application)
    # A recorded change is never undone.
    state.undo.clear()


def _replay_ledger_event(state: PartitionState, event: Event) -> None:
    """Apply an event; the most frequent ones are compared first."""
    match event:
        case Allocated():
            application = add_allocation(state, event.allocation).application
            application.has_replaced |= bool(event.replaces)
        case Released():
            entry = state.ledger[event.allocation.allocation_id]
            state.refund(entry)
            state.remove_released(event.allocation.allocation_id, entry)
        case AllocationRequested():
            add_allocation(state, event.allocation)
        case RequestWithdrawn():
            allocation_id = event.allocation.allocation_id
            state.remove_pending(allocation_id, state.ledger[allocation_id])
        case Resized():
            _resize(state, event.allocation)
        case Renewed(allocation, before):
            state.write_renewed(
                allocation.allocation_id,
                state.ledger[allocation.allocation_id].with_promise(allocation.until, allocation.duration),
                before,
            )
        case Preempted():
            allocation_id = event.allocation.allocation_id
            state.mark_terminating(allocation_id, state.ledger[allocation_id].in_state(AllocationState.HELD))
        case RequestPlaced():
            allocation_id = event.allocation.allocation_id
            state.mark_placed(allocation_id, state.ledger[allocation_id], event.allocation.node)
        case _:
            _replay_other_event(state, event)


def _resize(state: PartitionState, allocation: Allocation) -> None:
    allocation_id, usage = allocation.allocation_id, allocation.usage
    old = state.ledger[allocation_id]
    state.count_unoffered(usage)
    state.holding_of(old.application).swap(old.usage, usage)
    state.write_resized(allocation_id, old._replace(usage=usage).on_node(allocation.node), old.usage)


def _replay_other_event(state: PartitionState, event: Event) -> None:
    match event:
        case ApplicationSubmitted():
            _submit(state, event)
        case GroupAssigned(application_id, _, group):
            application = state.applications[application_id]
            application.group, application.has_run = group, True
        case ApplicationFailing(application_id):
            state.applications[application_id].failing = True
        case ApplicationEnded(application_id, final_state):
            application = state.applications[application_id]
            state.finish_if_idle(application)
            if application_id in state.applications:
                state.remove_application(application, final_state)
        case _:
            _replay_administration(state, event)


def _replay_administration(state: PartitionState, event: Event) -> None:
    match event:
        case QueueQuotaSet(queue_path, quota):
            state.set_queue_quota(state.tree.create(queue_path), quota)
        case ReservationChanged(queue_path, _, after):
            state.set_reservation(queue_path, after)
        case NodeChanged(name, before, after):
            _change_node(state, name, before, after)
        case ConfigurationChanged(_, after):
            state.replace_config(after)
        case ModelsChanged(_, after):
            state.added_models = after
        case ReductionTimersStarted(queue_paths, since):
            state.start_reduction_timers(queue_paths, since)
        case PartitionClosed():
            state.closed = True


def _submit(state: PartitionState, event: ApplicationSubmitted) -> None:
    queue = state.tree.create(event.queue_path)
    state.count_resources(tuple(queue.quota.names))
    tags = MappingProxyType(dict(event.tags))
    submission = Submission(event.application_id, event.user, event.requested_queue, tags)
    style, adopted = event.gang_style, event.is_adopted
    add_application(state, submission, queue.queue_path, style, is_adopted=adopted, group=event.group)


def _change_node(state: PartitionState, name: str, before: Resource | None, after: Resource | None) -> None:
    if after is None:
        state.cluster.remove(name)
    elif before is None:
        state.cluster.add(name, after)
    else:
        state.cluster.update(name, after)
    state.finish_node_change(name, before)
