"""The trackers of a program without a manager: of the queues of an owner, of a user, and of a group."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from support.tracking_fixtures import NOTHING, ONE, Wrong, partition, user
from ugm import NotTrackedError, ReleaseError, RequestError, Resource, TrackingType
from ugm.tracking import ActiveLimits, GroupTracker, Limits, QueueTracker, UserTracker
from ugm.tracking.holding import all_holdings

ZEROS, NEGATIVE = Resource(memory=0, vcore=0), Resource(memory=-1)


@pytest.fixture(name="tracker")
def _tracker() -> QueueTracker:
    return QueueTracker("sue", TrackingType.USER)


def test_usage_adds_up(tracker: QueueTracker) -> None:
    """Usage is the sum over all queues and applications, also of resources that no limit names."""
    tracker.increase_resource("root.a", "app-2", Resource(memory=4))
    tracker.increase_resource("root.a.b", "app-1", Resource(memory=2, pods=1))
    tracker.increase_resource("root.a", "app-2", Resource(memory=1))

    assert tracker.usage == Resource(memory=7, pods=1)
    assert tracker.running_applications == ("app-1", "app-2")
    assert (tracker.name, tracker.kind) == ("sue", TrackingType.USER)
    tracker.decrease_resource("root.a", "app-2", Resource(memory=5), remove_app=True)
    assert tracker.applications == ("app-1",)


def test_setters_create_nothing(tracker: QueueTracker) -> None:
    """A limit for a queue where nothing runs is refused and not stored."""
    tracker.increase_resource("root.b", "app-0", ONE)
    setters: list[Callable[[], None]] = [
        partial(tracker.set_max_applications, 1, "root.a"),
        partial(tracker.set_max_resources, ONE, "root.a"),
    ]
    for setter in setters:
        with pytest.raises(RequestError) as caught:
            setter()
        assert str(caught.value) == (
            "queue_path 'root.a': user 'sue' runs nothing in or below the queue, so there is no usage to limit"
        )
    tracker.increase_resource("root.a", "app-1", Resource(memory=5))

    assert tracker.increase_resource("root.a", "app-2", Resource(memory=5))


#: A tracker whose limits are never set.
UNLIMITED = QueueTracker("sue", TrackingType.USER)


@pytest.mark.parametrize(
    ("call", "text", "values"),
    [
        (partial(QueueTracker, "ana"), "kind {!r}: expected 'user' or 'group'", ["nonsense", "queue", None, 3]),
        (
            partial(QueueTracker, kind=TrackingType.USER),
            "name {!r}: a name is a text of 1 to 256 characters",
            ["", None],
        ),
        (
            UNLIMITED.set_max_applications,
            "count {!r}: expected a count of applications, 0 for no limit",
            [-1, True, 1.0, "1", 2**63],
        ),
        (UNLIMITED.set_max_resources, "resource {!r}: expected a Resource", [{"memory": 1}]),
        (UNLIMITED.set_max_resources, "resource {!r}: a limit must not be negative", [NEGATIVE]),
        (
            UNLIMITED.set_max_resources,
            "resource {!r}: a limit must allow more than 0 of at least one resource that it names",
            [ZEROS],
        ),
    ],
)
def test_wrong_values(call: Callable[[Wrong], object], text: str, values: list[Wrong]) -> None:
    """Kinds, names and limits of the wrong type are refused with the argument and the value."""
    for value in values:
        with pytest.raises(RequestError) as caught:
            call(value)
        assert str(caught.value) == text.format(value)


def test_unknown_application_gives_nothing_back(tracker: QueueTracker) -> None:
    """An application releases in the queues where it runs."""
    tracker.increase_resource("root.a", "app-1", ONE)

    for path, application in (("root.a", "app-2"), ("root.b", "app-1"), ("root", "app-1")):
        with pytest.raises(NotTrackedError) as caught:
            tracker.decrease_resource(path, application, ONE)
        assert (
            str(caught.value) == f"application {application!r} of user 'sue' in {path!r}: it does not run in that queue"
        )
    assert tracker.usage == ONE


def test_more_than_held_is_not_given_back(tracker: QueueTracker) -> None:
    """An application releases at most the amount that it holds, and ends only when it holds nothing."""
    tracker.increase_resource("root.a", "app-1", Resource(memory=2, pods=1))

    with pytest.raises(ReleaseError, match="holds 1 pods and cannot give back 2"):
        tracker.decrease_resource("root.a", "app-1", Resource(memory=1, pods=2))
    with pytest.raises(ReleaseError, match="holds 2 memory and cannot end with 1 left"):
        tracker.decrease_resource("root.a", "app-1", Resource(memory=1, pods=1), remove_app=True)
    assert tracker.usage == Resource(memory=2, pods=1)


@pytest.mark.parametrize(
    ("path", "application", "usage"),
    [("", "app-1", ONE), ("elsewhere", "app-1", ONE), ("root", "", ONE), ("root", "app-1", None)],
)
def test_misuse(tracker: QueueTracker, path: str, application: str, usage: Wrong) -> None:
    """Empty and missing arguments are refused, and nothing changes."""
    for operation in (tracker.increase_resource, tracker.decrease_resource):
        with pytest.raises(RequestError):
            operation(path, application, usage)
    assert tracker.running_applications == ()


# Users and groups


@pytest.fixture(name="active_limits")
def _active_limits() -> ActiveLimits:
    return ActiveLimits()


@pytest.fixture(name="sue")
def _sue(active_limits: ActiveLimits) -> UserTracker:
    return UserTracker("sue", active_limits)


@pytest.fixture(name="dev")
def _dev(active_limits: ActiveLimits) -> GroupTracker:
    return GroupTracker("dev", active_limits)


def test_without_a_choice_no_group_is_charged(sue: UserTracker, dev: GroupTracker) -> None:
    """An application whose group was not chosen before its first usage is never charged to a group."""
    sue.increase_resource("root", "app-1", ONE)
    sue.set_group_for_app("app-1", dev)
    sue.increase_resource("root", "app-1", ONE)

    assert dev.usage == NOTHING
    assert sue.group_name_for_app("app-1") is None


def test_first_choice_stays(sue: UserTracker, dev: GroupTracker, active_limits: ActiveLimits) -> None:
    """A second choice does nothing, before the first usage and after it."""
    ops = GroupTracker("ops", active_limits)
    sue.set_group_for_app("app-1", None)
    sue.set_group_for_app("app-1", dev)
    sue.set_group_for_app("app-2", dev)
    sue.increase_resource("root", "app-2", ONE)
    sue.set_group_for_app("app-2", ops)

    assert sue.group_name_for_app("app-1") is None
    assert sue.group_name_for_app("app-2") == "dev"


def test_denied_first_usage_keeps_the_choice(sue: UserTracker, dev: GroupTracker) -> None:
    """A denial changes nothing, and keeps the chosen group."""
    sue.increase_resource("root", "app-1", ONE)
    sue.set_max_applications(1)
    sue.set_group_for_app("app-2", dev)

    assert not sue.increase_resource("root", "app-2", ONE)
    assert sue.group_name_for_app("app-2") == "dev"


def test_group_of_another_partition(sue: UserTracker) -> None:
    """Trackers that do not share their limits cannot be charged together."""
    with pytest.raises(RequestError) as caught:
        sue.set_group_for_app("app-1", GroupTracker("dev"))

    assert str(caught.value) == "group_tracker 'dev': the tracker belongs to another partition"
    assert not sue.has_group_for_app("app-1")


def test_charged_through_the_user_alone(dev: GroupTracker, active_limits: ActiveLimits) -> None:
    """An application of a user cannot be charged or refunded through its group alone, nor one of a group by a user."""
    sue = UserTracker("sue", active_limits)
    sue.set_group_for_app("app-1", dev)
    sue.increase_resource("root.a", "app-1", ONE)

    for operation in (dev.increase_resource, dev.decrease_resource):
        with pytest.raises(RequestError) as caught:
            operation("root.a", "app-1", ONE)
        assert str(caught.value) == "application_id 'app-1': the application is charged through its user 'sue'"
    assert sue.usage == dev.usage == ONE
    dev.increase_resource("root.a", "app-2", ONE)
    sue.set_group_for_app("app-2", dev)
    with pytest.raises(RequestError, match="the application is charged through its group 'dev'"):
        sue.increase_resource("root.a", "app-2", ONE)


def test_an_ended_application_chooses_again(sue: UserTracker, dev: GroupTracker) -> None:
    """An application ends, for its user and its group, when it is removed with its last usage."""
    sue.set_group_for_app("app-1", dev)
    sue.increase_resource("root.a", "app-1", Resource(memory=2))
    sue.decrease_resource("root.a", "app-1", ONE)
    assert [*sue.applications, *dev.applications] == ["app-1", "app-1"]
    sue.decrease_resource("root.a", "app-1", ONE, remove_app=True)

    assert ([*sue.applications, *dev.applications], sue.has_group_for_app("app-1")) == ([], False)


def test_an_end_that_is_put_back(sue: UserTracker) -> None:
    """The end of an application in one of its queues can be put back at any time, also if it has not begun."""
    paths = ["root.a", "root.b", "root.c"]
    for path in paths:
        sue.increase_resource(path, "app-1", ONE)
    for path in paths:
        holding = sue._tree.find("app-1", path)
        assert holding
        amounts = holding.amounts
        for end in (holding.detach, bool):
            end()
            holding.amounts = (0, 0, None)
            holding.undo_detach(amounts)
            assert sorted(one.queue_path for one in all_holdings(sue._tree.holdings)) == paths
            assert sue.usage == Resource(memory=3)


@pytest.mark.parametrize(("used", "kept"), [(11, 11), (12, 40)])
def test_unused_resources(active_limits: ActiveLimits, used: int, kept: int) -> None:
    """If a new resource is counted and most are unused, those in use are kept, and otherwise all."""
    names = [f"r{number}" for number in range(40)]
    active_limits.count_resources(names)
    assert not active_limits.count_resources(names[:1], in_use=list)
    assert active_limits.count_resources(["new"], in_use=lambda: names[:used])

    assert {*active_limits.epoch.layout.names} == {*names[:kept], "new"}


def test_limits_of_several_queues_set_by_hand(sue: UserTracker) -> None:
    """A limit that is set by hand leaves those of other queues in force."""
    for path in ("root.a", "root.b"):
        sue.increase_resource(path, "app-1", ONE)
        sue.set_max_resources(ONE, path)

    assert not any(sue.increase_resource(path, "app-1", ONE) for path in ("root.a", "root.b"))


def test_one_half_set_by_hand(sue: UserTracker, active_limits: ActiveLimits) -> None:
    """The half of a limit that is not set by hand is the one in force, also right after a new configuration."""
    sue.increase_resource("root", "app-1", ONE)
    active_limits.replace_limits(Limits.compile(partition({"root": [user("sue", memory=1)]})))
    sue.set_max_applications(9)

    assert not sue.increase_resource("root", "app-2", ONE)
