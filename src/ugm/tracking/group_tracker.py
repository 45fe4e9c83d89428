"""What one group uses: the applications of its members that are charged to it.

Source: Apache YuniKorn, user based resource usage tracking, "Group tracking".
"""

from __future__ import annotations

from typing import final

from ugm.arguments import require_name
from ugm.identity import TrackingType
from ugm.resources import Resource
from ugm.tracking.limits import LimitsInForce
from ugm.tracking.named_tracker import NamedTracker
from ugm.tracking.queue_tracker import QueueTracker

__all__ = ["GroupTracker"]


@final
class GroupTracker(NamedTracker):
    """What the members of one group use together; the group named ``*`` is everybody who falls under a group wildcard.

    Applications that are charged through their users (`ugm.UserTracker.set_group_for_app`) appear here by themselves
    and cannot be charged a second time.

    Args:
        group_name: the group.
        in_force: the limits, shared by all trackers of a partition; None for a tracker without limits of its own.
    """

    __slots__ = ()

    def __init__(self, group_name: str, in_force: LimitsInForce | None = None) -> None:
        self.keep_in(QueueTracker(require_name("group_name", group_name), TrackingType.GROUP, in_force))

    @property
    def group_name(self) -> str:
        """The group."""
        return self.queue.name

    def increase_resource(self, queue_path: str, application_id: str, usage: Resource) -> bool:
        """Charge an application that has no user tracker; see `QueueTracker.increase_resource`."""
        return self.queue.increase_resource(queue_path, application_id, usage)
