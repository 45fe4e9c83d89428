"""The scheduling loop with nodes of the examples."""

from __future__ import annotations

import runpy
from collections import defaultdict
from typing import Any

import pytest

from support.places import EXAMPLES

LOOP: dict[str, Any] = runpy.run_path(str(EXAMPLES / "node_loop.py"))


def check_world(seed: int) -> int:
    """Run a random world, and return the number of evictions."""
    loop, lines = LOOP["run"](seed)
    assert not loop.requests
    loop.partition.verify()
    nodes: dict[str, set[str]] = defaultdict(set)
    starts = {line.split()[2]: line.split()[5] for line in lines if "prod-" in line.split()[2]}
    for words in (line.split() for line in lines if "has to stop" in line):
        nodes[words[-1]].add(words[-3])
    assert all(found == {starts[name]} for name, found in nodes.items())
    return sum(loop.evictions.values())


def test_a_guaranteed_request_starts_after_one_plan() -> None:
    """Each guaranteed request starts on the node of its plan, after the evictions of one plan."""
    assert sum(map(check_world, range(30))) > 0


@pytest.mark.deep
def test_a_guaranteed_request_starts_in_a_thousand_worlds() -> None:
    """The same in 1,000 worlds of two to eight nodes."""
    assert sum(map(check_world, range(1000))) > 1000
