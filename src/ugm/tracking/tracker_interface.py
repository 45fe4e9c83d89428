"""The tracker interface that a scheduler uses, with its requests.

Source: Apache YuniKorn, user based resource usage tracking, "Tracker interface"; user based quota enforcement, "Tracker
interface update".
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

from ugm.identity import UserGroup
from ugm.resources import Resource
from ugm.tracking.snapshot import GroupUsage, UserUsage

__all__ = ["Request", "Tracker"]


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
        remove_app: bool,  # noqa: FBT001 - the document's signature
        user: UserGroup,
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
