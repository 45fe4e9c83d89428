"""``ugm export``: a configuration as a file for Apache YuniKorn."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from ugm import parse_config
from ugm.cli.commands import ugm

TEXT = "partitions: [{ugm: {names: any}, queues: [{name: a}], limits: [{users: [ana, 8-x], maxapplications: 2}]}]"


def test_export(tmp_path: Path) -> None:
    """The standard output is a file for the peer; what it lacks is listed in comments and on the standard error."""
    file = tmp_path / "queues.yaml"
    file.write_text(TEXT)
    result = CliRunner().invoke(ugm, ["export", str(file)])
    left_out = "partitions[0].limits[0].users[1]: user '8-x' is left out: Apache YuniKorn does not accept the name"

    assert result.exit_code == 0
    assert result.stdout.startswith(f"# {left_out}\npartitions:\n")
    assert result.stderr == f"{file}: {left_out}\n"
    assert parse_config(result.stdout).partition().limits[0].users == ("ana",)
    assert "ugm" not in result.stdout


def test_export_as_json(tmp_path: Path) -> None:
    """As JSON the text and the list are apart."""
    file = tmp_path / "queues.yaml"
    file.write_text(TEXT)
    said = json.loads(CliRunner().invoke(ugm, ["export", str(file), "--json"]).stdout)

    assert said["file"] == str(file)
    assert parse_config(said["yaml"]).partition().name == "default"
    assert said["left_out"] == [
        {
            "path": "partitions[0].limits[0].users[1]",
            "message": "user '8-x' is left out: Apache YuniKorn does not accept the name",
        }
    ]


def test_export_of_a_bad_file(tmp_path: Path) -> None:
    """A file with problems is not exported."""
    file = tmp_path / "queues.yaml"
    file.write_text(TEXT.replace("any", "yunikorn"))
    result = CliRunner().invoke(ugm, ["export", str(file)])

    assert (result.exit_code, result.stdout) == (1, "")
    assert "limit-user-name-invalid" in result.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no device that is always full")
@pytest.mark.parametrize("arguments", [["export", "FILE"], ["validate", "FILE"], ["diff", "FILE", "OTHER"], ["--help"]])
def test_a_full_disk(tmp_path: Path, arguments: list[str]) -> None:
    """If the standard output cannot be written, every command prints one line and exits with status 2."""
    files = {"FILE": tmp_path / "queues.yaml", "OTHER": tmp_path / "other.yaml"}
    for file, limit in zip(files.values(), (2, 3), strict=True):
        file.write_text(TEXT.replace("any", "yunikorn" if "validate" in arguments else "any").replace("2", str(limit)))
    command = [sys.executable, "-c", "from ugm.cli import main; main()", *(str(files.get(a, a)) for a in arguments)]
    with open("/dev/full", "w") as full:  # noqa: PTH123 - a device
        found = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)  # noqa: S603 - our own program

    assert found.returncode == 2
    assert found.stderr.splitlines()[-1] == "ugm: the output cannot be written: No space left on device"
    assert "Traceback" not in found.stderr
