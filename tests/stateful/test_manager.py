"""The manager against the naive model, step by step."""

from __future__ import annotations

from typing import ClassVar, Literal

import pytest
from hypothesis import settings

from support.examples import examples
from support.tracker_machine import TrackerMachine
from ugm import Manager, Resource, UserGroup
from ugm.configuration import PartitionConfig
from ugm.tracking import GroupUsage, Tracker, UserUsage

SMALL = settings(max_examples=max(20, examples(60)), stateful_step_count=30)


class LenientMachine(TrackerMachine):
    """Users with named limits are exempt from group limits; misuse is logged."""

    group_limits: ClassVar[Literal["always", "unless-user-limited"]] = "unless-user-limited"
    strict = False


class OnlyTracker:
    """A tracker with the methods of the interface and no others."""

    def __init__(self, config: PartitionConfig) -> None:
        self._manager = Manager(config)

    def increase_tracked_resource(self, queue_path: str, application_id: str, usage: Resource, user: UserGroup) -> bool:
        """Call the manager."""
        return self._manager.increase_tracked_resource(queue_path, application_id, usage, user)

    def decrease_tracked_resource(
        self,
        queue_path: str,
        application_id: str,
        usage: Resource,
        remove_app: bool,  # noqa: FBT001 - the document's signature
        user: UserGroup,
    ) -> None:
        """Call the manager."""
        self._manager.decrease_tracked_resource(queue_path, application_id, usage, remove_app=remove_app, user=user)

    def get_user_resources(self, user: UserGroup) -> Resource | None:
        """Call the manager."""
        return self._manager.get_user_resources(user)

    def get_group_resources(self, group: str) -> Resource | None:
        """Call the manager."""
        return self._manager.get_group_resources(group)

    def get_users_resources(self) -> tuple[UserUsage, ...]:
        """Call the manager."""
        return self._manager.get_users_resources()

    def get_groups_resources(self) -> tuple[GroupUsage, ...]:
        """Call the manager."""
        return self._manager.get_groups_resources()


class TrackerOnlyMachine(TrackerMachine):
    """Anything with the interface can be driven."""

    def make_tracker(self, config: PartitionConfig) -> Tracker:
        """Return a tracker that is not a manager."""
        return OnlyTracker(config)


TestManager = TrackerMachine.TestCase
TestManager.settings = SMALL
TestLenientManager = LenientMachine.TestCase
TestLenientManager.settings = SMALL
TestTrackerOnly = pytest.mark.ci(TrackerOnlyMachine.TestCase)
TestTrackerOnly.settings = SMALL
