"""The manager: tracking, enforcing and explaining the usage of users and groups."""

from __future__ import annotations

import pytest

from scenes import BOB, NOTHING, ONE, SUE, group, partition, user
from ugm import (
    Manager,
    NotTrackedError,
    Request,
    RequestError,
    Resource,
    Tracker,
    TrackingType,
    UserGroup,
    UserTracker,
    Violation,
)
from ugm.testing import exposed, verify_all

ANA = UserGroup("ana")


def denials(manager: Manager, path: str, application: str, usage: Resource, asking: UserGroup) -> list[tuple[str, ...]]:
    """Return whose limits deny a request, and where."""
    return [(told.name, told.queue_path) for told in manager.check(path, application, usage, asking).violations]


def test_is_a_tracker() -> None:
    """The manager has the interface of the tracking document."""
    assert isinstance(Manager(), Tracker)


# Tracking


def test_without_configuration_everything_is_tracked() -> None:
    """Without limits everything is granted, in any queue, and counted against the user alone."""
    manager = Manager()

    assert manager.increase_tracked_resource("root.a.b", "app-1", Resource(memory=2**70), SUE)
    assert manager.get_user_resources(SUE) == Resource(memory=2**70)
    assert manager.get_groups_resources() == ()


def test_users_and_groups_not_tracked() -> None:
    """Who uses nothing is not tracked, and asking does not change that."""
    manager = Manager(partition({"root": [group("dev", memory=5)]}))

    assert manager.get_user_resources(SUE) is None
    assert manager.get_group_resources("dev") is None
    assert manager.get_user_tracker("sue") is None
    assert manager.get_group_tracker("dev") is None
    assert (manager.get_users_resources(), manager.get_groups_resources()) == ((), ())


def test_live_trackers() -> None:
    """The trackers handed out are live."""
    manager = Manager(partition({"root": [group("dev", memory=5)]}))
    manager.increase("root.a", "app-1", ONE, SUE)
    sue, dev = manager.get_user_tracker("sue"), manager.get_group_tracker("dev")
    manager.increase("root.a", "app-1", ONE, SUE)

    assert sue is not None
    assert dev is not None
    assert sue.usage == dev.usage == Resource(memory=2)


def test_tracker_is_gone_with_its_last_application() -> None:
    """A tracker without applications is dropped at once; a limit does not keep it."""
    manager = Manager(partition({"root": [user("sue", memory=5), group("dev", memory=5)]}))
    manager.increase("root.a", "app-1", ONE, SUE)
    manager.decrease_tracked_resource("root.a", "app-1", ONE, SUE, remove_app=True)

    assert exposed(manager) == {"users": {}, "groups": {}}


def test_application_without_usage_runs_on() -> None:
    """Giving everything back does not end an application: requests may be pending."""
    manager = Manager()
    manager.increase("root.a", "app-1", ONE, SUE)
    manager.decrease_tracked_resource("root.a", "app-1", ONE, SUE)

    assert manager.get_user_resources(SUE) == NOTHING
    assert manager.get_users_resources()[0].queues.running_applications == ("app-1",)


def test_application_ends_in_one_queue_at_a_time() -> None:
    """An application in two queues leaves the root only when it has left both."""
    manager = Manager()
    manager.increase("root.a", "app-1", ONE, SUE)
    manager.increase("root.b", "app-1", Resource(memory=2), SUE)
    manager.decrease_tracked_resource("root.a", "app-1", ONE, SUE, remove_app=True)

    (usage,) = manager.get_users_resources()
    assert [child.queue_path for child in usage.queues.children] == ["root.b"]
    assert usage.queues.running_applications == ("app-1",)
    assert manager.get_user_resources(SUE) == Resource(memory=2)


def test_three_queues_end_in_any_order() -> None:
    """An application in many queues can end in them in any order."""
    manager = Manager(partition({"root": [group("dev", memory=9)]}))
    for path in ("root.a", "root.b", "root.c"):
        manager.increase(path, "app-1", ONE, SUE)
    for path in ("root.b", "root.a", "root.c"):
        manager.decrease_tracked_resource(path, "app-1", ONE, SUE, remove_app=True)
        verify_all(manager)

    assert exposed(manager) == {"users": {}, "groups": {}}


def test_queue_names_in_any_case() -> None:
    """A queue is the same in any case: in limits, in requests, in questions."""
    manager = Manager(partition({"root.Sales": [user("sue", memory=2)]}))
    manager.increase("root.SALES", "app-1", ONE, SUE)

    assert not manager.increase("ROOT.sales", "app-1", Resource(memory=2), SUE)
    assert manager.headroom("root.Sales", "app-1", SUE) == ONE
    manager.decrease_tracked_resource("root.sAles", "app-1", ONE, SUE, remove_app=True)
    assert manager.get_user_resources(SUE) is None


# Again and again, with the same objects


def test_same_objects_under_other_limits() -> None:
    """A request that is repeated meets the limits of the moment, whatever was granted to it before."""
    manager = Manager(partition({"root": [user("sue", memory=9)]}))
    assert manager.increase("root", "app-1", ONE, SUE)
    assert manager.increase("root", "app-1", ONE, SUE)
    manager.update_config(partition({"root": [user("sue", memory=3)], "root.a": [user("sue", gpu=1)]}))

    assert manager.increase("root", "app-1", ONE, SUE)
    assert not manager.increase("root", "app-1", ONE, SUE)
    manager.decrease_tracked_resource("root", "app-1", ONE, SUE)
    verify_all(manager)


def test_same_objects_of_somebody_else() -> None:
    """A usage that one user has had granted does not let another use the application, nor give back."""
    manager = Manager()
    for _ in range(2):
        manager.increase("root", "app-1", ONE, SUE)

    for call in (manager.increase, manager.decrease_tracked_resource):
        with pytest.raises(RequestError):
            call("root", "app-1", ONE, BOB)
    assert manager.get_user_resources(SUE) == Resource(memory=2)


def test_same_objects_in_another_queue() -> None:
    """Nor is what is repeated in another queue taken for the first."""
    manager = Manager(partition({"root.b": [user("sue", memory=1)]}))
    for _ in range(2):
        manager.increase("root.a", "app-1", ONE, SUE)

    assert manager.increase("root.b", "app-1", ONE, SUE)
    assert not manager.increase("root.b", "app-1", ONE, SUE)
    with pytest.raises(NotTrackedError):
        manager.decrease_tracked_resource("root", "app-1", ONE, SUE)
    manager.decrease_tracked_resource("root.b", "app-1", ONE, SUE, remove_app=True)
    assert manager.get_user_resources(SUE) == Resource(memory=2)


# The limit in force


def test_named_limit_comes_before_the_wildcard() -> None:
    """A user named in a queue is held to that limit there, and not to the wildcard, whichever is lower."""
    manager = Manager(partition({"root": [user("sue", memory=9), user("*", memory=2, vcore=2)]}))

    assert manager.increase("root", "app-1", Resource(memory=9, vcore=9), SUE)
    assert not manager.increase("root", "app-2", Resource(memory=3), BOB)


def test_user_wildcard_is_for_each_user() -> None:
    """The wildcard limits every user alone."""
    manager = Manager(partition({"root": [user("*", memory=2)]}))

    assert manager.increase("root", "app-1", Resource(memory=2), SUE)
    assert manager.increase("root", "app-2", Resource(memory=2), BOB)


def test_group_wildcard_is_for_all_together() -> None:
    """The group wildcard is one tracker for all members of unnamed groups."""
    manager = Manager(partition({"root": [group("ops", "*", memory=3)]}))

    assert manager.increase("root", "app-1", Resource(memory=2), SUE)
    assert not manager.increase("root", "app-2", Resource(memory=2), UserGroup("cleo", ("science",)))
    assert manager.get_group_resources("*") == Resource(memory=2)
    assert manager.increase("root", "app-3", Resource(memory=3), UserGroup("cleo", ("ops",)))


def test_zero_in_a_limit_allows_none() -> None:
    """A zero beside a positive amount forbids that resource; a missing one is unlimited."""
    manager = Manager(partition({"root": [user("sue", memory=5, gpu=0)]}))

    assert not manager.increase("root", "app-1", Resource(gpu=1), SUE)
    assert manager.increase("root", "app-1", Resource(memory=5, gpu=0, pods=10**9), SUE)


def test_every_queue_on_the_way_holds() -> None:
    """A request must fit the limits of its queue and of every queue above."""
    manager = Manager(partition({"root": [user("sue", memory=5)], "root.a.b": [user("sue", memory=3)]}))

    assert not manager.increase("root.a.b.c", "app-1", Resource(memory=4), SUE)
    assert manager.increase("root.a.b.c", "app-1", Resource(memory=3), SUE)
    assert not manager.increase("root.b", "app-1", Resource(memory=3), SUE)
    assert manager.increase("root.b", "app-1", Resource(memory=2), SUE)


def test_queues_whose_names_begin_alike() -> None:
    """A queue is not below another whose name its own begins with."""
    manager = Manager(partition({"root.a": [user("sue", applications=1)], "root.ab": [user("sue", memory=1)]}))
    manager.increase("root.ab", "app-1", ONE, SUE)
    manager.increase("root.a", "app-2", Resource(memory=5), SUE)

    assert not manager.can_run_app("root.a", "app-1", SUE)
    assert not manager.increase("root.ab", "app-2", ONE, SUE)


def test_what_is_not_asked_for_never_denies() -> None:
    """A resource that is over its limit does not deny requests for others."""
    manager = Manager(partition({"root": [user("sue", memory=1, vcore=1)]}))
    manager.adopt("root", "app-1", Resource(memory=5), SUE)

    assert manager.increase("root", "app-1", Resource(vcore=1, memory=0), SUE)
    assert not manager.increase("root", "app-1", Resource(memory=1), SUE)


def test_running_application_may_grow_where_no_other_may_start() -> None:
    """A limit on applications concerns those that do not run below the queue yet."""
    manager = Manager(partition({"root.a": [user("sue", applications=1)]}))
    manager.increase("root.a.x", "app-1", ONE, SUE)

    assert manager.increase("root.a.y", "app-1", ONE, SUE)
    assert not manager.increase("root.a.x", "app-2", NOTHING, SUE)
    assert manager.increase("root.b", "app-2", ONE, SUE)
    assert not manager.increase("root.a.x", "app-2", NOTHING, SUE)


# The group


def test_nearest_queue_chooses_the_group() -> None:
    """From the leaf upward, the first queue that names a group of the user decides."""
    manager = Manager(partition({"root": [group("dev", memory=9)], "root.a": [group("ops", memory=9)]}))
    both = UserGroup("sue", ("dev", "ops"))

    assert manager.group_for("root.a.x", "app-1", both) == "ops"
    assert manager.group_for("root.b", "app-1", both) == "dev"


def test_configuration_order_chooses_the_group() -> None:
    """Within a queue the order of the configuration decides, not that of the user's groups."""
    manager = Manager(partition({"root": [group("ops", memory=9), group("dev", memory=9)]}))

    assert manager.group_for("root", "app-1", UserGroup("sue", ("dev", "ops"))) == "ops"


def test_group_wildcard_hides_named_groups_above() -> None:
    """A group wildcard low in the hierarchy takes applications away from groups that are named above."""
    manager = Manager(partition({"root": [group("dev", memory=9)], "root.a": [group("ops", "*", memory=9)]}))

    assert manager.group_for("root.a", "app-1", SUE) == "*"
    assert manager.group_for("root.b", "app-1", SUE) == "dev"


def test_user_without_groups_has_no_group() -> None:
    """Nobody without groups is charged to a group, not even to the wildcard."""
    manager = Manager(partition({"root": [group("dev", "*", memory=1)]}))

    assert manager.group_for("root", "app-1", ANA) is None
    assert manager.increase("root", "app-1", Resource(memory=5), ANA)
    assert manager.get_groups_resources() == ()


def test_group_stays_whatever_happens() -> None:
    """The group of an application stays, in all its queues, whatever the configuration and the user's groups become."""
    manager = Manager(partition({"root": [group("dev", memory=9)]}))
    manager.increase("root.a", "app-1", ONE, SUE)
    manager.update_config(partition({"root": [group("ops", memory=9)]}))
    moved = UserGroup("sue", ("ops",))
    manager.increase("root.b", "app-1", ONE, moved)

    assert manager.group_for("root.b", "app-1", moved) == "dev"
    assert manager.get_group_resources("dev") == Resource(memory=2)
    assert manager.group_for("root.b", "app-2", moved) == "ops"


def test_no_group_is_a_choice() -> None:
    """An application that started without a group stays without."""
    manager = Manager()
    manager.increase("root", "app-1", ONE, SUE)
    manager.update_config(partition({"root": [group("dev", memory=1)]}))

    assert manager.increase("root", "app-1", Resource(memory=9), SUE)
    assert manager.get_group_resources("dev") is None


def test_group_is_forgotten_with_the_last_queue() -> None:
    """An application that starts again chooses anew."""
    manager = Manager(partition({"root": [group("dev", memory=9)]}))
    manager.increase("root", "app-1", ONE, SUE)
    manager.decrease_tracked_resource("root", "app-1", ONE, SUE, remove_app=True)

    assert manager.group_for("root", "app-1", UserGroup("sue", ("ops",))) is None


def test_chosen_by_hand_until_the_application_ends() -> None:
    """A group chosen through the live tracker is used, and forgotten with the application, like any other."""
    manager = Manager(partition({"root": [group("dev", memory=9)]}))
    manager.increase("root", "app-1", ONE, SUE)
    sue = manager.get_user_tracker("sue")
    assert sue is not None
    sue.set_group_for_app("app-2", None)

    assert manager.group_for("root", "app-2", SUE) is None
    manager.increase("root", "app-2", ONE, SUE)
    manager.decrease_tracked_resource("root", "app-2", ONE, SUE, remove_app=True)
    assert manager.group_for("root", "app-2", SUE) == "dev"


def test_asking_chooses_no_group() -> None:
    """No question makes the choice, nor does a denied increase."""
    manager = Manager(partition({"root": [group("dev", memory=1)]}))
    manager.headroom("root", "app-1", ANA)
    manager.can_run_app("root", "app-1", ANA)
    manager.check("root", "app-1", ONE, SUE)
    manager.increase("root", "app-1", Resource(memory=2), SUE)

    assert manager.group_for("root", "app-1", UserGroup("sue", ("ops",))) is None
    assert exposed(manager) == {"users": {}, "groups": {}}


def test_same_name_for_a_user_and_a_group() -> None:
    """A user and a group of one name have nothing to do with each other."""
    manager = Manager(partition({"root": [user("dev", memory=1), group("dev", memory=5)]}))
    manager.increase("root", "app-1", ONE, UserGroup("dev"))

    assert manager.increase("root", "app-2", Resource(memory=5), SUE)
    assert manager.get_user_resources(UserGroup("dev")) == ONE


# Enforcing


def test_denied_by_the_group_charges_nobody() -> None:
    """If either has no room, neither is charged."""
    manager = Manager(partition({"root": [user("sue", memory=9), group("dev", memory=2)]}))
    manager.increase("root", "app-1", ONE, SUE)
    before = exposed(manager)

    assert not manager.increase("root", "app-2", Resource(memory=2), SUE)
    assert exposed(manager) == before


def test_denial_names_every_limit_in_order() -> None:
    """A denial lists all limits in the way: the user's before the group's, each leaf to root."""
    limits = {
        "root": [user("sue", applications=1), group("dev", memory=1)],
        "root.a": [user("sue", memory=1), group("dev", memory=2, applications=1)],
    }
    manager = Manager(partition(limits))
    manager.increase("root.a", "app-1", ONE, SUE)
    decision = manager.increase("root.a", "app-2", Resource(memory=2), SUE)

    assert [(told.tracker.value, told.queue_path, told.resource) for told in decision.violations] == [
        ("user", "root.a", "memory"),
        ("user", "root", None),
        ("group", "root.a", "memory"),
        ("group", "root.a", None),
        ("group", "root", "memory"),
    ]


def test_violation_tells_the_numbers() -> None:
    """A violation has the limit, what is used and what was asked, and the name in the configuration."""
    manager = Manager(partition({"root.a": [user("*", memory=5)]}))
    manager.increase("root.a.x", "app-1", Resource(memory=4), SUE)
    (told,) = manager.increase("root.a.y", "app-2", Resource(memory=3, vcore=1), SUE).violations

    assert told == Violation(TrackingType.USER, "sue", "root.a", "*", "memory", 5, 4, 3)


def test_check_changes_nothing() -> None:
    """A check answers what an increase would, and can be asked any number of times."""
    manager = Manager(partition({"root": [user("sue", memory=1)]}))

    assert manager.check("root", "app-1", ONE, SUE).allowed
    assert manager.check("root", "app-1", ONE, SUE).allowed
    assert not manager.check("root", "app-1", Resource(memory=2), SUE)
    assert exposed(manager) == {"users": {}, "groups": {}}


def test_headroom_is_the_least() -> None:
    """The headroom is the least that any limit of user and group leaves, resource by resource."""
    limits = {
        "root": [user("sue", memory=9, vcore=3), group("dev", memory=4)],
        "root.a": [user("*", memory=5, pods=7)],
    }
    manager = Manager(partition(limits))
    manager.increase("root.b", "app-1", Resource(memory=2, pods=1), SUE)

    assert manager.headroom("root.a", "app-1", SUE) == Resource(memory=2, vcore=3, pods=7)
    assert manager.headroom("root.b", "app-1", SUE) == Resource(memory=2, vcore=3)


def test_headroom_may_be_negative_or_none() -> None:
    """A limit below the usage leaves less than nothing; where nothing limits resources there is no headroom."""
    manager = Manager(partition({"root.a": [user("sue", memory=1)], "root.b": [user("sue", applications=1)]}))
    manager.adopt("root.a", "app-1", Resource(memory=3), SUE)

    assert manager.headroom("root.a", "app-1", SUE) == Resource(memory=-2)
    assert manager.headroom("root.b", "app-1", SUE) is None


def test_can_run_app() -> None:
    """Counts of applications decide whether an application may run, resources do not."""
    manager = Manager(partition({"root": [user("sue", applications=1, memory=1), group("dev", applications=2)]}))
    manager.increase("root", "app-1", ONE, SUE)

    assert manager.can_run_app("root", "app-1", SUE)
    assert not manager.can_run_app("root", "app-2", SUE)
    assert manager.can_run_app("root", "app-2", BOB)


def test_asking_about_an_application_of_somebody_else() -> None:
    """Who asks about an application of another user is told how one of that name would fare."""
    manager = Manager(partition({"root": [user("bob", memory=5)]}))
    manager.increase("root", "app-1", ONE, SUE)

    assert manager.headroom("root", "app-1", BOB) == Resource(memory=5)
    assert manager.can_run_app("root", "app-1", BOB)
    assert manager.group_for("root", "app-1", BOB) is None


# Users with limits of their own


def test_unless_user_limited() -> None:
    """In that mode a user with a named limit on the path is held to that alone, and still counts for the group."""
    limits = {"root": [user("sue", memory=9), group("dev", memory=2)]}
    manager = Manager(partition(limits), group_limits="unless-user-limited")

    assert manager.increase("root.a", "app-1", Resource(memory=8), SUE)
    assert manager.get_group_resources("dev") == Resource(memory=8)
    assert manager.headroom("root.a", "app-1", SUE) == ONE
    assert denials(manager, "root.a", "app-2", ONE, BOB) == [("dev", "root")]
    assert denials(manager, "root.a", "app-1", Resource(memory=2), SUE) == [("sue", "root")]


def test_unless_user_limited_needs_a_named_limit_on_the_path() -> None:
    """A wildcard, or a limit in another branch, is no limit of the user's own."""
    limits = {"root": [user("*", memory=9), group("dev", memory=2)], "root.b": [user("sue", memory=5)]}
    manager = Manager(partition(limits), group_limits="unless-user-limited")

    assert denials(manager, "root.a", "app-1", Resource(memory=3), SUE) == [("dev", "root")]
    assert manager.check("root.b", "app-1", Resource(memory=3), SUE)


def test_unless_user_limited_concerns_applications_too() -> None:
    """The group's count of applications does not hold a user with a limit of its own."""
    limits = {"root": [user("sue", memory=9), group("dev", applications=1)]}
    manager = Manager(partition(limits), group_limits="unless-user-limited")
    manager.increase("root", "app-1", ONE, BOB)

    assert manager.increase("root", "app-2", ONE, SUE)
    assert not manager.can_run_app("root", "app-3", BOB)


# Recovery, replacement, gangs


def test_adopt_counts_above_the_limits() -> None:
    """What runs already is counted, and what is over its limit now is told."""
    manager = Manager(partition({"root": [user("sue", memory=2, applications=1), group("dev", memory=5)]}))
    assert manager.adopt("root.a", "app-1", Resource(memory=2), SUE) == ()

    told = manager.adopt("root.a", "app-2", Resource(memory=4), SUE)
    assert [str(violation) for violation in told] == [
        "user 'sue' in root: 6 memory used of 2, 4 too much (limit for 'sue')",
        "user 'sue' in root: 2 of 1 applications running (limit for 'sue')",
        "group 'dev' in root: 6 memory used of 5, 1 too much (limit for 'dev')",
    ]
    assert manager.over_limit() == told


def test_adopted_usage_is_given_back() -> None:
    """Once enough is given back, growth is allowed again."""
    manager = Manager(partition({"root": [user("sue", memory=2)]}))
    manager.adopt("root", "app-1", Resource(memory=3), SUE)
    manager.decrease_tracked_resource("root", "app-1", Resource(memory=2), SUE)

    assert manager.over_limit() == ()
    assert manager.increase("root", "app-1", ONE, SUE)


def test_replace_checks_growth_only() -> None:
    """A placeholder is swapped for what is real; only what grows must fit."""
    manager = Manager(partition({"root": [user("sue", memory=2, vcore=2)]}))
    manager.adopt("root", "app-1", Resource(memory=5, vcore=1), SUE)

    assert manager.replace("root", "app-1", Resource(memory=5, vcore=1), Resource(memory=4, vcore=2), SUE)
    assert manager.get_user_resources(SUE) == Resource(memory=4, vcore=2)


def test_replace_denied_changes_nothing() -> None:
    """A replacement that grows too much is denied, as if the placeholder had made way, and the placeholder stays."""
    manager = Manager(partition({"root": [user("sue", memory=3)]}))
    manager.increase("root", "app-1", Resource(memory=2), SUE)
    decision = manager.replace("root", "app-1", Resource(memory=2), Resource(memory=4), SUE)

    assert decision.violations == (Violation(TrackingType.USER, "sue", "root", "sue", "memory", 3, 0, 4),)
    assert manager.get_user_resources(SUE) == Resource(memory=2)


def test_replace_smaller_keeps_the_application() -> None:
    """A placeholder can be swapped for less, and for nothing; the application runs on."""
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
    """If all of them do not fit together, none is granted, and the denial tells what they ask together."""
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
    """Requests of applications that run already start none, and so fit where too many run."""
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
    """Requests may be made as they are asked for, by code that asks the manager itself."""
    manager = Manager()
    held: list[bool] = []

    def gang() -> list[Request]:
        held.append(manager._lock.locked())
        return [Request("root", "app-1", ONE, SUE)]

    assert manager.increase_all(request for _ in range(2) for request in gang())
    assert held == [False, False]


# Changes of limits


def test_new_limits_hold_at_once() -> None:
    """Every answer after a change follows the new limits; usage stays."""
    manager = Manager(partition({"root": [user("sue", memory=1)]}))
    manager.increase("root", "app-1", ONE, SUE)
    manager.update_config(partition({"root": [user("sue", memory=3)]}))

    assert manager.increase("root", "app-1", Resource(memory=2), SUE)
    manager.update_config(partition({"root": [user("sue", memory=2)]}))
    assert manager.get_user_resources(SUE) == Resource(memory=3)
    assert not manager.increase("root", "app-1", ONE, SUE)
    manager.update_config(None)
    assert manager.increase("root", "app-1", Resource(memory=100), SUE)


def test_limit_added_over_usage_without_limits() -> None:
    """A limit counts what was used before it was there, also of a resource that no limit named before."""
    manager = Manager()
    manager.increase("root.a.b", "app-1", Resource(memory=2, gpu=2), SUE)
    manager.increase("root.a.c", "app-1", Resource(memory=1), SUE)
    manager.update_config(partition({"root.a": [user("sue", memory=4, gpu=3, applications=1)]}))

    assert manager.headroom("root.a", "app-1", SUE) == Resource(memory=1, gpu=1)
    assert not manager.can_run_app("root.a", "app-2", SUE)


def test_limit_added_counts_an_application_once() -> None:
    """An application in two queues is one application for a limit above both."""
    manager = Manager()
    manager.increase("root.a.x", "app-1", ONE, SUE)
    manager.increase("root.a.y", "app-1", ONE, SUE)
    manager.update_config(partition({"root.a": [user("sue", applications=1)]}))

    assert manager.over_limit() == ()
    manager.decrease_tracked_resource("root.a.x", "app-1", ONE, SUE, remove_app=True)
    assert not manager.can_run_app("root.a", "app-2", SUE)
    manager.decrease_tracked_resource("root.a.y", "app-1", ONE, SUE, remove_app=True)
    assert manager.can_run_app("root.a", "app-2", SUE)


def test_over_limit_in_order() -> None:
    """Who is over a limit is told users before groups, by name, leaf to root."""
    manager = Manager()
    for asking, application in ((SUE, "app-1"), (BOB, "app-2")):
        manager.increase("root.a", application, Resource(memory=2), asking)
    manager.update_config(partition({"root": [user("*", memory=1)], "root.a": [user("sue", memory=1)]}))

    assert [(told.name, told.queue_path, told.shortfall) for told in manager.over_limit()] == [
        ("bob", "root", 1),
        ("sue", "root.a", 1),
        ("sue", "root", 1),
    ]


def test_limits_by_hand_end_with_the_configuration() -> None:
    """A limit set through a live tracker holds until the next configuration, even if that is the same."""
    limits = partition({"root": [user("*", memory=5)]})
    manager = Manager(limits)
    manager.increase("root", "app-1", ONE, SUE)
    sue = manager.get_user_tracker("sue")
    assert sue is not None
    sue.set_max_resources(ONE)

    assert not manager.increase("root", "app-1", ONE, SUE)
    manager.update_config(limits)
    assert manager.increase("root", "app-1", Resource(memory=4), SUE)


def test_limits_by_hand_where_there_was_none() -> None:
    """A limit set by hand in a queue without one counts what runs there from then on, until it ends."""
    manager = Manager()
    manager.increase("root.a", "app-1", ONE, SUE)
    manager.increase("root.b", "app-9", ONE, SUE)
    sue = manager.get_user_tracker("sue")
    assert sue is not None
    sue.set_max_applications(1, "root.a")
    manager.increase("root.a", "app-1", ONE, SUE)
    verify_all(manager)

    assert not manager.can_run_app("root.a", "app-2", SUE)
    manager.decrease_tracked_resource("root.a", "app-1", Resource(memory=2), SUE, remove_app=True)
    assert manager.can_run_app("root.a", "app-2", SUE)
    verify_all(manager)


def test_limits_by_hand_of_a_group() -> None:
    """A limit set on a group holds for all members at once."""
    manager = Manager(partition({"root": [group("dev", memory=9)]}))
    manager.increase("root.a", "app-1", ONE, SUE)
    manager.increase("root.a", "app-2", ONE, BOB)
    dev = manager.get_group_tracker("dev")
    assert dev is not None
    dev.set_max_resources(Resource(memory=2), "root.a")

    assert not manager.increase("root.a", "app-1", ONE, SUE)
    assert not manager.increase("root.a", "app-2", ONE, BOB)
    assert manager.increase("root.b", "app-2", ONE, BOB)


# Effective limits


def test_effective_limits() -> None:
    """A user can be told every limit that holds in a queue, which entry sets it, and what is used of it."""
    limits = {"root": [user("bob", memory=1), user("*", memory=9)], "root.a": [group("dev", applications=3)]}
    manager = Manager(partition(limits))
    manager.increase("root.a", "app-1", Resource(memory=2, vcore=1), SUE)

    assert [tuple(limit) for limit in manager.effective_limits(SUE, "root.a.x")] == [
        ("user", "sue", "root", "*", "root limits[1]", Resource(memory=9), 0, Resource(memory=2), 1),
        ("group", "dev", "root.a", "dev", "root.a limits[0]", None, 3, NOTHING, 1),
    ]


def test_effective_limits_of_a_running_application() -> None:
    """For a running application the group is the one that it is charged to."""
    manager = Manager(partition({"root": [group("dev", memory=9)]}))
    manager.increase("root", "app-1", ONE, SUE)
    moved = UserGroup("sue")

    assert [limit.name for limit in manager.effective_limits(moved, "root", "app-1")] == ["dev"]
    assert manager.effective_limits(moved, "root") == ()


def test_effective_limits_without_limits() -> None:
    """Where nothing limits there is nothing to tell."""
    assert Manager().effective_limits(SUE, "root.a") == ()


# Live trackers


def _with_live_tracker() -> tuple[Manager, UserTracker]:
    manager = Manager(partition({"root": [group("dev", memory=9)]}))
    manager.increase("root.a", "app-1", Resource(memory=2), SUE)
    tracker = manager.get_user_tracker("sue")
    assert tracker is not None
    return manager, tracker


def test_live_tracker_is_charged_through_the_manager() -> None:
    """What a manager tracks is changed through the manager: its trackers refuse, and nothing changes."""
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
    """Nor can an application be ended behind the manager's back."""
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
    manager.decrease_tracked_resource("root.a", "app-1", Resource(memory=2), SUE, remove_app=True)
    sue.set_max_applications(1)
    manager.increase("root.a", "app-2", ONE, SUE)
    manager.increase("root.a", "app-3", ONE, SUE)

    verify_all(manager)
    assert sue.usage == NOTHING
    assert manager.get_user_resources(SUE) == Resource(memory=2)
