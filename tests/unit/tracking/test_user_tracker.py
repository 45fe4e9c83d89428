"""The tracker of a user, with the groups of the applications."""

from __future__ import annotations

import pytest

from support.tracking_fixtures import NOTHING, ONE
from ugm import RequestError
from ugm.tracking import ActiveLimits, GroupTracker, UserTracker


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
