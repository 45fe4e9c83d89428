"""Compiled limits, and limits in force."""

from __future__ import annotations

import pytest
from hypothesis import given

from support.tracking_fixtures import ONE, SUE, group, partition, user
from ugm import Manager, RequestError, Resource, UserGroup
from ugm.configuration import LimitConfig, PartitionConfig, QueueConfig
from ugm.testing import exposed, partitions, queue_paths, users
from ugm.testing.usage_model import UsageModel
from ugm.tracking import ActiveLimits, UserTracker
from ugm.tracking.limits import Limits


def test_configuration_of_lists() -> None:
    """A program may pass lists in place of tuples."""
    limit = LimitConfig(["sue"], max_resources=ONE)  # type: ignore[arg-type] # what is tested
    config = PartitionConfig(queues=[QueueConfig("root", limits=[limit])])  # type: ignore[arg-type] # what is tested

    assert Manager(config).headroom("root", "app-1", SUE) == ONE


def test_largest_limit() -> None:
    """A limit is exact up to the largest allowed amount; a larger one is refused, as in a file."""
    most = 2**63 - 1
    manager = Manager(partition({"root": [user("sue", memory=most)]}))

    assert manager.increase("root", "app-1", Resource(memory=most), SUE)
    assert not manager.increase("root", "app-1", ONE, SUE)
    with pytest.raises(RequestError, match="the amount of memory is above 9223372036854775807"):
        manager.update_config(partition({"root": [user("sue", memory=most + 1)]}))


def test_request_beyond_every_count() -> None:
    """A request that is not limited is granted at any size, and refunded exactly."""
    manager = Manager(partition({"root": [user("sue", vcore=1)]}))
    huge = Resource(memory=2**300)

    assert manager.increase("root", "app-1", huge, SUE)
    assert manager.increase("root", "app-1", huge, SUE)
    assert manager.increase("root", "app-1", Resource(vcore=1), SUE)
    assert not manager.increase("root", "app-1", Resource(vcore=1), SUE)
    manager.decrease_tracked_resource("root", "app-1", Resource(memory=2**301, vcore=1), remove_app=True, user=SUE)
    assert exposed(manager) == {"users": {}, "groups": {}}


@pytest.mark.parametrize("limit", [user("sue", memory=0, vcore=0), group("dev", memory=0)])
def test_limit_of_nothing_but_zeros(limit: LimitConfig) -> None:
    """A limit of only zeros is refused, in a configuration and by hand."""
    with pytest.raises(RequestError, match="a limit must allow more than 0 of at least one resource that it names"):
        Limits.compile(partition({"root.a": [limit]}))


def test_trackers_by_themselves_share_limits() -> None:
    """Trackers with one `ActiveLimits` enforce its limits."""
    active_limits = ActiveLimits(Limits.compile(partition({"root": [user("*", memory=1)]})))
    sue, bob = UserTracker("sue", active_limits), UserTracker("bob", active_limits)

    assert sue.increase_resource("root", "app-1", ONE)
    assert bob.increase_resource("root", "app-2", ONE)
    assert not bob.increase_resource("root", "app-2", ONE)


def test_swap_reaches_every_tracker() -> None:
    """Replaced limits apply to all trackers on their next use."""
    active_limits = ActiveLimits()
    sue = UserTracker("sue", active_limits)
    sue.increase_resource("root.a", "app-1", Resource(memory=3))
    active_limits.replace_limits(Limits.compile(partition({"root": [user("sue", memory=4)]})))

    assert not sue.increase_resource("root.a", "app-1", Resource(memory=2))
    assert sue.increase_resource("root.a", "app-1", ONE)


@given(partitions(), queue_paths(), users())
def test_limits_are_those_of_the_book(config: PartitionConfig, path: str, asking: UserGroup) -> None:
    """The order of the configuration decides which limits apply, and which group is chosen."""
    manager, model = Manager(config), UsageModel(config)

    assert manager.group_for(path, "app-1", asking) == model.group_for(path, "app-1", asking)
    assert manager.headroom(path, "app-1", asking) == model.headroom(path, "app-1", asking)
