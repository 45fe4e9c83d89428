"""The terms of the glossary are those of the code, and names and pages have no retired words."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from support.places import DOCS, ROOT

SOURCE: Final = ROOT / "src" / "ugm"
GLOSSARY: Final = (DOCS / "reference" / "glossary.md").read_text(encoding="utf-8")

#: Words of names that the standard terms have replaced.
RETIRED: Final = frozenset(
    (
        *(
            "anew",
            "asked",
            "beside",
            "books",
            "gate",
            "gates",
            "going",
            "operated",
            "outlet",
            "pace",
            "paced",
            "settle",
        ),
        *("somebody", "standing", "standings", "strike", "survey", "tell", "tells", "told", "upkeep", "usual"),
    )
)


#: Phrases that pages avoid, because the subject of a sentence should be an object with a name.
AVOIDED: Final = re.compile(
    r"\b(anew|whoever|somebody|not to be had|(is|are|was|be) told|beside|in vain|as it has to be|those who|so many|"
    r"once more|brought in line|in the way|(?<!-)nobody)\b",
    re.IGNORECASE,
)


def terms() -> list[str]:
    """Return the terms of the glossary."""
    return re.findall(r"^- \*\*([^*]+)\*\*: ", GLOSSARY, re.MULTILINE)


def words(name: str) -> set[str]:
    """Split a name at its underscores and capitals, in lower case."""
    return {part.lower() for part in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


def defined(tree: ast.AST) -> Iterator[str]:
    """Yield the names that a module defines: classes, functions, arguments, variables and attributes."""
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name


@cache
def trees() -> dict[Path, ast.Module]:
    """Return the syntax trees of all modules."""
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in SOURCE.rglob("*.py")}


def test_terms_are_sorted_and_unique() -> None:
    """The glossary is sorted, and each term occurs once."""
    found = [term.lower() for term in terms()]

    assert len(found) > 50
    assert found == sorted(set(found))


@pytest.mark.ci
def test_names_have_no_retired_words() -> None:
    """No module, class, function, argument, variable or attribute has a retired word in its name."""
    found = []
    for path, tree in sorted(trees().items()):
        names = {path.stem, *defined(tree)}
        found += [f"{path.relative_to(SOURCE)}: {name}" for name in sorted(names) if words(name) & RETIRED]

    assert found == []


def test_pages_have_no_avoided_phrases() -> None:
    """Pages, README and examples are in plain language. Tables made from docstrings are checked with the code."""
    pages = [ROOT / "README.md", *DOCS.rglob("*.md"), *(ROOT / "examples").glob("*.*")]
    found = []
    for page in pages:
        if page.suffix in {".md", ".py", ".yaml"} and "_build" not in page.parts:
            text = re.sub(r"^\| `ugm\..*$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
            found += [f"{page.name}: {match[0]}" for match in AVOIDED.finditer(text)]

    assert found == []
