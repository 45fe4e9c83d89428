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
