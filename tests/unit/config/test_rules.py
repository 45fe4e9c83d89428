"""The types of values and the rules of a configuration: each violation has a place and a code."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from support.config_cases import problems_of

#: Partitions, each with the last parts of the paths and the codes of its problems.
CASES: Final = (Path(__file__).parent / "rules.txt").read_text("utf-8")


def _parsed(block: str) -> tuple[str, list[str]]:
    text, _, expected = " ".join(block.split()).partition(" -> ")
    whole = text.removeprefix("ALL ") if text.startswith("ALL ") else f"{{partitions: [{text}]}}"
    return whole, expected.split(", ")


@pytest.mark.parametrize(("text", "expected"), [_parsed(block) for block in CASES.strip().split("\n\n")])
def test_violations(text: str, expected: list[str]) -> None:
    """What breaks a rule is reported with the path of the value and a code."""
    found = [problem.splitlines()[:2] for problem in problems_of(text)]

    assert [f"{path.rpartition('.')[2]} {place.split()[1]}".strip() for place, path in found] == expected
