"""The manager: single requests, batches, replacements and adoptions."""

from __future__ import annotations

from support.tracking_fixtures import BOB, ONE, SUE, group, partition, user
from ugm import (
    Manager,
    Request,
    Resource,
    TrackingType,
    Violation,
)
from ugm.testing import exposed

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


def test_check_of_an_application_of_another_user() -> None:
    """A query about an application of another user treats it as one that has not started."""
    manager = Manager(partition({"root": [user("bob", memory=5)]}))
    manager.increase("root", "app-1", ONE, SUE)

    assert manager.headroom("root", "app-1", BOB) == Resource(memory=5)
    assert manager.can_run_app("root", "app-1", BOB)
    assert manager.group_for("root", "app-1", BOB) is None


# Recovery, replacement, gangs


def test_adopt_counts_above_the_limits() -> None:
    """Adopted usage is charged, and the limits that it exceeds are returned."""
    manager = Manager(partition({"root": [user("sue", memory=2, applications=1), group("dev", memory=5)]}))
    assert manager.adopt("root.a", "app-1", Resource(memory=2), SUE) == ()

    over = manager.adopt("root.a", "app-2", Resource(memory=4), SUE)
    assert [str(violation) for violation in over] == [
        "user 'sue' in root: 6 of 2 memory used, 4 too much (limit for 'sue')",
        "user 'sue' in root: 2 of 1 applications running (limit for 'sue')",
        "group 'dev' in root: 6 of 5 memory used, 1 too much (limit for 'dev')",
    ]
    assert manager.exceeded_limits() == over


def test_replace_denied_changes_nothing() -> None:
    """A replacement that grows too much is denied, the placeholder counts as free, and it stays."""
    manager = Manager(partition({"root": [user("sue", memory=3)]}))
    manager.increase("root", "app-1", Resource(memory=2), SUE)
    decision = manager.replace("root", "app-1", Resource(memory=2), Resource(memory=4), SUE)

    assert decision.violations == (Violation(TrackingType.USER, "sue", "root", "sue", "memory", 3, 0, 4),)
    assert manager.get_user_resources(SUE) == Resource(memory=2)


def test_increase_all_together() -> None:
    """Several requests, of any users, are granted together."""
    manager = Manager(partition({"root": [group("dev", memory=3)]}))

    assert manager.increase_all([Request("root.a", "app-1", ONE, SUE), ("root.b", "app-2", Resource(memory=2), BOB)])  # type: ignore[list-item] # the parts of a request will do
    assert manager.get_group_resources("dev") == Resource(memory=3)


def test_increase_all_of_nothing() -> None:
    """No requests are granted, and change nothing."""
    manager = Manager()

    assert manager.increase_all([])
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
