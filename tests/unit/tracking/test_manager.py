"""The manager: tracking by user, queue and group."""

from __future__ import annotations

from support.tracking_fixtures import ONE, SUE, group, partition, user
from ugm import Manager, Resource, UserGroup
from ugm.testing import exposed
from ugm.tracking import Tracker

ANA = UserGroup("ana")


def test_is_a_tracker() -> None:
    """The manager has the interface of the tracking document."""
    assert isinstance(Manager(), Tracker)


# Tracking


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


def test_queue_names_in_any_case() -> None:
    """Queue paths are not case-sensitive: in limits, in requests and in queries."""
    manager = Manager(partition({"root.Sales": [user("sue", memory=2)]}))
    manager.increase("root.SALES", "app-1", ONE, SUE)

    assert not manager.increase("ROOT.sales", "app-1", Resource(memory=2), SUE)
    assert manager.headroom("root.Sales", "app-1", SUE) == ONE
    manager.decrease_tracked_resource("root.sAles", "app-1", ONE, remove_app=True, user=SUE)
    assert manager.get_user_resources(SUE) is None


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
