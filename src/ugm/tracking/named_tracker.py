"""What the trackers of users and of groups have in common: a name, and the queues in which something is used."""

from __future__ import annotations

from typing import Self

from ugm.resources import Resource
from ugm.tracking.queue_tracker import QueueTracker

__all__ = ["NamedTracker"]


class NamedTracker:
    """A user or a group with what it uses; everything but the choice of groups is the work of its `QueueTracker`."""

    __slots__ = ("queue",)

    #: Where the usage is kept.
    queue: QueueTracker

    @classmethod
    def of(cls, queue: QueueTracker) -> Self:
        """Return a tracker that keeps its usage in *queue*."""
        tracker = cls.__new__(cls)
        tracker.keep_in(queue)
        return tracker

    def keep_in(self, queue: QueueTracker) -> None:
        """Begin with what *queue* holds."""
        self.queue = queue

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.queue.name!r} applications={len(self.queue.holdings)}>"

    @property
    def usage(self) -> Resource:
        """What is used in all queues together, without zeros."""
        return self.queue.usage

    @property
    def applications(self) -> tuple[str, ...]:
        """The applications that run in any queue, sorted."""
        return self.queue.running_applications

    def decrease_resource(
        self, queue_path: str, application_id: str, usage: Resource, *, remove_app: bool = False
    ) -> None:
        """Give *usage* back to everybody whom the application is charged to; see `QueueTracker.decrease_resource`."""
        self.queue.decrease_resource(queue_path, application_id, usage, remove_app=remove_app)

    def set_max_applications(self, count: int | None, queue_path: str = "") -> None:
        """Limit the running applications by hand: the limit first, then the queue.

        See `QueueTracker.set_max_applications`, also for what raises.
        """
        self.queue.set_max_applications(count, queue_path)

    def set_max_resources(self, resource: Resource | None, queue_path: str = "") -> None:
        """Limit the resources by hand: the limit first, then the queue.

        See `QueueTracker.set_max_resources`, also for what raises.
        """
        self.queue.set_max_resources(resource, queue_path)
