"""The manager: single requests, batches, replacements and adoptions."""

from __future__ import annotations

from support.tracking_fixtures import BOB, NOTHING, ONE, SUE, group, partition, user
from ugm import (
    Manager,
    Request,
    Resource,
    TrackingType,
    UserGroup,
    Violation,
)
from ugm.testing import exposed


def denials(manager: Manager, path: str, application: str, usage: Resource, asking: UserGroup) -> list[tuple[str, ...]]:
    """Return the owner and the queue of every limit that denies a request."""
    return [(each.name, each.queue_path) for each in manager.check(path, application, usage, asking).violations]


# Enforcing


def test_denied_by_the_group_charges_nobody() -> None:
    """If either limit denies the request, neither user nor group is charged."""
    manager = Manager(partition({"root": [user("sue", memory=9), group("dev", memory=2)]}))
    manager.increase("root", "app-1", ONE, SUE)
    before = exposed(manager)

    assert not manager.increase("root", "app-2", Resource(memory=2), SUE)
    assert exposed(manager) == before


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


def test_check_changes_nothing() -> None:
    """A check returns the decision of an increase, any number of times."""
    manager = Manager(partition({"root": [user("sue", memory=1)]}))

    assert manager.check("root", "app-1", ONE, SUE).allowed
    assert manager.check("root", "app-1", ONE, SUE).allowed
    assert not manager.check("root", "app-1", Resource(memory=2), SUE)
    assert exposed(manager) == {"users": {}, "groups": {}}


def test_headroom_is_the_least() -> None:
    """The headroom of a resource is the smallest free amount of all limits of user and group."""
    limits = {
        "root": [user("sue", memory=9, vcore=3), group("dev", memory=4)],
        "root.a": [user("*", memory=5, pods=7)],
    }
    manager = Manager(partition(limits))
    manager.increase("root.b", "app-1", Resource(memory=2, pods=1), SUE)

    assert manager.headroom("root.a", "app-1", SUE) == Resource(memory=2, vcore=3, pods=7)
    assert manager.headroom("root.b", "app-1", SUE) == Resource(memory=2, vcore=3)


def test_headroom_may_be_negative_or_none() -> None:
    """A limit below the usage has a negative headroom; without limits on resources there is no headroom."""
    manager = Manager(partition({"root.a": [user("sue", memory=1)], "root.b": [user("sue", applications=1)]}))
    manager.adopt("root.a", "app-1", Resource(memory=3), SUE)

    assert manager.headroom("root.a", "app-1", SUE) == Resource(memory=-2)
    assert manager.headroom("root.b", "app-1", SUE) is None


def test_can_run_app() -> None:
    """Whether an application may run depends on counts of applications, not on resources."""
    manager = Manager(partition({"root": [user("sue", applications=1, memory=1), group("dev", applications=2)]}))
    manager.increase("root", "app-1", ONE, SUE)

    assert manager.can_run_app("root", "app-1", SUE)
    assert not manager.can_run_app("root", "app-2", SUE)
    assert manager.can_run_app("root", "app-2", BOB)


def test_check_of_an_application_of_another_user() -> None:
    """A query about an application of another user treats it as one that has not started."""
    manager = Manager(partition({"root": [user("bob", memory=5)]}))
    manager.increase("root", "app-1", ONE, SUE)

    assert manager.headroom("root", "app-1", BOB) == Resource(memory=5)
    assert manager.can_run_app("root", "app-1", BOB)
    assert manager.group_for("root", "app-1", BOB) is None


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


def test_unless_user_limited_needs_a_named_limit_on_the_path() -> None:
    """A wildcard, or a limit in another branch, is not a named limit of the user."""
    limits = {"root": [user("*", memory=9), group("dev", memory=2)], "root.b": [user("sue", memory=5)]}
    manager = Manager(partition(limits), group_limits="unless-user-limited")

    assert denials(manager, "root.a", "app-1", Resource(memory=3), SUE) == [("dev", "root")]
    assert manager.check("root.b", "app-1", Resource(memory=3), SUE)


def test_unless_user_limited_concerns_applications_too() -> None:
    """A user with a named limit is exempt from the group's limit on applications."""
    limits = {"root": [user("sue", memory=9), group("dev", applications=1)]}
    manager = Manager(partition(limits), group_limits="unless-user-limited")
    manager.increase("root", "app-1", ONE, BOB)

    assert manager.increase("root", "app-2", ONE, SUE)
    assert not manager.can_run_app("root", "app-3", BOB)


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


def test_adopted_usage_is_given_back() -> None:
    """After enough has been released, growth is allowed again."""
    manager = Manager(partition({"root": [user("sue", memory=2)]}))
    manager.adopt("root", "app-1", Resource(memory=3), SUE)
    manager.decrease_tracked_resource("root", "app-1", Resource(memory=2), remove_app=False, user=SUE)

    assert manager.exceeded_limits() == ()
    assert manager.increase("root", "app-1", ONE, SUE)


def test_replace_checks_growth_only() -> None:
    """A placeholder is replaced by a real allocation; only resources that grow must fit."""
    manager = Manager(partition({"root": [user("sue", memory=2, vcore=2)]}))
    manager.adopt("root", "app-1", Resource(memory=5, vcore=1), SUE)

    assert manager.replace("root", "app-1", Resource(memory=5, vcore=1), Resource(memory=4, vcore=2), SUE)
    assert manager.get_user_resources(SUE) == Resource(memory=4, vcore=2)


def test_replace_denied_changes_nothing() -> None:
    """A replacement that grows too much is denied, the placeholder counts as free, and it stays."""
    manager = Manager(partition({"root": [user("sue", memory=3)]}))
    manager.increase("root", "app-1", Resource(memory=2), SUE)
    decision = manager.replace("root", "app-1", Resource(memory=2), Resource(memory=4), SUE)

    assert decision.violations == (Violation(TrackingType.USER, "sue", "root", "sue", "memory", 3, 0, 4),)
    assert manager.get_user_resources(SUE) == Resource(memory=2)


def test_replace_smaller_keeps_the_application() -> None:
    """A placeholder can be replaced by less, and by nothing; the application continues to run."""
    manager = Manager()
    manager.increase("root", "app-1", Resource(memory=2), SUE)

    assert manager.replace("root", "app-1", Resource(memory=2), NOTHING, SUE)
    assert manager.get_user_resources(SUE) == NOTHING


def test_increase_all_together() -> None:
    """Several requests, of any users, are granted together."""
    manager = Manager(partition({"root": [group("dev", memory=3)]}))

    assert manager.increase_all([Request("root.a", "app-1", ONE, SUE), ("root.b", "app-2", Resource(memory=2), BOB)])  # type: ignore[list-item] # the parts of a request will do
    assert manager.get_group_resources("dev") == Resource(memory=3)


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


def test_increase_all_counts_one_application_once() -> None:
    """Requests of one application start it once."""
    manager = Manager(partition({"root": [user("sue", applications=1)]}))

    assert manager.increase_all([Request(path, "app-1", ONE, SUE) for path in ("root.a", "root.b", "root.a")])


def test_increase_all_of_running_applications() -> None:
    """Requests of running applications start none, so they fit even if too many applications run."""
    manager = Manager(partition({"root": [user("sue", applications=1, memory=9)]}))
    for application in ("app-1", "app-2"):
        manager.adopt("root", application, ONE, SUE)

    assert manager.increase_all([Request("root", "app-1", ONE, SUE), Request("root", "app-2", ONE, SUE)])


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
