"""The scheduling order over REST and in the command, for every storage."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from support.partition_fixtures import SUE, config, memory
from support.server_fixtures import PREFIX, client, create_partition, running, served
from ugm.cli import commands
from ugm.journal import open_partition
from ugm.partition import AbstractPartition


def fill(partition: AbstractPartition) -> None:
    """Submit applications with requests."""
    for name, priority in (("x", 0), ("y", 5)):
        partition.submit(name, SUE, "root.a")
        partition.request(f"{name}.0", name, memory(3), priority=priority)


def run(*arguments: str) -> Result:
    """Run the command as a user would."""
    return CliRunner(env={"COLUMNS": "200"}).invoke(commands.ugm, arguments)


@pytest.mark.usefixtures("storage")
def test_rest() -> None:
    """The server lists the requests in their order with the reasons."""
    partition = create_partition(config("{name: a}"))
    fill(partition)
    found = client(partition).get(f"{PREFIX}/order", params={"most": 1}).json()

    assert found == {"turns": [partition.order()[0].to_dict()]}
    assert found["turns"][0]["allocation_id"] == "y.0"


def test_command_with_a_journal(tmp_path: Path) -> None:
    """The command reads a journal, while a partition may use it."""
    path = tmp_path / "journal"
    with open_partition(path, config("{name: a, resources: {max: {memory: 4}}}")) as partition:
        fill(partition)
        turns = json.loads(run("order", str(path), "--json").stdout)["turns"]
        text = run("order", str(path)).stdout

    assert [(one["allocation_id"], one["fits"], one["blocked_by"]) for one in turns] == [
        ("y.0", True, ""),
        ("x.0", False, "root.a"),
    ]
    assert "y comes before x by priority: 5 against 0" in " ".join(text.split())


def test_command_with_a_server() -> None:
    """The command asks a running server."""
    partition = create_partition(config("{name: a}"))
    fill(partition)
    with running(served(partition)) as port:
        found = run("order", f"localhost:{port}", "--most", "1", "--json")

    assert [one["allocation_id"] for one in json.loads(found.stdout)["turns"]] == ["y.0"]


def test_unknown_source(tmp_path: Path) -> None:
    """A file that does not exist is wrong usage."""
    assert run("order", str(tmp_path / "nothing")).exit_code == 2
