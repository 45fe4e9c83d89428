"""The quantities that Apache YuniKorn reads, and those that it refuses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from support.vectors import vectors
from ugm.errors import QuantityError
from ugm.resources import parse_quantity


@pytest.mark.parametrize("line", [pytest.param(line, id=repr(dict(line))) for line in vectors("yunikorn/quantities")])
def test_quantities(line: Mapping[str, Any]) -> None:
    """A text is the same amount as in the peer, or is refused as in the peer."""
    vcore = line["kind"] == "vcore"

    if line["value"] is None:
        with pytest.raises(QuantityError):
            parse_quantity(line["input"], vcore=vcore)
    else:
        assert parse_quantity(line["input"], vcore=vcore) == line["value"]
