"""The tracker of the queues of one user or group."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from support.tracking_fixtures import NOTHING, ONE, Wrong
from ugm import RequestError, Resource, TrackingType
from ugm.tracking import QueueTracker


@pytest.fixture(name="tracker")
def _tracker() -> QueueTracker:
    return QueueTracker("sue", TrackingType.USER)


@pytest.mark.parametrize("nothing", [None, 0])
def test_application_limit_is_lifted(tracker: QueueTracker, nothing: int | None) -> None:
    """None and 0 remove a limit on applications, and keep that on resources."""
    tracker.increase_resource("root.a", "app-1", ONE)
    tracker.set_max_resources(ONE)
    tracker.set_max_applications(1)
    tracker.set_max_applications(nothing)

    assert tracker.increase_resource("root.a", "app-2", NOTHING)
    assert not tracker.increase_resource("root.a", "app-2", ONE)


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
