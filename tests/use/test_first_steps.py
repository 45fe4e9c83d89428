"""Tests of the first steps of a new user."""

from __future__ import annotations

import subprocess
import sys


def test_the_command_as_a_module() -> None:
    """``python -m ugm`` is the command."""
    printed = subprocess.run([sys.executable, "-m", "ugm", "--help"], capture_output=True, text=True, check=True)
    assert printed.stdout.startswith("Usage: ugm ")
