"""Tests of clocks: one unit for every kind of partition, seconds with fractions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ugm import Partition, RequestError, Resource, UserGroup, parse_config
from ugm.store import open_partition

BUDGET = "{name: b, user: '*', amounts: {gpu: 1}, unit: hour, mode: admit}"
CONFIG = parse_config(f"partitions: [{{queues: [{{name: q}}], ugm: {{budgets: [{BUDGET}]}}}}]").partition()
START = 1_795_435_200
GPU = Resource(gpu=1)

Opened = Callable[[Callable[[], Any]], Any]


@pytest.fixture(name="opened", params=["memory", "store"])
def _opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opened]:
    """Make a partition with a clock, in memory or with a store."""
    if request.param == "memory":
        yield lambda clock: Partition(CONFIG, clock=clock)
        return
    with ExitStack() as stack:
        yield lambda clock: stack.enter_context(open_partition(tmp_path / "store", CONFIG, clock=clock))


@pytest.mark.parametrize("start", [START, START + 0.25])
def test_a_clock_counts_seconds(opened: Opened, start: float) -> None:
    """Two hours on a clock are two hours of a budget, whether the clock has fractions or not."""
    now = start
    partition = opened(lambda: now)
    partition.submit("a", UserGroup("u"), "root.q")
    assert partition.allocate("a.0", "a", GPU)
    now = start + 7200
    partition.release("a.0")
    assert partition.budget_accounts()[0].settled == 7200
    assert not partition.allocate("a.1", "a", GPU)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), "12", True, START * 1000])
def test_a_clock_that_is_no_time(opened: Opened, wrong: object) -> None:
    """A clock without a usable time, such as one in milliseconds, is refused, and nothing changes."""
    now: Any = START
    partition = opened(lambda: now)
    partition.submit("a", UserGroup("u"), "root.q")
    now = wrong
    with pytest.raises(RequestError, match=r"clock .*: expected seconds since 1970, before the year 10000"):
        partition.allocate("a.0", "a", GPU)
    now = START
    assert partition.allocation("a.0") is None
