"""Changes done again: from the events that were told of them, without checking, deciding or telling anything.

Books that have been through all events hold exactly what those hold that told them. Whatever a decision depended on
(limits, placement rules, the group that was chosen, other quota models) is in the events as it was decided.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from ugm.partition.application import Application
from ugm.partition.books import Books
from ugm.partition.entry import AllocationState
from ugm.partition.events import (
    Allocated,
    Asked,
    Closed,
    Configured,
    Denied,
    Ended,
    Event,
    Failing,
    Linked,
    NodeChanged,
    Preempted,
    QuotaGiven,
    Released,
    Resized,
    Submitted,
    Withdrawn,
)
from ugm.partition.image import listed, write
from ugm.queues import Submission

__all__ = ["redo"]


def redo(books: Books, events: Sequence[Event]) -> None:
    """Do again what was done in one go."""
    for event in events:
        _REDO[type(event)](books, event)
    for event in events:
        if type(event) is Released or type(event) is Withdrawn:
            # Only now: what was given back may have been replaced, and the application has run on.
            application = books.applications.get(event.allocation.application_id)
            if application is not None:
                books.settle(application)
    # What has happened is not undone.
    books.undo.clear()


def _submitted(books: Books, event: Submitted) -> None:
    queue = books.tree.create(event.queue_path)
    books.count(tuple(queue.quota.names))
    tags = MappingProxyType(dict(event.tags))
    submission = Submission(event.application_id, event.user, event.asked_queue, tags)
    style, adopted = event.gang_style, event.is_adopted
    listed(books, submission, queue.queue_path, style, is_adopted=adopted, group=event.group)


def _quota_given(books: Books, event: QuotaGiven) -> None:
    books.annotate(books.tree.create(event.queue_path), event.quota)


def _linked(books: Books, event: Linked) -> None:
    application = books.applications[event.application_id]
    application.group, application.has_run = event.group, True


def _failing(books: Books, event: Failing) -> None:
    books.applications[event.application_id].failing = True


def _ended(books: Books, event: Ended) -> None:
    application = books.applications[event.application_id]
    books.settle(application)
    if event.application_id in books.applications:
        books.forget(application, event.state)


def _written(books: Books, event: Asked) -> None:
    write(books, event.allocation)


def _allocated(books: Books, event: Allocated) -> None:
    application: Application = write(books, event.allocation).application
    application.has_replaced |= bool(event.replaces)


def _withdrawn(books: Books, event: Withdrawn) -> None:
    allocation_id = event.allocation.allocation_id
    books.strike_pending(allocation_id, books.entries[allocation_id])


def _released(books: Books, event: Released) -> None:
    allocation_id = event.allocation.allocation_id
    entry = books.entries[allocation_id]
    books.refund(entry)
    books.strike(allocation_id, entry)


def _resized(books: Books, event: Resized) -> None:
    allocation_id, usage = event.allocation.allocation_id, event.allocation.usage
    old = books.entries[allocation_id]
    books.count_adopted(usage)
    books.open(old.application).swap(old.usage, usage)
    books.note_resized(allocation_id, old._replace(usage=usage), old.usage)


def _preempted(books: Books, event: Preempted) -> None:
    allocation_id = event.allocation.allocation_id
    books.note_going(allocation_id, books.entries[allocation_id].in_state(AllocationState.HELD))


def _node_changed(books: Books, event: NodeChanged) -> None:
    cluster = books.cluster
    if event.after is None:
        cluster.remove(event.name)
    elif event.before is None:
        cluster.add(event.name, event.after)
    else:
        cluster.update(event.name, event.after)
    books.follow_node(event.name, event.before)


def _configured(books: Books, event: Configured) -> None:
    books.swap(event.after)


def _closed(books: Books, _: Closed) -> None:
    books.closed = True


def _nothing(_books: Books, _event: Denied) -> None:
    """A denial has changed nothing."""


#: What is done for each kind of event; each function takes its own kind.
_REDO: Final[Mapping[type[Event], Callable[[Books, Any], None]]] = {
    Submitted: _submitted,
    QuotaGiven: _quota_given,
    Linked: _linked,
    Failing: _failing,
    Ended: _ended,
    Asked: _written,
    Withdrawn: _withdrawn,
    Allocated: _allocated,
    Resized: _resized,
    Preempted: _preempted,
    Released: _released,
    Denied: _nothing,
    NodeChanged: _node_changed,
    Configured: _configured,
    Closed: _closed,
}
