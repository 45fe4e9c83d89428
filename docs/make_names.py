"""Write the tables of names into the pages of the reference.

    python docs/make_names.py

The directives of a page select its names. The first line of each docstring is the description. The table of a page is
written between two comments, so that readers of the repository need no build.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from enum import Enum
from importlib import import_module
from inspect import getdoc, isclass, isfunction, ismethod
from pathlib import Path
from typing import Final, NamedTuple

__all__ = ["REFERENCE", "Name", "documented", "names", "pages", "rows", "with_table"]

REFERENCE: Final = Path(__file__).with_name("reference")
BEGIN: Final = "<!-- names: made by docs/make_names.py -->\n"
END: Final = "<!-- end of the names -->\n"

#: Classes whose methods are listed as well: the ones that a program calls.
WITH_METHODS: Final = frozenset(
    (
        "ugm.partition.AbstractPartition",
        "ugm.Manager",
        "ugm.Resource",
        "ugm.elastic.ElasticQuota",
        "ugm.elastic.ElasticTree",
        "ugm.journal.Journal",
        "ugm.quotatree.QuotaManager",
    )
)

_DIRECTIVE: Final = re.compile(
    r"^\.\. (?P<kind>automodule|py:module|py:currentmodule|(?:auto|py:)(?:class|function|exception|data)):: "
    r"(?P<name>[\w.]+).*\n(?P<body>(?:[ ]{3}.*\n|\n(?=[ ]{3}))*)",
    re.MULTILINE,
)
_HIDDEN: Final = re.compile(r":exclude-members: (.*)")


class Name(NamedTuple):
    """One name of the reference."""

    name: str
    hidden: frozenset[str] = frozenset()
    """Methods that its table does not list."""
    text: str = ""
    """The description that the page gives for a constant, which has no docstring."""


def pages() -> list[Path]:
    """Return the pages that have a table of names."""
    return [page for page in sorted(REFERENCE.glob("*.md")) if BEGIN in page.read_text(encoding="utf-8")]


def documented() -> list[str]:
    """Return the full names that all pages document."""
    return [name.name for page in pages() for name in names(page.read_text(encoding="utf-8"))]


def names(text: str) -> list[Name]:
    """Return the names that one page documents, in its order."""
    module, found = "ugm", dict[str, Name]()
    for match in _DIRECTIVE.finditer(text):
        kind, name, body = match.group("kind", "name", "body")
        if kind in ("automodule", "py:module", "py:currentmodule"):
            module = name
            if re.search(r":members:$", body, re.MULTILINE):
                found |= {each: Name(each) for each in (f"{name}.{part}" for part in import_module(name).__all__)}
            continue
        full = name if name.startswith("ugm.") else f"{module}.{name}"
        hidden = _HIDDEN.search(body)
        found[full] = Name(
            full, frozenset(hidden[1].split(", ")) if hidden else frozenset(), body if kind == "py:data" else ""
        )
    return list(found.values())


def rows(text: str) -> list[tuple[str, str]]:
    """Return every name of a page with the first line of its docstring."""
    return [row for name in names(text) for row in _rows_of(name)]


def _rows_of(name: Name) -> Iterator[tuple[str, str]]:
    found = _object(name.name)
    yield name.name, _one_line(name.text) or _summary(found)
    if name.name in WITH_METHODS:
        for attribute in sorted(set(dir(found)) - name.hidden):
            member = getattr(found, attribute)
            if not attribute.startswith("_") and _is_documented(member):
                yield f"{name.name}.{attribute}", _summary(member)


def _is_documented(member: object) -> bool:
    if isinstance(member, property):
        member = member.fget
    is_ours = (getattr(member, "__module__", None) or "").partition(".")[0] == "ugm"
    return (isfunction(member) or ismethod(member)) and is_ours and bool(getdoc(member))


def _object(name: str) -> object:
    module, _, attribute = name.rpartition(".")
    return getattr(import_module(module), attribute)


def _summary(found: object) -> str:
    summary = _one_line((getdoc(found) or "").partition("\n\n")[0])
    if isclass(found) and issubclass(found, Enum):
        return f"{summary} One of {', '.join(f'`{member.value}`' for member in found)}."
    return summary


def _one_line(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("``", "`")


def with_table(text: str) -> str:
    """Return the text of a page with an up-to-date table in the place of its present one."""
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    table = "".join(f"| `{name}` | {summary} |\n" for name, summary in rows(text))
    return f"{before}{BEGIN}\n| name | description |\n|---|---|\n{table}\n{END}{after}"


def main() -> None:
    """Write the tables of all pages."""
    for page in pages():
        text = page.read_text(encoding="utf-8")
        page.write_text(with_table(text), encoding="utf-8")
        sys.stdout.write(f"{page.name}: {len(rows(text))} names\n")


if __name__ == "__main__":
    main()
