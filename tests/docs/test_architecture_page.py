"""The page on the architecture names all layers, and the rooms of a partition, which name their modules."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path
from pkgutil import resolve_name
from typing import Final

import pytest

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


def test_rooms_of_the_partition() -> None:
    """The table has every room and module at the top of the package once."""
    names = [name for row in listed("room of `ugm.partition`") for name in row]

    assert sorted(names) == sorted(modules(SOURCE / "partition"))


#: `interface` has classes instead of a table of modules.
ROOMS: Final = sorted(
    path.parent
    for path in (SOURCE / "partition").rglob("*/__init__.py")
    if path.parent not in {SOURCE / "partition", SOURCE / "partition" / "interface"}
)


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name)
def test_modules_of_a_room(room: Path) -> None:
    """The docstring of a room names its modules, which are few, and imports none of them."""
    tree = ast.parse((room / "__init__.py").read_text(encoding="utf-8"))
    names = re.findall(r"^`(\w+)`", ast.get_docstring(tree) or "", re.MULTILINE)

    assert sorted(names) == sorted(modules(room))
    assert len(names) < 12
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]


def test_places_of_rules_exist() -> None:
    """Each place of a rule is a module, a class, a function or a method."""
    rows = PAGE.split("| rule | place |")[1].split("\n\n")[0].splitlines()[2:]
    names = [name for row in rows for name in re.findall(r"`([\w.]+)`", row.split("|")[2])]

    assert len(names) > 10
    for name in names:
        resolve_name(f"ugm.{name}")
