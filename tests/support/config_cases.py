"""A configuration with every field, and the problems of a configuration as texts."""

from __future__ import annotations

from typing import Final

import pytest

from support.places import TESTS
from ugm.config import parse_config
from ugm.errors import ConfigError

#: Every field of the schema, each away from its default.
EVERYTHING: Final = (TESTS / "support" / "everything.yaml").read_text("utf-8")


def places_of(text: str, prefix: str = "") -> list[str]:
    """Return the line, the column, the path without a prefix, and the code of each problem of a configuration."""
    with pytest.raises(ConfigError) as caught:
        parse_config(text)
    return [f"{p.line}:{p.column} {p.path.removeprefix(prefix)} {p.code}" for p in caught.value.problems]


def problems_of(text: str) -> list[str]:
    """Return everything that is wrong with a configuration."""
    with pytest.raises(ConfigError) as caught:
        parse_config(text)
    return [f"{p.line}:{p.column} {p.code}\n{p.path}\n{p.message}" for p in caught.value.problems]
