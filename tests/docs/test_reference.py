"""The reference describes every public name once, and every operation in a table."""

from __future__ import annotations

import re
from importlib import import_module
from inspect import isclass
from pkgutil import iter_modules
from typing import Final

import pytest

import ugm
from support.places import DOCS

#: The packages whose classes users meet elsewhere, if at all.
INNER: Final = ("_documents", "cli", "configuration", "integrations", "ordering", "preemption")
#: Packages whose public classes are described.
PACKAGES: Final = (
    "ugm",
    *(f"ugm.{one.name}" for one in iter_modules(ugm.__path__) if one.ispkg and one.name not in INNER),
)
_DIRECTIVE: Final = re.compile(
    r"^\.\. (automodule|py:module|py:currentmodule|(?:auto|py:)(?:class|function|exception|data)):: ([\w.]+).*\n"
    r"((?:[ ]{3}.*\n|\n(?=[ ]{3}))*)",
    re.MULTILINE,
)


def documented() -> list[str]:
    """Return the full names that the directives of all pages document."""
    found: list[str] = []
    for page in sorted((DOCS / "reference").glob("*.md")):
        module, here = "ugm", dict[str, None]()
        for kind, name, body in _DIRECTIVE.findall(page.read_text(encoding="utf-8")):
            if kind not in {"automodule", "py:module", "py:currentmodule"}:
                here[name if name.startswith("ugm.") else f"{module}.{name}"] = None
                continue
            module = name
            if re.search(r":members:$", body, re.MULTILINE):
                here |= dict.fromkeys(f"{name}.{part}" for part in import_module(name).__all__)
        found += here
    return found


def _object(name: str) -> object:
    module, _, attribute = name.rpartition(".")
    return getattr(import_module(module), attribute)


def test_every_name_has_one_page() -> None:
    """A name is described on exactly one page."""
    names = documented()

    assert [name for name in sorted(set(names)) if names.count(name) > 1] == []


def test_public_names_are_described() -> None:
    """Every name that `import ugm` gives is in the reference, under this name or that of its package."""
    described = {id(_object(name)) for name in documented()}

    assert [name for name in ugm.__all__ if id(getattr(ugm, name)) not in described] == []


@pytest.mark.parametrize(("page", "described"), [("manager", "Manager"), ("partition", "Partition")])
def test_operations_are_described(page: str, described: str) -> None:
    """The tables of a page have one row for each operation of its class."""
    text = (DOCS / "reference" / f"{page}.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", text, re.MULTILINE)
    listed = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    operations = {name for name in dir(getattr(ugm, described)) if not name.startswith("_")}

    assert operations <= listed


@pytest.mark.parametrize("package", PACKAGES)
def test_public_classes_are_described(package: str) -> None:
    """Every public class of a package is in the reference or in the glossary."""
    text = "".join(page.read_text(encoding="utf-8") for page in (DOCS / "reference").glob("*.md"))
    described = {name.rpartition(".")[2] for name in documented()}
    module = import_module(package)
    names = [name for name in module.__all__ if isclass(getattr(module, name)) and name not in described]

    assert [name for name in names if not re.search(rf"\b{name}\b", text)] == []
