"""The tracker of the queues of one user or group."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from support.tracking_fixtures import ONE, Wrong
from ugm import NotTrackedError, ReleaseError, RequestError, Resource, TrackingType
from ugm.tracking import QueueTracker


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


@pytest.mark.parametrize("kind", ["nonsense", "queue", TrackingType.QUEUE, None, 3])
def test_kind_is_user_or_group(kind: Any) -> None:  # noqa: ANN401 - anything
    """A tracker counts for a user or a group, and for nothing else."""
    with pytest.raises(RequestError, match="expected 'user' or 'group'"):
        QueueTracker("ana", kind)


@pytest.mark.parametrize("name", ["", None, 3])
def test_name_is_a_text(name: Any) -> None:  # noqa: ANN401 - anything
    """A tracker has a name."""
    with pytest.raises(RequestError, match="a name is a text"):
        QueueTracker(name, TrackingType.USER)


@pytest.mark.parametrize("count", [-1, True, 1.0, "1", 2**63])
def test_max_applications_is_a_count(tracker: QueueTracker, count: Wrong) -> None:
    """A limit on applications is a count."""
    with pytest.raises(RequestError) as caught:
        tracker.set_max_applications(count)

    assert str(caught.value) == f"count {count!r}: expected a count of applications, 0 for no limit"


@pytest.mark.parametrize(
    ("limit", "reason"),
    [
        ({"memory": 1}, "expected a Resource"),
        (Resource(memory=0, vcore=0), "a limit must allow more than 0 of at least one resource that it names"),
        (Resource(memory=-1), "a limit must not be negative"),
    ],
)
def test_max_resources_is_a_limit(tracker: QueueTracker, limit: Wrong, reason: str) -> None:
    """A limit on resources is a vector without negative amounts, and not only zeros."""
    with pytest.raises(RequestError) as caught:
        tracker.set_max_resources(limit)

    assert str(caught.value) == f"resource {limit!r}: {reason}"


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
