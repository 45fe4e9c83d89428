"""The instruction counter of the benchmarks: exact, repeatable, and able to see a change of a few percent."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from runpy import run_path
from typing import Final

import pytest

from ugm import Manager, Resource, UserGroup

FOLDER: Final = Path(__file__).parent

#: As a script would have it: the folder is not a package.
bytecodes: Final[Callable[..., int]] = run_path(str(FOLDER / "counting.py"))["bytecodes"]


def add(number: int) -> int:
    """Execute as many instructions as there are in one line."""
    return number + 1


def calls(count: int) -> None:
    """Call `add` so many times, without a loop in Python."""
    for _ in map(add, range(count)):
        pass


def test_a_count_is_linear() -> None:
    """Each call more adds the same number of instructions."""
    counts = [bytecodes(partial(calls, count)) for count in (10, 20, 30)]

    assert counts[1] - counts[0] == counts[2] - counts[1] > 0


def test_nothing_of_the_driver_counts() -> None:
    """Functions in the folders of the driver are left out, and what they call outside of them is counted."""
    manager, sue, usage = Manager(), UserGroup("sue"), Resource(memory=1)
    assert manager.increase("root.a", "app", usage, sue)

    def pairs(count: int) -> None:
        for _ in range(count):
            manager.increase("root.a", "app", usage, sue)
            manager.decrease_tracked_resource("root.a", "app", usage, remove_app=False, user=sue)

    driver = (Path(__file__).parent,)

    assert bytecodes(partial(calls, 100), driver=driver) == 0
    once = bytecodes(partial(pairs, 1), driver=driver)
    assert bytecodes(partial(pairs, 5), driver=driver) == 5 * once > 0


#: The counts of the version with one path for every change, by Python version and workload.
RECORDED: Final = json.loads((FOLDER / "instruction_counts.json").read_text(encoding="utf-8"))
PYTHON: Final = f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.mark.ci
@pytest.mark.skipif(PYTHON not in RECORDED["counts"], reason="no counts are recorded for this version of Python")
def test_hot_paths_stay_short() -> None:
    """No workload executes more than 1.03 of the recorded instructions."""
    command = [sys.executable, str(FOLDER / "instructions.py"), "--steps", str(RECORDED["steps"])]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)  # noqa: S603 - our own script
    recorded = RECORDED["counts"][PYTHON]
    ratios = {name: count / recorded[name] for name, count in json.loads(done.stdout).items()}

    assert ratios.keys() == recorded.keys()
    assert {name: ratio for name, ratio in ratios.items() if ratio > 1.03} == {}
