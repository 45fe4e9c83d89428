"""Everything that the books of a partition hold, as values: what a journal keeps, and makes books of again.

Counters are left out: they follow from the rest. So are other quota models, which keep their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from ugm.partition.application import Application, GangStyle
from ugm.partition.books import Books
from ugm.partition.entry import PLAIN, Allocation, AllocationState, Entry, shared_traits
from ugm.queues import QueueSpec, Submission
from ugm.resources import Resource

__all__ = ["ApplicationImage", "Image", "QueueImage", "image_of", "listed", "restore", "write"]

_PENDING: Final = AllocationState.PENDING


class QueueImage(NamedTuple):
    """A queue that the configuration in force does not name."""

    spec: QueueSpec
    has_left: bool
    #: What it was given for itself.
    annotated: Resource | None


class ApplicationImage(NamedTuple):
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


class Image(NamedTuple):
    """The state of a partition, but for its configuration."""

    closed: bool
    nodes: Mapping[str, Resource]
    #: None until a first node is registered.
    total: Resource | None
    #: Parents before their children.
    queues: tuple[QueueImage, ...]
    applications: tuple[ApplicationImage, ...]
    #: Held, going and pending, in the order of the ledger; may be read any number of times.
    allocations: Iterable[Allocation]


def image_of(books: Books) -> Image:
    """Return what some books hold; takes time in their size."""
    made = (queue for queue in books.tree.root.below() if not queue.managed)
    return Image(
        books.closed,
        dict(books.cluster.nodes),
        books.cluster.total,
        tuple(QueueImage(queue.spec, queue.has_left, queue.annotated) for queue in made),
        tuple(map(_application_image, books.applications.values())),
        tuple(entry.shown(name) for name, entry in books.entries.items()),
    )


def _application_image(application: Application) -> ApplicationImage:
    return ApplicationImage(
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


def restore(books: Books, image: Image) -> None:
    """Let books that hold nothing, under the configuration of an image, hold what it says."""
    books.closed = image.closed
    books.cluster.nodes.update(image.nodes)
    books.cluster.total = image.total
    for queue in image.queues:
        _restore_queue(books, queue)
    books.tree.connect(books.in_force.epoch.layout)
    for told in image.applications:
        _restore_application(books, told)
    books.resize_cluster()
    for allocation in image.allocations:
        write(books, allocation)
        books.undo.clear()


def _restore_queue(books: Books, image: QueueImage) -> None:
    queue = books.tree.create(image.spec.queue_path)
    queue.spec, queue.has_left, queue.annotated = image
    books.count((*image.spec.names, *queue.quota.names))


def _restore_application(books: Books, image: ApplicationImage) -> None:
    submission, queue_path, gang_style, is_adopted, group, *past, is_running = image
    application = listed(books, submission, queue_path, gang_style, is_adopted=is_adopted, group=group)
    application.has_run, application.has_replaced, application.failing = past
    if is_running:
        nothing = Resource()
        books.charge(Entry(application, nothing, PLAIN), books.in_force.epoch.layout.vector(nothing))


def listed(
    books: Books, submission: Submission, queue_path: str, gang_style: GangStyle, *, is_adopted: bool, group: str | None
) -> Application:
    """List an application in a queue that is there, in books that somebody will follow."""
    application = Application(submission, books.tree.queues[queue_path], gang_style)
    application.is_plain, application.is_adopted, application.group = False, is_adopted, group
    books.enter(application)
    return application


def write(books: Books, allocation: Allocation) -> Entry:
    """Write an allocation into books that list its application, and charge it if it is not pending."""
    allocation_id, application_id, usage, *traits = allocation
    entry = Entry(books.applications[application_id], usage, shared_traits(*traits))
    if allocation.state is _PENDING:
        books.note_pending(allocation_id, entry)
        return entry
    known, vector = usage.compiled
    if known is not books.in_force.epoch.layout:
        books.count_adopted(usage)
        vector = books.in_force.epoch.layout.vector(usage)
    books.charge(entry, vector)
    books.note(allocation_id, entry)
    return entry
