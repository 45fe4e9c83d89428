"""The manager: changed limits, limits set by hand, and effective limits."""

from __future__ import annotations

import pytest

from support.tracking_fixtures import BOB, NOTHING, ONE, SUE, group, partition, user
from ugm import Manager, RequestError, Resource, UserGroup
from ugm.testing import exposed, verify_all
from ugm.tracking import EffectiveLimit, UserTracker

# Changes of limits


def test_exceeded_limits_in_order() -> None:
    """Exceeded limits are listed users before groups, by name, leaf to root."""
    manager = Manager()
    for asking, application in ((SUE, "app-1"), (BOB, "app-2")):
        manager.increase("root.a", application, Resource(memory=2), asking)
    manager.update_config(partition({"root": [user("*", memory=1)], "root.a": [user("sue", memory=1)]}))

    assert [(each.name, each.queue_path, each.shortfall) for each in manager.exceeded_limits()] == [
        ("bob", "root", 1),
        ("sue", "root.a", 1),
        ("sue", "root", 1),
    ]


# Effective limits


def test_effective_limits() -> None:
    """Effective limits are all limits of a user in a queue, with their entries and their usage."""
    limits = {"root": [user("bob", memory=1), user("*", memory=9)], "root.a": [group("dev", applications=3)]}
    manager = Manager(partition(limits))
    manager.increase("root.a", "app-1", Resource(memory=2, vcore=1), SUE)

    assert manager.effective_limits(SUE, "root.a.x") == (
        EffectiveLimit("user", "sue", "root", "*", "root limits[1]", Resource(memory=9), 0, Resource(memory=2), 1),
        EffectiveLimit("group", "dev", "root.a", "dev", "root.a limits[0]", None, 3, NOTHING, 1),
    )


def test_effective_limits_of_a_running_application() -> None:
    """The effective limits of a running application use the group that it is charged to."""
    manager = Manager(partition({"root": [group("dev", memory=9)]}))
    manager.increase("root", "app-1", ONE, SUE)
    moved = UserGroup("sue")

    assert [limit.name for limit in manager.effective_limits(moved, "root", "app-1")] == ["dev"]
    assert manager.effective_limits(moved, "root") == ()


# Live trackers


def _with_live_tracker() -> tuple[Manager, UserTracker]:
    manager = Manager(partition({"root": [group("dev", memory=9)]}))
    manager.increase("root.a", "app-1", Resource(memory=2), SUE)
    tracker = manager.get_user_tracker("sue")
    assert tracker is not None
    return manager, tracker


def test_live_tracker_is_charged_through_the_manager() -> None:
    """The trackers of a manager refuse to be charged directly, and nothing changes."""
    manager, sue = _with_live_tracker()
    dev = manager.get_group_tracker("dev")
    assert dev is not None
    before = exposed(manager)

    for tracker, name in ((sue, "sue"), (dev, "dev")):
        for path, application in (("root.a", "app-1"), ("root.b", "app-1"), ("root.b", "app-2")):
            with pytest.raises(RequestError) as caught:
                tracker.increase_resource(path, application, ONE)
            assert str(caught.value) == f"tracker {name!r}: the tracker belongs to a manager and is charged through it"
    assert exposed(manager) == before


def test_live_tracker_gives_nothing_back() -> None:
    """The trackers of a manager refuse to end an application."""
    manager, sue = _with_live_tracker()
    dev = manager.get_group_tracker("dev")
    assert dev is not None

    for tracker in (sue, dev):
        with pytest.raises(RequestError, match="the tracker belongs to a manager and is charged through it"):
            tracker.decrease_resource("root.a", "app-1", Resource(memory=2), remove_app=True)
    verify_all(manager)
    assert manager.get_user_resources(SUE) == Resource(memory=2)


def test_dropped_tracker_is_of_no_use() -> None:
    """A live tracker whose last application has ended no longer counts, and cannot disturb the manager."""
    manager, sue = _with_live_tracker()
    manager.decrease_tracked_resource("root.a", "app-1", Resource(memory=2), remove_app=True, user=SUE)
    with pytest.raises(RequestError, match="user 'sue' runs nothing in or below the queue"):
        sue.set_max_applications(1)
    manager.increase("root.a", "app-2", ONE, SUE)
    manager.increase("root.a", "app-3", ONE, SUE)

    verify_all(manager)
    assert sue.usage == NOTHING
    assert manager.get_user_resources(SUE) == Resource(memory=2)
