"""The manager: tracking by user, queue and group."""

from __future__ import annotations

from support.tracking_fixtures import BOB, ONE, SUE, group, partition, user
from ugm import Manager, Resource, UserGroup
from ugm.testing import exposed

ANA = UserGroup("ana")


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


def test_queue_names_in_any_case() -> None:
    """Queue paths are not case-sensitive: in limits, in requests and in queries."""
    manager = Manager(partition({"root.Sales": [user("sue", memory=2)]}))
    manager.increase("root.SALES", "app-1", ONE, SUE)

    assert not manager.increase("ROOT.sales", "app-1", Resource(memory=2), SUE)
    assert manager.headroom("root.Sales", "app-1", SUE) == ONE
    manager.decrease_tracked_resource("root.sAles", "app-1", ONE, remove_app=True, user=SUE)
    assert manager.get_user_resources(SUE) is None


# Again and again, with the same objects


# The limit in force


def test_named_limit_comes_before_the_wildcard() -> None:
    """A named limit of a user replaces the wildcard, even if the wildcard is lower."""
    manager = Manager(partition({"root": [user("sue", memory=9), user("*", memory=2, vcore=2)]}))

    assert manager.increase("root", "app-1", Resource(memory=9, vcore=9), SUE)
    assert not manager.increase("root", "app-2", Resource(memory=3), BOB)


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


def test_queues_whose_names_begin_alike() -> None:
    """A queue is not below another queue only because its name has the same prefix."""
    manager = Manager(partition({"root.a": [user("sue", applications=1)], "root.ab": [user("sue", memory=1)]}))
    manager.increase("root.ab", "app-1", ONE, SUE)
    manager.increase("root.a", "app-2", Resource(memory=5), SUE)

    assert not manager.can_run_app("root.a", "app-1", SUE)
    assert not manager.increase("root.ab", "app-2", ONE, SUE)


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


def test_asking_chooses_no_group() -> None:
    """Queries and denied increases do not choose the group."""
    manager = Manager(partition({"root": [group("dev", memory=1)]}))
    manager.headroom("root", "app-1", ANA)
    manager.can_run_app("root", "app-1", ANA)
    manager.check("root", "app-1", ONE, SUE)
    manager.increase("root", "app-1", Resource(memory=2), SUE)

    assert manager.group_for("root", "app-1", UserGroup("sue", ("ops",))) is None
    assert exposed(manager) == {"users": {}, "groups": {}}
