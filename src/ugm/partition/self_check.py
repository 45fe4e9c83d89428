"""The self-check of a partition: every counter is compared with the ledger. Any difference is a bug in ugm.

It reads a few objects at a time, like `ugm.tracking.self_check`, and adds up their allocations without the lock. So the
lock is never held for longer than it takes to read the applications of one user, group or queue, about a microsecond
for each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from ugm.errors import InvariantError
from ugm.partition.application import Application, LedgerEntry
from ugm.partition.state import PartitionState
from ugm.queues.queue import Queue
from ugm.resources import Resource, sum_of
from ugm.tracking.self_check import SLICE, ReadLocked, read_at_once, slices
from ugm.tracking.self_check import findings as tracking_findings

__all__ = ["verify"]

_OTHER_ALLOCATIONS: Final = "the applications list other allocations than the ledger"


def verify(state: PartitionState, read: ReadLocked = read_at_once) -> None:
    """Recompute every counter from the ledger.

    Args:
        state: the state. It may change between two calls of *read*.
        read: runs a function under the lock of the state.

    Raises:
        InvariantError: a counter differs; the error has a message for each difference.
    """
    found = [*tracking_findings(state.holding_index, read), *_findings(state, read)]
    if found:
        raise InvariantError(tuple(dict.fromkeys(found)))


def _findings(state: PartitionState, read: ReadLocked) -> Iterator[str]:
    yield from read(_index_findings, state)
    for applications in slices(read(list, state.applications.items()), _size_of_application):
        yield from read(_application_findings, state, applications)
        for copied in read(_copies, state, applications):
            yield from _ledger_findings(state, copied, read)
    for queues in slices(read(list, state.tree.queues.items()), _size_of_queue):
        yield from read(_queue_findings, state, queues)
        for counted in read(_counts, state, queues):
            yield from _counter_findings(counted)


def _size_of_application(item: tuple[str, Application]) -> int:
    return 1 + len(item[1].allocations) + len(item[1].pending)


def _size_of_queue(item: tuple[str, Queue]) -> int:
    # The applications below a parent are not counted, so a parent is the last one of its slice.
    return SLICE if item[1].children else 1 + len(item[1].applications)


def _index_findings(state: PartitionState) -> list[str]:
    found = [
        f"application {application_id!r} is charged but not listed"
        for application_id in sorted(state.holding_index.holdings.keys() - state.applications.keys())
    ]
    if sum(len(one.allocations) + len(one.pending) for one in state.applications.values()) != len(state.ledger):
        found.append(_OTHER_ALLOCATIONS)
    return found


# Applications


def _application_findings(state: PartitionState, applications: Iterable[tuple[str, Application]]) -> list[str]:
    return [
        finding
        for application_id, application in applications
        if state.applications.get(application_id) is application
        for finding in _findings_of(state, application_id, application)
    ]


def _findings_of(state: PartitionState, application_id: str, application: Application) -> Iterator[str]:
    queue = application.queue
    if application.application_id != application_id:
        yield f"application {application.application_id!r} is listed as {application_id!r}"
    if not application.pending.keys().isdisjoint(application.allocations):
        yield f"application {application_id!r} lists an allocation as held and as pending"
    if state.holding_index.holdings.get(application_id) is not application.holding:
        yield f"application {application_id!r} runs with another holding than the one that is charged"
    if application.allocations and application.holding is None:
        yield f"application {application_id!r} has allocations but does not run"
    if state.tree.queues.get(queue.queue_path) is not queue:
        yield f"queue {queue.queue_path} has applications but does not exist"
    elif application_id not in queue.applications:
        yield _other_applications(queue)


class _Copy(NamedTuple):
    """The allocations of an application at one moment."""

    application: Application
    stored: list[Resource | LedgerEntry]
    allocation_ids: list[str]
    held: Mapping[str, int]


def _copies(state: PartitionState, applications: Iterable[tuple[str, Application]]) -> list[_Copy]:
    return [
        _Copy(one, list(one.allocations.values()), [*one.allocations, *one.pending], one.held() or {})
        for application_id, one in applications
        if state.applications.get(application_id) is one
    ]


def _ledger_findings(state: PartitionState, copied: _Copy, read: ReadLocked) -> Iterator[str]:
    """Yield the differences of the allocations of an application from its holding and the ledger; without the lock."""
    application, stored, allocation_ids, amounts = copied
    due = sum_of(one.usage if isinstance(one, LedgerEntry) else one for one in stored)
    held = Resource(amounts).without_zeros()
    if held != due:
        yield f"application {application.application_id!r} holds {held}, but its allocations add up to {due}"
    owners = state.ledger.owners
    # Those that were released since they were copied are looked up again.
    missing = [name for name in allocation_ids if owners.get(name) is not application]
    if missing:
        yield from read(_list_findings, state, application, missing)


def _list_findings(state: PartitionState, application: Application, allocation_ids: Iterable[str]) -> list[str]:
    listed, owners = {*application.allocations, *application.pending}, state.ledger.owners
    is_different = any(name in listed and owners.get(name) is not application for name in allocation_ids)
    return [_OTHER_ALLOCATIONS] if is_different else []


# Queues


def _queue_findings(state: PartitionState, queues: Iterable[tuple[str, Queue]]) -> list[str]:
    found = []
    for path, queue in _current(state, queues):
        applications = map(state.applications.get, queue.applications)
        if any(one is None or one.queue is not queue for one in applications):
            found.append(_other_applications(queue))
        if queue.is_idle and not queue.managed:
            found.append(f"queue {path} is empty but was not deleted")
    return found


def _current(state: PartitionState, queues: Iterable[tuple[str, Queue]]) -> list[tuple[str, Queue]]:
    return [(path, queue) for path, queue in queues if state.tree.queues.get(path) is queue]


class _Count(NamedTuple):
    """The counter of a queue at one moment."""

    queue_path: str
    is_limited: bool
    #: Whether the queue is listed as in use.
    is_listed: bool
    #: What the counter counts; None if there is no counter.
    used: tuple[int, Mapping[str, int]] | None
    #: Whether it counts the same resources as the partition.
    is_current: bool
    #: The amounts of the running applications.
    running: list[Mapping[str, int]]


def _counts(state: PartitionState, queues: Iterable[tuple[str, Queue]]) -> list[_Count]:
    return [_count(state, path, queue) for path, queue in _current(state, queues)]


def _count(state: PartitionState, path: str, queue: Queue) -> _Count:
    counter = queue.counter
    return _Count(
        path,
        queue.limit(state.tree.cluster) is not None,
        path in state.tree.counters,
        counter and (counter.running, counter.used()),
        counter is not None and counter.layout is state.active_limits.epoch.layout,
        list(queue.running()) if counter else [],
    )


def _counter_findings(count: _Count) -> Iterator[str]:
    path = count.queue_path
    if count.used is None:
        if count.is_limited:
            yield f"queue {path} has a limit but no counter"
        if count.is_listed:
            yield f"queue {path} has no counter but is listed as in use"
        return
    (counted, used), running, usage = count.used, len(count.running), sum_of(count.running)
    if not count.is_current:
        yield f"queue {path} counts other resources than the partition"
    if counted != running:
        yield f"queue {path} counts {counted} applications, but {running} run"
    for name, amount in used.items():
        if amount != usage.get(name, 0):
            yield f"queue {path} counts {amount} {name}, but its applications hold {usage.get(name, 0)}"
    if count.is_listed != bool(running):
        yield f"queue {path} is {'not ' if running else ''}listed as in use, and {running} applications run"


def _other_applications(queue: Queue) -> str:
    return f"queue {queue.queue_path} lists other applications than were placed in it"
