"""The commands that compare configurations and export them: what they print, and with which exit status."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import Result

from support.commands import run
from support.places import EXAMPLES
from ugm import parse_config

OLD = """\
partitions:
- name: default
  placementrules:
  - {name: provided}
  queues:
  - name: prod
    resources: {max: {vcore: 40, memory: 4Ti}}
    limits:
    - {users: [sue], maxapplications: 3, maxresources: {vcore: 4}}
    - {groups: [dev], maxapplications: 1}
    - {groups: [test], maxapplications: 1}
"""

NEW = """\
partitions:
- name: default
  placementrules:
  - {name: tag, value: namespace, create: true, filter: {users: [bob]}}
  - {name: provided}
  queues:
  - name: prod
    resources: {max: {vcore: 48, memory: 4Ti}, guaranteed: {vcore: 8}}
    limits:
    - {users: [sue], maxapplications: 2, maxresources: {vcore: 4}}
    - {groups: [test], maxapplications: 1}
    - {groups: [dev], maxapplications: 1}
  - name: spare
  - {name: teams, parent: true}
- name: gpu
  queues: [{name: a, maxapplications: 1}]
"""


@pytest.fixture(name="folder", autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("old.yaml").write_text(OLD)
    Path("new.yaml").write_text(NEW)


def diff(*arguments: str) -> Result:
    """Compare, as a user would."""
    return run("diff", *arguments)


def lines(result: Result) -> list[str]:
    """Return what was printed, without the blanks at the ends of lines."""
    return [line.rstrip() for line in result.stdout.splitlines()]


def test_equal_files() -> None:
    """Files that mean the same have no differences, however they are written."""
    Path("other.yaml").write_text("# the same\n" + OLD.replace("4Ti", "4096Gi").replace("prod", "PROD"))
    result = diff("old.yaml", "other.yaml")
    assert (result.exit_code, lines(result)) == (0, ["", "old.yaml -> other.yaml", "", "  no changes", ""])


def test_json() -> None:
    """As JSON every partition is there with what becomes of it and all changes."""
    result = diff("old.yaml", "new.yaml", "--json")

    said = json.loads(result.stdout)
    default, gpu = said.pop("partitions")
    assert (result.exit_code, said) == (1, {"old": "old.yaml", "new": "new.yaml", "changed": True})
    assert (default["partition"], default["change"], gpu["partition"], gpu["change"]) == (
        *("default", "changed"),
        *("gpu", "added"),
    )
    assert [queue["name"] for queue in default["queues"]] == ["root.prod", "root.spare", "root.teams"]
    assert default["queues"][0]["after"]["guaranteed vcore"] == "8"
    assert default["limits"][0]["before"] == {"vcore": "4", "applications": "3"}
    assert (default["placement_rules"], default["group_orders"]) == (True, ["root.prod"])
    [risk] = default["risks"]
    assert (risk["name"], risk["before"], risk["after"], risk["used"]) == ("sue", 3, 2, None)
    assert gpu["risks"] == []


def test_groups_in_included_files(tmp_path: Path) -> None:
    """Differences include those of groups in included files."""
    for name in ("models.yaml", "model-teams.yaml", "model-departments.json"):
        text = (EXAMPLES / name).read_text(encoding="utf-8")
        (tmp_path / name).write_text(text.replace("min: {cpu: 40", "min: {cpu: 30"), encoding="utf-8")

    result = diff(str(EXAMPLES / "models.yaml"), str(tmp_path / "models.yaml"), "--json")

    assert result.exit_code == 1
    [partition] = json.loads(result.stdout)["partitions"]
    assert [(one["kind"], one["name"]) for one in partition["models"]] == [("elastic group", "vision")]
    assert "elastic group 'vision'" in diff(str(EXAMPLES / "models.yaml"), str(tmp_path / "models.yaml")).stdout


TEXT = "partitions: [{ugm: {names: any}, queues: [{name: a}], limits: [{users: [ana, 8-x], maxapplications: 2}]}]"


def test_export(tmp_path: Path) -> None:
    """The output is a file for the peer; what it lacks is listed in comments, on the standard error or in JSON."""
    file = tmp_path / "queues.yaml"
    file.write_text(TEXT)
    result = run("export", file)
    path, message = (
        "partitions[0].limits[0].users[1]",
        "user '8-x' is left out: Apache YuniKorn does not accept the name",
    )

    assert result.exit_code == 0
    assert result.stdout.startswith(f"# {path}: {message}\npartitions:\n")
    assert result.stderr == f"{file}: {path}: {message}\n"
    assert parse_config(result.stdout).partition().limits[0].users == ("ana",)
    assert "ugm" not in result.stdout
    said = json.loads(run("export", file, "--json").stdout)
    assert said["file"] == str(file)
    assert parse_config(said["yaml"]).partition().name == "default"
    assert said["left_out"] == [{"path": path, "message": message}]
