"""``ugm simulate`` with models of GPUs: what a change of the quotas does for jobs of each model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ugm.cli import commands

CONFIG = """\
partitions:
- placementrules: [{name: provided}]
  queues: [{name: queue1}, {name: queue2, resources: {max: {LIMIT: 2}}}]
  ugm: {families: {gpu: [a100, v100]}}
"""

#: A job of queue 1 with two GPUs, and then two of queue 2, of different users.
WORKLOAD = """\
1 0 -1 100 2 -1 -1 -1 -1 -1 1 1 -1 -1 1 -1 -1 -1
2 5 -1 100 2 -1 -1 -1 -1 -1 1 2 -1 -1 2 -1 -1 -1
3 9 -1 100 2 -1 -1 -1 -1 -1 1 3 -1 -1 2 -1 -1 -1
"""
CLUSTER = "vcore=9,gpu:a100=2,gpu:v100=4"
OPTIONS = ("--queue-levels", "queue", "--per-processor", "gpu=1", "--memory", "0", "--cluster", CLUSTER)


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("jobs.swf").write_text(WORKLOAD)
    for name, limit in (("family", "gpu"), ("a100", "gpu:a100"), ("v100", "gpu:v100")):
        Path(f"{name}.yaml").write_text(CONFIG.replace("LIMIT", limit))


def simulate(*options: str) -> Result:
    """Run the replay of the jobs."""
    configs = [part for name in ("family", "a100", "v100") for part in ("--config", f"{name}.yaml")]
    return CliRunner().invoke(commands.ugm, ["simulate", "jobs.swf", *configs, *OPTIONS, *options])


def waits(*options: str) -> list[list[int]]:
    """Return the waits of the users for each configuration."""
    replays = json.loads(simulate(*options, "--json").stdout)["replays"]
    assert all(one["verify"]["clean"] for one in replays)
    return [[user["max"] for user in sorted(one["users"], key=lambda each: each["user"])] for one in replays]


def test_quotas_of_models() -> None:
    """A quota of the family delays the third job, and one of a model only if the job cannot have another model.

    Without a model it starts when job 1 returns the A100, and with one when job 2 returns the V100.
    """
    assert waits() == [[0, 0, 96], [0, 0, 0], [0, 0, 91]]
    assert waits("--variant", "queue1=gpu:a100", "--variant", "queue2=gpu:v100") == [[0, 0, 96], [0, 0, 0], [0, 0, 96]]


def test_a_variant_needs_an_amount() -> None:
    """A variant of a resource that jobs do not request is an error."""
    result = simulate("--variant", "queue2=tpu:v4")

    assert result.exit_code != 0
    assert "expected family:variant with an amount per processor" in f"{result.output}{result.exception}"
