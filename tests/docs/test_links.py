"""Every link of a page leads to a page, a heading or a file, and every table has a separated heading."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from support.places import DOCS, ROOT

PAGES: Final = sorted([ROOT / "README.md", *DOCS.glob("*.md"), *DOCS.glob("*/*.md")])


def prose(page: Path) -> str:
    """Return a page without its code blocks."""
    return re.sub(r"^(`{3,}).*?^\1$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """Return the anchors of the headings of a page, as GitHub and Sphinx make them."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links(page: Path) -> None:
    """Each relative link has a target."""
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if link.startswith(("http:", "https:", "mailto:")):
            continue
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)

    assert broken == []


def test_every_page_is_in_the_navigation() -> None:
    """Each page is in the table of contents of the index of its part."""
    contents = "\n".join(index.read_text(encoding="utf-8") for index in DOCS.rglob("index.md"))
    listed = {line.strip().rpartition("/")[2] for line in contents.splitlines()}

    assert {page.stem for page in PAGES if page.name not in ("README.md", "index.md")} <= listed


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_headings_of_tables_are_separated(page: Path) -> None:
    """The second line of a table separates the heading from the rows, with dashes for each column."""
    for heading, line in re.findall(r"(?:^|\n\n)(\|.*)\n(.*)", prose(page)):
        assert re.fullmatch(r"\|(?:-+\|)+", line), heading
        assert line.count("|") == heading.replace("\\|", "").count("|")
