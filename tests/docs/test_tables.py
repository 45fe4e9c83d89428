"""Every table of a page is complete, so that it is shown as a table."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.places import DOCS, ROOT


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", *DOCS.glob("*.md"), *DOCS.glob("*/*.md")], ids=lambda page: page.name
)
def test_headings_of_tables_are_separated(page: Path) -> None:
    """The second line of a table separates the heading from the rows, with dashes for each column."""
    text = re.sub(r"^(`{3,}).*?^\1$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)

    for heading, line in re.findall(r"(?:^|\n\n)(\|.*)\n(.*)", text):
        assert re.fullmatch(r"\|(?:-+\|)+", line), heading
        assert line.count("|") == heading.replace("\\|", "").count("|")
