"""The page on the architecture names all modules in their layers, and those of a partition and of a journal."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from pkgutil import resolve_name
from typing import Final

import ugm.journal
from support.places import DOCS, ROOT

PAGE: Final = (DOCS / "explanation" / "architecture.md").read_text(encoding="utf-8")
SOURCE: Final = ROOT / "src" / "ugm"


def listed(header: str) -> list[list[str]]:
    """Return the names in code font in the first column of a table, row by row."""
    table = PAGE.split(f"| {header} |")[1].split("\n\n")[0]
    return [re.findall(r"`(\w+)`", row.split("|")[1]) for row in table.splitlines()[2:]]


def modules(folder: Path) -> set[str]:
    """Return the modules and packages of a folder that are not private."""
    found = {path.stem for path in folder.glob("*.py")} | {path.parent.name for path in folder.glob("*/__init__.py")}
    return {name for name in found if not name.startswith("_")}


def test_layers() -> None:
    """The table has the layers that import-linter checks, in their order, and thereby all modules."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    checked = [re.split(r" [|:] ", layer) for layer in contracts[0]["layers"]]

    public = [sorted(name for name in layer if not name.startswith("_")) for layer in checked]
    assert [sorted(layer) for layer in listed("layer")] == [layer for layer in public if layer]
    assert {name for layer in listed("layer") for name in layer} == modules(SOURCE)


def test_modules_of_the_partition() -> None:
    """The table has every module of the package once."""
    names = [name for row in listed("module of `ugm.partition`") for name in row]

    assert sorted(names) == sorted(modules(SOURCE / "partition"))


def test_places_of_rules_exist() -> None:
    """Each place of a rule is a module, a class, a function or a method."""
    rows = PAGE.split("| rule | place |")[1].split("\n\n")[0].splitlines()[2:]
    names = [name for row in rows for name in re.findall(r"`([\w.]+)`", row.split("|")[2])]

    assert len(names) > 20
    for name in names:
        resolve_name(f"ugm.{name}")


def test_modules_of_the_journal() -> None:
    """The docstring of the package names every module, and nothing else."""
    names = set(re.findall(r"``([a-z_]+)(?:\.\w+)?``", ugm.journal.__doc__ or ""))

    assert names == modules(SOURCE / "journal")
