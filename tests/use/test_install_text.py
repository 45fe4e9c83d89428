"""Texts about the installation of extras."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "howto" / "install.md"


def test_one_page_has_the_requirement_of_an_extra() -> None:
    """Pages, messages and examples name an extra; one page has the requirement, and it names a clone."""
    folders = [ROOT / name for name in ("docs", "examples", "src")]
    files = [ROOT / "README.md", *(file for folder in folders for file in folder.rglob("*"))]
    lines = [
        (file, line)
        for file in files
        if file.suffix in {".md", ".py"}
        for line in file.read_text(encoding="utf-8").splitlines()
        if re.search(r"pip install[^`]*\bugm\b", line.replace("/ugm", ""))
    ]

    assert [line for file, line in lines if file != PAGE and "'.[" not in line] == []
    assert all("ugm[service] @ file:///path/to/clone" in line for file, line in lines if file == PAGE)


def test_all_extras_are_described() -> None:
    """The page about the installation describes every extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]

    assert {name for row in rows for name in re.findall(r"`([\w-]+)`", row.split("|")[1])} == set(
        project["optional-dependencies"]
    )
