"""The contents of the source distribution, and the texts on how to install the package."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: Files of git.
OF_GIT = {".gitattributes", ".gitignore"}


def included() -> set[str]:
    """Return the entries of the list of contents."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return set(project["tool"]["hatch"]["build"]["targets"]["sdist"]["include"])


def test_the_list_covers_the_repository() -> None:
    """The list has every entry at the top of the repository, and each is a whole name, so nothing else matches."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("this is no clone")
    listed = subprocess.run(  # noqa: S603 - a fixed command
        [git, "ls-tree", "--name-only", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert included() == {f"/{name}" for name in listed.stdout.split()} - {f"/{name}" for name in OF_GIT}


def test_other_folders_are_left_out(tmp_path: Path) -> None:
    """A folder that is not in the list is not in the source distribution."""
    sdist = pytest.importorskip("hatchling.builders.sdist")
    for name in included():
        source, target = ROOT / name[1:], tmp_path / name[1:]
        target.mkdir() if source.is_dir() else shutil.copy(source, target)
    (tmp_path / "src" / "module.py").write_text("")
    (tmp_path / "downloads").mkdir()
    (tmp_path / "downloads" / "large.py").write_text("")
    files = {file.distribution_path for file in sdist.SdistBuilder(str(tmp_path)).recurse_included_files()}
    assert "src/module.py" in files
    assert not any(name.startswith("downloads") for name in files)


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
