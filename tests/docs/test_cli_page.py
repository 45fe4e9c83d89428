"""The page on the command has the output that the commands print, and the pictures show the same."""

from __future__ import annotations

import contextlib
import re
import runpy
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Final
from xml.etree import ElementTree as ET

import pytest

from support.commands import run
from support.places import DOCS, EXAMPLES, ROOT

PAGE: Final = (DOCS / "reference" / "cli.md").read_text(encoding="utf-8")
RECORDED: Final = re.findall(r"```console\n\$ ugm ([^\n]*)\n(.*?)```", PAGE, re.DOTALL)


def words(text: str) -> list[str]:
    """Return the words of a report without the speed of a replay."""
    return re.sub(r"in [0-9.]+ s, [0-9,]+ per second", "in - s, - per second", text).split()


#: The outputs as parameters of a test. A simulation takes long.
CASES: Final = [
    pytest.param(arguments, recorded, id=name, marks=pytest.mark.ci if name == "simulate" else ())
    for arguments, recorded in RECORDED
    for name in [arguments.split()[0]]
]


@pytest.mark.parametrize(("arguments", "recorded"), CASES)
def test_recorded_output(arguments: str, recorded: str, tmp_path: Path) -> None:
    """A command prints what the page shows, except for blanks and speed."""
    shutil.copytree(EXAMPLES, tmp_path / "examples")
    for name, text in re.findall(r"File `([a-z.]+)`:\n\n```yaml\n(.*?)```", PAGE, re.DOTALL):
        (tmp_path / name).write_text(text, encoding="utf-8")
    with contextlib.chdir(tmp_path):
        printed = run(*arguments.split(), columns=80).output

    assert words(printed) == words(recorded)


@pytest.fixture(name="made", scope="module")
def _made() -> SimpleNamespace:
    """Return the script that makes the pictures."""
    return SimpleNamespace(**runpy.run_path(str(ROOT / "docs" / "make_images.py")))


def texts(drawing: str) -> list[str]:
    """Return the words in a picture."""
    nodes = ET.fromstring(drawing).iter("{http://www.w3.org/2000/svg}text")  # noqa: S314 - ours
    return [word for node in nodes for word in (node.text or "").replace("\xa0", " ").split()]


def test_terminal_is_up_to_date(made: SimpleNamespace) -> None:
    """The picture of the terminal has the output on the page on the command, except for the speed."""
    page = (DOCS / "reference" / "cli.md").read_text("utf-8")
    [printed] = re.findall(rf"```console\n(\$ {re.escape(made.COMMAND)}\n.*?)```", page, re.DOTALL)
    drawn = " ".join(texts(made.TERMINAL.read_text("utf-8")))

    speed = re.compile(r"in [0-9.]+ s, [0-9,]+ per second")
    assert speed.sub("", drawn) == speed.sub("", " ".join(printed.split()))


def test_pictures_are_shown() -> None:
    """The README shows pictures that exist and are small."""
    shown = re.findall(r"!\[[^]]+\]\(([^)]+)\)", (ROOT / "README.md").read_text("utf-8"))

    assert shown == ["docs/images/terminal.svg", "docs/images/report.png", "docs/images/page-light.png"]
    assert all((ROOT / name).stat().st_size < 300_000 for name in shown)
