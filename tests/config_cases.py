"""Read tables of configurations and what is wrong with them.

A table is a text of cases. A case is a title, a configuration, a line ``----``, and for each problem three lines: its
place and code, its path, its sentence. Cases are separated by lines ``====``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ugm.config import parse_config
from ugm.errors import ConfigError

if TYPE_CHECKING:
    from _pytest.mark import ParameterSet

__all__ = ["problems_of", "table"]


def table(text: str) -> list[ParameterSet]:
    """Return the cases of a table as parameters: the configuration, and the problems as `problems_of` returns them."""
    return [_case(part.strip("\n")) for part in text.split("\n====\n")]


def _case(text: str) -> ParameterSet:
    title, _, rest = text.partition("\n")
    configuration, _, problems = rest.partition("----\n")
    lines = problems.splitlines()
    expected = ["\n".join(lines[at : at + 3]) for at in range(0, len(lines), 3)]
    return pytest.param(configuration, expected, id=title)


def problems_of(text: str) -> list[str]:
    """Return everything that is wrong with a configuration."""
    with pytest.raises(ConfigError) as caught:
        parse_config(text)
    return [f"{p.line}:{p.column} {p.code}\n{p.path}\n{p.message}" for p in caught.value.problems]
