"""Tests of the first steps of a new user."""

from __future__ import annotations

import subprocess
import sys

import ugm


def test_the_command_as_a_module() -> None:
    """``python -m ugm`` is the command."""
    printed = subprocess.run([sys.executable, "-m", "ugm", "--help"], capture_output=True, text=True, check=True)
    assert printed.stdout.startswith("Usage: ugm ")


def test_the_core_of_the_design_documents() -> None:
    """Trackers and their interface come from `ugm`, with the arguments in the order of the documents."""
    ana = ugm.UserGroup("ana", ("dev",))
    manager: ugm.Tracker = ugm.Manager()
    assert manager.increase_tracked_resource("root.a", "app", ugm.Resource(memory=2), ana)
    manager.decrease_tracked_resource("root.a", "app", ugm.Resource(memory=2), True, ana)  # noqa: FBT003 - the documents
    assert manager.get_user_resources(ana) is None
    for tracker in (ugm.UserTracker, ugm.GroupTracker, ugm.QueueTracker):
        assert tracker.__name__ in ugm.__all__
