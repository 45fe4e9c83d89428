"""The manager: denials, limits of configurations, effective limits, and live trackers."""

from __future__ import annotations

import pytest

from support.tracking_fixtures import BOB, NOTHING, ONE, SUE, group, partition, user
from ugm import Manager, Request, RequestError, Resource
from ugm.testing import exposed, verify_all
from ugm.tracking import EffectiveLimit, UserTracker

# Enforcing


def test_denial_names_every_limit_in_order() -> None:
    """A denial lists all exceeded limits: those of the user before those of the group, each leaf to root."""
    limits = {
        "root": [user("sue", applications=1), group("dev", memory=1)],
        "root.a": [user("sue", memory=1), group("dev", memory=2, applications=1)],
    }
    manager = Manager(partition(limits))
    manager.increase("root.a", "app-1", ONE, SUE)
    decision = manager.increase("root.a", "app-2", Resource(memory=2), SUE)

    assert [(each.kind, each.queue_path, each.resource) for each in decision.violations] == [
        ("user", "root.a", "memory"),
        ("user", "root", None),
        ("group", "root.a", "memory"),
        ("group", "root.a", None),
        ("group", "root", "memory"),
    ]


def test_users_with_limits_of_their_own() -> None:
    """Such a user can be exempt from the limits of its group, to which its usage is charged nevertheless."""
    limits, two = partition({"root": [user("sue", memory=2), group("dev", memory=1)]}), Resource(memory=2)
    manager = Manager(limits, group_limits="unless-user-limited")

    assert not Manager(limits).increase("root", "app-1", two, SUE)
    assert manager.increase("root", "app-1", two, SUE)
    assert not manager.increase("root", "app-2", ONE, BOB)


# Recovery, replacement, gangs


def test_increase_all_takes_requests_before_it_locks() -> None:
    """The iterable of requests may call the manager itself."""
    manager = Manager()
    seen: list[Resource | None] = []

    def gang() -> list[Request]:
        # Asking would wait for ever if the lock were held.
        seen.append(manager.get_user_resources(SUE))
        return [Request("root", "app-1", ONE, SUE)]

    assert manager.increase_all(request for _ in range(2) for request in gang())
    assert seen == [None, None]


def test_denial_of_a_gang_has_totals() -> None:
    """A denial contains the sum of the gang; if a limit never allows the gang, those that run count as requested."""
    limits = {
        "root": [user("sue", memory=5, applications=2), group("dev", memory=4)],
        "root.a": [group("dev", memory=3)],
    }
    manager, two = Manager(partition(limits)), Resource(memory=2)
    manager.increase("root.a", "app-1", two, SUE)
    gang = [Request("root.a", f"app-{number}", two, SUE) for number in (1, 2, 3)]

    assert [(*each[:3], *each[4:]) for each in manager.increase_all(gang[1:]).violations] == [
        ("user", "sue", "root", "memory", 5, 2, 4),
        ("user", "sue", "root", None, 2, 1, 2),
        ("group", "dev", "root.a", "memory", 3, 2, 4),
        ("group", "dev", "root", "memory", 4, 2, 4),
    ]
    violations = manager.increase_all(gang).violations
    assert [each[5:] for each in violations if each.resource is None] == [(2, 0, 3)]


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
    assert exposed(manager) == {"users": (), "groups": ()}


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
