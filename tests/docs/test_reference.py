"""The reference describes every public name, and its tables are up to date."""

from __future__ import annotations

import re
import runpy
from types import SimpleNamespace

import pytest

import ugm
from support.places import DOCS


@pytest.fixture(name="made", scope="module")
def _made() -> SimpleNamespace:
    """Return the script that writes the tables of names."""
    return SimpleNamespace(**runpy.run_path(str(DOCS / "make_names.py")))


def test_tables_are_up_to_date(made: SimpleNamespace) -> None:
    """The table of each page is the one that docs/make_names.py writes, with a description of every name."""
    for page in made.pages():
        text = page.read_text(encoding="utf-8")

        assert made.with_table(text) == text, f"{page.name}: run python docs/make_names.py"
        assert [name for name, description in made.rows(text) if not description] == []


def test_every_name_has_one_page(made: SimpleNamespace) -> None:
    """A name is described on exactly one page."""
    names = made.documented()

    assert [name for name in sorted(set(names)) if names.count(name) > 1] == []


def test_public_names_are_described(made: SimpleNamespace) -> None:
    """Every name that `import ugm` gives is in the reference, under this name or that of its package."""
    described = {id(made._object(name)) for name in made.documented()}

    assert [name for name in ugm.__all__ if id(getattr(ugm, name)) not in described] == []


@pytest.mark.parametrize(("page", "described"), [("manager", "Manager"), ("partition", "Partition")])
def test_operations_are_described(page: str, described: str) -> None:
    """The tables of a page have one row for each operation of its class."""
    text = (DOCS / "reference" / f"{page}.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", text, re.MULTILINE)
    listed = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    operations = {name for name in dir(getattr(ugm, described)) if not name.startswith("_")}

    assert operations <= listed
