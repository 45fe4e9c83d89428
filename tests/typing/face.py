"""What a type checker says about the public face; read by one, and never run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_type

import ugm
from ugm import Decision, Manager, Request, Resource, TrackingType, UserGroup, Violation
from ugm.config import PartitionConfig, SchedulerConfig
from ugm.testing import verify_all
from ugm.tracking import (
    EffectiveLimit,
    GroupTracker,
    GroupUsage,
    QueueTracker,
    QueueUsage,
    Tracker,
    UserTracker,
    UserUsage,
)


def values(resource: Resource) -> None:
    """Resources are mappings of ints."""
    assert_type(resource["vcore"], int)
    assert_type(resource + resource, Resource)
    assert_type(resource - resource, Resource)
    assert_type(resource.without_zeros(), Resource)
    assert_type(Resource.parse(vcore="2"), Resource)
    mapping: Mapping[str, int] = resource
    assert_type(len(mapping), int)


def configuration() -> None:
    """Configurations are read from files and texts."""
    assert_type(ugm.load_config("queues.yaml"), SchedulerConfig)
    assert_type(ugm.parse_config("partitions: []", file="queues.yaml"), SchedulerConfig)
    config = ugm.parse_config("partitions: []")
    assert_type(config.partition(), PartitionConfig)
    assert_type(config.partition("gpu"), PartitionConfig)
    Manager(config.partition(), group_limits="unless-user-limited", strict=False)
    Manager(PartitionConfig())
    Manager(None)


def growing(manager: Manager, usage: Resource, user: UserGroup) -> None:
    """Increases answer with decisions."""
    assert_type(manager.increase("root", "app", usage, user), Decision)
    assert_type(manager.increase_tracked_resource("root", "app", usage, user), bool)
    assert_type(manager.increase_all([Request("root", "app", usage, user)]), Decision)
    assert_type(manager.adopt("root", "app", usage, user), tuple[Violation, ...])
    assert_type(manager.replace("root", "app", usage, usage, user), Decision)
    manager.decrease_tracked_resource("root", "app", usage, True, user)  # noqa: FBT003 - the document's signature
    manager.decrease_tracked_resource("root", "app", usage, remove_app=True, user=user)


def asking(manager: Manager, usage: Resource, user: UserGroup) -> None:
    """Questions answer with values, or None where there is nothing to tell."""
    assert_type(manager.check("root", "app", usage, user), Decision)
    assert_type(manager.headroom("root", "app", user), Resource | None)
    assert_type(manager.can_run_app("root", "app", user), bool)
    assert_type(manager.group_for("root", "app", user), str | None)
    assert_type(manager.effective_limits(user, "root"), tuple[EffectiveLimit, ...])
    assert_type(manager.effective_limits(user, "root", "app"), tuple[EffectiveLimit, ...])
    assert_type(manager.exceeded_limits(), tuple[Violation, ...])


def showing(manager: Manager, user: UserGroup) -> None:
    """Usage is shown as frozen snapshots, and live."""
    assert_type(manager.get_user_resources(user), Resource | None)
    assert_type(manager.get_group_resources("dev"), Resource | None)
    assert_type(manager.get_users_resources(), tuple[UserUsage, ...])
    assert_type(manager.get_groups_resources(), tuple[GroupUsage, ...])
    assert_type(manager.get_users_resources()[0].queues, QueueUsage)
    assert_type(manager.get_users_resources()[0].groups, Mapping[str, str])
    assert_type(manager.get_user_tracker("sue"), UserTracker | None)
    assert_type(manager.get_group_tracker("dev"), GroupTracker | None)


def explaining(decision: Decision) -> None:
    """Decisions explain themselves."""
    assert_type(decision.allowed, bool)
    assert_type(decision.can_wait, bool)
    assert_type(decision.violations, tuple[Violation, ...])
    violation = decision.violations[0]
    assert_type(violation.kind, str)
    assert_type(violation.resource, str | None)
    assert_type(violation.shortfall, int)


def trackers(usage: Resource) -> None:
    """The trackers have the documents' operations."""
    for tracker in (QueueTracker("sue", TrackingType.USER), UserTracker("sue"), GroupTracker("dev")):
        assert_type(tracker.increase_resource("root", "app", usage), bool)
        tracker.decrease_resource("root", "app", usage, remove_app=True)
        tracker.set_max_applications(3, "root")
        tracker.set_max_resources(None)
    assert_type(UserTracker("sue").has_group_for_app("app"), bool)


def protocol(manager: Manager) -> None:
    """The manager is a tracker, and what is for trackers takes it."""
    tracker: Tracker = manager
    verify_all(tracker)
