"""Many items are sorted in parts."""

from __future__ import annotations

from random import Random

import pytest

from ugm.partition.sorting import sort_in_parts


@pytest.mark.parametrize("count", [0, 1, 10_000, 25_001])
def test_order(count: int) -> None:
    """The order is that of one sort, whatever the number of parts."""
    items = [(f"{number:07}", number) for number in range(count)]
    mixed = items[:]
    Random(0).shuffle(mixed)
    assert sort_in_parts(iter(mixed), lambda item: item[0]) == tuple(items)
