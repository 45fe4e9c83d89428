"""``ugm simulate`` with budgets: who ran out, and when, on the terminal, as JSON and in HTML."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import Result

from support.commands import run

CONFIG = """\
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
    Path("budgets.yaml").write_text(CONFIG)
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
