"""Folders of the repository, and the environment in which other processes find this package."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

__all__ = ["DOCS", "EXAMPLES", "ROOT", "TESTS", "environment"]

ROOT: Final = Path(__file__).resolve().parents[2]
TESTS: Final = ROOT / "tests"
EXAMPLES: Final = ROOT / "examples"
DOCS: Final = ROOT / "docs"


def environment() -> dict[str, str]:
    """Return the environment of a process that imports what this one imports."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
