"""Folders of the repository, and the environment in which other processes find this package."""

from __future__ import annotations

import os
import sys
import tomllib
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
TESTS: Final = ROOT / "tests"
EXAMPLES: Final = ROOT / "examples"
DOCS: Final = ROOT / "docs"


def environment() -> dict[str, str]:
    """Return the environment of a process that imports what this one imports."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}


def model_packages() -> set[str]:
    """Return the names of the packages of quota models: the layer with the budgets."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]
    [layer] = [one for one in settings["contracts"][0]["layers"] if "budgets" in one]
    return set(layer.split(" | "))
