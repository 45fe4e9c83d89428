"""The commands with a configuration that declares quota models: the one of the examples."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from click.testing import CliRunner, Result

from support.places import EXAMPLES
from ugm.cli.commands import ugm

MODELS: Final = str(EXAMPLES / "models.yaml")


def run(*arguments: str) -> Result:
    """Run the command."""
    return CliRunner().invoke(ugm, arguments)


def test_validate() -> None:
    """The example with two included files has no problems."""
    assert run("validate", MODELS).exit_code == 0


def test_explain() -> None:
    """An explanation has the limits of the models; a tag selects the elastic group."""
    options = ("explain", MODELS, "--user", "ana", "--queue", "root.web", "--usage", "vcore=20", "--json")
    plain, tagged, unknown = (
        json.loads(run(*options, *tags).stdout) for tags in ((), ("--tag", "team=speech"), ("--tag", "team=none"))
    )

    assert [answer["allowed"] for answer in (plain, tagged, unknown)] == [True, True, False]
    assert [limit["name"] for limit in plain["limits"]] == ["ana", "operations", "web", "company"]
    assert [limit["name"] for limit in tagged["limits"]] == ["ana", "speech", "web", "company"]
    assert "'none'" in unknown["text"]


def test_diff(tmp_path: Path) -> None:
    """Differences include those of groups in included files."""
    for name in ("models.yaml", "model-teams.yaml", "model-departments.json"):
        text = (EXAMPLES / name).read_text(encoding="utf-8")
        (tmp_path / name).write_text(text.replace("min: {cpu: 40", "min: {cpu: 30"), encoding="utf-8")

    result = run("diff", MODELS, str(tmp_path / "models.yaml"), "--json")

    assert result.exit_code == 1
    [partition] = json.loads(result.stdout)["partitions"]
    assert [(one["kind"], one["name"]) for one in partition["models"]] == [("elastic group", "vision")]
    assert "elastic group 'vision'" in run("diff", MODELS, str(tmp_path / "models.yaml")).stdout


def test_export() -> None:
    """An export for Apache YuniKorn has no models, and lists them as left out."""
    result = run("export", MODELS, "--json")

    assert [part["path"] for part in json.loads(result.stdout)["left_out"]] == [
        "partitions[0].ugm.elastic",
        "partitions[0].ugm.resources",
        "partitions[0].ugm.quotatrees[0]",
    ]


def test_simulate(tmp_path: Path) -> None:
    """A replay uses the models: the jobs of a queue wait for its elastic group."""
    jobs = "".join(f"{number} 0 -1 100 8 -1 -1 8 100 -1 1 1 1 -1 1 -1 -1 -1\n" for number in (1, 2))
    (tmp_path / "jobs.swf").write_text(jobs, encoding="utf-8")
    text = """partitions:
- queues: [{name: queue1}]
  ugm:
    elastic:
      total: {vcore: 8}
      groups: [{name: queue1, max: {vcore: 8}}]
      groupby: [{source: queue}]
"""
    (tmp_path / "queues.yaml").write_text(text, encoding="utf-8")

    options = ("--config", str(tmp_path / "queues.yaml"), "--queue-levels", "queue", "--memory", "0", "--json")
    result = run("simulate", str(tmp_path / "jobs.swf"), *options)

    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["jobs"]["started"] == 2
