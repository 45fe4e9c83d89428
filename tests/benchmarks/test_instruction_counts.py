"""The instruction counter of the benchmarks: exact, repeatable, and able to see a change of a few percent."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from runpy import run_path
from typing import Any, Final

import pytest

from support.places import ROOT
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


def test_an_exception_passes_and_the_next_count_is_right() -> None:
    """The tracer is removed in any case."""

    def fail() -> None:
        add(1)
        raise ValueError("expected")

    before = sys.gettrace()
    with pytest.raises(ValueError, match="expected"):
        bytecodes(fail)

    assert sys.gettrace() is before
    assert bytecodes(partial(calls, 10)) == bytecodes(partial(calls, 10)) > 0


def compared(*options: str) -> subprocess.CompletedProcess[str]:
    """Run the script."""
    command = [sys.executable, str(FOLDER / "instructions.py"), "--steps", "5", *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own script


#: The counts of the version with one path for every change, by Python version and workload.
RECORDED: Final = json.loads((FOLDER / "instruction_counts.json").read_text(encoding="utf-8"))
PYTHON: Final = f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.mark.ci
@pytest.mark.skipif(PYTHON not in RECORDED["counts"], reason="no counts are recorded for this version of Python")
def test_hot_paths_stay_short() -> None:
    """No workload executes more than 1.03 of the recorded instructions."""
    done = compared("--steps", str(RECORDED["steps"]))
    recorded = RECORDED["counts"][PYTHON]
    ratios = {name: count / recorded[name] for name, count in json.loads(done.stdout).items()}

    assert ratios.keys() == recorded.keys()
    assert {name: ratio for name, ratio in ratios.items() if ratio > 1.03} == {}


@pytest.mark.ci
def test_a_version_compared_with_itself() -> None:
    """Both figures are equal, to the instruction."""
    done = compared("--workload", "pair", "--workload", "check", "--against", str(ROOT), "--most", "1")
    report: dict[str, Any] = json.loads(done.stdout)

    assert list(report) == ["pair", "check"]
    assert {one["ratio"] for one in report.values()} == {1.0}
    assert done.returncode == 0


@pytest.mark.deep
@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
def test_machine_instructions() -> None:
    """They are counted from the first step to the last one, without the start of the process."""
    few, many = (
        json.loads(compared("--unit", "machine", "--workload", "check", "--steps", n).stdout) for n in ("100", "200")
    )

    assert 1.8 * few["check"] < many["check"] < 2.2 * few["check"]


@pytest.mark.ci
def test_a_ratio_that_is_too_large() -> None:
    """The figures are printed, and the exit status says so."""
    done = compared("--workload", "check", "--against", str(ROOT), "--most", "0.99")

    assert json.loads(done.stdout)["check"]["ratio"] == 1.0
    assert done.returncode == 1


@pytest.mark.ci
def test_another_version_than_the_one_that_was_meant(tmp_path: Path) -> None:
    """A checkout whose package is not the one that is imported is an error."""
    other = tmp_path / "src" / "ugm"
    other.parent.mkdir()
    other.symlink_to(ROOT / "src" / "ugm", target_is_directory=True)
    (tmp_path / "tests").symlink_to(FOLDER.parent, target_is_directory=True)

    done = compared("--workload", "pair", "--against", str(tmp_path))

    assert done.returncode != 0
    assert "was imported instead of ugm" in done.stderr


def test_a_workload_without_its_recording(tmp_path: Path) -> None:
    """A missing recording is an error, and not a workload that costs nothing."""
    done = compared("--workload", "elastic", "--traces", str(tmp_path))

    assert done.returncode != 0
    assert "no recording" in done.stderr
