"""The terms of the glossary are sorted, and pages have no avoided phrases."""

from __future__ import annotations

import re
from typing import Final

from support.places import DOCS, ROOT

GLOSSARY: Final = (DOCS / "reference" / "glossary.md").read_text(encoding="utf-8")

#: Phrases that pages avoid, because the subject of a sentence should be an object with a name.
AVOIDED: Final = re.compile(
    r"\b(anew|whoever|somebody|not to be had|(is|are|was|be) told|beside|in vain|as it has to be|those who|so many|"
    r"once more|brought in line|in the way|(?<!-)nobody)\b",
    re.IGNORECASE,
)


def terms() -> list[str]:
    """Return the terms of the glossary."""
    return re.findall(r"^- \*\*([^*]+)\*\*: ", GLOSSARY, re.MULTILINE)


def test_terms_are_sorted_and_unique() -> None:
    """The glossary is sorted, and each term occurs once."""
    found = [term.lower() for term in terms()]

    assert len(found) > 50
    assert found == sorted(set(found))


def test_pages_have_no_avoided_phrases() -> None:
    """Pages, README and examples are in plain language. Tables made from docstrings are checked with the code."""
    pages = [ROOT / "README.md", *DOCS.rglob("*.md"), *(ROOT / "examples").glob("*.*")]
    found = []
    for page in pages:
        if page.suffix in {".md", ".py", ".yaml"} and "_build" not in page.parts:
            text = re.sub(r"^\| `ugm\..*$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
            found += [f"{page.name}: {match[0]}" for match in AVOIDED.finditer(text)]

    assert found == []
