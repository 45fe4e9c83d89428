"""The manager: single requests, batches, replacements and adoptions."""

from __future__ import annotations

from support.tracking_fixtures import BOB, ONE, SUE, group, partition, user
from ugm import (
    Manager,
    Request,
    Resource,
)

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


def test_check_of_an_application_of_another_user() -> None:
    """A query about an application of another user treats it as one that has not started."""
    manager = Manager(partition({"root": [user("bob", memory=5)]}))
    manager.increase("root", "app-1", ONE, SUE)

    assert manager.headroom("root", "app-1", BOB) == Resource(memory=5)
    assert manager.can_run_app("root", "app-1", BOB)
    assert manager.group_for("root", "app-1", BOB) is None


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
