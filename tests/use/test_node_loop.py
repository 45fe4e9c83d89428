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


def test_recorded_behaviour(capsys: pytest.CaptureFixture[str]) -> None:
    """Victims run on other nodes, while their node is kept for the request that a plan has placed there."""
    LOOP["main"](12)
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "second 1: prod-0 starts on n2",
        "second 2: batch-n1-2 has to stop on n1 for prod-1",
        "second 2: batch-n1-4 has to stop on n1 for prod-1",
        "second 2: batch-n4-0 has to stop on n4 for prod-2",
        "second 2: batch-n4-1 has to stop on n4 for prod-2",
        "second 2: batch-n4-2 has to stop on n4 for prod-2",
        "second 3: batch-n1-2 starts on n2",
        "second 4: prod-1 starts on n1",
        "second 4: batch-n4-1 starts on n0",
        "second 4: batch-n1-4 starts on n3",
        "second 5: prod-2 starts on n4",
    ]
