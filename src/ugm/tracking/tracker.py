"""The tracker interface that a scheduler uses, with its requests and results.

Source: Apache YuniKorn, user based resource usage tracking, "Tracker interface"; user based quota enforcement, "Tracker
interface update".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, Self, runtime_checkable

from ugm.decision import limit_name
from ugm.hierarchy import Node
from ugm.identity import UserGroup
from ugm.resources import Resource
from ugm.tracking.snapshot import GroupUsage, UserUsage

__all__ = ["EffectiveLimit", "Request", "Tracker"]


@runtime_checkable
class Tracker(Protocol):
    """An object that tracks and enforces the usage of users and groups, such as `ugm.Manager`."""

    def increase_tracked_resource(self, queue_path: str, application_id: str, usage: Resource, user: UserGroup) -> bool:
        """Charge *usage* to the user and the group of an application, or to neither. Return whether it was charged."""
        ...

    def decrease_tracked_resource(
        self,
        queue_path: str,
        application_id: str,
        usage: Resource,
        user: UserGroup,
        remove_app: bool = False,  # noqa: FBT001, FBT002 - the document's signature
    ) -> None:
        """Refund *usage*; with *remove_app*, end the application in that queue."""
        ...

    def get_user_resources(self, user: UserGroup) -> Resource | None:
        """Return the usage of a user in all queues together; None if the user is not tracked."""
        ...

    def get_group_resources(self, group: str) -> Resource | None:
        """Return the usage of a group in all queues together; None if the group is not tracked."""
        ...

    def get_users_resources(self) -> tuple[UserUsage, ...]:
        """Return the usage of every tracked user by queue, sorted by name."""
        ...

    def get_groups_resources(self) -> tuple[GroupUsage, ...]:
        """Return the usage of every tracked group by queue, sorted by name."""
        ...


class Request(NamedTuple):
    """One of several increases that are granted together or not at all."""

    queue_path: str
    application_id: str
    usage: Resource
    user: UserGroup


@dataclass(frozen=True, slots=True)
class EffectiveLimit:
    """A limit that applies to a user in a queue, and its place in the configuration."""

    #: The kind of owner, a `ugm.TrackingType`: a user, a group or a queue.
    kind: str
    #: The user, the group that the user's applications are charged to, or the queue.
    name: str
    #: The queue that sets the limit: the queue of the query or one above it.
    queue_path: str
    #: The name in the configuration: the user or group itself, or the wildcard ``*``; empty for a queue.
    limit_name: str
    #: The entry of the configuration, for example ``root.prod limits[2]``.
    place: str
    #: None if resources are not limited.
    max_resources: Resource | None
    #: 0 if applications are not limited.
    max_applications: int
    #: The usage of the limited resources in and below the queue.
    usage: Resource
    #: The number of applications that run in and below the queue.
    running_applications: int

    @classmethod
    def of(cls, node: Node) -> Self:
        """Return the limit of a counter with its usage."""
        owner, limit, used = node.owner, node.limit, node.used()
        return cls(
            kind=owner.kind,
            name=owner.name,
            queue_path=node.queue_path,
            limit_name=limit_name(node),
            place=limit.place,
            max_resources=limit.resources or None,
            max_applications=limit.applications,
            usage=Resource({name: used[name] for name in limit.resources}),
            running_applications=node.running,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the limit for JSON, with the names of its attributes."""
        return {
            "kind": str(self.kind),
            "name": self.name,
            "queue_path": self.queue_path,
            "limit_name": self.limit_name,
            "place": self.place,
            "max_resources": None if self.max_resources is None else dict(self.max_resources),
            "max_applications": self.max_applications,
            "usage": dict(self.usage),
            "running_applications": self.running_applications,
        }
