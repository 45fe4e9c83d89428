"""Tests of the first steps of a new user."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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


def test_the_tutorial_begins_with_a_partition() -> None:
    """The README loads a partition from a file, and the tutorial of a partition is the first page."""
    root = Path(__file__).parents[2]
    pages = (root / "docs" / "index.md").read_text(encoding="utf-8").partition(":caption: Tutorial")[2].split()
    assert pages[0] == "tutorial/partition"
    assert 'Partition.load("limits.yaml")' in (root / "README.md").read_text(encoding="utf-8")
