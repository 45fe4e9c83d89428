"""The command ``ugm diff``: what it prints, and with which exit status."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ugm.cli import commands

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
    return CliRunner().invoke(commands.ugm, ("diff", *arguments))


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
