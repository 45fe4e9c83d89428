"""``ugm export``: a configuration as a file for Apache YuniKorn."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from ugm import parse_config
from ugm.cli.commands import ugm

TEXT = "partitions: [{ugm: {names: any}, queues: [{name: a}], limits: [{users: [ana, 8-x], maxapplications: 2}]}]"


def test_export(tmp_path: Path) -> None:
    """The output is a file for the peer; what it lacks is listed in comments, on the standard error or in JSON."""
    file = tmp_path / "queues.yaml"
    file.write_text(TEXT)
    result = CliRunner().invoke(ugm, ["export", str(file)])
    path, message = (
        "partitions[0].limits[0].users[1]",
        "user '8-x' is left out: Apache YuniKorn does not accept the name",
    )

    assert result.exit_code == 0
    assert result.stdout.startswith(f"# {path}: {message}\npartitions:\n")
    assert result.stderr == f"{file}: {path}: {message}\n"
    assert parse_config(result.stdout).partition().limits[0].users == ("ana",)
    assert "ugm" not in result.stdout
    said = json.loads(CliRunner().invoke(ugm, ["export", str(file), "--json"]).stdout)
    assert said["file"] == str(file)
    assert parse_config(said["yaml"]).partition().name == "default"
    assert said["left_out"] == [{"path": path, "message": message}]
