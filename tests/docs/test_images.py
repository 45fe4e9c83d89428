"""The pictures of the README show the output of the command."""

from __future__ import annotations

import re
import runpy
from types import SimpleNamespace
from xml.etree import ElementTree as ET

import pytest

from support.places import DOCS, ROOT


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
