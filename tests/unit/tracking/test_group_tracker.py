"""The tracker of a group."""

from __future__ import annotations

import pytest

from support.tracking_fixtures import ONE
from ugm import RequestError
from ugm.tracking import ActiveLimits, GroupTracker, UserTracker


@pytest.fixture(name="active_limits")
def _active_limits() -> ActiveLimits:
    return ActiveLimits()


@pytest.fixture(name="dev")
def _dev(active_limits: ActiveLimits) -> GroupTracker:
    return GroupTracker("dev", active_limits)


def test_charged_through_the_user_alone(dev: GroupTracker, active_limits: ActiveLimits) -> None:
    """An application of a user cannot be charged or refunded through its group alone."""
    sue = UserTracker("sue", active_limits)
    sue.set_group_for_app("app-1", dev)
    sue.increase_resource("root.a", "app-1", ONE)

    for operation in (dev.increase_resource, dev.decrease_resource):
        with pytest.raises(RequestError) as caught:
            operation("root.a", "app-1", ONE)
        assert str(caught.value) == "application_id 'app-1': the application is charged through its user 'sue'"
    assert sue.usage == dev.usage == ONE
