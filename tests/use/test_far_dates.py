"""Tests of dates and amounts that no calendar has: every output survives them."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from ugm import Partition, Resource, UserGroup, parse_config
from ugm.cli.commands import ugm
from ugm.store import open_partition

BUDGET = "{name: b, user: '*', amounts: {AMOUNTS}, unit: hour, mode: admit}"


def config(amounts: str) -> str:
    """Return a configuration with a budget of each user."""
    return f"partitions: [{{queues: [{{name: q}}], ugm: {{budgets: [{BUDGET.replace('AMOUNTS', amounts)}]}}}}]"


@pytest.mark.parametrize(
    ("amounts", "usage"),
    [
        ("vcore: 100000", {"vcore": "1m"}),
        ("memory: 1Pi", {"memory": "8Mi"}),
        ("gpu: 9000000000000", {"gpu": "1"}),
    ],
)
@pytest.mark.parametrize("options", [["budgets"], ["budgets", "--json"], ["usage", "--by", "user"], ["store", "info"]])
def test_a_budget_that_lasts_longer_than_the_calendar(
    tmp_path: Path, amounts: str, usage: dict[str, str], options: list[str]
) -> None:
    """A budget that lasts beyond the year 9999 is never exhausted at its rate, in every command."""
    path = tmp_path / "store"
    with open_partition(path, parse_config(config(amounts)).partition()) as partition:
        partition.submit("a", UserGroup("u"), "root.q")
        assert partition.allocate("a.0", "a", Resource.parse(**usage))
        assert partition.budget_accounts()[0].exhausted is None
    result = CliRunner().invoke(ugm, [*options, str(path)])
    assert result.exit_code == 0, result.output
    assert "never" in result.output or options != ["budgets"]


@pytest.mark.parametrize("duration", [10**11])
def test_an_end_after_the_calendar(tmp_path: Path, duration: int) -> None:
    """A promised end beyond the year 9999 is stored and shown."""
    path = tmp_path / "store"
    with open_partition(path, parse_config(config("gpu: 10")).partition()) as partition:
        partition.submit("a", UserGroup("u"), "root.q")
        partition.allocate("a.0", "a", Resource(cpu=1), duration=duration)
        assert partition.overdue() == ()
    result = CliRunner().invoke(ugm, ["store", "info", "--last", "5", "--json", str(path)])
    assert result.exit_code == 0, result.output


def test_texts_with_far_dates() -> None:
    """Plans and denials with far dates have a text."""
    partition = Partition(parse_config(config("gpu: 100000")).partition())
    partition.submit("a", UserGroup("u"), "root.q")
    partition.allocate("a.0", "a", Resource(gpu=1), duration=10**11)
    assert str(partition.plan(parse_config(config("gpu: 1")).partition()))
    assert str(partition.explain("a", Resource(gpu=10**9), duration=10**11))
