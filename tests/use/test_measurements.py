"""Tests of the measurements of a service in the documentation."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
TABLE = (DOCS / "explanation" / "performance.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["service", "operate-service", "choose-storage"])
def test_pages_refer_to_the_table(name: str) -> None:
    """A page about services has no rates and no bytes of its own; it refers to the page with the measurements."""
    text = (DOCS / "howto" / f"{name}.md").read_text(encoding="utf-8")
    assert "../explanation/performance.md#service" in text
    assert re.findall(r"[\d,]+ (?:decisions|changes|commits) (?:per|a) second|\d bytes|\d µs", text) == []


def test_the_estimate_uses_the_table() -> None:
    """Every measured rate and size in the estimate for large installations is in the table."""
    estimate = (DOCS / "explanation" / "service-limits.md").read_text(encoding="utf-8")
    rates = set(re.findall(r"(\d+,\d{3}) (?:decisions|commits|syncs)? ?per second", estimate)) - {"50,000", "1,000"}
    sizes = set(re.findall(r"(\d+) bytes", estimate))
    assert len(rates) > 2
    assert {"203", "135"} <= sizes
    assert {number for number in rates | sizes if not re.search(rf"\b{number}\b", TABLE)} == set()


def test_bytes_of_an_allocation() -> None:
    """The memory of an allocation is one number for a partition, and one for the leader of a service."""
    assert re.findall(r"allocation takes (\d+) bytes", TABLE) == ["139"]
    assert re.findall(r"\| memory of the leader, per live allocation \| (\d+) bytes", TABLE) == ["203"]
