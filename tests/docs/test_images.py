"""The pictures of the README show the output of the command."""

from __future__ import annotations

import re
import runpy
import shlex
from types import SimpleNamespace
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner

from support.places import ROOT
from ugm.cli import commands


@pytest.fixture(name="made", scope="module")
def _made() -> SimpleNamespace:
    """Return the script that makes the pictures."""
    return SimpleNamespace(**runpy.run_path(str(ROOT / "docs" / "make_images.py")))


def texts(drawing: str) -> list[str]:
    """Return the words in a picture."""
    nodes = ET.fromstring(drawing).iter("{http://www.w3.org/2000/svg}text")  # noqa: S314 - ours
    return [word for node in nodes for word in (node.text or "").replace("\xa0", " ").split()]


@pytest.mark.ci
def test_terminal_is_up_to_date(made: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    """The picture of the terminal has the output of its command, except for the speed."""
    monkeypatch.chdir(ROOT)
    drawn = " ".join(texts(made.TERMINAL.read_text("utf-8")))
    printed = CliRunner(env={"COLUMNS": "80"}).invoke(commands.ugm, shlex.split(made.COMMAND)[1:]).stdout

    speed = re.compile(r"in [0-9.]+ s, [0-9,]+ per second")
    assert speed.sub("", drawn) == speed.sub("", " ".join(["$", *made.COMMAND.split(), *printed.split()]))


def test_pictures_are_shown() -> None:
    """The README shows pictures that exist and are small."""
    shown = re.findall(r"!\[[^]]+\]\(([^)]+)\)", (ROOT / "README.md").read_text("utf-8"))

    assert shown == ["docs/images/terminal.svg", "docs/images/report.png", "docs/images/page-light.png"]
    assert all((ROOT / name).stat().st_size < 300_000 for name in shown)
