"""What one group uses: the applications of its members that are charged to it.

Source: Apache YuniKorn, user based resource usage tracking, "Group tracking".
"""

from __future__ import annotations

from typing import Self, final

from ugm.identity import TrackingType
from ugm.resources import Resource
from ugm.tracking._arguments import name_of
from ugm.tracking.limits import LimitsInForce
from ugm.tracking.queue_tracker import QueueTracker

__all__ = ["GroupTracker"]


@final
class GroupTracker:
    """What the members of one group use together; the group named ``*`` is everybody who falls under a group wildcard.

    Applications that are charged through their users (`ugm.UserTracker.set_group_for_app`) appear here by themselves
    and cannot be charged a second time.

    Args:
        group_name: the group.
        in_force: the limits, shared by all trackers of a partition; None for a tracker without limits of its own.
    """

    __slots__ = ("queue",)

    #: Where the usage is kept.
    queue: QueueTracker

    def __init__(self, group_name: str, in_force: LimitsInForce | None = None) -> None:
        self.queue = QueueTracker(name_of("group_name", group_name), TrackingType.GROUP, in_force)

    @classmethod
    def of(cls, queue: QueueTracker) -> Self:
        """Return a group tracker that keeps its usage in *queue*."""
        tracker = cls(queue.name, queue.in_force)
        tracker.queue = queue
        return tracker

    @property
    def group_name(self) -> str:
        """The group."""
        return self.queue.name

    @property
    def usage(self) -> Resource:
        """What is used in all queues together, without zeros."""
        return self.queue.usage

    @property
    def applications(self) -> tuple[str, ...]:
        """The applications that are charged to the group, sorted."""
        return self.queue.running_applications

    def increase_resource(self, queue_path: str, application_id: str, usage: Resource) -> bool:
        """Charge an application that has no user tracker; see `QueueTracker.increase_resource`."""
        return self.queue.increase_resource(queue_path, application_id, usage)

    def decrease_resource(
        self, queue_path: str, application_id: str, usage: Resource, *, remove_app: bool = False
    ) -> None:
        """Give back what an application without user tracker holds; see `QueueTracker.decrease_resource`."""
        self.queue.decrease_resource(queue_path, application_id, usage, remove_app=remove_app)

    def set_max_applications(self, count: int | None, queue_path: str = "") -> None:
        """Limit the running applications by hand; see `QueueTracker.set_max_applications`."""
        self.queue.set_max_applications(count, queue_path)

    def set_max_resources(self, resource: Resource | None, queue_path: str = "") -> None:
        """Limit the resources by hand; see `QueueTracker.set_max_resources`."""
        self.queue.set_max_resources(resource, queue_path)
