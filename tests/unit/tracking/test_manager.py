"""The manager: tracking by user, queue and group."""

from __future__ import annotations

import pytest

from support.tracking_fixtures import BOB, NOTHING, ONE, SUE, group, partition, user
from ugm import Manager, NotTrackedError, RequestError, Resource, UserGroup
from ugm.testing import exposed, verify_all
from ugm.tracking import Tracker

ANA = UserGroup("ana")


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
    """A user without usage is not tracked, and queries do not change that."""
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
    manager.decrease_tracked_resource("root.a", "app-1", ONE, remove_app=True, user=SUE)

    assert exposed(manager) == {"users": {}, "groups": {}}


def test_application_without_usage_runs_on() -> None:
    """Releasing everything does not end an application, because requests may be pending."""
    manager = Manager()
    manager.increase("root.a", "app-1", ONE, SUE)
    manager.decrease_tracked_resource("root.a", "app-1", ONE, remove_app=False, user=SUE)

    assert manager.get_user_resources(SUE) == NOTHING
    assert manager.get_users_resources()[0].queues.running_applications == ("app-1",)


def test_application_ends_in_one_queue_at_a_time() -> None:
    """An application in two queues stops running in the root only after it has ended in both."""
    manager = Manager()
    manager.increase("root.a", "app-1", ONE, SUE)
    manager.increase("root.b", "app-1", Resource(memory=2), SUE)
    manager.decrease_tracked_resource("root.a", "app-1", ONE, remove_app=True, user=SUE)

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
        manager.decrease_tracked_resource(path, "app-1", ONE, remove_app=True, user=SUE)
        verify_all(manager)

    assert exposed(manager) == {"users": {}, "groups": {}}


def test_queue_names_in_any_case() -> None:
    """Queue paths are not case-sensitive: in limits, in requests and in queries."""
    manager = Manager(partition({"root.Sales": [user("sue", memory=2)]}))
    manager.increase("root.SALES", "app-1", ONE, SUE)

    assert not manager.increase("ROOT.sales", "app-1", Resource(memory=2), SUE)
    assert manager.headroom("root.Sales", "app-1", SUE) == ONE
    manager.decrease_tracked_resource("root.sAles", "app-1", ONE, remove_app=True, user=SUE)
    assert manager.get_user_resources(SUE) is None


# Again and again, with the same objects


def test_same_objects_under_other_limits() -> None:
    """A repeated request is checked against the present limits."""
    manager = Manager(partition({"root": [user("sue", memory=9)]}))
    assert manager.increase("root", "app-1", ONE, SUE)
    assert manager.increase("root", "app-1", ONE, SUE)
    manager.update_config(partition({"root": [user("sue", memory=3)], "root.a": [user("sue", gpu=1)]}))

    assert manager.increase("root", "app-1", ONE, SUE)
    assert not manager.increase("root", "app-1", ONE, SUE)
    manager.decrease_tracked_resource("root", "app-1", ONE, remove_app=False, user=SUE)
    verify_all(manager)


def test_same_objects_of_another_user() -> None:
    """After a grant for one user, another user can neither use nor refund the application."""
    manager = Manager()
    for _ in range(2):
        manager.increase("root", "app-1", ONE, SUE)

    with pytest.raises(RequestError):
        manager.increase("root", "app-1", ONE, BOB)
    with pytest.raises(RequestError):
        manager.decrease_tracked_resource("root", "app-1", ONE, remove_app=False, user=BOB)
    assert manager.get_user_resources(SUE) == Resource(memory=2)


def test_same_objects_in_another_queue() -> None:
    """A repeated request in another queue is not mistaken for the first."""
    manager = Manager(partition({"root.b": [user("sue", memory=1)]}))
    for _ in range(2):
        manager.increase("root.a", "app-1", ONE, SUE)

    assert manager.increase("root.b", "app-1", ONE, SUE)
    assert not manager.increase("root.b", "app-1", ONE, SUE)
    with pytest.raises(NotTrackedError):
        manager.decrease_tracked_resource("root", "app-1", ONE, remove_app=False, user=SUE)
    manager.decrease_tracked_resource("root.b", "app-1", ONE, remove_app=True, user=SUE)
    assert manager.get_user_resources(SUE) == Resource(memory=2)


# The limit in force


def test_named_limit_comes_before_the_wildcard() -> None:
    """A named limit of a user replaces the wildcard, even if the wildcard is lower."""
    manager = Manager(partition({"root": [user("sue", memory=9), user("*", memory=2, vcore=2)]}))

    assert manager.increase("root", "app-1", Resource(memory=9, vcore=9), SUE)
    assert not manager.increase("root", "app-2", Resource(memory=3), BOB)


def test_user_wildcard_is_for_each_user() -> None:
    """The wildcard limits every user separately."""
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
    """A zero next to a positive amount forbids that resource; a missing one is unlimited."""
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
    """A queue is not below another queue only because its name has the same prefix."""
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
    """A limit on applications affects only those that do not run below the queue yet."""
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
    """A group wildcard takes precedence over groups that are named in a queue above."""
    manager = Manager(partition({"root": [group("dev", memory=9)], "root.a": [group("ops", "*", memory=9)]}))

    assert manager.group_for("root.a", "app-1", SUE) == "*"
    assert manager.group_for("root.b", "app-1", SUE) == "dev"


def test_user_without_groups_has_no_group() -> None:
    """A user without groups is not charged to any group, not even to the wildcard."""
    manager = Manager(partition({"root": [group("dev", "*", memory=1)]}))

    assert manager.group_for("root", "app-1", ANA) is None
    assert manager.increase("root", "app-1", Resource(memory=5), ANA)
    assert manager.get_groups_resources() == ()


def test_group_stays_whatever_happens() -> None:
    """The group of an application stays in all its queues, even if the configuration or the user's groups change."""
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
    """An application that starts again chooses its group again."""
    manager = Manager(partition({"root": [group("dev", memory=9)]}))
    manager.increase("root", "app-1", ONE, SUE)
    manager.decrease_tracked_resource("root", "app-1", ONE, remove_app=True, user=SUE)

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
    manager.decrease_tracked_resource("root", "app-2", ONE, remove_app=True, user=SUE)
    assert manager.group_for("root", "app-2", SUE) == "dev"


def test_asking_chooses_no_group() -> None:
    """Queries and denied increases do not choose the group."""
    manager = Manager(partition({"root": [group("dev", memory=1)]}))
    manager.headroom("root", "app-1", ANA)
    manager.can_run_app("root", "app-1", ANA)
    manager.check("root", "app-1", ONE, SUE)
    manager.increase("root", "app-1", Resource(memory=2), SUE)

    assert manager.group_for("root", "app-1", UserGroup("sue", ("ops",))) is None
    assert exposed(manager) == {"users": {}, "groups": {}}


def test_same_name_for_a_user_and_a_group() -> None:
    """A user and a group of the same name are independent."""
    manager = Manager(partition({"root": [user("dev", memory=1), group("dev", memory=5)]}))
    manager.increase("root", "app-1", ONE, UserGroup("dev"))

    assert manager.increase("root", "app-2", Resource(memory=5), SUE)
    assert manager.get_user_resources(UserGroup("dev")) == ONE
