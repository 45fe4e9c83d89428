"""Tests of the measurements of a service in the documentation."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
TABLE = (DOCS / "explanation" / "performance.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["service", "operate-service"])
def test_pages_refer_to_the_table(name: str) -> None:
    """A page about services has no rates and no bytes of its own; it refers to the page with the measurements."""
    text = (DOCS / "howto" / f"{name}.md").read_text(encoding="utf-8")
    assert "../explanation/performance.md#service" in text
    assert re.findall(r"[\d,]+ (?:decisions|changes|commits) (?:per|a) second|\d bytes|\d µs", text) == []


def test_bytes_of_an_allocation() -> None:
    """The memory of an allocation is one number."""
    assert re.findall(r"allocation takes (\d+) bytes", TABLE) == ["267"]
