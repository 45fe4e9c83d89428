"""The interface that the rest of a scheduler sees, and what it passes in and gets out besides plain values.

Source: Apache YuniKorn, user based resource usage tracking, "Tracker interface"; user based quota enforcement, "Tracker
interface update".
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, Self, runtime_checkable

from ugm.decision import limit_name
from ugm.identity import UserGroup
from ugm.resources import Resource
from ugm.tracking.holding import QuotaNode
from ugm.tracking.snapshot import GroupUsage, UserUsage

__all__ = ["EffectiveLimit", "Request", "Tracker"]


@runtime_checkable
class Tracker(Protocol):
    """What counts and enforces the usage of users and groups; `ugm.Manager` is one."""

    def increase_tracked_resource(self, queue_path: str, application_id: str, usage: Resource, user: UserGroup) -> bool:
        """Charge *usage* to the user and the group of an application, or to neither, and return which."""
        ...

    def decrease_tracked_resource(
        self,
        queue_path: str,
        application_id: str,
        usage: Resource,
        user: UserGroup,
        remove_app: bool = False,  # noqa: FBT001, FBT002 - the document's signature
    ) -> None:
        """Give *usage* back; with *remove_app*, end the application in that queue."""
        ...

    def get_user_resources(self, user: UserGroup) -> Resource | None:
        """Return what a user uses in all queues together; None for a user who is not tracked."""
        ...

    def get_group_resources(self, group: str) -> Resource | None:
        """Return what a group uses in all queues together; None for a group that is not tracked."""
        ...

    def get_users_resources(self) -> tuple[UserUsage, ...]:
        """Return what every tracked user uses in which queues, sorted by name."""
        ...

    def get_groups_resources(self) -> tuple[GroupUsage, ...]:
        """Return what every tracked group uses in which queues, sorted by name."""
        ...


class Request(NamedTuple):
    """One of several increases that are granted together or not at all."""

    queue_path: str
    application_id: str
    usage: Resource
    user: UserGroup


class EffectiveLimit(NamedTuple):
    """A limit that holds for a user in a queue, and where it comes from."""

    #: Whether the user, the group or the queue is limited: a `ugm.TrackingType`.
    kind: str
    #: The user, the group that the user's applications are charged to there, or the queue.
    name: str
    #: Where the limit holds: the queue asked about, or one above it.
    queue_path: str
    #: The name that the limit was set for: the user or group itself, or the wildcard ``*``; empty for a queue.
    limit_name: str
    #: The entry that sets it, for example ``root.prod limits[2]``.
    place: str
    #: None where resources are not limited.
    max_resources: Resource | None
    #: 0 where applications are not limited.
    max_applications: int
    #: What of the limited resources is used in and below the queue.
    usage: Resource
    #: How many applications run in and below the queue.
    running_applications: int

    @classmethod
    def of(cls, node: QuotaNode) -> Self:
        """Return what a counter says."""
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
        """Return the limit for JSON, in the same words as its attributes."""
        most = None if self.max_resources is None else dict(self.max_resources)
        return {**self._asdict(), "kind": str(self.kind), "max_resources": most, "usage": dict(self.usage)}
