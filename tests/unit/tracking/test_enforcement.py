"""The manager: single requests, batches, replacements and adoptions."""

from __future__ import annotations

from support.tracking_fixtures import BOB, ONE, SUE, group, partition, user
from ugm import Manager, Request, Resource, TrackingType, UserGroup, Violation
from ugm.testing import exposed


def denials(manager: Manager, path: str, application: str, usage: Resource, asking: UserGroup) -> list[tuple[str, ...]]:
    """Return the owner and the queue of every limit that denies a request."""
    return [(each.name, each.queue_path) for each in manager.check(path, application, usage, asking).violations]


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


def test_violation_tells_the_numbers() -> None:
    """A violation has the limit, the used and requested amounts, and the name in the configuration."""
    manager = Manager(partition({"root.a": [user("*", memory=5)]}))
    manager.increase("root.a.x", "app-1", Resource(memory=4), SUE)
    (violation,) = manager.increase("root.a.y", "app-2", Resource(memory=3, vcore=1), SUE).violations

    assert violation == Violation(TrackingType.USER, "sue", "root.a", "*", "memory", 5, 4, 3)


# Users with limits of their own


def test_unless_user_limited() -> None:
    """In that mode a user with a named limit on the path is exempt from the group's limit, and still counts for it."""
    limits = {"root": [user("sue", memory=9), group("dev", memory=2)]}
    manager = Manager(partition(limits), group_limits="unless-user-limited")

    assert manager.increase("root.a", "app-1", Resource(memory=8), SUE)
    assert manager.get_group_resources("dev") == Resource(memory=8)
    assert manager.headroom("root.a", "app-1", SUE) == ONE
    assert denials(manager, "root.a", "app-2", ONE, BOB) == [("dev", "root")]
    assert denials(manager, "root.a", "app-1", Resource(memory=2), SUE) == [("sue", "root")]


# Recovery, replacement, gangs


def test_increase_all_or_nothing() -> None:
    """If they do not fit together, none is granted, and the denial reports their total."""
    manager = Manager(partition({"root": [group("dev", memory=3, applications=2)]}))
    gang = [Request("root.a", f"app-{number}", ONE, SUE) for number in range(4)]
    decision = manager.increase_all(gang)

    assert decision.violations == (
        Violation(TrackingType.GROUP, "dev", "root", "dev", "memory", 3, 0, 4),
        Violation(TrackingType.GROUP, "dev", "root", "dev", None, 2, 0, 4),
    )
    assert exposed(manager) == {"users": {}, "groups": {}}


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
