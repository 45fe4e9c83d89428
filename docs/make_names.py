"""List all names of the reference with one line each, for readers of the repository.

    python docs/make_names.py

The directives of `docs/reference.md` say which names there are, and the first lines of their docstrings describe them.
The list is written into the same page, between two comments.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from enum import Enum
from importlib import import_module
from inspect import getdoc, isclass, isfunction, ismethod
from pathlib import Path
from typing import Final

__all__ = ["PAGE", "listed", "names", "written"]

PAGE: Final = Path(__file__).with_name("reference.md")
BEGIN: Final = "<!-- names: made by docs/make_names.py -->\n"
END: Final = "<!-- end of the names -->\n"

#: Classes whose methods are listed, too: those that a program calls.
WITH_METHODS: Final = frozenset(
    (
        "ugm.Partition",
        "ugm.Manager",
        "ugm.Resource",
        "ugm.elastic.ElasticQuota",
        "ugm.journal.Journal",
        "ugm.quotatree.QuotaManager",
    )
)

_DIRECTIVE: Final = re.compile(
    r"^\.\. (?:(?P<module>automodule|py:module|py:currentmodule)|auto(?:class|function|exception)|py:function):: "
    r"(?P<name>[\w.]+)",
    re.MULTILINE,
)


def names(page: str) -> list[str]:
    """Return the full names that a page documents, in its order."""
    module, found = "ugm", []
    for match in _DIRECTIVE.finditer(page):
        name = match["name"]
        if match["module"]:
            module = name
        else:
            found.append(name if name.startswith("ugm.") else f"{module}.{name}")
    return list(dict.fromkeys(found))


def listed(page: str) -> list[tuple[str, str]]:
    """Return every name with the first line of its description."""
    return [row for name in names(page) for row in _rows(name)]


def _rows(name: str) -> Iterator[tuple[str, str]]:
    found = _object(name)
    yield name, _summary(found)
    if name in WITH_METHODS:
        for attribute in sorted(dir(found)):
            member = getattr(found, attribute)
            if not attribute.startswith("_") and _is_ours(member):
                yield f"{name}.{attribute}", _summary(member)


def _is_ours(member: object) -> bool:
    return (isfunction(member) or ismethod(member) or isinstance(member, property)) and bool(getdoc(member))


def _object(name: str) -> object:
    module, _, attribute = name.rpartition(".")
    return getattr(import_module(module), attribute)


def _summary(found: object) -> str:
    if isclass(found) and issubclass(found, Enum):
        values = ", ".join(f"`{member.value}`" for member in found)
        return f"{_first_line(found)} One of {values}."
    return _first_line(found)


def _first_line(found: object) -> str:
    text = (getdoc(found) or "").partition("\n\n")[0]
    return " ".join(text.split()).replace("|", "\\|").replace("``", "`")


def written(page: str) -> str:
    """Return a page with the list put in the place of the one that it has."""
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    rows = [f"| `{name}` | {summary} |\n" for name, summary in listed(page)]
    return f"{before}{BEGIN}\n| name | what it is or does |\n|---|---|\n{''.join(rows)}\n{END}{after}"


def main() -> None:
    """Write the list."""
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(written(page), encoding="utf-8")
    sys.stdout.write(f"{PAGE}: {len(listed(page))} names\n")


if __name__ == "__main__":
    main()
