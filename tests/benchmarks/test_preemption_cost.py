"""The cost of a plan of preemption over many allocations, in counted instructions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from runpy import run_path
from typing import Any, Final

import pytest

FOLDER: Final = Path(__file__).parent
#: As scripts would have them: the folder is not a package.
bytecodes: Final[Callable[[Callable[[], Any]], int]] = run_path(str(FOLDER / "counting.py"))["bytecodes"]
SCRIPT: Final[dict[str, Any]] = run_path(str(FOLDER / "preemption.py"))

#: The instructions of 17,000 steps of a bare loop, for each of 10,000 allocations. A step has 620 or more.
MOST: Final = 17_000 * 620 // 10_000


def cost(allocations: int, queues: int, kind: str, request: str) -> int:
    """Return the instructions of a plan."""
    plan = SCRIPT["planning"](SCRIPT["scene"](allocations, queues, kind), SCRIPT["REQUESTS"][request])
    assert plan()
    return bytecodes(plan)


@pytest.mark.ci
@pytest.mark.parametrize("request_size", ["small", "large"])
@pytest.mark.parametrize("kind", ["equal", "distinct", "unprotected"])
def test_cost_of_a_plan(kind: str, request_size: str) -> None:
    """The cost for each allocation is bounded."""
    few, many = (cost(number, 40, kind, request_size) for number in (400, 4000))

    assert many <= MOST * 4000
    assert many <= 12 * few


@pytest.mark.deep
@pytest.mark.parametrize("kind", ["equal", "distinct", "unprotected"])
def test_cost_of_a_plan_for_a_large_cluster(kind: str) -> None:
    """The same with 10,000 and 100,000 allocations in 1,000 queues."""
    few, many = (cost(number, 1000, kind, "large") for number in (10_000, 100_000))

    assert few <= MOST * 10_000
    assert many <= 12 * few
