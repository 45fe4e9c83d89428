"""Budgets on the command: the accounts of a store and of a server, and the budgets of a replay."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from support.commands import run
from ugm import Resource, UserGroup
from ugm.configuration import BudgetConfig, Extensions, PartitionConfig, QueueConfig
from ugm.store import StoredPartition, open_partition

HOUR = 3600
CONFIG = PartitionConfig(
    queues=(QueueConfig("a"),),
    ugm=Extensions(
        budgets=(
            BudgetConfig("each", user="*", amounts=Resource(vcore=10_000), unit="hour", period="month"),
            BudgetConfig("gpus", amounts=Resource(gpu=3), unit="hour", mode="admit"),
        )
    ),
)


def budgets(*arguments: str) -> str:
    """Return what the command prints."""
    result = run("budgets", *arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def spending(path: Path) -> StoredPartition:
    """Return a partition in which two users have promised parts of their budgets."""
    partition = open_partition(path, CONFIG)
    for name, hours in (("sue", 6), ("ben", 2)):
        partition.submit(name, UserGroup(name), "root.a")
        assert partition.allocate(name, name, Resource(vcore=1000), duration=hours * HOUR)
    return partition


def shown(accounts: Any) -> list[tuple[str, str, float]]:  # noqa: ANN401 - JSON
    """Return the budget, the owner and the share of each account."""
    return [(one["budget"], one["owner"], round(one["share"], 2)) for one in accounts]


def test_a_store_that_is_in_use(tmp_path: Path) -> None:
    """The accounts are those of the partition, the most used one first."""
    path = tmp_path / "j"
    with spending(path) as partition:
        found = json.loads(budgets(str(path), "--json"))["accounts"]
        limits = [one.limit for one in partition.budget_accounts()]

    assert shown(found) == [("each", "sue", 0.6), ("each", "ben", 0.2), ("gpus", "root", 0.0)]
    assert sorted(one["limit"] for one in found) == sorted(limits)
    assert shown(json.loads(budgets(str(path), "--owner", "ben", "--json"))["accounts"]) == [("each", "ben", 0.2)]
    assert shown(json.loads(budgets(str(path), "--limit", "1", "--json"))["accounts"]) == [("each", "sue", 0.6)]


def test_the_table_has_hours(tmp_path: Path) -> None:
    """The terminal shows hours of cores, and the time of renewal."""
    path = tmp_path / "j"
    with spending(path):
        lines = budgets(str(path), "--budget", "each").splitlines()
        assert run("budgets", str(path), "--budget", "echa").stderr == "ugm: no accounts of the budget 'echa'\n"

    headings = "budget owner resource share limit settled committed remaining renews exhausted"
    assert " ".join(lines[0].split()) == headings
    assert lines[1].split()[:3] == ["each", "sue", "vcore"]
    assert lines[1].split()[4:9] == ["60%", "10.0", "0.0", "6.0", "4.0"]
    assert lines[1].split()[10] == "00:00"


def test_explain_with_a_duration(tmp_path: Path) -> None:
    """An explanation for a promised duration is that of the budgets."""
    path = tmp_path / "config.yaml"
    path.write_text(
        "partitions: [{queues: [{name: a}], ugm: {budgets: [{name: lab, amounts: {gpu: 2}, unit: hour}]}}]", "utf-8"
    )
    arguments = ["explain", str(path), "--user", "ana", "--queue", "root.a", "--usage", "gpu=2"]
    outputs = {seconds: run(*arguments, *seconds) for seconds in ((), ("--duration", "3600"))}

    assert [(one.exit_code, "without a promised duration" in one.stdout) for one in outputs.values()] == [
        (3, True),
        (0, False),
    ]


DECLARED = """\
partitions:
- placementrules: [{name: provided}]
  queues: [{name: default}]
  ugm:
    budgets: [{name: monthly, group: group2, amounts: {vcore: 2}, unit: hour, period: month}]
"""

#: Two jobs of an hour and a half, from 22:00 on the last day of November 2005.
WORKLOAD = """\
; UnixStartTime: 1133388000
1 0 -1 5400 1 -1 -1 1 -1 -1 1 1 2 -1 -1 -1 -1 -1
2 10 -1 5400 1 -1 -1 1 -1 -1 1 2 2 -1 -1 -1 -1 -1
"""


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("budgets.yaml").write_text(DECLARED)
    Path("jobs.swf").write_text(WORKLOAD)


def simulate(*options: str) -> Result:
    """Run the replay of the two jobs."""
    return run("simulate", "jobs.swf", "--config", "budgets.yaml", "--per-processor", "memory=0", *options)


def test_terminal() -> None:
    """Dates are those of the log, and amounts are hours."""
    text = simulate().stdout
    lines = [" ".join(line.split()) for line in text.splitlines()]

    assert "monthly group2 2005-12-01 00:00 2005-11-30 22:00 2.0 vcore h 1.5 vcore h 75% 1" in lines
    assert "monthly group2 the end 2.0 vcore h 1.5 vcore h 75%" in lines
    assert "root budget monthly 2.0 vcore h 1 100% 1h 59m user2" in lines


def test_json() -> None:
    """Amounts and seconds are exact."""
    report = json.loads(simulate("--json").stdout)

    [first, second] = report["budgets"]
    assert (first["ran_out"], first["settled"], first["end"], first["denied_jobs"]) == (10, 5_400_000, 7200, 1)
    assert (second["ran_out"], second["settled"], second["end"]) == (None, 5_400_000, None)
